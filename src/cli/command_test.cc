#include "cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Command sample() {
  Command c;
  c.name = "make";
  c.summary = "make it";
  c.positionals = {{"NAME", Positional::Count::one}, {"MORE", Positional::Count::optional}};
  c.options = {
      {"--file", 'f', "FILE", "files", Repeat::many},
      {"--colour", 0, "COLOUR", "colour", Repeat::once, Completes::choices, {"red", "blue"}},
      {"--wait", 'w', "", "wait"}};
  c.rest = Rest::allowed;
  return c;
}

std::string problem(const std::vector<std::string>& words, Command command = sample()) {
  auto parsed = parse_arguments(command, words);
  return parsed ? "" : parsed.error().message;
}

TEST(Command, AllWaysToGiveAValue) {
  auto a = parse_arguments(sample(), {"x", "--file", "1", "--file=2", "-f", "3", "-f4",
                                      "--colour=red", "-w", "y", "--", "--file", "z"});
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_THAT(a->values("--file"), ElementsAre("1", "2", "3", "4"));
  EXPECT_EQ(a->value("--colour"), "red");
  EXPECT_TRUE(a->has("--wait"));
  EXPECT_FALSE(a->has("--nothing"));
  EXPECT_THAT(a->positionals, ElementsAre("x", "y"));
  EXPECT_THAT(a->rest, ElementsAre("--file", "z"));
  EXPECT_EQ(a->positional(7), "");
}

TEST(Command, Mistakes) {
  EXPECT_THAT(problem({}), HasSubstr("make: NAME is missing; see `berth make --help`"));
  EXPECT_THAT(problem({"a", "b", "c"}), HasSubstr("unexpected \"c\""));
  EXPECT_THAT(problem({"a", "--colr", "red"}),
              HasSubstr("unknown option --colr; did you mean \"--colour\"?"));
  EXPECT_THAT(problem({"a", "--colour", "rad"}),
              HasSubstr("--colour must be one of red, blue, not \"rad\"; did you mean \"red\"?"));
  EXPECT_THAT(problem({"a", "--file"}), HasSubstr("--file needs a value, FILE"));
  EXPECT_THAT(problem({"a", "--file", "--"}), HasSubstr("--file needs a value"));
  EXPECT_THAT(problem({"a", "--wait=1"}), HasSubstr("--wait takes no value"));
  EXPECT_THAT(problem({"a", "--colour", "red", "--colour", "red"}), HasSubstr("given twice"));
  EXPECT_THAT(problem({"a", "-x"}), HasSubstr("unknown option -x"));
  Command strict = sample();
  strict.rest = Rest::none;
  EXPECT_THAT(problem({"a", "--", "b"}, strict), HasSubstr("nothing may follow --"));
  strict.rest = Rest::required;
  strict.rest_help = "COMMAND...";
  EXPECT_THAT(problem({"a"}, strict), HasSubstr("-- COMMAND... is missing"));
}

TEST(Command, HelpNeedsNothingElse) {
  auto a = parse_arguments(sample(), {"-h"});
  ASSERT_TRUE(a);
  EXPECT_TRUE(a->has("--help"));
  EXPECT_TRUE(parse_arguments(sample(), {"a", "b", "c", "--help"}));
}

TEST(Command, FindsTwoWordsFirst) {
  std::vector<Command> table(3);
  table[0].name = "key";
  table[1].name = "key list";
  table[2].name = "ps";
  size_t taken = 0;
  EXPECT_EQ(find_command(table, {"key", "list", "x"}, taken), &table[1]);
  EXPECT_EQ(taken, 2u);
  EXPECT_EQ(find_command(table, {"key", "other"}, taken), &table[0]);
  EXPECT_EQ(taken, 1u);
  EXPECT_EQ(find_command(table, {"pss"}, taken), nullptr);
  EXPECT_EQ(find_command(table, {}, taken), nullptr);
}

}  // namespace
}  // namespace berth::cli
