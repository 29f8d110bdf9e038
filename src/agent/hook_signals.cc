#include "agent/hook_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace berth::agent {
namespace {

// After a fork without exec: only async-signal-safe calls.
[[noreturn]] void bear_witness(int report, pid_t agent) {
  prctl(PR_SET_NAME, "berth-witness");
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) _exit(0);
  for (int signal : {SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_SETMASK, &term, nullptr);
  if (write(report, "+", 1) != 1) _exit(0);  // ready
  for (;;) {
    int signal = 0;
    if (sigwait(&term, &signal) == 0 && write(report, "T", 1) != 1) _exit(0);
  }
}

}  // namespace

Result<std::unique_ptr<Witness>> Witness::start() {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return system_error("starting the witness", errno);
  pid_t agent = getpid();
  pid_t pid = fork();
  if (pid == 0) bear_witness(pipe_ends[1], agent);
  int error = errno;
  close(pipe_ends[1]);
  if (pid < 0) {
    close(pipe_ends[0]);
    return system_error("starting the witness", error);
  }
  char byte = 0;
  ssize_t n;
  do {
    n = read(pipe_ends[0], &byte, 1);
  } while (n < 0 && errno == EINTR);
  std::unique_ptr<Witness> witness(new Witness(pid, pipe_ends[0]));
  if (n != 1) return internal_error("the witness did not start");
  return witness;
}

Witness::~Witness() {
  if (fd_ >= 0) close(fd_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

runtime::Task<bool> Witness::saw_term(runtime::Loop& loop) {
  if (!stream_) {
    stream_ = std::make_unique<runtime::Stream>(loop, fd_);
    fd_ = -1;
  }
  auto got = co_await stream_->read();
  co_return got.ok();
}

}  // namespace berth::agent
