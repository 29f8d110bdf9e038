#include "gateway/key_digests.h"

#include <gtest/gtest.h>

namespace berth::gateway {
namespace {

TEST(KeyDigests, GivesWhatWasRememberedForThatVeryKey) {
  KeyDigests digests(7);
  EXPECT_EQ(digests.find("sk-one"), nullptr);
  digests.remember("sk-one", "d1");
  digests.remember("sk-one-and-more-than-eight-bytes", "d2");
  ASSERT_NE(digests.find("sk-one"), nullptr);
  EXPECT_EQ(*digests.find("sk-one"), "d1");
  EXPECT_EQ(*digests.find("sk-one-and-more-than-eight-bytes"), "d2");
  EXPECT_EQ(digests.find("sk-one-and-more-than-eight-byteS"), nullptr);
  EXPECT_EQ(digests.find(""), nullptr);
}

TEST(KeyDigests, AKeyInATakenSlotTakesItOver) {
  KeyDigests digests(7);
  const size_t many = 20 * KeyDigests::kSlots;
  auto key = [](size_t i) { return "sk-" + std::to_string(i); };
  for (size_t i = 0; i < many; i++) digests.remember(key(i), "d" + std::to_string(i));
  size_t known = 0;
  for (size_t i = 0; i < many; i++) {
    const std::string* digest = digests.find(key(i));
    known += digest != nullptr;
    if (digest) EXPECT_EQ(*digest, "d" + std::to_string(i));
  }
  EXPECT_GT(known, KeyDigests::kSlots / 2);
  EXPECT_LE(known, KeyDigests::kSlots);
}

TEST(KeyDigests, VeryLongKeysAreNotKept) {
  KeyDigests digests(7);
  const std::string longest(KeyDigests::kMaxKey, 'x');
  digests.remember(longest, "d1");
  digests.remember(longest + "x", "d2");
  EXPECT_NE(digests.find(longest), nullptr);
  EXPECT_EQ(digests.find(longest + "x"), nullptr);
}

}  // namespace
}  // namespace berth::gateway
