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

TEST(Nearest, FindsTyposPartsAndOtherOwners) {
  const std::vector<std::string> names = {"qwen3-coder-30b",  "qwen3-32b", "llama-3.1-8b",
                                          "alice/mistral-7b", "bge-m3",    "e5"};
  EXPECT_EQ(nearest("qwen3-coder-3b", names, 1), std::vector<std::string>{"qwen3-coder-30b"});
  EXPECT_EQ(nearest("Qwen3-Coder-30B", names, 1), std::vector<std::string>{"qwen3-coder-30b"});
  EXPECT_EQ(nearest("qwne3-32b", names, 1), std::vector<std::string>{"qwen3-32b"});
  EXPECT_EQ(nearest("qwen3", names, 3), (std::vector<std::string>{"qwen3-32b", "qwen3-coder-30b"}));
  EXPECT_EQ(nearest("mistral-7b", names, 1), std::vector<std::string>{"alice/mistral-7b"});
  EXPECT_EQ(nearest("bob/mistral-7b", names, 1), std::vector<std::string>{"alice/mistral-7b"});
  EXPECT_EQ(nearest("bge_m3", names, 1), std::vector<std::string>{"bge-m3"});
  EXPECT_TRUE(nearest("gpt-4o", names, 3).empty());
  EXPECT_TRUE(nearest("x", std::vector<std::string>{}, 3).empty());
  EXPECT_TRUE(nearest("", names, 3).empty());
}

TEST(Nearest, LongNamesAreCompared) {
  const std::vector<std::string> names = {std::string(5000, 'a') + "b"};
  EXPECT_EQ(nearest(std::string(5000, 'a') + "c", names, 3).size(), 1u);
}

TEST(Nearest, Sentence) {
  EXPECT_EQ(did_you_mean("moedl", {"model"}), "; did you mean \"model\"?");
  EXPECT_EQ(did_you_mean("ab", {"ac", "ad", "ae"}), "; did you mean \"ac\" or \"ad\"?");
  EXPECT_EQ(did_you_mean("zzz", {"model"}), "");
}

}  // namespace
}  // namespace berth
