#include "sched/shim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "sched/job_dir.h"
#include "sched/process_tree.h"

namespace berth::sched {
namespace {

using Steady = std::chrono::steady_clock;
using TimePoint = Steady::time_point;

constexpr Duration kSlotPoll = milliseconds(100);
constexpr Duration kSweepPoll = milliseconds(20);  // between looks at processes that were killed
constexpr Duration kSweepLimit = seconds(30);
constexpr int kOutputFileSignal = 53;  // what Slurm shows when it cannot open the output file

class Shim {
 public:
  Shim(JobDir dir, LocalJobSpec spec) : dir_(std::move(dir)), spec_(std::move(spec)) {}

  void run() {
    block_signals();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (wait_for_slot() && start_job()) follow_job();
    sweep();
    status_.ended_at = wall_now();
    if (Status written = dir_.write_status(status_); !written) note(written.error().message);
  }

 private:
  void block_signals() {
    sigemptyset(&watched_);
    for (int s : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&watched_, s);
    sigprocmask(SIG_BLOCK, &watched_, nullptr);
  }

  // A line in the job's log, as Slurm writes there.
  void note(const std::string& text) const {
    std::string line = fmt::format("berth shim: job {} ({}): {}\n", spec_.id, spec_.key, text);
    int fd = log_fd_ >= 0 ? log_fd_ : open_log();
    if (fd >= 0 && write(fd, line.data(), line.size()) < 0) return;
    if (fd >= 0 && fd != log_fd_) close(fd);
  }

  int open_log() const {
    return open(spec_.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
  }

  // Waits for one of the watched signals. 0: the time is over.
  int next_signal(Duration wait) {
    timespec limit{wait.count() / 1000, wait.count() % 1000 * 1000000};
    siginfo_t info{};
    int signal_number = sigtimedwait(&watched_, &info, &limit);
    if (signal_number < 0) return 0;
    if (signal_number == SIGTERM || signal_number == SIGINT) take_cancel(info.si_uid);
    return signal_number;
  }

  // The scheduler writes who and how before it sends the signal; a bare SIGTERM is a polite
  // cancel by its sender.
  void take_cancel(uid_t sender) {
    LocalJobCancel cancel{LocalJobCancel::How::polite, sender};
    if (auto asked = dir_.read_cancel(); asked && *asked) cancel = **asked;
    cancel_ = cancel;
  }

  // False: cancelled while waiting.
  bool wait_for_slot() {
    if (auto asked = dir_.read_cancel(); asked && *asked) cancel_ = **asked;
    std::string jobs = dir_.path().substr(0, dir_.path().rfind('/'));
    while (!cancel_) {
      for (int i = 0; i < spec_.max_running; ++i) {
        auto slot = FileLock::take(fmt::format("{}/.slot-{}", jobs, i), FileLock::Wait::no);
        if (slot && *slot) {
          slot_ = std::move(*slot);
          return true;
        }
      }
      next_signal(kSlotPoll);
    }
    set_cancelled();
    return false;
  }

  void set_cancelled() {
    status_.state = JobState::cancelled;
    status_.cancelled_by_uid = cancel_->uid;
  }

  bool start_job() {
    log_fd_ = open_log();
    if (log_fd_ < 0) {
      status_.state = JobState::failed;
      status_.signal = kOutputFileSignal;
      status_.reason = fmt::format("JobLaunchFailure: cannot open output file {}: {}",
                                   spec_.log_path, std::strerror(errno));
      return false;
    }
    std::string script = dir_.file("script");
    started_ = Steady::now();
    status_.started_at = wall_now();
    if (spec_.time_limit) {
      auto end = std::chrono::duration_cast<seconds>(
          (*status_.started_at + *spec_.time_limit).time_since_epoch());
      spec_.env.push_back(fmt::format("BERTH_LOCAL_JOB_END={}", end.count()));
    }
    spec_.env.push_back(fmt::format("BERTH_LOCAL_JOB_ID={}", spec_.id));
    spec_.env.push_back(fmt::format("{}={}", kLocalJobVariable, dir_.path()));
    main_ = fork();
    if (main_ == 0) exec_script(script);
    if (main_ < 0) {
      status_.state = JobState::failed;
      status_.reason = fmt::format("JobLaunchFailure: fork: {}", std::strerror(errno));
      return false;
    }
    auto entry = look_at_process(main_);
    Status written =
        dir_.write_start({{main_, entry ? entry->start_ticks : 0}, *status_.started_at});
    if (!written) note(written.error().message);
    return true;
  }

  [[noreturn]] void exec_script(const std::string& script) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int s : {SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD}) signal(s, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(log_fd_, 1);
    dup2(log_fd_, 2);
    if (null > 2) close(null);
    if (chdir(spec_.work_dir.c_str()) != 0) {
      dprintf(2, "berth shim: cannot enter %s: %s\n", spec_.work_dir.c_str(), std::strerror(errno));
      _exit(1);
    }
    std::vector<char*> env;
    for (std::string& variable : spec_.env) env.push_back(variable.data());
    env.push_back(nullptr);
    char* argv[] = {const_cast<char*>(script.c_str()), nullptr};
    execve(script.c_str(), argv, env.data());
    dprintf(2, "berth shim: cannot start %s: %s\n", script.c_str(), std::strerror(errno));
    _exit(errno == ENOENT || errno == EACCES ? 126 : 127);
  }

