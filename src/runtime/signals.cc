#include "runtime/signals.h"

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace berth::runtime {

namespace {

sigset_t to_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int s : signals) sigaddset(&set, s);
  return set;
}

}  // namespace

void block_signals(std::initializer_list<int> signals) {
  sigset_t set = to_set(signals);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
}

Signals::Signals(Loop& loop, std::initializer_list<int> signals) {
  block_signals(signals);
  sigset_t set = to_set(signals);
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  CHECK(fd >= 0);
  fd_ = std::make_unique<Stream>(loop, fd);
}

Task<int> Signals::next(Wait wait) {
  for (;;) {
    // One at a time, so that none is lost between calls.
    signalfd_siginfo info{};
    ssize_t n = read(fd_->fd(), &info, sizeof info);
    if (n == sizeof info) co_return static_cast<int>(info.ssi_signo);
    fd_->mark_drained();
    WriteEnd end = co_await FdReady(*fd_, FdReady::For::read, wait);
    if (end != WriteEnd::done) co_return 0;
  }
}

}  // namespace berth::runtime
