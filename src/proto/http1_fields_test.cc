#include "proto/http1_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace berth::proto {
namespace {

using enum FieldName;

const std::pair<std::string, FieldName> kNames[] = {
    {"Accept-Encoding", accept_encoding},
    {"Access-Control-Allow-Origin", access_control},
    {"Api-Key", api_key},
    {"Authorization", authorization},
    {"X-Berth-Secret", berth},
    {"Connection", connection},
    {"Content-Encoding", content_encoding},
    {"Content-Length", content_length},
    {"Content-Type", content_type},
    {"Cookie", cookie},
    {"Expect", expect},
    {"Host", host},
    {"Keep-Alive", keep_alive},
    {"Origin", origin},
    {"Proxy-Authorization", proxy},
    {"Proxy-Connection", proxy},
    {"Retry-After", retry_after},
    {"Set-Cookie", set_cookie},
    {"TE", te},
    {"Trailer", trailer},
    {"Transfer-Encoding", transfer_encoding},
    {"Upgrade", upgrade},
    {"X-Api-Key", x_api_key},
    {"X-Request-Id", x_request_id},
};

TEST(Http1FieldName, IsToldInAnyCase) {
  for (const auto& [name, expected] : kNames) {
    std::string upper = name, lower = name;
    for (char& c : upper) c = static_cast<char>(toupper(c));
    for (char& c : lower) c = static_cast<char>(tolower(c));
    EXPECT_EQ(field_name(name), expected) << name;
    EXPECT_EQ(field_name(upper), expected) << upper;
    EXPECT_EQ(field_name(lower), expected) << lower;
  }
}

// Every token character in every place: no other name may be taken for a known one.
TEST(Http1FieldName, OneOtherCharacterMakesAnotherName) {
  const std::string token =
      "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const std::pair<FieldName, size_t> prefixes[] = {{access_control, 15}, {proxy, 6}, {berth, 8}};
  for (const auto& [name, expected] : kNames) {
    size_t told_by = name.size();
    for (auto [prefix, size] : prefixes) {
      if (expected == prefix) told_by = size;
    }
    for (size_t i = 0; i < told_by; i++) {
      for (char c : token) {
        if (tolower(c) == tolower(name[i])) continue;
        std::string changed = name;
        changed[i] = c;
        EXPECT_NE(field_name(changed), expected) << changed;
      }
    }
  }
}

}  // namespace
}  // namespace berth::proto
