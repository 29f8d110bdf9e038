#include "runtime/blocking_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace berth::runtime {
namespace {
Task<int> pooled(BlockingPool& pool) {
  int sum = 0;
  for (int i = 0; i < 50; i++) {
    auto same = [i] { return i; };
    sum += co_await pool.run(same);
  }
  bool ran = false;
  auto set = [&ran] { ran = true; };
  co_await pool.run(set);
  co_return ran ? sum : -1;
}

TEST(BlockingPool, RunsOnItsThreadsAndResumesHere) {
  Loop loop;
  BlockingPool pool(2);
  EXPECT_EQ(loop.run_until(pooled(pool)), 49 * 25);
}

TEST(BlockingPool, AnAbandonedCallIsDropped) {
  std::atomic<bool> release{false}, ended{false};
  BlockingPool pool(1);
  {
    Loop loop;
    TaskScope scope(loop);
    struct Spawn {
      static Task<void> go(BlockingPool& pool, std::atomic<bool>& release,
                           std::atomic<bool>& ended) {
        auto wait = [&] {
          while (!release) std::this_thread::yield();
          ended = true;
          return 1;
        };
        int n = co_await pool.run(wait);
        CHECK(n == 0);  // never resumed
      }
      static Task<void> start(TaskScope& scope, BlockingPool& pool, std::atomic<bool>& release,
                              std::atomic<bool>& ended) {
        scope.spawn(go(pool, release, ended));
        co_return;
      }
    };
    loop.run_until(Spawn::start(scope, pool, release, ended));
  }
  release = true;
  while (!ended) std::this_thread::yield();
}

}  // namespace
}  // namespace berth::runtime
