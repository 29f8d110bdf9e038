// The engine's process: started in a session of its own, with everything that descends from it.
//
// start() forks, enters the engine's network namespace where there is one, and executes argv with
// exactly the environment given, standard input /dev/null, and no other descriptors. The exec's
// failure comes back as an error. If the agent dies, the engine's main process is killed.
// Signals go to every process of the tree once (process_tree.h): a launcher that does not pass
// SIGTERM on, such as a shell that ignores it, hides nothing (A11).
// Threading: the loop's thread, which must live as long as the engine. Errors: not_found,
// permission_denied, internal. Cost: a fork; the walk of /proc at each signal.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/socket.h"

namespace berth::agent {

class NetNamespace;

struct EngineCommand {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value", all of it
  int out_fd = 1;
  int err_fd = 2;
  const NetNamespace* space = nullptr;  // to enter before exec; may be null
  std::set<pid_t> not_engine;           // the agent's own small processes
};

struct EngineExit {
  std::optional<int> exit_code;
  std::optional<int> signal;
};

class EngineProcess {
 public:
  static Result<std::unique_ptr<EngineProcess>> start(runtime::Loop& loop, EngineCommand command);
  // Kills what is left.
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Until the main process has ended. One waiter.
  runtime::Task<EngineExit> wait();
  // SIGTERM to each process there is now. Returns how many.
  int term_tree();
  void kill_tree();
  // Processes of the tree that live now; takes orphans' statuses on the way.
  std::vector<pid_t> living();

 private:
  EngineProcess(runtime::Loop& loop, pid_t pid, int pidfd, std::set<pid_t> not_engine);
  std::optional<EngineExit> reap();
  runtime::Loop& loop_;
  pid_t pid_;
  std::unique_ptr<runtime::Stream> exit_fd_;
  std::set<pid_t> not_engine_;
  std::optional<EngineExit> exit_;
};

// The environment for the engine: what this process has, without Berth's credentials, with `more`
// put in.
std::vector<std::string> engine_environment(char** own,
                                            const std::map<std::string, std::string>& more);

}  // namespace berth::agent
