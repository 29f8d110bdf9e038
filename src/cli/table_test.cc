#include "cli/table.h"

#include <gtest/gtest.h>

namespace berth::cli {
namespace {

TEST(Table, WidthIsWhatTheTerminalShows) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("é"), 1);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("模型"), 4);
  EXPECT_EQ(display_width("🚢"), 2);
  EXPECT_EQ(display_width("\xFF\xFE"), 2);
  EXPECT_EQ(display_width("\xE6\xA8"), 2) << "cut in the middle";
}

TEST(Table, ColumnsAlign) {
  Table t({"NAME", "STATE", "NODE"});
  t.add({{"模型"}, {"ready", Colour::green}, {"n1"}});
  t.add({{"a"}, {"x"}, {""}});
  EXPECT_EQ(t.text(Paint::no),
            "NAME  STATE  NODE\n"
            "模型  ready  n1\n"
            "a     x\n");
  EXPECT_EQ(t.text(Paint::yes),
            "\x1b[90mNAME\x1b[0m  \x1b[90mSTATE\x1b[0m  \x1b[90mNODE\x1b[0m\n"
            "模型  \x1b[32mready\x1b[0m  n1\n"
            "a     x\n");
}

TEST(Table, HarmlessText) { EXPECT_EQ(harmless("a\x1b[31mb\r\nc\td\x7F"), "a?[31mb?\nc\td?"); }

}  // namespace
}  // namespace berth::cli
