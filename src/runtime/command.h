// Runs a short command to its end and returns what it said. Blocking: for the blocking pool.
//
// Input: an argument vector (no shell), the whole environment, a working directory, optional bytes
// for standard input, a deadline and caps on the output. Without input, standard input is
// /dev/null.
// Guarantees: the command runs in a process group of its own, with default signal handlers, an
// empty signal mask and no file descriptors but 0, 1 and 2. At the deadline the whole group gets
// SIGKILL. The command is reaped; one that cannot be killed (blocked in the kernel) is left after
// two seconds and reaped by a later call. Output beyond a cap is read and thrown away.
// Non-guarantees: a process that the command put into another group survives the deadline. Its
// output is followed for 100 ms after the command itself has ended, no longer.
// Threading: any thread, any number at once; only the calling thread waits. No SIGCHLD handler is
// installed or needed; the caller's process must not ignore SIGCHLD.
// Errors: Code::invalid_argument for an unusable Command, Code::unavailable when the program
// cannot be started (nothing was done), Code::internal when the system has no pipe or process.
// A status other than 0, a signal and a timeout are results, not errors.
// Cost: one clone that shares memory (no copy of page tables), so that a big daemon starts a
// command as fast as a small one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace berth::runtime {

// Ids that the command runs with. Needs the right to change them (root).
struct RunAs {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

// The ids of a user of this machine. Code::not_found when there is none of that name.
Result<RunAs> run_as_user(const std::string& user);

struct Command {
  std::vector<std::string> argv;  // argv[0] without a '/' is looked up in the PATH of `env`
  std::vector<std::string> env;   // "NAME=value", the whole environment
  std::string work_dir = "/";
  std::optional<std::string> input;
  Duration deadline = seconds(30);
  size_t max_output = size_t{64} << 20;
  size_t max_error = size_t{1} << 20;
  std::optional<RunAs> run_as;
};

struct CommandResult {
  // Both absent: it was killed at the deadline and could not be reaped, or somebody else reaped it.
  std::optional<int> exit_status;
  std::optional<int> signal;
  std::string output;
  std::string error_output;
  bool timed_out = false;
  bool truncated = false;  // more output than the caps allow
  Duration took{};

  bool exited(int status) const { return exit_status == status && !timed_out; }
};

Result<CommandResult> run_command(const Command& command);

// "status 1", "signal 9", "no answer within 10s".
std::string describe_outcome(const CommandResult& result);

}  // namespace berth::runtime
