// Waiter: one suspended co_await, as the loop sees it.
//
// An event source (socket, timer, mailbox) that has news calls Loop::wake(waiter). After the batch
// of events the loop calls complete() on each woken waiter: true means "done, resume the
// coroutine", false means "a false alarm, keep waiting". So a coroutine is never resumed in vain,
// and no event source runs anybody's code while it is being dispatched.
//
// Ownership: a Waiter lives in the awaiting coroutine's frame; its destructor takes it off the
// ready list, so destroying a suspended coroutine is always safe.
#pragma once

#include <coroutine>

namespace berth::runtime {

class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  virtual ~Waiter() { unlink(); }

  // Does the work that was waited for. Called on the loop's thread, right before resumption.
  virtual bool complete() { return true; }

 protected:
  std::coroutine_handle<> handle_;

 private:
  friend class Loop;
  void unlink() {
    if (!next_) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = prev_ = nullptr;
  }
  Waiter* prev_ = nullptr;
  Waiter* next_ = nullptr;
};

}  // namespace berth::runtime
