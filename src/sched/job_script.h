// Renders the batch script of a replica. The only place where Berth writes shell text.
//
// Input: values, none of them trusted. Output: the whole text; nothing in it is read by the
// scheduler as an option (those are on sbatch's command line), and no value can change what
// another means.
// Guarantees: variables, arguments and paths arrive byte for byte (C21). The user's setup comes
// after the first command, so that "#SBATCH" in it has no effect, with a byte-order mark and CR LF
// taken out (C19). It runs with `set -e`: the first command that fails ends the job with
// kSetupFailed and one line "berth: setup failed ..." in the log; a setup that wants otherwise
// says `set +e`. The script outlives SIGHUP, SIGINT, SIGTERM and SIGUSR1, which are the agent's to
// act on, and ends with the agent's status. Under `srun` the agent is a step of its own, because
// a preempting Slurm signals steps only, with its number of CPUs stated (A27).
// Non-guarantees: what the setup does. It may end the script, or set a variable the engine needs.
// Secrets have no place in it: slurmdbd may store scripts. The agent reads its token from a file.
// Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::sched {

// Exit statuses of the script itself; the agent's are others.
inline constexpr int kSetupFailed = 96;
inline constexpr int kAgentMissing = 97;  // no berth binary, or no srun, on the node
// A signal before the agent was started ends the script as the agent would: 20 (cancelled), or 0
// for SIGUSR1, the warning before the time limit.

struct JobScript {
  enum class Launcher { srun, direct };

  std::string key;  // of the replica, for the comment in the first lines
  Launcher launcher = Launcher::srun;
  int cpus = 1;                          // of the step; srun only
  std::string berth;                     // absolute path of the binary, as nodes see it
  std::vector<std::string> agent_args;   // between "berth agent" and "--"
  std::vector<std::string> engine_argv;  // after "--"; may have the agent's placeholders
  std::map<std::string, std::string> env;
  std::string setup;  // shell text
};

// Code::invalid_argument names the value that cannot be used: a NUL byte, a variable's name that is
// no name or that belongs to bash, Slurm or Berth, a path that is not absolute.
Result<std::string> render_job_script(const JobScript& script);

// The same as check for the service's declaration: the first fault of the variables or the setup.
Status check_job_environment(const std::map<std::string, std::string>& env, std::string_view setup);

// One word for bash that means `text`, byte for byte, on one line. `text` has no NUL byte.
std::string shell_quote(std::string_view text);

// Setup text as it will run: no byte-order mark, no CR LF, ends with a line feed.
std::string clean_setup(std::string_view setup);

}  // namespace berth::sched
