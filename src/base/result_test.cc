#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace berth {
namespace {

Result<std::unique_ptr<int>> make(int n) {
  if (n < 0) return invalid_argument("n must not be negative");
  return std::make_unique<int>(n);
}

TEST(Result, CarriesAMoveOnlyValue) {
  auto r = make(7);
  ASSERT_TRUE(r.ok());
  std::unique_ptr<int> p = std::move(r).value();
  EXPECT_EQ(*p, 7);
}

TEST(Result, WrapPutsTheContextInFront) {
  Error e = make(-1).error().wrap("submit of qwen");
  EXPECT_EQ(e.message, "submit of qwen: n must not be negative");
  EXPECT_EQ(e.code, Code::invalid_argument);
  EXPECT_EQ(e.source, Source::caller);
}

TEST(Result, SystemErrorNamesTheReason) {
  EXPECT_EQ(system_error("open /nodir/x", ENOENT).message,
            "open /nodir/x: No such file or directory");
}

TEST(ResultDeath, ReadingTheValueOfAFailureAborts) {
  EXPECT_DEATH((void)make(-1).value(), "CHECK");
}

}  // namespace
}  // namespace berth
