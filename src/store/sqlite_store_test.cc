#include "store/sqlite_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/id.h"

namespace berth::store {
namespace {

struct TempDir {
  std::string path;
  TempDir() {
    char name[] = "/tmp/berth-store-XXXXXX";
    path = mkdtemp(name);
  }
  ~TempDir() { std::filesystem::remove_all(path); }
  std::string state() const { return path + "/state"; }
};

ReplicaRecord replica(int64_t n) {
  ReplicaRecord r;
  r.key = "berth-" + std::to_string(n);
  r.service = "alice/m";
  r.intended_at = from_ms(n);
  r.submit_attempts = static_cast<int>(n);
  return r;
}

Change put(int64_t n) {
  Change change;
  change.put_replicas = {replica(n)};
  change.put_scripts["berth-" + std::to_string(n)] = "#!/bin/sh\n# " + std::to_string(n);
  EventRecord event;
  event.text = std::to_string(n);
  change.events = {event};
  return change;
}

TEST(SqliteStore, FilesArePrivate) {
  TempDir tmp;
  auto store = SqliteStore::open(tmp.state());
  ASSERT_TRUE(store.ok()) << store.error().message;
  ASSERT_TRUE((*store)->commit(put(1)).ok());
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tmp.state())) {
    struct stat st {};
    ASSERT_EQ(stat(entry.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 4);  // database, its log and index, the lock
}

TEST(SqliteStore, ASecondProcessIsRefused) {
  TempDir tmp;
  auto first = SqliteStore::open(tmp.state());
  ASSERT_TRUE(first.ok());
  auto second = SqliteStore::open(tmp.state());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::conflict);
  EXPECT_NE(second.error().message.find(std::to_string(getpid())), std::string::npos);
}

TEST(SqliteStore, ADamagedFileIsExplained) {
  TempDir tmp;
  {
    auto store = SqliteStore::open(tmp.state());
    ASSERT_TRUE(store.ok());
  }
  std::ofstream(tmp.state() + "/berth.db") << std::string(8192, 'x');
  auto store = SqliteStore::open(tmp.state());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("damaged"), std::string::npos) << store.error().message;
  EXPECT_NE(store.error().message.find("backup"), std::string::npos);
}

TEST(SqliteStore, ANewerSchemaIsRefused) {
  TempDir tmp;
  { ASSERT_TRUE(SqliteStore::open(tmp.state()).ok()); }
  {
    auto db = Connection::open(tmp.state() + "/berth.db").value();
    ASSERT_TRUE(db->run("PRAGMA user_version = 999").ok());
  }
  auto store = SqliteStore::open(tmp.state());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("newer Berth"), std::string::npos);
}

// Commits until it is killed, and says after each what it has committed.
[[noreturn]] void commit_for_ever(const std::string& dir, int pipe) {
  auto store = SqliteStore::open(dir);
  if (!store.ok()) _exit(3);
  auto stored = (*store)->history("alice/m", 1);
  if (!stored.ok()) _exit(4);
  int64_t n = stored->empty() ? 0 : stored->front().submit_attempts;
  while (true) {
    ++n;
    if (!(*store)->commit(put(n)).ok()) _exit(5);
    if (write(pipe, &n, sizeof n) != sizeof n) _exit(6);
  }
}

// kill -9 at any point loses no acknowledged commit, and never half of one.
TEST(SqliteStore, KillNineLosesNothingAcknowledged) {
  TempDir tmp;
  constexpr int kRounds = 25;
  int64_t acknowledged = 0;
  for (int round = 0; round < kRounds; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      commit_for_ever(tmp.state(), ends[1]);
    }
    close(ends[1]);
    // Killed at a random moment after a random number of acknowledgements.
    int64_t wanted =
        acknowledged + 1 + static_cast<int64_t>(hash64("n" + std::to_string(round)) % 8);
    int64_t n = 0;
    while (acknowledged < wanted && read(ends[0], &n, sizeof n) == sizeof n) acknowledged = n;
    usleep(static_cast<useconds_t>(hash64("t" + std::to_string(round)) % 3000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    while (read(ends[0], &n, sizeof n) == sizeof n) acknowledged = n;
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    auto store = SqliteStore::open(tmp.state());
    ASSERT_TRUE(store.ok()) << store.error().message;
    auto newest = (*store)->history("alice/m", 1);
    ASSERT_TRUE(newest.ok());
    ASSERT_FALSE(newest->empty());
    int64_t stored = newest->front().submit_attempts;
    ASSERT_GE(stored, acknowledged) << "round " << round;
    ASSERT_LE(stored, acknowledged + 1);  // one may have been committed and not yet said
    // Whole: the record, its script and its event came together.
    EXPECT_TRUE((*store)->script(newest->front().key)->has_value());
    EXPECT_EQ((*store)->events("", 1)->front().text, std::to_string(stored));
    EXPECT_EQ((*store)->load()->replicas.size(), static_cast<size_t>(stored));
  }
  EXPECT_GT(acknowledged, kRounds);
}

}  // namespace
}  // namespace berth::store
