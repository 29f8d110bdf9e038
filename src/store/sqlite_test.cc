#include "store/sqlite.h"

#include <gtest/gtest.h>

namespace berth::store {
namespace {

TEST(Connection, BindsReadsAndResets) {
  auto db = Connection::open(":memory:").value();
  ASSERT_TRUE(db->run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").ok());
  const char* insert = "INSERT INTO t VALUES (?, ?)";
  std::string with_nul("x\0y", 3);
  ASSERT_TRUE(db->execute(insert, {int64_t{1}, std::string_view(with_nul)}).ok());
  ASSERT_TRUE(db->execute(insert, {int64_t{2}, nullptr}).ok());
  EXPECT_EQ(db->text("SELECT b FROM t WHERE a = ?", {int64_t{1}}).value(), with_nul);
  EXPECT_EQ(db->integer("SELECT count(*) FROM t", {}).value(), 2);
  EXPECT_EQ(db->integer("SELECT a FROM t WHERE a = 9", {}).value(), std::nullopt);
  EXPECT_EQ(db->rows("SELECT a, b FROM t ORDER BY a", {}).value(),
            (std::vector<Connection::Row>{{"1", with_nul}, {"2", ""}}));
}

TEST(Connection, FailuresSayWhatAndWhere) {
  auto db = Connection::open(":memory:").value();
  ASSERT_TRUE(db->run("CREATE TABLE t (a INTEGER PRIMARY KEY)").ok());
  const char* insert = "INSERT INTO t VALUES (?)";
  ASSERT_TRUE(db->execute(insert, {int64_t{1}}).ok());
  Status twice = db->execute(insert, {int64_t{1}});
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code, Code::conflict);
  Status wrong = db->execute("SELECT x FROM nowhere", {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("no such table: nowhere"), std::string::npos)
      << wrong.error().message;
  auto missing = Connection::open("/nonexistent/folder/berth.db");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("must belong to the user"), std::string::npos);
}

}  // namespace
}  // namespace berth::store
