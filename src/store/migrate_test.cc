#include "store/migrate.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

namespace berth::store {
namespace {

struct Fixture : testing::Test {
  std::string dir, path;
  std::unique_ptr<Connection> db;
  void SetUp() override {
    char name[] = "/tmp/berth-migrate-XXXXXX";
    dir = mkdtemp(name);
    path = dir + "/x.db";
    db = Connection::open(path).value();
  }
  void TearDown() override {
    db.reset();
    std::filesystem::remove_all(dir);
  }
  int64_t version() { return db->integer("PRAGMA user_version", {}).value().value(); }
};
using Migrate = Fixture;

const std::vector<Migration> kOne = {{1, "CREATE TABLE a (x INTEGER)"}};
const std::vector<Migration> kTwo = {{1, "CREATE TABLE a (x INTEGER)"},
                                     {2, "ALTER TABLE a ADD COLUMN y TEXT DEFAULT 'old'"}};

TEST_F(Migrate, BringsANewDatabaseUp) {
  ASSERT_TRUE(migrate(*db, path, kTwo).ok());
  EXPECT_EQ(version(), 2);
  EXPECT_FALSE(std::filesystem::exists(path + ".v0.backup"));
  EXPECT_TRUE(migrate(*db, path, kTwo).ok());
}

TEST_F(Migrate, BacksUpBeforeItChangesAnOldOne) {
  ASSERT_TRUE(migrate(*db, path, kOne).ok());
  ASSERT_TRUE(db->run("INSERT INTO a VALUES (7)").ok());
  ASSERT_TRUE(migrate(*db, path, kTwo).ok());
  EXPECT_EQ(db->text("SELECT y FROM a", {}).value(), "old");
  std::string backup = path + ".v1.backup";
  struct stat st {};
  ASSERT_EQ(stat(backup.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  auto old = Connection::open(backup).value();
  EXPECT_EQ(old->integer("SELECT x FROM a", {}).value(), 7);
  EXPECT_EQ(old->integer("PRAGMA user_version", {}).value(), 1);
}

TEST_F(Migrate, RefusesANewerSchema) {
  ASSERT_TRUE(migrate(*db, path, kTwo).ok());
  Status refused = migrate(*db, path, kOne);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::conflict);
  EXPECT_NE(refused.error().message.find("version 2"), std::string::npos);
  EXPECT_EQ(version(), 2);
}

TEST_F(Migrate, AFailedStepLeavesTheDatabaseAsItWas) {
  ASSERT_TRUE(migrate(*db, path, kOne).ok());
  std::vector<Migration> broken = {kOne[0], {2, "ALTER TABLE a ADD COLUMN z TEXT; SELEKT 1"}};
  ASSERT_FALSE(migrate(*db, path, broken).ok());
  EXPECT_EQ(version(), 1);
  EXPECT_EQ(db->integer("SELECT count(*) FROM pragma_table_info('a')", {}).value(), 1);
  ASSERT_TRUE(migrate(*db, path, kTwo).ok());
}

TEST_F(Migrate, OwnVersionsRiseByOne) {
  int expected = 0;
  for (const Migration& m : migrations()) EXPECT_EQ(m.version, ++expected);
}

}  // namespace
}  // namespace berth::store
