#include "runtime/task_scope.h"

#include "runtime/loop.h"

namespace berth::runtime {

struct TaskScope::Root {
  struct promise_type : Link {
    TaskScope& scope;
    promise_type(TaskScope& s, Task<void>&) : scope(s) {
      handle = std::coroutine_handle<promise_type>::from_promise(*this);
      scope.add(*this);
    }
    ~promise_type() { scope.remove(*this); }
    Root get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

TaskScope::Root TaskScope::run(TaskScope&, Task<void> task) { co_await task; }

void TaskScope::spawn(Task<void> task) { run(*this, std::move(task)); }

void TaskScope::add(Link& link) {
  link.next = first_;
  if (first_) first_->prev = &link;
  first_ = &link;
  size_++;
}

void TaskScope::remove(Link& link) {
  (link.prev ? link.prev->next : first_) = link.next;
  if (link.next) link.next->prev = link.prev;
  if (--size_ == 0 && joiner_) loop_.wake(*joiner_);
}

void TaskScope::destroy_all() {
  while (first_) first_->handle.destroy();
}

}  // namespace berth::runtime
