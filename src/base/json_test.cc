#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace berth {
namespace {

TEST(Json, ErrorsNameTheByte) {
  auto r = parse_json("{\"a\": }");
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("byte 7"), std::string::npos) << r.error().message;
}

TEST(Json, DepthIsLimited) {
  std::string deep(100, '[');
  deep += std::string(100, ']');
  EXPECT_FALSE(parse_json(deep).ok());
  EXPECT_TRUE(parse_json(std::string(10, '[') + std::string(10, ']')).ok());
}

TEST(Json, InvalidUtf8DoesNotThrow) { EXPECT_NO_THROW(dump_json(Json("\xff"))); }

}  // namespace
}  // namespace berth
