#include "sched/job_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace berth::sched {
namespace {

class JobDirTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/job-dir-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    path_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::string path_;
};

TEST_F(JobDirTest, GivesBackWhatWasWritten) {
  JobDir dir(path_);
  LocalJobSpec spec;
  spec.id = 7;
  spec.key = "berth-1";
  spec.user = "alice";
  spec.uid = 7001;
  spec.account = "gaia";
  spec.submitted_at = from_ms(1796067946000);
  spec.log_path = "/tmp/a \"log\"";
  spec.work_dir = "/tmp";
  spec.env = {"A=1", "B=x\ny"};
  spec.time_limit = minutes(3);
  spec.signal_lead = seconds(30);
  spec.kill_wait = seconds(5);
  spec.max_running = 4;
  ASSERT_TRUE(dir.write_spec(spec).ok());
  EXPECT_EQ(**dir.read_spec(), spec);
  spec.time_limit.reset();
  ASSERT_TRUE(dir.write_spec(spec).ok());
  EXPECT_EQ(**dir.read_spec(), spec);

  LocalJobStatus status;
  status.state = JobState::cancelled;
  status.signal = 15;
  status.cancelled_by_uid = 0;
  status.started_at = from_ms(1);
  status.ended_at = from_ms(2);
  status.reason = "r";
  ASSERT_TRUE(dir.write_status(status).ok());
  EXPECT_EQ(**dir.read_status(), status);
  status.exit_code = 143;
  status.signal.reset();
  status.state = JobState::node_failed;
  ASSERT_TRUE(dir.write_status(status).ok());
  EXPECT_EQ(**dir.read_status(), status);

  ASSERT_TRUE(dir.write_shim({5, 99}).ok());
  EXPECT_EQ(**dir.read_shim(), (ProcessMark{5, 99}));
  ASSERT_TRUE(dir.write_start({{6, 100}, from_ms(3)}).ok());
  EXPECT_EQ(**dir.read_start(), (LocalJobStart{{6, 100}, from_ms(3)}));
  ASSERT_TRUE(dir.write_cancel({LocalJobCancel::How::kill, 7}).ok());
  EXPECT_EQ(**dir.read_cancel(), (LocalJobCancel{LocalJobCancel::How::kill, 7}));
}

TEST_F(JobDirTest, WhatIsNotThereIsNoError) {
  JobDir dir(path_);
  auto status = dir.read_status();
  ASSERT_TRUE(status.ok());
  EXPECT_FALSE(*status);
  EXPECT_FALSE(*JobDir("/nonexistent/x").read_spec());
}

TEST_F(JobDirTest, DamagedFilesAreErrorsWithTheirPath) {
  JobDir dir(path_);
  for (const char* text : {"", "{", "[]", "{\"id\": \"x\"}", "null"}) {
    std::ofstream(dir.file("spec")) << text;
    auto spec = dir.read_spec();
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_NE(spec.error().message.find(dir.file("spec")), std::string::npos);
  }
}

TEST_F(JobDirTest, FilesAreTheOwnersAlone) {
  JobDir dir(path_);
  ASSERT_TRUE(dir.write_shim({5, 99}).ok());
  struct stat info {};
  ASSERT_EQ(stat(dir.file("shim").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_FALSE(write_whole("/nonexistent/x", "", 0600).ok());
  // Nothing but the file itself is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
}

TEST_F(JobDirTest, ALockIsHeldOnce) {
  auto first = FileLock::take(path_ + "/lock", FileLock::Wait::no);
  ASSERT_TRUE(first.ok() && *first);
  auto second = FileLock::take(path_ + "/lock", FileLock::Wait::no);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(*second);
  first->reset();
  auto third = FileLock::take(path_ + "/lock", FileLock::Wait::no);
  EXPECT_TRUE(third.ok() && *third);
}

}  // namespace
}  // namespace berth::sched
