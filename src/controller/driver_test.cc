#include "controller/driver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>

#include "store/memory_store.h"

namespace berth::controller {
namespace {

// Runs what it is given at once, in memory. Called from the pool.
class InstantScheduler : public sched::Scheduler {
 public:
  std::string name() const override { return "instant"; }
  Result<JobRef> submit(const sched::JobRequest& request) override {
    std::lock_guard lock(mutex);
    submits++;
    if (refuse) return invalid_argument("invalid partition specified: nope");
    JobObserved job;
    job.ref.id = ++last_id;
    job.ref.submit_time = wall_now();
    job.key = request.key;
    job.state = JobState::running;
    jobs[request.key] = job;
    return job.ref;
  }
  JobListing list() override {
    std::lock_guard lock(mutex);
    JobListing listing;
    lists++;
    listing.asked_at = wall_now();
    if (down) {
      listing.error = "Unable to contact slurm controller";
      return listing;
    }
    listing.quality = JobListing::Quality::complete;
    for (const auto& [key, job] : jobs) listing.jobs.push_back(job);
    return listing;
  }
  Result<std::vector<JobEnd>> ended(const std::vector<JobRef>&) override {
    return std::vector<JobEnd>{};
  }
  Result<std::vector<JobEnd>> ended_by_key(const std::vector<std::string>&) override {
    return std::vector<JobEnd>{};
  }
  Status cancel(const JobRef& job, sched::CancelMode) override {
    std::lock_guard lock(mutex);
    std::erase_if(jobs, [&](const auto& entry) { return entry.second.ref.id == job.id; });
    return {};
  }
  Status extend(const JobRef&, Instant, Instant) override { return {}; }
  Result<std::optional<sched::JobIdentity>> identify(uint64_t) override {
    return std::optional<sched::JobIdentity>{};
  }
  std::vector<sched::Finding> diagnose() override { return {}; }

  std::mutex mutex;
  std::map<std::string, JobObserved> jobs;
  uint64_t last_id = 0;
  int submits = 0;
  int lists = 0;
  bool refuse = false;
  bool down = false;
};

class DriverTest : public ::testing::Test {
 protected:
  DriverTest()
      : state_(State::load(store_).value()),
        leases_(state_, {}, "secret"),
        controller_(state_, {}, wall_now()),
        driver_({loop_, pool_, scheduler_, state_, controller_, leases_, wall_now,
                 [this](const ReplicaRecord& r, const ServiceRecord&) { return prepare(r); },
                 [this] { published_++; }},
                {milliseconds(20), milliseconds(20), milliseconds(80)}) {
    ServiceRecord service;
    service.public_name = "qwen";
    service.spec.name = "qwen";
    store::Change change;
    change.put_services.push_back(service);
    CHECK(state_.commit(change).ok());
  }
  Result<sched::JobRequest> prepare(const ReplicaRecord& replica) {
    if (unwritable_) return system_error("make folder /nodir", 13);
    sched::JobRequest request;
    request.key = replica.key;
    request.script = "#!/bin/bash\n";
    return request;
  }
  // Runs the loop until `done` holds, or ten seconds are over.
  void run_until(std::function<bool()> done) {
    bool held = loop_.run_until(wait(std::move(done)));
    ASSERT_TRUE(held) << "waited in vain";
  }
  runtime::Task<bool> wait(std::function<bool()> done) {
    for (int i = 0; i < 1000; ++i) {
      if (done()) co_return true;
      co_await runtime::sleep_for(loop_, milliseconds(10));
    }
    co_return false;
  }
  const ReplicaRecord* replica() {
    const auto& all = state_.snapshot().replicas;
    return all.empty() ? nullptr : &all.begin()->second;
  }

  runtime::Loop loop_;
  runtime::BlockingPool pool_{2};
  store::MemoryStore store_;
  InstantScheduler scheduler_;
  State state_;
  Leases leases_;
  Controller controller_;
  std::atomic<bool> unwritable_{false};
  int published_ = 0;
  Driver driver_;
};

TEST_F(DriverTest, SubmitsWhatIsDeclaredOnce) {
  driver_.start();
  run_until([&] { return replica() && replica()->state == ReplicaState::loading; });
  EXPECT_EQ(scheduler_.submits, 1);
  EXPECT_EQ(replica()->job.id, 1u);
  auto script = store_.script(replica()->key);
  EXPECT_EQ(**script, "#!/bin/bash\n") << "kept for each replica";
  loop_.run_until(driver_.stop());
}

TEST_F(DriverTest, AJobThatCannotBePreparedIsARefusal) {  // A17
  unwritable_ = true;
  driver_.start();
  run_until([&] { return replica() && replica()->submit == SubmitState::refused; });
  EXPECT_EQ(scheduler_.submits, 0);
  EXPECT_NE(replica()->submit_error.find("/nodir"), std::string::npos);
  loop_.run_until(driver_.stop());
}

TEST_F(DriverTest, NothingHappensWhileTheQueueIsUnknown) {  // C03
  scheduler_.down = true;
  driver_.start();
  run_until([&] {
    std::lock_guard lock(scheduler_.mutex);
    return scheduler_.lists >= 4;
  });
  EXPECT_EQ(scheduler_.submits, 0);
  EXPECT_TRUE(controller_.report().scheduler_failing_since.has_value());
  {
    std::lock_guard lock(scheduler_.mutex);
    scheduler_.down = false;
  }
  run_until([&] { return replica() && replica()->state == ReplicaState::loading; });
  EXPECT_FALSE(controller_.report().scheduler_failing_since.has_value());
  loop_.run_until(driver_.stop());
}

TEST(DriverLooks, GetRarerWhileTheyFail) {  // C25
  DriverSettings s;
  EXPECT_EQ(next_look(s, Pace::busy, 0, 77), seconds(2));
  EXPECT_EQ(next_look(s, Pace::rest, 0, 77), seconds(10));
  EXPECT_EQ(next_look(s, Pace::rest, 1, 0), seconds(4));  // a failure is looked into
  EXPECT_EQ(next_look(s, Pace::busy, 1, 0), seconds(4));
  EXPECT_EQ(next_look(s, Pace::busy, 4, 0), seconds(32));
  EXPECT_EQ(next_look(s, Pace::busy, 50, 0), seconds(60));
  EXPECT_LE(next_look(s, Pace::busy, 50, 255), seconds(75));
}

}  // namespace
}  // namespace berth::controller
