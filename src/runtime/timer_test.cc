#include "runtime/timer.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/loop.h"

namespace berth::runtime {
namespace {

using std::chrono::milliseconds;
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
      ASSERT_LT(wheel.next_due(), MonoTime::max());
      now = std::max(now, wheel.next_due());
      wheel.advance(now);
    }
    EXPECT_GE(now, due) << ms;
    EXPECT_LE(now, due + TimerWheel::kTick) << ms;
    EXPECT_EQ(wheel.next_due(), MonoTime::max());
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

}  // namespace
}  // namespace berth::runtime
