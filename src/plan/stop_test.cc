#include "plan/stop.h"

#include <gtest/gtest.h>

#include "plan/plan_clock.h"

namespace berth::plan {
namespace {

struct Fixture {
  Policy policy;
  Observed seen;
  ReplicaRecord r;
  LeaseRecord lease;

  Fixture() {
    r.key = "berth-1";
    r.submit = SubmitState::accepted;
    r.job.id = 7;
    r.last_seen_at = at(100);
    r.state = ReplicaState::ready;
    r.stop = StopIntent{at(200), "scaled down to 0"};
    lease.state = LeaseState::ready;
    lease.expires_at = at(10'000);
    seen.feed.fresh_since = at(0);
    show(JobState::running, at(200));
  }
  void show(JobState state, Instant asked_at) {
    JobSeen job;
    job.job.key = "berth-1";
    job.job.ref.id = 7;
    job.job.state = state;
    job.asked_at = asked_at;
    seen.jobs["berth-1"] = {job};
    seen.scheduler.complete_asked_at = asked_at;
  }
  StopStep step(Instant now, const LeaseRecord* l) {
    return next_stop_step(r, l, seconds(30), seen, policy, now);
  }
};

TEST(NextStopStep, DrainsFirstThenCancels) {
  Fixture f;
  EXPECT_EQ(f.step(at(201), &f.lease), StopStep::drain);
  f.r.stop->drain_asked_at = at(201);
  EXPECT_EQ(f.step(at(240), &f.lease), StopStep::nothing);
  f.show(JobState::running, at(245));
  EXPECT_EQ(f.step(at(247), &f.lease), StopStep::cancel);
  EXPECT_EQ(f.step(at(256), &f.lease), StopStep::nothing);  // seen too long ago
  f.show(JobState::running, at(205));
  EXPECT_EQ(f.step(at(210), nullptr), StopStep::cancel);  // its agent is gone already
}

TEST(NextStopStep, AnAgentOnItsWayOutIsGivenAMoment) {
  Fixture f;
  f.r.agent_end = AgentEnd{at(205), EndCause::completed, "", {}, {}};
  EXPECT_EQ(f.step(at(210), nullptr), StopStep::nothing);
  f.show(JobState::running, at(220));
  EXPECT_EQ(f.step(at(221), nullptr), StopStep::cancel);
}

TEST(NextStopStep, NothingWithoutGoodKnowledge) {
  Fixture f;
  f.seen.scheduler.failing_since = at(200);
  EXPECT_EQ(f.step(at(201), nullptr), StopStep::nothing);
  f.seen.scheduler.failing_since.reset();
  EXPECT_EQ(f.step(at(300), nullptr), StopStep::nothing);  // the listing is old
  f.show(JobState::completing, at(300));
  EXPECT_EQ(f.step(at(301), nullptr), StopStep::nothing);
  f.seen.jobs.clear();  // not ours any more
  EXPECT_EQ(f.step(at(301), nullptr), StopStep::nothing);
}

TEST(NextStopStep, AJobTooYoungToBeListedIsCancelled) {
  Fixture f;
  f.seen.jobs.clear();
  f.r.last_seen_at = at(200);
  EXPECT_EQ(f.step(at(201), nullptr), StopStep::cancel);
}

TEST(NextStopStep, RepeatsAndEscalates) {
  Fixture f;
  f.r.stop->cancel_attempts = 1;
  f.r.stop->cancel_sent_at = at(200);
  f.show(JobState::running, at(215));
  EXPECT_EQ(f.step(at(215), nullptr), StopStep::nothing);
  f.show(JobState::running, at(226));
  EXPECT_EQ(f.step(at(226), nullptr), StopStep::cancel);
  f.seen.cancels_in_flight.insert("berth-1");
  EXPECT_EQ(f.step(at(226), nullptr), StopStep::nothing);
  f.seen.cancels_in_flight.clear();
  f.r.stop->cancel_attempts = 3;
  f.show(JobState::running, at(400));
  EXPECT_EQ(f.step(at(400), nullptr), StopStep::kill);
}

TEST(Overdue, KnowsWhatItHasWaitedForLongEnough) {
  ServiceRecord service;
  service.spec.load_timeout = minutes(30);
  Fixture f;
  f.r.stop.reset();
  auto cause = [&](Instant now, const LeaseRecord* l) {
    f.show(f.seen.jobs["berth-1"][0].job.state, now);
    auto intent = overdue(f.r, l, &service, f.seen, f.policy, now);
    return intent ? std::optional(intent->cause) : std::nullopt;
  };
  EXPECT_EQ(cause(at(1000), &f.lease), std::nullopt);
  // A05: Berth waits longer than the agent does, so that the agent can say load_timeout itself.
  f.r.state = ReplicaState::loading;
  f.r.started_at = at(1000);
  EXPECT_EQ(cause(at(1000 + 2399), nullptr), std::nullopt);
  EXPECT_EQ(cause(at(1000 + 2401), &f.lease), std::nullopt);
  EXPECT_EQ(cause(at(1000 + 2401), nullptr), EndCause::load_timeout);
  f.r.state = ReplicaState::unhealthy;
  f.r.state_since = at(1000);
  EXPECT_EQ(cause(at(1299), nullptr), std::nullopt);
  EXPECT_EQ(cause(at(1301), nullptr), EndCause::crashed);
  EXPECT_EQ(cause(at(1301), &f.lease), std::nullopt);
  EXPECT_EQ(cause(at(1901), &f.lease), EndCause::crashed);
  f.seen.feed.fresh_since = at(1295);
  EXPECT_EQ(cause(at(1301), nullptr), std::nullopt);
}

}  // namespace
}  // namespace berth::plan
