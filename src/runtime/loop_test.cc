#include "runtime/loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/blocking_pool.h"
#include "runtime/mailbox.h"
#include "runtime/signals.h"

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
  EXPECT_EQ(loop.run_until(add_many(200'000)), 200'000);
}

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

// The wheel is driven by hand: no clock in these tests.
struct Note : Timer {
  void fire() override { fired++; }
  int fired = 0;
};

TEST(TimerWheel, NeverEarlyAndAtMostATickLate) {
  MonoTime start{};
  for (int64_t ms : {1, 3, 4, 5, 63, 64 * 4, 64 * 4 + 1, 5000, 1'000'000, 90'000'000}) {
    TimerWheel wheel(start);
    Note note;
    MonoTime due = start + milliseconds(ms);
    note.arm(wheel, due);
    MonoTime now = start;
    int steps = 0;
    while (!note.fired) {
      ASSERT_LT(steps++, 60) << ms;
      int wait = wheel.timeout_ms(now);
      ASSERT_GE(wait, 0);
      now += milliseconds(wait);
      wheel.advance(now);
    }
    EXPECT_GE(now, due) << ms;
    EXPECT_LE(now, due + TimerWheel::kTick + milliseconds(1)) << ms;
    EXPECT_EQ(wheel.timeout_ms(now), -1);
  }
}

TEST(TimerWheel, ManyAtRandomTimesMatchAModel) {
  MonoTime start{};
  TimerWheel wheel(start);
  uint64_t seed = 7;
  auto random = [&] {
    return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33;
  };
  std::vector<std::unique_ptr<Note>> notes;
  std::vector<int64_t> due;
  int64_t now = 0;
  for (int i = 0; i < 3000; i++) {
    now += static_cast<int64_t>(random() % 40);
    wheel.advance(start + milliseconds(now));
    if (random() % 3 == 0 && !notes.empty()) {  // move one, back or forth, or take it away
      size_t k = random() % notes.size();
      if (!notes[k]->fired) {
        if (random() % 4 == 0) {
          notes[k]->disarm();
          due[k] = INT64_MAX;
        } else {
          due[k] = now + 1 + static_cast<int64_t>(random() % 30'000);
          notes[k]->arm(wheel, start + milliseconds(due[k]));
        }
      }
    }
    notes.push_back(std::make_unique<Note>());
    due.push_back(now + 1 + static_cast<int64_t>(random() % (random() % 50 ? 2'000 : 2'000'000)));
    notes.back()->arm(wheel, start + milliseconds(due.back()));
    for (size_t k = 0; k < notes.size(); k++) {
      if (due[k] > now) {
        ASSERT_EQ(notes[k]->fired, 0);
      } else if (due[k] + 4 < now) {
        ASSERT_EQ(notes[k]->fired, 1) << due[k] << " at " << now;
      }
    }
  }
}

TEST(TimerWheel, AFiringTimerMayDestroyAnother) {
  MonoTime start{};
  TimerWheel wheel(start);
  auto victim = std::make_unique<Note>();
  struct Killer : Timer {
    std::unique_ptr<Note>* victim;
    void fire() override { victim->reset(); }
  } killer;
  killer.victim = &victim;
  killer.arm(wheel, start + milliseconds(10));
  victim->arm(wheel, start + milliseconds(10));
  wheel.advance(start + milliseconds(50));
  EXPECT_EQ(victim, nullptr);
}

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

Task<int> pooled(BlockingPool& pool) {
  int sum = 0;
  for (int i = 0; i < 50; i++) sum += co_await pool.run([i] { return i; });
  bool ran = false;
  co_await pool.run([&ran] { ran = true; });
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
        int n = co_await pool.run([&] {
          while (!release) std::this_thread::yield();
          ended = true;
          return 1;
        });
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

Task<int> one_signal(Signals& signals) { co_return co_await signals.next(); }

TEST(Signals, ArriveInTheLoop) {
  Loop loop;
  Signals signals(loop, {SIGUSR1});
  kill(getpid(), SIGUSR1);
  EXPECT_EQ(loop.run_until(one_signal(signals)), SIGUSR1);
}

}  // namespace
}  // namespace berth::runtime
