#include "cli/command_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/commands.h"
#include "cli/table.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

struct Size {
  int lines = 0;
  int columns = 0;
};

Size size_of(const std::string& text) {
  Size size;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line); ++size.lines)
    size.columns = std::max(size.columns, display_width(line));
  return size;
}

TEST(CommandHelp, OverviewFitsAScreen) {
  std::string text = overview(commands(), "0.1.0");
  EXPECT_LE(size_of(text).lines, 24) << text;
  EXPECT_LE(size_of(text).columns, 80) << text;
  EXPECT_THAT(text, HasSubstr("key create|list|revoke"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("shim")));
}

TEST(CommandHelp, EachHelpFitsAScreen) {
  for (const Command& c : commands()) {
    Size size = size_of(command_help(c));
    EXPECT_LE(size.lines, 36) << c.name;
    EXPECT_LE(size.columns, 110) << c.name << "\n" << command_help(c);
    EXPECT_FALSE(c.summary.empty()) << c.name;
    EXPECT_FALSE(c.summary.ends_with('.')) << c.name;
    EXPECT_NE(c.run, nullptr) << c.name;
  }
}

TEST(CommandHelp, SaysHowToUseIt) {
  size_t taken = 0;
  std::string text = command_help(*find_command(commands(), {"logs"}, taken));
  EXPECT_THAT(text, HasSubstr("usage: berth logs NAME [OPTION...]\nShow what"));
  EXPECT_THAT(text, HasSubstr("-f, --follow"));
  EXPECT_THAT(text, HasSubstr("-h, --help"));
  EXPECT_THAT(text, HasSubstr("e.g. berth logs qwen -f"));
  EXPECT_THAT(group_help(commands(), "key"), HasSubstr("berth key revoke ID"));
  EXPECT_EQ(group_help(commands(), "nothing"), "");
}

TEST(CommandHelp, ReferenceIsUpToDate) {
  std::string path = std::string(BERTH_SOURCE_DIR) + "/docs/ref/cli.md";
  if (std::getenv("BERTH_UPDATE_GOLDEN")) std::ofstream(path) << cli_reference(commands());
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  EXPECT_EQ(have.str(), cli_reference(commands())) << "run ./dev docs";
}

}  // namespace
}  // namespace berth::cli
