#include "runtime/loop.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace berth::runtime {

namespace {
thread_local Loop* current_loop = nullptr;
}  // namespace

Mailbox::Mailbox() : event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { CHECK(event_fd_ >= 0); }

Mailbox::~Mailbox() { close(event_fd_); }

bool Mailbox::post(UniqueFunction<void> fn) {
  bool first;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    first = letters_.empty();
    letters_.push_back(std::move(fn));
  }
  if (first) {
    uint64_t one = 1;
    ssize_t n = write(event_fd_, &one, sizeof one);
    CHECK(n == sizeof one || errno == EAGAIN);
  }
  return true;
}

class Loop::MailboxSource final : public EventSource {
 public:
  explicit MailboxSource(Mailbox& mailbox) : mailbox_(mailbox) {}
  void on_events(uint32_t) override { pending_ = true; }
  bool take_pending() {
    if (!pending_) return false;
    pending_ = false;
    uint64_t count = 0;
    [[maybe_unused]] ssize_t n = read(mailbox_.event_fd_, &count, sizeof count);
    return true;
  }

 private:
  Mailbox& mailbox_;
  bool pending_ = false;
};

// Ends a wait when the next timer is due. A descriptor of its own, because a limit given to
// epoll_wait would have the kernel program its clock at every wait and take that back at every
// event; this one is set only when something is due before the time it stands at.
class Loop::Alarm final : public EventSource {
 public:
  explicit Alarm(Loop& loop) : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    CHECK(fd_ >= 0);
    loop.add(fd_, *this);
  }
  ~Alarm() override { close(fd_); }
  // std::chrono::steady_clock is CLOCK_MONOTONIC.
  void set_before(MonoTime due) {
    if (due >= set_to_) return;
    set_to_ = due;
    const auto ns = std::chrono::nanoseconds(due.time_since_epoch()).count();
    itimerspec when{};
    when.it_value.tv_sec = ns / 1'000'000'000;
    when.it_value.tv_nsec = ns % 1'000'000'000;
    CHECK(timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr) == 0);
  }
  void on_events(uint32_t) override { set_to_ = MonoTime::max(); }  // it has rung

 private:
  int fd_;
  MonoTime set_to_ = MonoTime::max();
};

Loop::Loop()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      now_(std::chrono::steady_clock::now()),
      buffer_(new char[kBufferBytes + kBufferPadding]()),
      timers_(now_),
      mailbox_(new Mailbox),
      mailbox_source_(std::make_unique<MailboxSource>(*mailbox_)),
      tasks_(*this) {
  CHECK(epoll_fd_ >= 0);
  signal(SIGPIPE, SIG_IGN);  // a peer that left is an error of write()
  ready_.next_ = ready_.prev_ = &ready_;
  add(mailbox_->event_fd_, *mailbox_source_);
  alarm_ = std::make_unique<Alarm>(*this);
}

Loop::~Loop() {
  std::vector<UniqueFunction<void>> letters;
  {
    std::lock_guard lock(mailbox_->mutex_);
    mailbox_->closed_ = true;
    letters.swap(mailbox_->letters_);
  }
  letters.clear();
  tasks_.destroy_all();
  close(epoll_fd_);
  ready_.next_ = ready_.prev_ = nullptr;
}

Loop& Loop::current() {
  CHECK(current_loop != nullptr);
  return *current_loop;
}

void Loop::refresh_now() { now_ = std::chrono::steady_clock::now(); }

void Loop::run() {
  Enter enter(*this);
  stopping_ = false;
  refresh_now();
  while (!stopping_) {
    run_ready();
    if (stopping_) break;
    poll();
  }
}

Loop::Enter::Enter(Loop& loop) : outer_(std::exchange(current_loop, &loop)) {}

Loop::Enter::~Enter() { current_loop = outer_; }

void Loop::stop() {
  if (current_loop == this) {
    stopping_ = true;
  } else {
    post([this] { stopping_ = true; });
  }
}

void Loop::poll() {
  constexpr int kBatch = 512;
  epoll_event events[kBatch];
  const MonoTime due = timers_.next_due();
  const bool busy = ready_.next_ != &ready_ || due <= now_;
  if (!busy) alarm_->set_before(due);
  int n = epoll_wait(epoll_fd_, events, kBatch, busy ? 0 : -1);
  refresh_now();
  if (n < 0) CHECK(errno == EINTR);
  for (int i = 0; i < n; i++) {
    auto slot = static_cast<uint32_t>(events[i].data.u64);
    auto generation = static_cast<uint32_t>(events[i].data.u64 >> 32);
    Slot& s = slots_[slot];
    if (s.source && s.generation == generation) s.source->on_events(events[i].events);
  }
  timers_.advance(now_);
  if (mailbox_source_->take_pending()) run_letters();
}

void Loop::run_ready() {
  // Those that become ready while these run wait for the next round.
  List batch;
  if (ready_.next_ == &ready_) return;
  batch.next_ = ready_.next_;
  batch.prev_ = ready_.prev_;
  batch.next_->prev_ = &batch;
  batch.prev_->next_ = &batch;
  ready_.next_ = ready_.prev_ = &ready_;
  while (batch.next_ != &batch) {
    Waiter& waiter = *batch.next_;
    waiter.unlink();
    epoch_++;
    if (waiter.complete()) {
      auto handle = waiter.handle_;
      handle.resume();
    }
  }
}

void Loop::run_letters() {
  std::vector<UniqueFunction<void>> letters;
  {
    std::lock_guard lock(mailbox_->mutex_);
    letters.swap(mailbox_->letters_);
  }
  for (auto& letter : letters) {
    epoch_++;
    letter();
  }
}

void Loop::add(int fd, EventSource& source) {
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot].source = &source;
  source.slot_ = slot;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = (uint64_t{slots_[slot].generation} << 32) | slot;
  int rc = epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
  CHECK(rc == 0);
}

void Loop::remove(EventSource& source) {
  if (source.slot_ == EventSource::kUnregistered) return;
  Slot& slot = slots_[source.slot_];
  slot.source = nullptr;
  slot.generation++;
  free_slots_.push_back(source.slot_);
  source.slot_ = EventSource::kUnregistered;
}

void Loop::wake(Waiter& waiter) {
  if (waiter.next_) return;  // already on a ready list
  waiter.prev_ = ready_.prev_;
  waiter.next_ = &ready_;
  waiter.prev_->next_ = &waiter;
  ready_.prev_ = &waiter;
}

}  // namespace berth::runtime
