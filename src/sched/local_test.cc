#include "sched/local.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "sched/process_tree.h"
#include "sched/shim.h"

namespace berth::sched {
namespace {

// The tests' own program stands in for berth: started as "unit_tests berth-shim DIR" it is a shim.
// The C library hands a constructor main()'s arguments.
__attribute__((constructor)) void become_a_shim(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "berth-shim") == 0) _exit(run_shim(argv[2]));
}

bool wait_until(const std::function<bool()>& predicate) {
  auto end = std::chrono::steady_clock::now() + seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (predicate()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

class LocalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/local-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
    settings_.state_dir = root_;
    settings_.shim_argv = {std::filesystem::read_symlink("/proc/self/exe").string(), "berth-shim"};
    settings_.max_running = 8;
    reopen();
  }
  void TearDown() override {
    EXPECT_TRUE(wait_until([this] {
      JobListing listing = local_->list();
      for (const JobObserved& job : listing.jobs)
        EXPECT_TRUE(local_->cancel(job.ref, CancelMode::kill).ok());
      return listing.jobs.empty();
    }));
    std::filesystem::remove_all(root_);
  }
  void reopen() {
    auto opened = LocalScheduler::open(settings_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    local_ = std::move(*opened);
  }

  JobRequest request(const std::string& key, const std::string& script) {
    JobRequest r;
    r.key = key;
    r.script = "#!/bin/bash\n" + script;
    r.log_path = root_ + "/" + key + ".log";
    r.work_dir = root_;
    r.resources.account = "gaia";
    return r;
  }
  JobRef submit(const std::string& key, const std::string& script) {
    auto ref = local_->submit(request(key, script));
    EXPECT_TRUE(ref.ok()) << (ref.ok() ? "" : ref.error().message);
    return ref.ok() ? *ref : JobRef{};
  }
  std::optional<JobObserved> listed(const std::string& key) {
    JobListing listing = local_->list();
    EXPECT_EQ(listing.quality, JobListing::Quality::complete) << listing.error;
    for (const JobObserved& job : listing.jobs)
      if (job.key == key) return job;
    return std::nullopt;
  }
  bool runs(const std::string& key) {
    auto job = listed(key);
    return job && job->state == JobState::running;
  }
  JobEnd end(const JobRef& ref) {
    std::optional<JobEnd> end;
    EXPECT_TRUE(wait_until([&] {
      auto ends = local_->ended({ref});
      EXPECT_TRUE(ends.ok());
      if (ends.ok() && !ends->empty()) end = ends->at(0);
      return end.has_value();
    }));
    return end.value_or(JobEnd{});
  }

  std::string root_;
  LocalSettings settings_;
  std::unique_ptr<LocalScheduler> local_;
};

TEST_F(LocalTest, JobsOutliveTheDaemonAndAreAdopted) {
  JobRef first = submit("a", "sleep 1000");
  ASSERT_TRUE(wait_until([&] { return runs("a"); }));
  reopen();  // the daemon starts again
  EXPECT_TRUE(runs("a"));
  EXPECT_EQ(submit("a", "echo another script"), first);
  EXPECT_EQ(local_->list().jobs.size(), 1u);
  JobRef second = submit("b", "exit 3");
  EXPECT_GT(second.id, first.id);
  JobEnd ended = end(second);
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.key, "b");
  EXPECT_EQ(submit("b", "exit 3"), second);  // also once it has ended
}

TEST_F(LocalTest, OnlySoManyRunAtOnce) {
  settings_.max_running = 1;
  reopen();
  submit("a", "sleep 1000");
  ASSERT_TRUE(wait_until([&] { return runs("a"); }));
  submit("b", "sleep 1000");
  auto waiting = listed("b");
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->state, JobState::pending);
  EXPECT_EQ(waiting->reason, "Resources");
  ASSERT_TRUE(local_->cancel(listed("a")->ref, CancelMode::polite).ok());
  EXPECT_TRUE(wait_until([&] { return runs("b"); }));
}

TEST_F(LocalTest, AKilledShimIsALostNode) {
  JobRef ref = submit("a", "setsid sleep 1000 &\necho $! >child; exec sleep 1000");
  JobDir dir(root_ + "/jobs/a");
  ASSERT_TRUE(wait_until([&] { return dir.read_start()->has_value(); }));
  pid_t main = (*dir.read_start())->main.pid, child = 0;
  ASSERT_TRUE(
      wait_until([&] { return static_cast<bool>(std::ifstream(root_ + "/child") >> child); }));
  kill((*dir.read_shim())->pid, SIGKILL);
  JobEnd lost = end(ref);
  EXPECT_EQ(lost.state, JobState::node_failed);
  EXPECT_TRUE(lost.started_at);
  for (pid_t pid : {main, child})
    EXPECT_TRUE(wait_until([pid] {
      auto process = look_at_process(pid);
      return !process || process->state == 'Z';
    }));
  EXPECT_FALSE(listed("a"));
}

