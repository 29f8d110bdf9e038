// Loop: one thread's event loop over edge-triggered epoll.
//
// Every fd is registered once for EPOLLIN|EPOLLOUT|EPOLLRDHUP|EPOLLET and never touched with
// epoll_ctl again. The clock is read once an iteration (now()). Timers cost no system calls.
// All reads of sockets go into one shared 64 KiB buffer; View (below) makes "valid until the next
// co_await" a checked type.
//
// Guarantees: coroutines are resumed only between batches of events, so an event source may be
// destroyed at any time; events of an fd that was closed in the same batch are dropped by
// generation. post() and stop() may be called from any thread, also after the loop is gone if
// through mailbox(). Non-guarantees: fairness between coroutines beyond first come, first served.
// Ownership: the loop owns tasks(); its destructor destroys those that are still suspended.
// Errors: creating a loop without file descriptors aborts.
#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/task.h"
#include "runtime/task_scope.h"
#include "runtime/timer.h"
#include "runtime/unique_function.h"
#include "runtime/waiter.h"

namespace berth::runtime {

// What epoll reports about one fd. on_events() only notes flags and wakes waiters.
class EventSource {
 public:
  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;
  virtual void on_events(uint32_t events) = 0;

 private:
  friend class Loop;
  static constexpr uint32_t kUnregistered = ~uint32_t{0};
  uint32_t slot_ = kUnregistered;
};

// Where other threads leave work for a loop. Outlives the loop if somebody holds it.
class Mailbox {
 public:
  // Runs `fn` on the loop's thread, in order of posting. False: the loop is gone, `fn` is dropped.
  bool post(UniqueFunction<void> fn);
  ~Mailbox();

 private:
  friend class Loop;
  Mailbox();
  std::mutex mutex_;
  std::vector<UniqueFunction<void>> letters_;
  bool closed_ = false;
  int event_fd_ = -1;
};

// Bytes in the loop's shared buffer. Using them after the coroutine has awaited anything aborts.
class View;

class Loop {
 public:
  static constexpr size_t kBufferBytes = 64 * 1024;
  static constexpr size_t kBufferPadding = 64;  // readable bytes behind the buffer, for simdjson

  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  // The loop that runs on this thread; aborts when there is none.
  static Loop& current();

  // Runs until stop(). May be called again afterwards.
  void run();
  // Any thread.
  void stop();
  // Runs until `task` has its value. For main programs, the command line and tests.
  template <class T>
  T run_until(Task<T> task);

  // CLOCK_MONOTONIC as of this iteration.
  MonoTime now() const { return now_; }
  // Reads the clock again: for whoever has computed for long.
  void refresh_now();

  std::shared_ptr<Mailbox> mailbox() const { return mailbox_; }
  void post(UniqueFunction<void> fn) { mailbox_->post(std::move(fn)); }

  TimerWheel& timers() { return timers_; }
  TaskScope& tasks() { return tasks_; }
  void spawn(Task<void> task) { tasks_.spawn(std::move(task)); }

  // For event sources and awaitables.
  void add(int fd, EventSource& source);
  void remove(EventSource& source);
  void wake(Waiter& waiter);
  char* buffer() { return buffer_.get(); }
  uint64_t epoch() const { return epoch_; }
  // Ends the life of every View of this loop.
  void next_epoch() { epoch_++; }

 private:
  class MailboxSource;
  class Alarm;
  struct Slot {
    EventSource* source = nullptr;
    uint32_t generation = 0;
  };
  struct List final : Waiter {};  // sentinel of the ready list

  // Makes this the thread's current loop while it lives.
  class Enter {
   public:
    explicit Enter(Loop& loop);
    ~Enter();

   private:
    Loop* outer_;
  };

  void poll();
  void run_ready();
  void run_letters();

  int epoll_fd_ = -1;
  MonoTime now_;
  bool stopping_ = false;
  uint64_t epoch_ = 0;
  std::unique_ptr<char[]> buffer_;
  List ready_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  TimerWheel timers_;
  std::shared_ptr<Mailbox> mailbox_;
  std::unique_ptr<MailboxSource> mailbox_source_;
  std::unique_ptr<Alarm> alarm_;
  TaskScope tasks_;
};

class View {
 public:
  View() = default;
  View(const Loop& loop, const char* data, size_t size)
      : loop_(&loop), epoch_(loop.epoch()), data_(data), size_(size) {}

  std::string_view bytes() const {
    CHECK(!loop_ || loop_->epoch() == epoch_);
    return {data_, size_};
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  const Loop* loop_ = nullptr;
  uint64_t epoch_ = 0;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

namespace detail {
template <class T>
Task<void> store_result(Loop& loop, Task<T> task, std::optional<T>& out) {
  out.emplace(co_await task);
  loop.stop();
}
inline Task<void> store_done(Loop& loop, Task<void> task, bool& done) {
  co_await task;
  done = true;
  loop.stop();
}
}  // namespace detail

template <class T>
T Loop::run_until(Task<T> task) {
  Enter enter(*this);
  TaskScope scope(*this);
  if constexpr (std::is_void_v<T>) {
    bool done = false;
    scope.spawn(detail::store_done(*this, std::move(task), done));
    while (!done) run();
  } else {
    std::optional<T> out;
    scope.spawn(detail::store_result<T>(*this, std::move(task), out));
    while (!out) run();
    return std::move(*out);
  }
}

}  // namespace berth::runtime
