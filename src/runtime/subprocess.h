// Child processes for coroutines: a command with its output, and a long-running process.
// (command.h runs a command too, but blocks its thread.)
//
// Both start in a process group of their own with default signal actions, an empty signal mask and
// no descriptors but 0, 1 and 2. The environment is exactly what is given; nothing is inherited.
// The child is made by vfork, so the size of this process does not matter and no page is copied.
//
// run_to_end(): runs argv to its end, or kills its group (SIGKILL) at the deadline. Output beyond
// the caps is read and dropped, and said so. A command that could not be started (no such file) is
// an Error; one that failed is a ChildOutput.
// Process: start, wait through a pidfd in the loop (a waiting thread on kernels without), signal
// the group. Its destructor kills the group and reaps, unless release() was called.
//
// Threading: the loop's thread. `death_signal` follows the death of the *thread* that started the
// child, so start children from a thread that lives as long as they should.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/socket.h"

namespace berth::runtime {

struct ChildCommand {
  std::vector<std::string> argv;  // argv[0] with a slash is a path; else looked up in env's PATH
  std::vector<std::string> env;   // "NAME=value"
  std::string cwd;                // empty: ours
  std::string stdin_bytes;        // empty: /dev/null
  Duration deadline{0};           // zero: none
  size_t max_stdout = 64 * 1024 * 1024;
  size_t max_stderr = 64 * 1024;
};

struct ExitStatus {
  int code = 0;    // when signal is 0
  int signal = 0;  // that ended it
  bool success() const { return code == 0 && signal == 0; }
  std::string to_string() const;  // "exit status 3", "signal 9 (Killed)"
};

struct ChildOutput {
  ExitStatus status;
  std::string out;
  std::string err;
  bool timed_out = false;
  bool out_truncated = false;
  bool err_truncated = false;
};

// Errors: not_found, permission_denied (could not be executed), internal.
Task<Result<ChildOutput>> run_to_end(Loop& loop, ChildCommand command);

enum class ProcessGroup { own, session };  // a new group, or a new session (setsid)

struct ProcessOptions {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;
  // Descriptors of ours for the child's 0, 1, 2; -1: /dev/null. They stay ours to close.
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  ProcessGroup group = ProcessGroup::own;
  int death_signal = 0;  // PR_SET_PDEATHSIG; 0: none
  std::optional<mode_t> umask;
  struct Limit {
    int resource;  // RLIMIT_*
    rlimit value;
  };
  std::vector<Limit> limits;
  // Run as this user; needs privilege. Groups are set to gid alone.
  struct Identity {
    uid_t uid;
    gid_t gid;
  };
  std::optional<Identity> identity;
};

class Process {
 public:
  // Errors say which step failed in the child (chdir, execve, ...) and on what.
  static Result<std::unique_ptr<Process>> start(Loop& loop, ProcessOptions options);
  ~Process();

  pid_t pid() const { return pid_; }
  // Until it has ended; nullopt when the wait's deadline or guard ended it first. May be called
  // again; after the end it answers at once.
  Task<std::optional<ExitStatus>> wait(Wait wait = {});
  bool running() const { return !status_.has_value(); }
  // To the whole group, also after the leader has ended. False: nobody is left.
  bool signal_group(int signal);
  bool signal_leader(int signal);
  // The process lives on without us; it is not killed and not reaped.
  void release() { released_ = true; }

 private:
  Process(Loop& loop, pid_t pid);
  bool reap();
  Loop& loop_;
  pid_t pid_;
  StreamPtr exit_fd_;
  std::optional<ExitStatus> status_;
  bool released_ = false;
};

}  // namespace berth::runtime
