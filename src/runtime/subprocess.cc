#include "runtime/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace berth::runtime {

namespace {

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
constexpr unsigned kCloseRangeCloexec = 1U << 2;

// What the child needs, laid out before vfork, and where it says what failed. The child shares our
// memory until it executes, so it may only make system calls.
struct Launch {
  const char* path;
  char* const* argv;
  char* const* envp;
  const ProcessOptions* options;
  const char* failed_step = nullptr;
  int error = 0;
};

[[noreturn]] void child_fail(Launch& launch, const char* step) {
  launch.error = errno;
  launch.failed_step = step;
  _exit(127);
}

void child_descriptors(Launch& launch) {
  const ProcessOptions& o = *launch.options;
  std::array<int, 3> source = {o.stdin_fd, o.stdout_fd, o.stderr_fd};
  for (int i = 0; i < 3; i++) {  // first all out of the way of 0, 1, 2
    int fd = source[i];
    if (fd < 0) fd = open("/dev/null", (i == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    if (fd < 0) child_fail(launch, "open /dev/null");
    source[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (source[i] < 0) child_fail(launch, "duplicate a descriptor");
  }
  for (int i = 0; i < 3; i++) {
    if (dup2(source[i], i) < 0) child_fail(launch, "dup2");
  }
  // Older kernels lack it; all our descriptors are close-on-exec anyway.
  syscall(SYS_close_range, 3U, ~0U, kCloseRangeCloexec);
}

void child_identity(Launch& launch, const ProcessOptions::Identity& id) {
  // Raw calls: glibc's wrappers would change the threads of the parent, whose memory this is.
  gid_t gid = id.gid;
  if (syscall(SYS_setgroups, 1, &gid) != 0) child_fail(launch, "setgroups");
  if (syscall(SYS_setresgid, gid, gid, gid) != 0) child_fail(launch, "setgid");
  if (syscall(SYS_setresuid, id.uid, id.uid, id.uid) != 0) child_fail(launch, "setuid");
}

[[noreturn]] void run_child(Launch& launch) {
  const ProcessOptions& o = *launch.options;
  if (o.group == ProcessGroup::session) {
    if (setsid() < 0) child_fail(launch, "setsid");
  } else if (setpgid(0, 0) != 0) {
    child_fail(launch, "setpgid");
  }
  for (const auto& limit : o.limits) {
    if (setrlimit(static_cast<__rlimit_resource>(limit.resource), &limit.value) != 0)
      child_fail(launch, "setrlimit");
  }
  child_descriptors(launch);
  if (o.umask) umask(*o.umask);
  if (o.identity) child_identity(launch, *o.identity);
  if (o.death_signal && prctl(PR_SET_PDEATHSIG, o.death_signal) != 0)
    child_fail(launch, "set the death signal");
  if (!o.cwd.empty() && chdir(o.cwd.c_str()) != 0) child_fail(launch, "change directory");
  for (int s = 1; s < 65; s++) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(s, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(launch.path, launch.argv, launch.envp);
  child_fail(launch, "execute");
}

__attribute__((noinline)) pid_t vfork_child(Launch& launch) {
  pid_t pid = vfork();
  if (pid == 0) run_child(launch);
  return pid;
}

std::string_view env_value(const std::vector<std::string>& env, std::string_view name) {
  for (const auto& e : env) {
    if (e.size() > name.size() && e.starts_with(name) && e[name.size()] == '=')
      return std::string_view(e).substr(name.size() + 1);
  }
  return {};
}

Result<std::string> find_program(const ProcessOptions& o) {
  const std::string& name = o.argv[0];
  if (name.find('/') != name.npos) return name;
  std::string_view path = env_value(o.env, "PATH");
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  std::string all(path);
  while (!path.empty()) {
    std::string_view dir = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(path.size(), dir.size() + 1));
    if (dir.empty()) continue;
    std::string candidate = std::string(dir) + "/" + name;
    struct stat st {};
    if (stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111))
      return candidate;
  }
  Error e = not_found("execute \"" + name + "\": no such command in PATH (" + all + ")");
  e.source = Source::system;
  return e;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const auto& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

Error launch_error(const Launch& launch) {
  std::string_view step = launch.failed_step;
  std::string what = "start \"" + launch.options->argv[0] + "\": " + std::string(step);
  if (step == "execute") what += " " + std::string(launch.path);
  if (step == "change directory") what += " to " + launch.options->cwd;
  Error e = system_error(what, launch.error);
  if (launch.error == ENOENT || launch.error == ENOTDIR) e.code = Code::not_found;
  if (launch.error == EACCES || launch.error == EPERM) e.code = Code::permission_denied;
  return e;
}

bool collect(pid_t pid, int flags, std::optional<ExitStatus>& out) {
  int status = 0;
  pid_t got;
  do {
    got = waitpid(pid, &status, flags);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  ExitStatus s;
  if (got < 0) {
    s.code = 255;  // somebody else reaped it; its status is lost
  } else if (WIFSIGNALED(status)) {
    s.signal = WTERMSIG(status);
  } else {
    s.code = WEXITSTATUS(status);
  }
  out = s;
  return true;
}

// An fd that becomes readable when `pid` ends.
int exit_descriptor(pid_t pid) {
  int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) return fd;  // close-on-exec by definition
  fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  int write_to = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  // A kernel before 5.3. The thread ends with the child, whose end is certain: this process
  // either waits for it or kills it.
  std::thread([pid, write_to] {
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(write_to, &one, sizeof one);
    close(write_to);
  }).detach();
  return fd;
}

}  // namespace

std::string ExitStatus::to_string() const {
  if (signal == 0) return "exit status " + std::to_string(code);
  const char* name = sigdescr_np(signal);
  return "signal " + std::to_string(signal) + " (" + (name ? name : "unknown") + ")";
}

Result<std::unique_ptr<Process>> Process::start(Loop& loop, ProcessOptions options) {
  if (options.argv.empty()) return invalid_argument("start a process: no command given");
  auto path = find_program(options);
  if (!path.ok()) return path.error();
  std::vector<char*> argv = pointers(options.argv), envp = pointers(options.env);
  Launch launch{path->c_str(), argv.data(), envp.data(), &options};
  sigset_t all, old;  // no handler of ours may run in the child
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pid_t pid = vfork_child(launch);
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (pid < 0) return system_error("start \"" + options.argv[0] + "\": vfork", error);
  if (launch.failed_step) {
    std::optional<ExitStatus> ignored;
    collect(pid, 0, ignored);
    return launch_error(launch);
  }
  return std::unique_ptr<Process>(new Process(loop, pid));
}

Process::Process(Loop& loop, pid_t pid)
    : loop_(loop), pid_(pid), exit_fd_(std::make_unique<Stream>(loop, exit_descriptor(pid))) {}

Process::~Process() {
  if (status_ || released_) return;
  kill(-pid_, SIGKILL);
  // A killed process is gone at once unless the kernel holds it (a dead file server); then it is
  // left to be reaped with us.
  for (int i = 0; i < 200 && !reap(); i++) usleep(1000);
}

bool Process::reap() {
  if (status_) return true;
  return collect(pid_, WNOHANG, status_);
}

Task<std::optional<ExitStatus>> Process::wait(Wait wait) {
  while (!reap()) {
    exit_fd_->mark_drained();
    if (reap()) break;
    FdReady ready(*exit_fd_, FdReady::For::read, wait);
    WriteEnd end = co_await ready;
    if (end != WriteEnd::done) co_return std::nullopt;
  }
  co_return status_;
}

bool Process::signal_group(int signal) { return kill(-pid_, signal) == 0; }

bool Process::signal_leader(int signal) { return !status_ && kill(pid_, signal) == 0; }

// ---- run_to_end ----------------------------------------------------------------------------

namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_read();
    close_write();
  }
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void close_read() {
    if (read_end >= 0) close(std::exchange(read_end, -1));
  }
  void close_write() {
    if (write_end >= 0) close(std::exchange(write_end, -1));
  }
};

// One output of the child, read to its end and kept up to a cap.
struct Output {
  Output(Loop& loop, int fd, size_t cap_bytes)
      : stream(std::make_unique<Stream>(loop, fd)), deadline(loop), cap(cap_bytes) {}
  StreamPtr stream;
  Deadline deadline;
  size_t cap;
  std::string bytes;
  bool truncated = false;

