#include "cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

TEST(Commands, NamesAndOptionsAreUnique) {
  std::set<std::string_view> names;
  for (const Command& c : commands()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    std::set<std::string> options{"--help", "-h"};
    for (const Option& o : c.options) {
      EXPECT_TRUE(options.insert(std::string(o.name)).second) << c.name << o.name;
      if (o.letter) {
        EXPECT_TRUE(options.insert(std::string("-") + o.letter).second) << c.name << o.letter;
      }
      EXPECT_EQ(o.completes == Completes::choices, !o.choices.empty()) << c.name << o.name;
    }
  }
}

TEST(Commands, ExamplesParse) {
  for (const Command& c : commands())
    for (std::string_view example : c.examples)
      EXPECT_THAT(std::string(example), HasSubstr("berth " + std::string(c.name))) << c.name;
}

TEST(Commands, UsageMistakesAreStatus2) {
  Terminal t;
  EXPECT_EQ(t.run({}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("Usage: berth COMMAND"));
  EXPECT_EQ(t.run({"aply"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("unknown command \"aply\"; did you mean \"apply\"?"));
  EXPECT_EQ(t.run({"apply"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("apply: --file is missing"));
  EXPECT_EQ(t.run({"agent", "--", "x"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("--service is missing"));
  EXPECT_EQ(t.run({"key"}), exit_usage);
  EXPECT_THAT(t.err, HasSubstr("berth key revoke ID"));
  EXPECT_EQ(t.run({"ps", "--bogus"}), exit_usage);
  EXPECT_TRUE(t.api.requests.empty());
}

TEST(Commands, HelpIsOnStandardOutput) {
  Terminal t;
  for (std::vector<std::string> words : {std::vector<std::string>{"--help"},
                                         {"help"},
                                         {"ps", "--help"},
                                         {"key", "--help"},
                                         {"key", "create", "-h"},
                                         {"--version"},
                                         {"version"},
                                         {"completion", "bash"}}) {
    EXPECT_EQ(t.run(words), exit_ok) << words[0];
    EXPECT_NE(t.out, "") << words[0];
    EXPECT_EQ(t.err, "") << words[0];
  }
}

TEST(Commands, RolesAreRegistered) {
  Terminal t;
  EXPECT_EQ(t.run({"serve"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("serve is not in this program"));
  std::string state;
  set_role("serve", [&](Context&, const Arguments& a) {
    state = a.value("--state");
    return 7;
  });
  EXPECT_EQ(t.run({"serve", "--state", "/s"}), 7);
  EXPECT_EQ(state, "/s");
  set_role("serve", [](Context&, const Arguments&) { return 1; });
}

}  // namespace
}  // namespace berth::cli
