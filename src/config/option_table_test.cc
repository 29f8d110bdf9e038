#include "config/option_table.h"

#include <gtest/gtest.h>

#include <set>

namespace berth::config {
namespace {

TEST(OptionTable, NamesAreUniqueAndHelpIsThere) {
  std::set<std::string_view> names;
  for (const Option& o : options()) {
    EXPECT_TRUE(names.insert(o.name).second) << o.name;
    EXPECT_TRUE(o.help.ends_with('.')) << o.name;
    EXPECT_LT(o.help.size(), 260u) << o.name;
    if (o.type == OptionType::choice) {
      EXPECT_FALSE(o.choices.empty()) << o.name;
    }
  }
}

TEST(OptionTable, Find) {
  ASSERT_NE(find_option("lease.ttl"), nullptr);
  EXPECT_EQ(find_option("lease.ttl")->type, OptionType::duration);
  EXPECT_EQ(find_option("lease"), nullptr);
}

}  // namespace
}  // namespace berth::config
