#include "proto/splice.h"

#include <gtest/gtest.h>

namespace berth::proto {
namespace {

TEST(SpliceList, AppliesReplacementsInsertionsAndRemovalsInOnePass) {
  const std::string text = "0123456789";
  SpliceList splices;
  splices.add({8, 2}, "");  // added out of order
  splices.add({0, 0}, "start ");
  splices.add({3, 2}, "three-four");
  EXPECT_EQ(splices.apply(text), "start 012three-four567");
  EXPECT_EQ(splices.edited_size(text.size()), splices.apply(text).size());

  std::string joined;
  for (std::string_view piece : splices.pieces(text)) joined += piece;
  EXPECT_EQ(joined, splices.apply(text));
}

TEST(SpliceList, EmptyListIsTheTextItself) {
  const std::string text = "as it was";
  SpliceList splices;
  EXPECT_TRUE(splices.empty());
  EXPECT_EQ(splices.apply(text), text);
  ASSERT_EQ(splices.pieces(text).size(), 1u);
  EXPECT_EQ(splices.pieces(text)[0].data(), text.data());
}

TEST(SpliceList, TouchingSplicesKeepTheirOrder) {
  SpliceList splices;
  splices.add({0, 2}, "A");
  splices.add({2, 2}, "B");
  EXPECT_EQ(splices.apply("aabbcc"), "ABcc");
  splices.shift(2);
  EXPECT_EQ(splices.apply("aabbcc"), "aaAB");
}

TEST(SpliceListDeathTest, OverlapIsABug) {
  SpliceList splices;
  splices.add({2, 4}, "x");
  EXPECT_DEATH(splices.add({4, 4}, "y"), "at.begin");
}

}  // namespace
}  // namespace berth::proto
