// Task<T>: a coroutine that gives one T and starts when it is awaited.
//
//   Task<int> answer() { co_return 42; }
//   int n = co_await answer();
//
// Guarantees: lazy; awaiting transfers control without growing the stack; destroying a Task that
// is suspended destroys its locals, which unhook themselves from whatever they wait for.
// Non-guarantees: a Task does not hop threads; it runs where it is resumed.
// Ownership: the awaiting coroutine owns the Task. Top-level tasks belong to a TaskScope
// (task_scope.h); nothing runs without an owner.
// Errors: an exception that leaves a coroutine is a bug and terminates; failures are Results.
// Parameters of coroutines are values, or references to what outlives the coroutine.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/frame_memory.h"

namespace berth::runtime {

template <class T>
class Task;

namespace detail {

struct TaskPromiseBase {
  std::coroutine_handle<> parent;

  static void* operator new(size_t bytes) { return FrameMemory::take(bytes); }
  static void operator delete(void* frame, size_t bytes) { FrameMemory::give_back(frame, bytes); }

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> h) noexcept {
      return h.promise().parent;
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { std::terminate(); }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() { return std::move(*value); }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle h) : h_(h) {}
  Task(Task&& other) noexcept : h_(std::exchange(other.h_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      h_ = std::exchange(other.h_, {});
    }
    return *this;
  }
  ~Task() { reset(); }

  bool valid() const { return static_cast<bool>(h_); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept {
    CHECK(h_ && !h_.promise().parent);  // awaited once
    h_.promise().parent = parent;
    return h_;
  }
  T await_resume() { return h_.promise().take(); }

 private:
  void reset() {
    if (h_) std::exchange(h_, {}).destroy();
  }
  Handle h_;
};

namespace detail {
template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace berth::runtime
