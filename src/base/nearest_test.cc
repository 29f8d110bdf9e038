#include "base/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Nearest, FindsTyposAndOrdersThem) {
  std::vector<std::string> names = {"partition", "account", "mem", "time", "qos"};
  EXPECT_THAT(nearest("partiton", names, 3), ElementsAre("partition"));
  EXPECT_THAT(nearest("Acconut", names, 3), ElementsAre("account"));
  EXPECT_THAT(nearest("tiem", names, 3), ElementsAre("time"));
  EXPECT_THAT(nearest("gpus", names, 3), IsEmpty());
  EXPECT_THAT(nearest("", names, 3), IsEmpty());
}

TEST(Nearest, LooksBehindTheOwner) {
  std::vector<std::string> names = {"alice/qwen3-coder", "bob/llama", "qwen3-codes"};
  EXPECT_THAT(nearest("qwen3-coder", names, 2), ElementsAre("alice/qwen3-coder", "qwen3-codes"));
  EXPECT_THAT(nearest("qwen3-coder", names, 1), ElementsAre("alice/qwen3-coder"));
}

TEST(Nearest, LongWordsAreNeverNear) {
  std::string word(200, 'a');
  EXPECT_THAT(nearest(word, {word}, 1), IsEmpty());
}

TEST(Nearest, Sentence) {
  EXPECT_EQ(did_you_mean("moedl", {"model"}), "; did you mean \"model\"?");
  EXPECT_EQ(did_you_mean("ab", {"ac", "ad", "ae"}), "; did you mean \"ac\" or \"ad\"?");
  EXPECT_EQ(did_you_mean("zzz", {"model"}), "");
}

}  // namespace
}  // namespace berth