  Task<void> read_all() {
    for (;;) {
      ReadResult got = co_await stream->read({.guard = nullptr, .deadline = &deadline});
      if (!got.ok()) co_return;
      std::string_view chunk = got.view.bytes();
      size_t room = cap - bytes.size();
      if (chunk.size() > room) truncated = true;
      bytes.append(chunk.substr(0, room));
    }
  }
};

Task<void> feed_input(Loop& loop, int fd, const std::string& bytes, Duration deadline) {
  auto stream = std::make_unique<Stream>(loop, fd);
  Deadline limit(loop);
  limit.set_after(deadline);
  // A command that does not read its input is its own affair.
  Wait wait{nullptr, &limit};
  co_await stream->write_stable(bytes, {}, wait);
}

}  // namespace

Task<Result<ChildOutput>> run_to_end(Loop& loop, ChildCommand command) {
  Pipe in, out, err;
  bool has_input = !command.stdin_bytes.empty();
  if (!out.open() || !err.open() || (has_input && !in.open()))
    co_return system_error("pipe for \"" + command.argv.at(0) + "\"", errno);
  ProcessOptions options;
  options.argv = command.argv;
  options.env = command.env;
  options.cwd = command.cwd;
  options.stdin_fd = in.read_end;
  options.stdout_fd = out.write_end;
  options.stderr_fd = err.write_end;
  auto started = Process::start(loop, std::move(options));
  if (!started.ok()) co_return std::move(started).error();
  std::unique_ptr<Process> process = std::move(started).value();
  out.close_write();
  err.close_write();
  in.close_read();

  Deadline deadline(loop);
  deadline.set_after(command.deadline);
  Output stdout_reader(loop, std::exchange(out.read_end, -1), command.max_stdout);
  Output stderr_reader(loop, std::exchange(err.read_end, -1), command.max_stderr);
  TaskScope scope(loop);
  if (has_input) {
    int input_fd = std::exchange(in.write_end, -1);
    scope.spawn(feed_input(loop, input_fd, command.stdin_bytes, command.deadline));
  }
  scope.spawn(stdout_reader.read_all());
  scope.spawn(stderr_reader.read_all());

  ChildOutput result;
  Wait limited{nullptr, &deadline};
  auto status = co_await process->wait(limited);
  if (!status) {
    result.timed_out = true;
    process->signal_group(SIGKILL);
    status = co_await process->wait();
  }
  result.status = *status;
  // A grandchild may hold the pipes open; what it writes later is not part of the answer.
  stdout_reader.deadline.set_after(Duration(1000));
  stderr_reader.deadline.set_after(Duration(1000));
  co_await scope.join();
  process->signal_group(SIGKILL);
  result.out = std::move(stdout_reader.bytes);
  result.err = std::move(stderr_reader.bytes);
  result.out_truncated = stdout_reader.truncated;
  result.err_truncated = stderr_reader.truncated;
  co_return result;
}

}  // namespace berth::runtime
