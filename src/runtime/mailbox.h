// Calls between loops: run a coroutine on another loop, await its value on this one.
//
//   Report r = co_await call_on<Report>(control.mailbox(), [&c] { return c.status(); });
//
// `make` runs on the other loop's thread and returns a Task<T>, which that loop owns. The value
// comes back to the loop that awaits. Guarantees: if the awaiting coroutine is destroyed, the call
// goes on and its value is dropped; if the other loop is gone (or goes), the answer is an Error
// `unavailable`. Ownership: `make` and T are moved between threads. Cost: two allocations and at
// most two eventfd writes. The mailbox itself (Loop::post) is in loop.h.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "runtime/loop.h"

namespace berth::runtime {

namespace detail {

// Where the value of a call comes back. Belongs to the caller's loop; only touched there.
template <class T>
struct Reply {
  std::optional<Result<T>> value;
  Waiter* waiter = nullptr;
  Loop* loop = nullptr;
};

// Travels with the call; if it dies unanswered (the other loop went away), it says so.
template <class T>
class ReplyTo {
 public:
  ReplyTo(std::shared_ptr<Mailbox> back, std::shared_ptr<Reply<T>> reply)
      : back_(std::move(back)), reply_(std::move(reply)) {}
  ReplyTo(ReplyTo&&) noexcept = default;
  ReplyTo& operator=(ReplyTo&&) = delete;
  ~ReplyTo() {
    if (reply_) send(unavailable("the thread that was asked has stopped", Source::berth));
  }
  void send(Result<T> value) {
    auto reply = std::move(reply_);
    reply_ = nullptr;
    back_->post([reply, value = std::move(value)]() mutable {
      reply->value.emplace(std::move(value));
      if (reply->waiter) reply->loop->wake(*reply->waiter);
    });
  }

 private:
  std::shared_ptr<Mailbox> back_;
  std::shared_ptr<Reply<T>> reply_;
};

template <class T>
class AwaitReply final : public Waiter {
 public:
  explicit AwaitReply(std::shared_ptr<Reply<T>> reply) : reply_(std::move(reply)) {}
  ~AwaitReply() override { reply_->waiter = nullptr; }
  bool await_ready() const { return reply_->value.has_value(); }
  void await_suspend(std::coroutine_handle<> h) {
    handle_ = h;
    reply_->waiter = this;
  }
  Result<T> await_resume() {
    reply_->waiter = nullptr;
    return std::move(*reply_->value);
  }

 private:
  std::shared_ptr<Reply<T>> reply_;
};

template <class T>
Task<void> answer(Task<T> task, ReplyTo<T> to) {
  if constexpr (std::is_void_v<T>) {
    co_await task;
    to.send(Result<void>());
  } else {
    T value = co_await task;
    to.send(Result<T>(std::move(value)));
  }
}

}  // namespace detail

// `Make`: callable on the other loop's thread, returning Task<T>.
template <class T, class Make>
Task<Result<T>> call_on(std::shared_ptr<Mailbox> other, Make make) {
  Loop& here = Loop::current();
  auto reply = std::make_shared<detail::Reply<T>>();
  reply->loop = &here;
  {
    detail::ReplyTo<T> to(here.mailbox(), reply);
    other->post([make = std::move(make), to = std::move(to)]() mutable {
      Loop::current().spawn(detail::answer<T>(make(), std::move(to)));
    });
  }
  detail::AwaitReply<T> wait(reply);
  co_return co_await wait;
}

}  // namespace berth::runtime
