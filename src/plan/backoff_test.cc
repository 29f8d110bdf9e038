#include "plan/backoff.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace berth::plan {
namespace {

TEST(Backoff, DoublesToACap) {
  struct Row {
    int n;
    Duration at_least;
  };
  for (Row row : {Row{1, seconds(5)},
                  {2, seconds(10)},
                  {3, seconds(20)},
                  {7, seconds(300)},
                  {1000, seconds(300)}}) {
    Duration wait = backoff(row.n, seconds(5), minutes(5), "k");
    EXPECT_GE(wait, row.at_least) << row.n;
    EXPECT_LE(wait, row.at_least * 5 / 4) << row.n;
  }
  EXPECT_EQ(backoff(0, seconds(5), minutes(5), "k"), Duration(0));
}

RC_GTEST_PROP(Backoff, SameInputsSameWaitWithinBounds, (const std::string& key)) {
  int attempts = *rc::gen::inRange(1, 2000);
  Duration wait = backoff(attempts, seconds(30), minutes(10), key);
  RC_ASSERT(wait == backoff(attempts, seconds(30), minutes(10), key));
  RC_ASSERT(wait >= seconds(30));
  RC_ASSERT(wait <= Duration(minutes(10)) * 5 / 4);
}

// C17: at most ten attempts in ten minutes, the first after 30 s.
RC_GTEST_PROP(Backoff, ASubmitLimitIsTriedAtMostTenTimesInTenMinutes, (const std::string& key)) {
  Duration at{0};
  int attempts = 1;
  while (true) {
    at += backoff(attempts, seconds(30), minutes(10), key);
    if (at > minutes(10)) break;
    ++attempts;
  }
  RC_ASSERT(attempts <= 10);
}

}  // namespace
}  // namespace berth::plan
