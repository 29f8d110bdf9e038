#include "runtime/address.h"

#include <gtest/gtest.h>

namespace berth::runtime {
namespace {

TEST(Address, ParsesAndRefuses) {
  EXPECT_EQ(Address::parse("127.0.0.1:80")->to_string(), "127.0.0.1:80");
  EXPECT_EQ(Address::parse("[::1]:65535")->to_string(), "[::1]:65535");
  EXPECT_EQ(Address::parse("unix:/tmp/x")->to_string(), "unix:/tmp/x");
  for (const char* bad : {"", "x", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1", "host:80",
                          "[::1:80", "unix:", "1.2.3.4:8x"})
    EXPECT_FALSE(Address::parse(bad).ok()) << bad;
  // A19: too long a path is said at once, with the limit.
  auto longer = Address::parse("unix:/" + std::string(150, 'x'));
  ASSERT_FALSE(longer.ok());
  EXPECT_NE(longer.error().message.find("path too long (151 > 107"), std::string::npos);
}

}  // namespace
}  // namespace berth::runtime