  // Until the script has ended.
  void follow_job() {
    while (!reap()) {
      act();
      TimePoint now = Steady::now(), due = next_deadline(now);
      auto wait = std::chrono::ceil<Duration>(due - now);
      next_signal(std::clamp<Duration>(wait, milliseconds(0), hours(1)));
    }
    // The end that was told is the state; a script that ended by itself is what it was.
    if (timed_out_)
      status_.state = JobState::timed_out;
    else if (stopping_)
      set_cancelled();
    else
      status_.state = status_.exit_code == 0 ? JobState::completed : JobState::failed;
    if (status_.state == JobState::failed) status_.reason = "NonZeroExitCode";
    if (timed_out_) status_.reason = "TimeLimit";
  }

  // True once the script itself was reaped. Adopted orphans are reaped on the way.
  bool reap() {
    bool ended = false;
    int raw = 0;
    while (pid_t pid = waitpid(-1, &raw, WNOHANG)) {
      if (pid < 0) break;
      if (pid != main_) continue;
      ended = true;
      if (WIFEXITED(raw)) status_.exit_code = WEXITSTATUS(raw);
      if (WIFSIGNALED(raw)) status_.signal = WTERMSIG(raw);
    }
    return ended;
  }

  void act() {
    TimePoint now = Steady::now();
    if (spec_.time_limit) {
      TimePoint limit = started_ + *spec_.time_limit;
      if (spec_.signal_lead.count() > 0 && !warned_ && now >= limit - spec_.signal_lead) {
        warned_ = true;
        kill(-main_, SIGUSR1);
      }
      if (!stopping_ && now >= limit) {
        timed_out_ = true;
        begin_stop("CANCELLED DUE TO TIME LIMIT");
      }
    }
    if (cancel_ && !stopping_) begin_stop("CANCELLED");
    bool hard = cancel_ && cancel_->how == LocalJobCancel::How::kill;
    if (stopping_ && (hard || now >= kill_at_)) {
      send_all(SIGKILL);
      kill_at_ = now + kSweepPoll;
    }
  }

  void begin_stop(const char* why) {
    stopping_ = true;
    kill_at_ = Steady::now() + spec_.kill_wait;
    note(why);
    send_all(SIGCONT);
    if (!cancel_ || cancel_->how == LocalJobCancel::How::polite) send_all(SIGTERM);
  }

  TimePoint next_deadline(TimePoint now) const {
    TimePoint due = now + hours(1);
    if (stopping_) return std::min(due, kill_at_);
    if (spec_.time_limit) {
      TimePoint limit = started_ + *spec_.time_limit;
      due = std::min(due, limit);
      if (!warned_ && spec_.signal_lead.count() > 0) due = std::min(due, limit - spec_.signal_lead);
    }
    return due;
  }

  void send_all(int signal_number) {
    for (pid_t pid : descendants_of(getpid())) kill(pid, signal_number);
  }

  static bool no_child_left() {
    siginfo_t info{};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
  }

  // No process of the job outlives it.
  void sweep() {
    TimePoint give_up = Steady::now() + kSweepLimit;
    while (true) {
      reap();
      std::vector<pid_t> left = descendants_of(getpid());
      // A look at /proc can miss a process whose parent dies meanwhile; that we have no child left
      // is the kernel's word, and orphans become our children.
      if (left.empty() && no_child_left()) return;
      if (Steady::now() > give_up) {
        note(fmt::format("{} of its processes cannot be killed, such as {}", left.size(),
                         left.empty() ? 0 : left[0]));
        return;
      }
      for (pid_t pid : left) kill(pid, SIGKILL);
      timespec pause{0, kSweepPoll.count() * 1000000};
      sigset_t child;
      sigemptyset(&child);
      sigaddset(&child, SIGCHLD);
      sigtimedwait(&child, nullptr, &pause);
    }
  }

  JobDir dir_;
  LocalJobSpec spec_;
  LocalJobStatus status_;
  sigset_t watched_{};
  std::optional<FileLock> slot_;
  std::optional<LocalJobCancel> cancel_;
  int log_fd_ = -1;
  pid_t main_ = 0;
  TimePoint started_, kill_at_;
  bool warned_ = false, stopping_ = false, timed_out_ = false;
};

int refuse(const std::string& why) {
  dprintf(2, "berth shim: %s\n", why.c_str());
  return 1;
}

void detach() {
  setsid();
  if (chdir("/") != 0) return;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {0, 1, 2}) dup2(null, fd);
}

}  // namespace

int run_shim(const std::string& path) {
  if (!path.starts_with('/')) return refuse("the job's folder must be an absolute path");
  JobDir dir(path);
  auto spec = dir.read_spec();
  if (!spec) return refuse(spec.error().message);
  if (!*spec) return refuse(path + " has no spec");
  auto lock = FileLock::take(dir.file("lock"), FileLock::Wait::no);
  if (!lock) return refuse(lock.error().message);
  if (!*lock) return 0;  // another shim has the job
  auto status = dir.read_status();
  if (!status) return refuse(status.error().message);
  if (*status) return 0;  // it has ended
  auto started = dir.read_start();
  if (!started) return refuse(started.error().message);
  if (*started) return refuse("the job was started once and its shim is gone");

  // The lock belongs to the open file, which both processes share: there is no moment without it.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return refuse(fmt::format("pipe: {}", std::strerror(errno)));
  pid_t pid = fork();
  if (pid < 0) return refuse(fmt::format("fork: {}", std::strerror(errno)));
  if (pid > 0) {
    close(report[1]);
    char ready = 0;
    return read(report[0], &ready, 1) == 1 ? 0 : refuse("could not take charge of the job");
  }
  close(report[0]);
  detach();
  auto self = look_at_process(getpid());
  if (!dir.write_shim({getpid(), self ? self->start_ticks : 0})) _exit(1);
  if (write(report[1], "+", 1) != 1) _exit(1);
  close(report[1]);
  Shim(dir, std::move(**spec)).run();
  _exit(0);
}

}  // namespace berth::sched
