#include "runtime/blocking_pool.h"

#include <signal.h>

namespace berth::runtime {

BlockingPool::BlockingPool(size_t threads) {
  CHECK(threads > 0);
  // Signals go to the loops; a thread in a library call is not to be interrupted.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (size_t i = 0; i < threads; i++) threads_.emplace_back([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

BlockingPool::~BlockingPool() {
  std::deque<UniqueFunction<void>> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void BlockingPool::post(UniqueFunction<void> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

size_t BlockingPool::waiting() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

void BlockingPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    UniqueFunction<void> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = {};
    lock.lock();
  }
}

}  // namespace berth::runtime
