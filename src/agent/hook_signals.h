// Signals to the agent, and the witness that tells whether the engine had them too.
//
// A scheduler sends SIGTERM either to the agent alone (scancel --batch) or to every process of the
// job. In the second case the engine has its SIGTERM already, and one more may mean "at once" to it
// (llama-server). The kernel does not tell which it was. So a small process of our own, the
// witness, lives in the job in a session of its own, as the engine does; when it gets SIGTERM, the
// engine did. It ignores everything else and dies with the agent.
// Non-guarantees: somebody who signals the agent and the witness by their pids deceives it.
// Threading: start() before any thread is started (it forks without exec).
// Ownership: the object owns the witness. Errors: no process, no pipe.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.h"
#include "runtime/socket.h"

namespace berth::agent {

class Witness {
 public:
  static Result<std::unique_ptr<Witness>> start();
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  pid_t pid() const { return pid_; }
  // Returns once the witness had a SIGTERM; false: it has ended. One waiter.
  runtime::Task<bool> saw_term(runtime::Loop& loop);

 private:
  Witness(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  pid_t pid_;
  int fd_;  // until saw_term() takes it
  std::unique_ptr<runtime::Stream> stream_;
};

}  // namespace berth::agent
