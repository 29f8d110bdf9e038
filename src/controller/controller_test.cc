#include "controller/controller.h"

#include <gtest/gtest.h>

#include "store/memory_store.h"

namespace berth::controller {
namespace {

struct Fixture {
  Instant now = from_ms(1'000'000);
  store::MemoryStore store;
  State state = State::load(store).value();
  Controller controller{state, plan::Policy{}, now};
  LoadTable loads;

  Fixture() {
    ServiceRecord s;
    s.public_name = "alice/m";
    s.owner = "alice";
    s.project = "gaia";
    store::Change change;
    change.put_services = {s};
    EXPECT_TRUE(state.commit(change).ok());
  }

  Controller::Step step() {
    now += seconds(1);
    return controller.step(now);
  }
  void list(std::vector<JobObserved> jobs) {
    JobListing l;
    l.quality = JobListing::Quality::complete;
    l.asked_at = now;
    l.jobs = std::move(jobs);
    controller.on_listing(l);
  }
  JobObserved running(const std::string& key, uint64_t id) {
    JobObserved j;
    j.key = key;
    j.ref.id = id;
    j.state = JobState::running;
    return j;
  }
  void lease(const std::string& key, LeaseState lease_state) {
    LeaseRecord l;
    l.id = "l1";
    l.public_name = "alice/m";
    l.replica_key = key;
    l.address = "127.0.0.1:9";
    l.state = lease_state;
    l.registered_at = l.renewed_at = now;
    l.expires_at = now + seconds(10);
    l.context_length = 4096;
    store::Change change;
    change.put_leases = {l};
    ASSERT_TRUE(state.commit(change).ok());
  }
  // A replica in service; its key.
  std::string bring_up() {
    list({});
    Controller::Step s = step();
    EXPECT_EQ(s.effects.submits.size(), 1u);
    std::string key = s.effects.submits.at(0).key;
    controller.on_submit_outcome(key, JobRef{7, "", std::nullopt}, now, "#!/bin/sh\n");
    step();
    list({running(key, 7)});
    lease(key, LeaseState::ready);
    step();
    return key;
  }
};

TEST(Controller, CommitsTheIntentBeforeItHandsOutTheEffect) {
  Fixture f;
  f.list({});
  f.store.fail_next(2, unavailable("disk full", Source::system));
  for (int i = 0; i < 2; ++i) {
    Controller::Step failed = f.step();
    EXPECT_FALSE(failed.committed.ok());
    EXPECT_TRUE(failed.effects.submits.empty());
    EXPECT_TRUE(f.state.snapshot().replicas.empty());
  }
  Controller::Step s = f.step();
  ASSERT_TRUE(s.committed.ok());
  ASSERT_EQ(s.effects.submits.size(), 1u);
  EXPECT_TRUE(f.store.load()->replicas.contains(s.effects.submits[0].key));
}

TEST(Controller, AnOutcomeIsNotLostWhenItsCommitFails) {
  Fixture f;
  f.list({});
  std::string key = f.step().effects.submits.at(0).key;
  f.controller.on_submit_outcome(key, JobRef{7, "", std::nullopt}, f.now);
  f.store.fail_next(1, unavailable("disk full", Source::system));
  EXPECT_FALSE(f.step().committed.ok());
  EXPECT_TRUE(f.step().committed.ok());
  EXPECT_EQ(f.state.replica(key)->job.id, 7u);
}

TEST(Controller, KeepsTheScript) {
  Fixture f;
  std::string key = f.bring_up();
  EXPECT_EQ(f.store.script(key).value(), "#!/bin/sh\n");
}

TEST(Controller, RoutesToWhatServes) {
  Fixture f;
  std::string key = f.bring_up();
  auto targets = [&] { return f.controller.routes(f.loads, f.now).at(0).targets.size(); };
  route::Route route = f.controller.routes(f.loads, f.now).at(0);
  EXPECT_EQ(route.public_name, "alice/m");
  EXPECT_EQ(route.project, "gaia");
  EXPECT_EQ(route.status, ServiceStatus::ready);
  EXPECT_EQ(route.status_text, "ready: 1/1");
  EXPECT_EQ(route.context_length, 4096);
  EXPECT_EQ(targets(), 1u);
  f.lease(key, LeaseState::draining);
  EXPECT_EQ(targets(), 0u);
  f.lease(key, LeaseState::ready);
  EXPECT_EQ(targets(), 1u);
  ServiceRecord s = *f.state.service("alice/m");
  s.wanted = ServiceRecord::Wanted::stopped;
  store::Change change;
  change.put_services = {s};
  ASSERT_TRUE(f.state.commit(change).ok());
  Controller::Step stopped = f.step();
  EXPECT_EQ(stopped.effects.drains.size(), 1u);
  EXPECT_EQ(targets(), 0u);
  EXPECT_TRUE(stopped.publish);
}

TEST(Controller, AStalledProcessExpiresNobody) {
  Fixture f;
  f.bring_up();
  f.now += minutes(10);  // stopped, or a suspended machine
  EXPECT_FALSE(f.controller.may_expire(f.now));
  f.step();
  EXPECT_FALSE(f.controller.may_expire(f.now));
  EXPECT_EQ(f.controller.routes(f.loads, f.now).at(0).targets.size(), 1u);
  for (int i = 0; i < 14; ++i) f.step();
  EXPECT_EQ(f.controller.routes(f.loads, f.now).at(0).targets.size(), 1u);
  for (int i = 0; i < 3; ++i) f.step();
  EXPECT_TRUE(f.controller.may_expire(f.now));  // now an agent that is alive would have been heard
  EXPECT_EQ(f.controller.routes(f.loads, f.now).at(0).targets.size(), 0u);
}

TEST(Controller, NothingIsPublishedWhenNothingChanged) {
  Fixture f;
  f.bring_up();
  f.step();
  EXPECT_FALSE(f.step().publish);
}

// C25: however often one steps, submits are paced.
TEST(Controller, SubmitsArePacedByTheSecond) {
  Fixture f;
  ServiceRecord s = *f.state.service("alice/m");
  s.spec.replicas = 20;
  store::Change change;
  change.put_services = {s};
  ASSERT_TRUE(f.state.commit(change).ok());
  f.list({});
  size_t in_second = f.step().effects.submits.size();
  for (int i = 0; i < 9; ++i) {
    f.now += milliseconds(100);
    in_second += f.controller.step(f.now).effects.submits.size();
  }
  EXPECT_EQ(in_second, 5u);
  EXPECT_EQ(f.step().effects.submits.size(), 5u);
}

TEST(Controller, ALookupIsAskedOnceAtATime) {
  Fixture f;
  f.list({});
  std::string key = f.step().effects.submits.at(0).key;
  f.controller.on_submit_outcome(key, JobRef{7, "", std::nullopt}, f.now);
  f.step();
  f.list({});
  plan::LookUpEffect asked = f.step().effects.lookup;
  ASSERT_EQ(asked.jobs.size(), 1u);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(f.step().effects.lookup.empty());
  f.controller.on_ends(asked, f.now, unavailable("slurmdbd", Source::scheduler));
  size_t again = 0;
  for (int i = 0; i < 4; ++i) again += f.step().effects.lookup.jobs.size();
  EXPECT_EQ(again, 1u);
}

}  // namespace
}  // namespace berth::controller
