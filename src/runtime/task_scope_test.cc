#include "runtime/task_scope.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/loop.h"

namespace berth::runtime {
namespace {

using std::chrono::milliseconds;
struct Probe {
  explicit Probe(int& n) : count(n) { count++; }
  ~Probe() { count--; }
  int& count;
};
Task<void> hold(Loop& loop, int& alive) {
  Probe probe(alive);
  co_await sleep_for(loop, seconds(3600));
}

TEST(TaskScope, DestroysWhatIsStillWaiting) {
  Loop loop;
  int alive = 0;
  {
    TaskScope scope(loop);
    scope.spawn(hold(loop, alive));
    scope.spawn(hold(loop, alive));
    EXPECT_EQ(alive, 2);
    EXPECT_EQ(scope.size(), 2u);
  }
  EXPECT_EQ(alive, 0);
}

Task<void> nap(Loop& loop, int ms, std::vector<int>& order) {
  co_await sleep_for(loop, milliseconds(ms));
  order.push_back(ms);
}
Task<void> naps(Loop& loop, std::vector<int>& order) {
  TaskScope scope(loop);
  scope.spawn(nap(loop, 60, order));
  scope.spawn(nap(loop, 20, order));
  scope.spawn(nap(loop, 0, order));
  co_await scope.join();
}

TEST(TaskScope, JoinWaitsForAll) {
  Loop loop;
  std::vector<int> order;
  loop.run_until(naps(loop, order));
  EXPECT_EQ(order, (std::vector<int>{0, 20, 60}));
}

}  // namespace
}  // namespace berth::runtime
