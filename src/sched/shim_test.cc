#include "sched/shim.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "sched/job_dir.h"
#include "sched/process_tree.h"

namespace berth::sched {
namespace {

bool eventually(const std::function<bool()>& predicate) {
  auto end = std::chrono::steady_clock::now() + seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (predicate()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

class ShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/shim-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
    std::filesystem::create_directory(root_ + "/jobs");
    make_job("k");
  }
  void TearDown() override {
    for (const auto& entry : std::filesystem::directory_iterator(root_ + "/jobs")) {
      if (!entry.is_directory()) continue;
      JobDir dir(entry.path().string());
      auto shim = dir.read_shim();
      if (shim.ok() && *shim && !*dir.read_status()) kill((*shim)->pid, SIGTERM);
    }
    eventually([this] {
      for (const auto& entry : std::filesystem::directory_iterator(root_ + "/jobs"))
        if (JobDir dir(entry.path().string());
            entry.is_directory() && *dir.read_shim() && !*dir.read_status())
          return false;
      return true;
    });
    std::filesystem::remove_all(root_);
  }

  void make_job(const std::string& key) {
    dir_ = JobDir(root_ + "/jobs/" + key);
    std::filesystem::create_directory(dir_.path());
    spec_ = {};
    spec_.id = 5;
    spec_.key = key;
    spec_.log_path = root_ + "/" + key + ".log";
    spec_.work_dir = root_;
    spec_.env = {"PATH=/usr/bin:/bin", "A=1,2"};
    spec_.kill_wait = seconds(20);
  }

  // Starts the shim as a program of its own would: from a process that then ends.
  void start(const std::string& script) {
    ASSERT_TRUE(write_whole(dir_.file("script"), "#!/bin/bash\n" + script, 0700).ok());
    ASSERT_TRUE(dir_.write_spec(spec_).ok());
    EXPECT_EQ(launch(), 0);
  }
  int launch() {
    pid_t pid = fork();
    if (pid == 0) {
      for (int fd = 3; fd < 1024; ++fd) close(fd);  // as execve would: locks of this test's
      _exit(run_shim(dir_.path()));
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  }

  LocalJobStatus end() {
    EXPECT_TRUE(eventually([this] { return dir_.read_status()->has_value(); })) << log();
    return dir_.read_status()->value_or(LocalJobStatus{});
  }
  std::string log() {
    std::ifstream in(spec_.log_path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  bool wait_log(const std::string& text) {
    return eventually([&] { return log().find(text) != std::string::npos; });
  }
  void cancel(LocalJobCancel::How how) {
    ASSERT_TRUE(dir_.write_cancel({how, 1234}).ok());
    kill((*dir_.read_shim())->pid, SIGTERM);
  }

  std::string root_;
  JobDir dir_{""};
  LocalJobSpec spec_;
};

TEST_F(ShimTest, KeepsStatusAndLog) {
  start("echo out; echo err >&2; exit 3");
  LocalJobStatus status = end();
  EXPECT_EQ(status.state, JobState::failed);
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(log(), "out\nerr\n");
  EXPECT_EQ(launch(), 0);  // a second shim sees that it has ended
  EXPECT_EQ(log(), "out\nerr\n");
}

TEST_F(ShimTest, GivesExactlyTheEnvironment) {
  spec_.time_limit = hours(1);
  start("env -i /usr/bin/env true; /usr/bin/tr '\\0' '\\n' </proc/$$/environ; pwd");
  EXPECT_EQ(end().state, JobState::completed);
  std::string end_time = std::to_string(
      std::chrono::floor<seconds>((*dir_.read_start())->at + hours(1)).time_since_epoch().count());
  EXPECT_EQ(log(), "PATH=/usr/bin:/bin\nA=1,2\nBERTH_LOCAL_JOB_END=" + end_time +
                       "\nBERTH_LOCAL_JOB_ID=5\nBERTH_LOCAL_JOB=" + dir_.path() + "\n" + root_ +
                       "\n");
}

TEST_F(ShimTest, TheTimeLimitWarnsThenEndsTheJob) {
  spec_.time_limit = milliseconds(1500);
  spec_.signal_lead = milliseconds(1000);
  start(
      "trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; echo up\n"
      "while :; do read -t 0.05 <> <(:); done");
  LocalJobStatus status = end();
  EXPECT_EQ(status.state, JobState::timed_out);
  EXPECT_EQ(status.exit_code, 0);
  EXPECT_EQ(status.reason, "TimeLimit");
  EXPECT_LT(log().find("up\nusr1\n"), log().find("term\n")) << log();
  EXPECT_NE(log().find("berth shim: job 5 (k): CANCELLED DUE TO TIME LIMIT"), std::string::npos);
}

TEST_F(ShimTest, CancelSignalsEveryProcessAndWaits) {
  start(
      "trap 'echo script term' TERM\n(trap 'echo child term; exit' TERM; echo up; "
      "while :; do read -t 0.05 <> <(:); done) &\nwait; wait; exit 143");
  ASSERT_TRUE(wait_log("up\n"));
  cancel(LocalJobCancel::How::polite);
  LocalJobStatus status = end();
  EXPECT_EQ(status.state, JobState::cancelled);
  EXPECT_EQ(status.exit_code, 143);
  EXPECT_EQ(status.cancelled_by_uid, 1234u);
  EXPECT_NE(log().find("script term"), std::string::npos);
  EXPECT_NE(log().find("child term"), std::string::npos);
}

TEST_F(ShimTest, SigtermThatIsIgnoredBecomesSigkill) {
  spec_.kill_wait = milliseconds(300);
  start("trap '' TERM; echo up; while :; do sleep 0.05; done");
  ASSERT_TRUE(wait_log("up\n"));
  cancel(LocalJobCancel::How::polite);
  EXPECT_EQ(end().signal, SIGKILL);
}

TEST_F(ShimTest, KillDoesNotWait) {
  spec_.kill_wait = hours(1);
  start("trap 'echo term' TERM; echo up; while :; do sleep 0.05; done");
  ASSERT_TRUE(wait_log("up\n"));
  cancel(LocalJobCancel::How::kill);
  EXPECT_EQ(end().signal, SIGKILL);
  EXPECT_EQ(log().find("term"), std::string::npos);
}

TEST_F(ShimTest, NothingOutlivesTheJob) {
  // A double fork in a session of its own: no parent, no group, no terminal in common.
  start(
      "(setsid bash -c 'trap \"\" TERM HUP; echo $$ >daemon; exec sleep 1000' &)\n"
      "while ! [ -s daemon ]; do sleep 0.01; done; exit 0");
  EXPECT_EQ(end().state, JobState::completed);
  std::ifstream in(root_ + "/daemon");
  pid_t daemon = 0;
  ASSERT_TRUE(in >> daemon);
  EXPECT_FALSE(look_at_process(daemon));
}

TEST_F(ShimTest, WaitsForASlot) {
  auto slot = FileLock::take(root_ + "/jobs/.slot-0", FileLock::Wait::no);
  ASSERT_TRUE(slot.ok() && *slot);
  start("echo ran");
  EXPECT_FALSE(*dir_.read_start());
  slot->reset();
  EXPECT_EQ(end().state, JobState::completed);
  std::filesystem::remove(root_ + "/jobs/.slot-0");
}

TEST_F(ShimTest, CancelledWhileItWaits) {
  auto slot = FileLock::take(root_ + "/jobs/.slot-0", FileLock::Wait::no);
  start("echo ran");
  cancel(LocalJobCancel::How::polite);
  LocalJobStatus status = end();
  EXPECT_EQ(status.state, JobState::cancelled);
  EXPECT_FALSE(status.started_at);
  EXPECT_EQ(log(), "");
  std::filesystem::remove(root_ + "/jobs/.slot-0");
}

TEST_F(ShimTest, AnOutputFileThatCannotBeOpened) {  // A17: as Slurm shows it
  spec_.log_path = root_ + "/nodir/x.out";
  start("echo ran");
  LocalJobStatus status = end();
  EXPECT_EQ(status.state, JobState::failed);
  EXPECT_EQ(status.signal, 53);
  EXPECT_NE(status.reason.find(spec_.log_path), std::string::npos);
}

TEST_F(ShimTest, RefusesWhatIsNoJob) {
  EXPECT_EQ(launch(), 1);  // no spec
  dir_ = JobDir("relative");
  EXPECT_EQ(launch(), 1);
}

}  // namespace
}  // namespace berth::sched
