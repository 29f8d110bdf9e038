#include "base/id.h"

#include <gtest/gtest.h>

#include <set>

namespace berth {
namespace {

TEST(Id, RandomOnesDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_base62(20));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(random_hex(16).size(), 32u);
}

TEST(Id, HashIsStable) {
  EXPECT_EQ(hash64(""), hash64(""));
  EXPECT_NE(hash64("a"), hash64("b"));
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Id, ConstantTimeEqual) {
  EXPECT_TRUE(constant_time_equal("secret", "secret"));
  EXPECT_FALSE(constant_time_equal("secret", "secreT"));
  EXPECT_FALSE(constant_time_equal("secret", "secrets"));
}

}  // namespace
}  // namespace berth
