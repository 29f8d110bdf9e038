#include "model/start_times.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(StartTimes, SaysHowLongEachStretchTook) {
  Instant t = from_ms(1'000'000);
  StartTimes start{t, t + milliseconds(310), t + milliseconds(4510), t + milliseconds(4530)};
  EXPECT_EQ(describe(start),
            "to the engine 0.31 s, to its first right answer 4.20 s, to requests 0.02 s");
}

TEST(StartTimes, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(describe({}), "");
  Instant t = from_ms(1'000'000);
  StartTimes self_registered;
  self_registered.engine_at = t;
  self_registered.answered_at = t + seconds(2);
  EXPECT_EQ(describe(self_registered), "to its first right answer 2.00 s");
}

}  // namespace
}  // namespace berth
