#include "model/end_lead.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(EndLead, IsTheWholeEndButAtMostAThirdOfTheRun) {
  EXPECT_EQ(end_lead(seconds(120), std::nullopt), seconds(140));
  EXPECT_EQ(end_lead(seconds(120), hours(8)), seconds(140));
  EXPECT_EQ(end_lead(seconds(120), minutes(2)), seconds(40));
  EXPECT_EQ(end_lead(seconds(120), seconds(-5)), Duration(0));
  EXPECT_EQ(end_lead(seconds(10), hours(1), seconds(2), seconds(1)), seconds(13));
}

}  // namespace
}  // namespace berth
