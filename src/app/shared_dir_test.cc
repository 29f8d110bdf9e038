#include "app/shared_dir.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "app/state_dir.h"

namespace berth::app {
namespace {

namespace fs = std::filesystem;

class SharedDir : public testing::Test {
 protected:
  SharedDir() {
    char name[] = "/tmp/shared-dir-test-XXXXXX";
    dir_ = mkdtemp(name);
  }
  ~SharedDir() override { fs::remove_all(dir_); }

  void put(const std::string& name, const std::string& text, Duration age = Duration(0)) {
    fs::create_directories(fs::path(path(name)).parent_path());
    ASSERT_TRUE(write_file(path(name), text, 0644).ok());
    int64_t at = to_ms(now_ - age) / 1000;
    timespec times[2] = {{at, 0}, {at, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path(name).c_str(), times, 0), 0);
  }
  bool has(const std::string& name) const { return fs::exists(path(name)); }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }

  SharedSweep what() const {
    SharedSweep what;
    what.now = now_;
    what.join_token = [](const std::string& key) { return "token of " + key; };
    return what;
  }

  std::string dir_;
  Instant now_ = wall_now();
};

TEST_F(SharedDir, StagesThisProgramOnceAndDoesNotReadItAgain) {
  auto first = stage_program(dir_, path("program"));
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(fs::file_size(*first), fs::file_size("/proc/self/exe"));
  // The second time the name comes from the file that remembers it: an empty reading would differ.
  std::string remembered = *read_small_file(path("program"), 4096);
  EXPECT_TRUE(remembered.ends_with(fs::path(*first).filename().string() + "\n"));
  auto second = stage_program(dir_, path("program"));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*second, *first);
  fs::remove(*first);  // somebody tidied up
  auto third = stage_program(dir_, path("program"));
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(*third, *first);
  EXPECT_TRUE(fs::exists(*third));
}

TEST_F(SharedDir, AMarkOfAnotherProgramIsNotBelieved) {
  put("program", "1 2 3 4.5 berth-stale\n");
  put("bin/berth-stale", "x");
  auto staged = stage_program(dir_, path("program"));
  ASSERT_TRUE(staged.ok());
  EXPECT_NE(*staged, path("bin/berth-stale"));
}

TEST_F(SharedDir, RemovesFoldersOfJobsThatAreOver) {
  put("jobs/berth-1/join", "token of berth-1\n");
  put("jobs/berth-1/cache/deep/file", "x");
  put("jobs/berth-2/join", "token of berth-2\n");
  put("jobs/berth-3/join", "a token of another Berth\n");
  put("jobs/notes/join", "token of notes\n");
  EXPECT_EQ(job_folders(dir_).size(), 3u);
  SharedSweep over = what();
  over.over = {"berth-1", "berth-3"};
  EXPECT_EQ(sweep(dir_, "", over).jobs, 1);
  EXPECT_FALSE(has("jobs/berth-1"));
  EXPECT_TRUE(has("jobs/berth-2/join"));
  EXPECT_TRUE(has("jobs/berth-3/join"));
}

TEST_F(SharedDir, FollowsNoLinkOutOfAJobsFolder) {
  put("precious/file", "x");
  put("jobs/berth-1/join", "token of berth-1\n");
  fs::create_directory_symlink(path("precious"), path("jobs/berth-1/link"));
  SharedSweep over = what();
  over.over = {"berth-1"};
  EXPECT_EQ(sweep(dir_, "", over).jobs, 1);
  EXPECT_TRUE(has("precious/file"));
}

TEST_F(SharedDir, KeepsProgramsThatAreNewOrThatALiveJobNames) {
  Duration old = kKeepPrograms + hours(1);
  for (const char* name : {"bin/berth-old", "bin/berth-needed", "bin/berth-current", "bin/other"})
    put(name, "x", old);
  put("bin/berth-new", "x", hours(1));
  SharedSweep s = what();
  s.needed = {"#!/bin/bash\nberth_bin=" + path("bin/berth-needed") + "\n"};
  EXPECT_EQ(sweep(dir_, path("bin/berth-current"), s).programs, 1);
  EXPECT_FALSE(has("bin/berth-old"));
  for (const char* name : {"bin/berth-needed", "bin/berth-current", "bin/other", "bin/berth-new"})
    EXPECT_TRUE(has(name)) << name;
}

TEST_F(SharedDir, RemovesOldLogsOfReplicasThatAreOver) {
  Duration old = kKeepLogs + hours(1);
  put("logs/alice/berth-1.log", "x", old);
  put("logs/alice/berth-2.log", "x", old);  // silent for long, and alive
  put("logs/alice/berth-3.log", "x", hours(1));
  put("logs/alice/notes.log", "x", old);
  SharedSweep s = what();
  s.live = {"berth-2"};
  EXPECT_EQ(sweep(dir_, "", s).logs, 1);
  EXPECT_FALSE(has("logs/alice/berth-1.log"));
  EXPECT_TRUE(has("logs/alice/berth-2.log") && has("logs/alice/berth-3.log") &&
              has("logs/alice/notes.log"));
}

TEST_F(SharedDir, AnEmptyFolderIsNothingToSweep) {
  EXPECT_TRUE(job_folders(dir_).empty());
  Swept swept = sweep(dir_, "", what());
  EXPECT_EQ(swept.jobs + swept.programs + swept.logs, 0);
}

}  // namespace
}  // namespace berth::app
