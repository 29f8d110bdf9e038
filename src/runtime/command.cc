#include "runtime/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>

namespace berth::runtime {
namespace {

using Steady = std::chrono::steady_clock;
using TimePoint = Steady::time_point;

constexpr Duration kOutputGrace = milliseconds(100);  // for output once the command has ended
constexpr Duration kReapGrace = seconds(2);           // for a killed command to go away
constexpr Duration kTick = milliseconds(20);          // between looks where pidfd_open is missing

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { close(); }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// Above 2, so that dup2 onto 0, 1 and 2 in the child cannot overwrite it.
Fd above_stdio(int fd) {
  if (fd < 0 || fd > 2) return Fd(fd);
  Fd moved(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  ::close(fd);
  return moved;
}

struct Pipe {
  Fd read, write;
};

std::optional<Pipe> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{above_stdio(fds[0]), above_stdio(fds[1])};
  if (!pipe.read.open() || !pipe.write.open()) return std::nullopt;
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// A file in memory rather than a pipe: a command that never reads its input cannot block us.
Fd make_input(const std::optional<std::string>& input) {
  if (!input) return above_stdio(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Fd fd = above_stdio(memfd_create("berth-stdin", MFD_CLOEXEC));
  size_t done = 0;
  while (fd.open() && done < input->size()) {
    ssize_t n = ::write(fd.get(), input->data() + done, input->size() - done);
    if (n <= 0) return Fd();
    done += static_cast<size_t>(n);
  }
  if (fd.open() && lseek(fd.get(), 0, SEEK_SET) != 0) return Fd();
  return fd;
}

// What the child needs. It shares our memory until it has called execve, so it allocates nothing
// and takes no lock. It makes raw system calls only: the C library and the sanitizers keep books
// about ids, files and signals, which would be those of all our threads.
struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const char* work_dir;
  int in, out, err;
  const RunAs* run_as;
};

// What it leaves for us, at the foot of its stack, which is shared also where memory is not.
struct ChildFailure {
  const char* step = nullptr;
  int error = 0;
};

struct ChildStack {
  ChildFailure failure;
  const ChildPlan* plan;
  alignas(16) std::byte stack[size_t{128} << 10];
};

#define BERTH_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

BERTH_IN_CHILD void close_others() {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0) return;
#endif
  rlimit limit{};
  syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
  const int last = limit.rlim_cur < 65536 ? static_cast<int>(limit.rlim_cur) : 65536;
  for (int fd = 3; fd < last; ++fd) syscall(SYS_close, fd);
}

BERTH_IN_CHILD bool change_ids(const RunAs& who) {
  if (syscall(SYS_setgroups, who.groups.size(), who.groups.data()) != 0) return false;
  if (syscall(SYS_setresgid, who.gid, who.gid, who.gid) != 0) return false;
  return syscall(SYS_setresuid, who.uid, who.uid, who.uid) == 0;
}

// No signal ignored, none blocked.
BERTH_IN_CHILD void standard_signals() {
  constexpr size_t kMaskBytes = 8;            // the kernel's sigset
  static const unsigned char zeros[64] = {};  // SIG_DFL, no flags; an empty mask
  for (int signal_number = 1; signal_number <= 64; ++signal_number)
    syscall(SYS_rt_sigaction, signal_number, zeros, nullptr, kMaskBytes);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, zeros, nullptr, kMaskBytes);
}

BERTH_IN_CHILD bool place(int fd, int as) { return syscall(SYS_dup3, fd, as, 0) >= 0; }

// The step that failed.
BERTH_IN_CHILD const char* become_command(const ChildPlan& plan) {
  syscall(SYS_setpgid, 0, 0);
  standard_signals();
  if (!place(plan.in, 0) || !place(plan.out, 1) || !place(plan.err, 2)) return "dup3";
  close_others();
  if (plan.run_as && !change_ids(*plan.run_as)) return "change user";
  if (syscall(SYS_chdir, plan.work_dir) != 0) return "enter the working directory";
  syscall(SYS_execve, plan.program, plan.argv, plan.envp);
  return "start";
}

BERTH_IN_CHILD int run_child(void* argument) {
  auto* own = static_cast<ChildStack*>(argument);
  own->failure.step = become_command(*own->plan);
  own->failure.error = errno;
  syscall(SYS_exit_group, 127);
  return 127;
}

#undef BERTH_IN_CHILD

std::string find_program(const Command& command) {
  const std::string& name = command.argv[0];
  if (name.find('/') != std::string::npos) return name;
  std::string_view path;
  for (std::string_view entry : command.env)
    if (entry.starts_with("PATH=")) path = entry.substr(5);
  while (!path.empty()) {
    size_t colon = path.find(':');
    std::string_view folder = path.substr(0, colon);
    path = colon == std::string_view::npos ? std::string_view() : path.substr(colon + 1);
    if (folder.empty()) continue;
    std::string candidate = fmt::format("{}/{}", folder, name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::vector<char*> as_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Status check_command(const Command& command) {
  if (command.argv.empty() || command.argv[0].empty())
    return invalid_argument("cannot run a command without a program");
  auto has_nul = [](const std::string& s) { return s.find('\0') != std::string::npos; };
  if (std::any_of(command.argv.begin(), command.argv.end(), has_nul) ||
      std::any_of(command.env.begin(), command.env.end(), has_nul))
    return invalid_argument(
        fmt::format("cannot run {}: an argument or variable has a NUL byte", command.argv[0]));
  return {};
}

#ifdef __SANITIZE_THREAD__
constexpr int kShare = 0;  // it would take a child in our memory for the calling thread
#else
constexpr int kShare = CLONE_VM;  // nothing is copied, however much memory we have
#endif

// Starts the child and returns its pid. The calling thread waits until the child has called execve
// or failed; other threads go on.
Result<pid_t> start_child(const ChildPlan& plan, const std::string& name) {
  void* memory =
      mmap(nullptr, sizeof(ChildStack), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error("mmap for the stack of a command", errno);
  auto* child = static_cast<ChildStack*>(memory);
  child->plan = &plan;
  // A handler of ours must not run in the child, which shares our memory.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid =
      clone(run_child, child->stack + sizeof child->stack, kShare | CLONE_VFORK | SIGCHLD, child);
  int clone_errno = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const ChildFailure failure = child->failure;
  munmap(memory, sizeof(ChildStack));
  if (pid < 0) return system_error("clone for " + name, clone_errno);
  if (!failure.step) return pid;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return unavailable(
      fmt::format("cannot run {}: {} failed: {}", name, failure.step, std::strerror(failure.error)),
      berth::Source::system);
}

// Commands that did not go away when killed; tried again at each call.
std::mutex& unreaped_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::vector<pid_t>& unreaped() {
  static std::vector<pid_t> pids;
  return pids;
}

void reap_old_ones() {
  std::lock_guard lock(unreaped_mutex());
  std::erase_if(unreaped(), [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
}

// Reads what is there. False at the end of the stream.
bool drain(Fd& fd, std::string& into, size_t cap, CommandResult& result) {
  std::array<char, 65536> buffer;
  while (true) {
    ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    size_t room = cap - std::min(cap, into.size());
    size_t taken = std::min(room, static_cast<size_t>(n));
    into.append(buffer.data(), taken);
    if (taken < static_cast<size_t>(n)) result.truncated = true;
  }
}

// Follows a running command to its end.
class Watch {
 public:
  Watch(pid_t pid, Fd out, Fd err, const Command& command, CommandResult& result)
      : pid_(pid), out_(std::move(out)), err_(std::move(err)), command_(command), result_(result) {
#ifdef SYS_pidfd_open
    pidfd_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0u)));
#endif
  }

  void run(TimePoint start) {
    stop_at_ = start + command_.deadline;
    while (true) {
      read_output();
      reap();
      if (ended_ && !out_.open() && !err_.open()) return;
      TimePoint now = Steady::now();
      if (now >= stop_at_ && !next_stage(now)) return;
      wait(now);
    }
  }

 private:
  void read_output() {
    if (out_.open() && !drain(out_, result_.output, command_.max_output, result_)) out_.close();
    if (err_.open() && !drain(err_, result_.error_output, command_.max_error, result_))
      err_.close();
  }

  void reap() {
    if (ended_) return;
    int status = 0;
    pid_t got = waitpid(pid_, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return;
    ended_ = true;
    if (got == pid_ && WIFEXITED(status)) result_.exit_status = WEXITSTATUS(status);
    if (got == pid_ && WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
    stop_at_ = std::min(stop_at_, Steady::now() + kOutputGrace);
    read_output();
  }

  // What is due at stop_at_. False: nothing more is waited for.
  bool next_stage(TimePoint now) {
    if (ended_) return false;
    if (!result_.timed_out) {
      result_.timed_out = true;
      kill(-pid_, SIGKILL);
      stop_at_ = now + kReapGrace;
      return true;
    }
    std::lock_guard lock(unreaped_mutex());
    unreaped().push_back(pid_);
    return false;
  }

  void wait(TimePoint now) {
    std::array<pollfd, 3> fds{};
    nfds_t count = 0;
    if (out_.open()) fds[count++] = {out_.get(), POLLIN, 0};
    if (err_.open()) fds[count++] = {err_.get(), POLLIN, 0};
    bool watched = ended_ || pidfd_.open();
    if (!ended_ && pidfd_.open()) fds[count++] = {pidfd_.get(), POLLIN, 0};
    auto left = std::chrono::ceil<Duration>(stop_at_ - now);
    if (!watched) left = std::min(left, kTick);
    poll(fds.data(), count, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30)));
  }

  pid_t pid_;
  Fd out_, err_, pidfd_;
  const Command& command_;
  CommandResult& result_;
  TimePoint stop_at_;
  bool ended_ = false;
};

}  // namespace

Result<RunAs> run_as_user(const std::string& user) {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  int error = getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (!found)
    return not_found(fmt::format("user '{}' is not known on this machine{}", user,
                                 error ? fmt::format(" ({})", std::strerror(error)) : ""));
  RunAs who{entry.pw_uid, entry.pw_gid, {}};
  int count = 64;
  who.groups.resize(static_cast<size_t>(count));
  if (getgrouplist(user.c_str(), entry.pw_gid, who.groups.data(), &count) < 0) {
    who.groups.resize(static_cast<size_t>(std::max(count, 1)));
    getgrouplist(user.c_str(), entry.pw_gid, who.groups.data(), &count);
  }
  who.groups.resize(static_cast<size_t>(std::max(count, 0)));
  return who;
}

Result<CommandResult> run_command(const Command& command) {
  reap_old_ones();
  if (Status status = check_command(command); !status) return status.error();
  const std::string& name = command.argv[0];
  std::string program = find_program(command);
  if (program.empty())
    return unavailable(
        fmt::format("cannot run {}: no such program in the PATH of the command", name),
        Source::system);
  Fd input = make_input(command.input);
  std::optional<Pipe> out = make_pipe(), err = make_pipe();
  if (!input.open() || !out || !err) return system_error("pipes for " + name, errno);

  std::vector<char*> argv = as_pointers(command.argv), envp = as_pointers(command.env);
  ChildPlan plan{program.c_str(),  argv.data(),
                 envp.data(),      command.work_dir.c_str(),
                 input.get(),      out->write.get(),
                 err->write.get(), command.run_as ? &*command.run_as : nullptr};
  TimePoint start = Steady::now();
  Result<pid_t> pid = start_child(plan, name);
  if (!pid) return pid.error();
  input.close();
  out->write.close();
  err->write.close();
  CommandResult result;
  Watch(*pid, std::move(out->read), std::move(err->read), command, result).run(start);
  result.took = std::chrono::duration_cast<Duration>(Steady::now() - start);
  return result;
}

std::string describe_outcome(const CommandResult& result) {
  if (result.timed_out) return fmt::format("no answer within {}", to_human(result.took));
  if (result.exit_status) return fmt::format("status {}", *result.exit_status);
  if (result.signal) return fmt::format("signal {}", *result.signal);
  return "an unknown end";
}

}  // namespace berth::runtime
