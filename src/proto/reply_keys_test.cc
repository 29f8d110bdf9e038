#include "proto/reply_keys.h"

#include <gtest/gtest.h>

#include <string>

namespace berth::proto {
namespace {

TEST(ReplyKeys, AreCountedAtAnyDepthAndPlace) {
  ReplyKeys none = count_reply_keys(R"({"id":"m","models":[],"text":"\"model\" and \"usage\""})");
  EXPECT_TRUE(none.none());
  ReplyKeys some = count_reply_keys(R"({"model":"a","x":[{"model":1,"usage":null}]})");
  EXPECT_EQ(some.model, 2);
  EXPECT_EQ(some.usage, 1);
  // At every offset of the blocks that are looked at together.
  for (size_t before = 0; before < 40; before++) {
    for (size_t after = 0; after < 20; after++) {
      const std::string text =
          std::string(before, 'x') + "\"usage\"\"model\"" + std::string(after, 'y');
      EXPECT_EQ(count_reply_keys(text).usage, 1) << text;
      EXPECT_EQ(count_reply_keys(text).model, 1) << text;
      EXPECT_TRUE(count_reply_keys(text.substr(before + 1, 6)).none());
    }
  }
}

}  // namespace
}  // namespace berth::proto
