#include "runtime/loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "runtime/mailbox.h"

namespace berth::runtime {
namespace {

using std::chrono::milliseconds;

Task<int> add(int a, int b) { co_return a + b; }
Task<int> add_many(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum = co_await add(sum, 1);
  co_return sum;
}

TEST(Task, GivesItsValueWithoutGrowingTheStack) {
  Loop loop;
  EXPECT_EQ(loop.run_until(add(2, 3)), 5);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(loop.run_until(add_many(200'000)), 200'000);
#endif
}

// The wheel is driven by hand: no clock in these tests.
TEST(Loop, PostFromOtherThreadsArrivesInOrder) {
  Loop loop;
  std::vector<int> got;
  std::thread other([mailbox = loop.mailbox(), &got, &loop] {
    for (int i = 0; i < 1000; i++) mailbox->post([i, &got] { got.push_back(i); });
    mailbox->post([&loop] { loop.stop(); });
  });
  loop.run();
  other.join();
  ASSERT_EQ(got.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
}

TEST(Loop, APostToADeadLoopIsDropped) {
  std::shared_ptr<Mailbox> mailbox;
  {
    Loop loop;
    mailbox = loop.mailbox();
  }
  EXPECT_FALSE(mailbox->post([] { FAIL(); }));
}

class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  Loop& loop() { return loop_; }

 private:
  Loop loop_;
  std::thread thread_;
};

Task<std::thread::id> where() { co_return std::this_thread::get_id(); }
Task<Result<std::thread::id>> ask(std::shared_ptr<Mailbox> other) {
  co_return co_await call_on<std::thread::id>(other, [] { return where(); });
}

TEST(CallOn, RunsThereAndAnswersHere) {
  LoopThread other;
  Loop loop;
  auto id = loop.run_until(ask(other.loop().mailbox()));
  ASSERT_TRUE(id.ok());
  EXPECT_NE(*id, std::this_thread::get_id());
}

TEST(CallOn, ADeadLoopAnswersUnavailable) {
  std::shared_ptr<Mailbox> dead;
  {
    Loop gone;
    dead = gone.mailbox();
  }
  Loop loop;
  auto id = loop.run_until(ask(dead));
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, Code::unavailable);
}

}  // namespace
}  // namespace berth::runtime
