#include "base/time.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Time, Rfc3339RoundTrip) {
  Instant t = from_ms(1796069165123);
  EXPECT_EQ(to_rfc3339(t), "2026-11-30T20:06:05.123Z");
  EXPECT_EQ(parse_rfc3339(to_rfc3339(t)), t);
  EXPECT_EQ(parse_rfc3339("2026-11-30T21:06:05.123+01:00"), t);
  EXPECT_EQ(parse_rfc3339("2026-11-30T20:06:05Z"), from_ms(1796069165000));
  for (auto bad : {"", "2026", "2026-11-30 20:06:05Z", "2026-11-30T20:06:05",
                   "2026-13-30T20:06:05Z", "2026-11-30T20:06:05.Z", "2026-11-30T20:06:05+1:00"})
    EXPECT_EQ(parse_rfc3339(bad), std::nullopt) << bad;
}

TEST(Time, DurationForms) {
  EXPECT_EQ(parse_duration("90"), seconds(90));
  EXPECT_EQ(parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(parse_duration("5m"), minutes(5));
  EXPECT_EQ(parse_duration("1d"), hours(24));
  EXPECT_EQ(parse_duration("90:30"), seconds(5430));
  EXPECT_EQ(parse_duration("8:00:00"), hours(8));
  EXPECT_EQ(parse_duration("1-12"), seconds(129600));
  EXPECT_EQ(parse_duration("2-03:04"), seconds(183840));
  EXPECT_EQ(parse_duration("1-11:59:58"), seconds(129598));
  for (auto bad :
       {"", "x", "-5", "5x", "1:2:3:4", "1-", "1:", "99999999999999999999", "9999999999d"})
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
}

TEST(Time, Human) {
  EXPECT_EQ(to_human(milliseconds(850)), "850ms");
  EXPECT_EQ(to_human(seconds(185)), "3m05s");
  EXPECT_EQ(to_human(minutes(134)), "2h14m");
  EXPECT_EQ(to_human(hours(123)), "5d03h");
}

}  // namespace
}  // namespace berth