TEST_F(LocalTest, AJobWhoseShimNeverStartedIsStartedOnce) {
  // As a crash between writing the job and starting its shim leaves it.
  JobRequest r = request("a", "echo ran");
  settings_.shim_argv = {"/bin/true"};
  reopen();
  JobRef ref = submit("a", "echo ran");
  EXPECT_EQ(listed("a")->state, JobState::pending);
  settings_.shim_argv = {std::filesystem::read_symlink("/proc/self/exe").string(), "berth-shim"};
  reopen();
  local_->list();
  EXPECT_EQ(end(ref).state, JobState::completed);
  EXPECT_EQ(std::filesystem::file_size(r.log_path), 4u);
}

TEST_F(LocalTest, AShimThatCannotStartIsNoJob) {
  settings_.shim_argv = {"/nonexistent/berth", "shim"};
  reopen();
  auto refused = local_->submit(request("a", "true"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_TRUE(local_->list().jobs.empty());
  EXPECT_FALSE(std::filesystem::exists(root_ + "/jobs/a"));
}

TEST_F(LocalTest, ManySubmitsOfOneKeyAreOneJob) {
  std::vector<std::thread> threads;
  std::vector<uint64_t> ids(6);
  auto other = LocalScheduler::open(settings_);
  for (size_t i = 0; i < ids.size(); ++i)
    threads.emplace_back([&, i] {
      auto ref = (i % 2 ? *local_ : **other).submit(request("a", "echo ran; sleep 1000"));
      if (ref.ok()) ids[i] = ref->id;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), 1u);
  EXPECT_NE(ids[0], 0u);
  ASSERT_TRUE(wait_until([&] { return runs("a"); }));
  EXPECT_EQ(local_->list().jobs.size(), 1u);
}

TEST_F(LocalTest, DamagedFilesMakeTheListingPartial) {
  submit("a", "sleep 1000");
  std::filesystem::create_directory(root_ + "/jobs/b");
  std::ofstream(root_ + "/jobs/b/spec") << "{";
  JobListing listing = local_->list();
  EXPECT_EQ(listing.quality, JobListing::Quality::partial);
  EXPECT_EQ(listing.jobs.size(), 1u);
  EXPECT_NE(listing.error.find("/jobs/b/spec"), std::string::npos);
  std::filesystem::remove_all(root_ + "/jobs/b");
}

TEST_F(LocalTest, AJobWhoseStartCannotBeReadIsNotTakenForWaiting) {
  JobRef ref = submit("a", "sleep 1000");
  std::string start = root_ + "/jobs/a/started";
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(start); }));
  std::filesystem::rename(start, start + ".good");
  std::ofstream(start) << "{";
  JobListing listing = local_->list();
  EXPECT_EQ(listing.quality, JobListing::Quality::partial);
  EXPECT_TRUE(listing.jobs.empty());
  EXPECT_FALSE(local_->identify(ref.id).ok());
  std::filesystem::rename(start + ".good", start);
  EXPECT_EQ(local_->list().jobs.at(0).state, JobState::running);
}

TEST_F(LocalTest, WithoutItsDirectoryNothingIsKnown) {
  std::filesystem::rename(root_ + "/jobs", root_ + "/away");
  EXPECT_EQ(local_->list().quality, JobListing::Quality::failed);
  EXPECT_FALSE(local_->ended({JobRef{1, "", {}}}).ok());
  std::filesystem::rename(root_ + "/away", root_ + "/jobs");
}

TEST_F(LocalTest, IdsAreNeverGivenTwice) {
  JobRef first = submit("a", "true");
  end(first);
  std::filesystem::remove_all(root_ + "/jobs/a");
  reopen();
  EXPECT_GT(submit("a", "true").id, first.id);
  std::ofstream(root_ + "/jobs/.next-id") << "nonsense";
  EXPECT_EQ(local_->submit(request("b", "true")).error().code, Code::internal);
}

TEST_F(LocalTest, OldEndedJobsAreRemoved) {
  end(submit("a", "true"));
  settings_.keep_ended = milliseconds(0);
  reopen();
  submit("b", "true");
  EXPECT_FALSE(std::filesystem::exists(root_ + "/jobs/a"));
}

TEST_F(LocalTest, RefusesWhatItCannotRun) {
  auto code = [this](auto change) {
    JobRequest r = request("a", "true");
    change(r);
    auto ref = local_->submit(r);
    return ref.ok() ? Code::internal : ref.error().code;
  };
  EXPECT_EQ(code([](JobRequest& r) { r.key = "../x"; }), Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.key = ".lock"; }), Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.key = ""; }), Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.run_as = "somebody-else"; }), Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.log_path = "relative"; }), Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.log_path = "/nonexistent/x.log"; }),  // A17
            Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.work_dir = "/nonexistent"; }), Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.script = "echo"; }), Code::invalid_argument);
  EXPECT_EQ(code([](JobRequest& r) { r.resources.nodes = 2; }), Code::invalid_argument);
  EXPECT_TRUE(local_->list().jobs.empty());
}

TEST_F(LocalTest, SaysWhatItDoesNotEnforce) {
  auto findings = local_->diagnose();
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].level, Finding::Level::ok);
  EXPECT_EQ(findings.back().level, Finding::Level::warning);
}

}  // namespace
}  // namespace berth::sched
