// Signals as something to wait for, through a signalfd.
//
// block_signals() belongs at the start of main, before any thread: threads inherit the mask. Child
// processes started by command.h get a clean mask and default actions.
#pragma once

#include <initializer_list>

#include "runtime/socket.h"

namespace berth::runtime {

void block_signals(std::initializer_list<int> signals);

class Signals {
 public:
  // Blocks and takes over `signals` for this process.
  Signals(Loop& loop, std::initializer_list<int> signals);
  // The next signal's number; 0 when the deadline passed.
  Task<int> next(Wait wait = {});

 private:
  StreamPtr fd_;
};

}  // namespace berth::runtime
