// BlockingPool: a few threads for calls that block (SQLite, LDAP, getaddrinfo).
//
//   auto load = [&db] { return db.load(); };
//   Result<Rows> rows = co_await pool.run(load);
//
// The closure has a name of its own: g++ 12 destroys a closure twice that is made inside a
// co_await expression (tools/tidy.py refuses it).
//
// Guarantees: fn runs on one of `threads` threads, first come first served; the coroutine goes on
// on the loop that awaited. If the coroutine is destroyed meanwhile, fn still runs and its value is
// dropped: fn must own what it uses, or use what outlives the pool.
// Bounds: the number of threads. The queue is as long as the number of waiting coroutines.
// Ownership: the destructor finishes what has begun, drops what has not, and joins.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/mailbox.h"

namespace berth::runtime {

class BlockingPool {
 public:
  explicit BlockingPool(size_t threads);
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  ~BlockingPool();

  // Any thread.
  void post(UniqueFunction<void> job);
  size_t waiting() const;

  // T is what fn returns. When the pool goes away first, run() never returns in a stopped loop.
  template <class F>
  Task<std::invoke_result_t<F&>> run(F fn) {
    using T = std::invoke_result_t<F&>;
    auto reply = std::make_shared<detail::Reply<T>>();
    reply->loop = &Loop::current();
    std::shared_ptr<Mailbox> back = reply->loop->mailbox();
    post([fn = std::move(fn), back, reply]() mutable {
      if constexpr (std::is_void_v<T>) {
        fn();
        deliver<T>(*back, std::move(reply), Result<void>());
      } else {
        deliver<T>(*back, std::move(reply), Result<T>(fn()));
      }
    });
    detail::AwaitReply<T> wait(reply);
    Result<T> value = co_await wait;
    if constexpr (!std::is_void_v<T>) co_return std::move(value).value();
  }

 private:
  template <class T>
  static void deliver(Mailbox& back, std::shared_ptr<detail::Reply<T>> reply, Result<T> value) {
    back.post([reply = std::move(reply), value = std::move(value)]() mutable {
      reply->value.emplace(std::move(value));
      if (reply->waiter) reply->loop->wake(*reply->waiter);
    });
  }
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<UniqueFunction<void>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace berth::runtime
