// Dialer: how a connection to an upstream is made, where its address alone does not say.
//
// An engine in a private network namespace is reached by sockets that were made there. The caller
// owns the Dialer and keeps it while exchanges run. Errors: as runtime::connect.
#pragma once

#include "base/result.h"
#include "runtime/socket.h"

namespace berth::http {

class Dialer {
 public:
  virtual ~Dialer() = default;
  virtual runtime::Task<Result<runtime::StreamPtr>> dial(runtime::Loop& loop,
                                                         runtime::Wait wait) = 0;
};

}  // namespace berth::http
