#include "runtime/resolve.h"

#include <gtest/gtest.h>

namespace berth::runtime {
namespace {

TEST(Resolve, NumericFormsAndNames) {
  Loop loop;
  BlockingPool pool(1);
  auto numeric = loop.run_until(resolve(pool, "[::1]:8080"));
  ASSERT_TRUE(numeric.ok());
  EXPECT_EQ(numeric->at(0).to_string(), "[::1]:8080");
  auto local = loop.run_until(resolve(pool, "localhost:8080"));
  ASSERT_TRUE(local.ok()) << local.error().message;
  EXPECT_EQ(local->at(0).port(), 8080);
}

TEST(Resolve, SaysWhatIsWrong) {
  Loop loop;
  BlockingPool pool(1);
  for (const char* bad : {"localhost", "localhost:http", ":80", "unix:"})
    EXPECT_FALSE(loop.run_until(resolve(pool, bad)).ok()) << bad;
  auto missing = loop.run_until(resolve(pool, "no-such-host.invalid:80"));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace berth::runtime
