#include "model/names.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Names, ServiceNames) {
  for (auto good : {"m", "qwen3-coder-30b", "hf.co/org/My-Model:Q4_K_M", "a/b.c"})
    EXPECT_TRUE(check_service_name(good).ok()) << good;
  // B19: a name with a space or outside ASCII is refused when it is declared.
  for (auto bad : {"", "-x", "a b", "m\xc3\xa9", "a//b", "a/", "../x", "a/../b", "a/./b", "a\nb",
                   "a%2Fb", "a;b"})
    EXPECT_FALSE(check_service_name(bad).ok()) << bad;
  EXPECT_FALSE(check_service_name(std::string(97, 'a')).ok());
}

TEST(Names, AccountNames) {
  EXPECT_TRUE(check_account_name("project", "gaia").ok());
  EXPECT_FALSE(check_account_name("project", "Proj Two").ok());
  EXPECT_FALSE(check_account_name("project", "-i").ok());
  EXPECT_EQ(check_account_name("project", "").error().source, Source::caller);
}

}  // namespace
}  // namespace berth
