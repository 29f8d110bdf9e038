// The engine's output: to the job's own output untouched, with a small tail kept for the end
// report.
//
// The engine writes into two pipes; a thread copies them to the given descriptors and remembers the
// last lines of each. A thread of its own, so that a job output on a file system that hangs blocks
// the engine's output only, as it would without an agent, and never the heartbeats.
// Guarantees: bytes pass in order and unchanged. Non-guarantees: the order between the two streams.
// Privacy: engines may log requests; the tail is kept short, and shorter once the engine serves.
// Ownership: owns its ends of the pipes and the thread; the given descriptors stay the caller's.
// Threading: tail(), finish() and wait_for_end() from any thread. Errors: no pipe.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/time.h"

namespace berth::agent {

class EngineOutput {
 public:
  static Result<std::unique_ptr<EngineOutput>> open(int out_fd, int err_fd);
  ~EngineOutput();
  EngineOutput(const EngineOutput&) = delete;
  EngineOutput& operator=(const EngineOutput&) = delete;

  // For the engine's standard output and error. close_engine_ends() once it has them.
  int engine_out() const { return pipes_[0].engine_end; }
  int engine_err() const { return pipes_[1].engine_end; }
  void close_engine_ends();

  // Waits until everything is written that was in the pipes when the engine ended; false: longer
  // than `limit`.
  bool wait_for_end(Duration limit);

  enum class Stage { loading, serving };
  // The last lines, of standard error where it has any, else of standard output.
  std::string tail(Stage stage) const;

 private:
  struct Pipe {
    int read_end = -1;
    int engine_end = -1;
    int to = -1;
    std::string kept;  // under mutex_
  };
  EngineOutput() = default;
  void copy();

  Pipe pipes_[2];
  int wake_[2] = {-1, -1};  // closing wake_[1] ends the thread
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

// The last whole lines of `text` that fit `bytes`, without control characters.
std::string last_lines(std::string_view text, size_t bytes);

}  // namespace berth::agent
