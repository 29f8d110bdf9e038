// TaskScope: the owner of tasks that run beside each other.
//
//   TaskScope scope(loop);
//   scope.spawn(serve_one(std::move(client)));
//   co_await scope.join();          // until none is left
//
// Guarantees: a spawned task runs at once until it first waits; it is destroyed when it ends, or
// when the scope is destroyed, whichever comes first.
// Non-guarantees: destroying the scope from inside one of its own tasks is a bug.
// Threading: everything on the loop's thread. Cost of spawn: one small allocation.
#pragma once

#include <coroutine>
#include <cstddef>

#include "runtime/task.h"
#include "runtime/waiter.h"

namespace berth::runtime {

class Loop;

class TaskScope {
 public:
  explicit TaskScope(Loop& loop) : loop_(loop) {}
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  ~TaskScope() { destroy_all(); }

  void spawn(Task<void> task);
  size_t size() const { return size_; }
  // Destroys every task that is still suspended.
  void destroy_all();

  class Join final : public Waiter {
   public:
    explicit Join(TaskScope& scope) : scope_(scope) {}
    ~Join() override {
      if (scope_.joiner_ == this) scope_.joiner_ = nullptr;
    }
    bool await_ready() const { return scope_.size_ == 0; }
    void await_suspend(std::coroutine_handle<> h) {
      CHECK(!scope_.joiner_);
      handle_ = h;
      scope_.joiner_ = this;
    }
    void await_resume() const {}
    bool complete() override { return scope_.size_ == 0; }

   private:
    TaskScope& scope_;
  };
  Join join() { return Join(*this); }

 private:
  struct Root;
  struct Link {
    Link* prev = nullptr;
    Link* next = nullptr;
    std::coroutine_handle<> handle;
  };
  static Root run(TaskScope& scope, Task<void> task);
  void add(Link& link);
  void remove(Link& link);

  Loop& loop_;
  Link* first_ = nullptr;
  size_t size_ = 0;
  Join* joiner_ = nullptr;
};

}  // namespace berth::runtime
