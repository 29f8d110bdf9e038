#include "plan/track.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "plan/plan_clock.h"

namespace berth::plan {
namespace {

ReplicaRecord running_replica() {
  ReplicaRecord r;
  r.key = "berth-1";
  r.service = "alice/m";
  r.submit = SubmitState::accepted;
  r.intended_at = at(100);
  r.submit_sent_at = r.last_seen_at = at(100);
  r.job.id = 7;
  r.state = ReplicaState::loading;
  r.state_since = at(101);
  return r;
}

Observed with_job(JobState state, Instant asked_at) {
  Observed seen;
  JobSeen job;
  job.job.key = "berth-1";
  job.job.ref.id = 7;
  job.job.state = state;
  job.asked_at = asked_at;
  seen.jobs["berth-1"] = {job};
  seen.feed.fresh_since = at(0);
  return seen;
}

TEST(Track, FollowsTheJobAndTheLease) {
  struct Row {
    JobState job;
    std::optional<LeaseState> lease;
    ReplicaState from, to;
  };
  using enum ReplicaState;
  const std::optional<LeaseState> none;
  for (const Row& row : {
           Row{JobState::pending, none, submitted, pending},
           {JobState::configuring, none, pending, pending},
           {JobState::running, none, pending, loading},
           {JobState::running, LeaseState::loading, loading, loading},
           {JobState::running, LeaseState::ready, loading, ready},
           {JobState::running, LeaseState::ready, unhealthy, ready},
           {JobState::running, LeaseState::unhealthy, ready, unhealthy},
           {JobState::running, LeaseState::draining, ready, draining},
           {JobState::running, LeaseState::ready, draining, draining},  // never serves again
           {JobState::suspended, LeaseState::ready, ready, ready},
           {JobState::unknown, LeaseState::ready, ready, ready},  // a state Berth does not know
       }) {
    ReplicaRecord r = running_replica();
    r.state = row.from;
    LeaseRecord lease;
    lease.id = "l";
    lease.registered_at = at(105);
    lease.renewed_at = at(200);
    lease.expires_at = at(300);
    if (row.lease) lease.state = *row.lease;
    Tracked t =
        track(r, row.lease ? &lease : nullptr, with_job(row.job, at(110)), Policy{}, at(201));
    EXPECT_EQ(to_string(t.record.state), to_string(row.to))
        << to_string(row.job) << " from " << to_string(row.from);
  }
}

TEST(Track, ALostLeaseIsUnhealthy) {
  ReplicaRecord r = running_replica();
  r.state = ReplicaState::ready;
  r.lease_id = "l";
  Tracked t = track(r, nullptr, with_job(JobState::running, at(110)), Policy{}, at(201));
  EXPECT_EQ(t.record.state, ReplicaState::unhealthy);
}

TEST(Track, AnAgentThatSaidGoodbyeNoLongerServes) {
  ReplicaRecord r = running_replica();
  r.state = ReplicaState::ready;
  r.agent_end = AgentEnd{at(150), EndCause::crashed, "signal 11", {}, 11};
  Tracked t = track(r, nullptr, with_job(JobState::running, at(110)), Policy{}, at(201));
  EXPECT_EQ(t.record.state, ReplicaState::draining);
}

TEST(Track, EndedIsFinal) {
  ReplicaRecord r = running_replica();
  r.state = ReplicaState::ended;
  r.ended_at = at(120);
  Tracked t = track(r, nullptr, with_job(JobState::running, at(130)), Policy{}, at(201));
  EXPECT_EQ(t.record, r);
}

// C03: with a stored record and no usable knowledge, nothing changes, ever.
RC_GTEST_PROP(Track, KnowingNothingChangesNothing, ()) {
  ReplicaRecord r = running_replica();
  r.state = static_cast<ReplicaState>(*rc::gen::inRange(0, 6));
  Observed nothing;
  Tracked t = track(r, nullptr, nothing, Policy{}, at(*rc::gen::inRange(101, 1'000'000)));
  RC_ASSERT(t.record.state == r.state);
  RC_ASSERT(!t.wants_lookup);
}

RC_GTEST_PROP(Track, StatesOnlyFollowLegally, ()) {
  ReplicaRecord r = running_replica();
  r.state = static_cast<ReplicaState>(*rc::gen::inRange(0, 7));
  if (r.state == ReplicaState::ended) r.ended_at = at(110);
  LeaseRecord lease;
  lease.id = "l";
  lease.state = static_cast<LeaseState>(*rc::gen::inRange(0, 4));
  lease.registered_at = at(*rc::gen::inRange(100, 220));
  lease.expires_at = at(*rc::gen::inRange(100, 300));
  Observed seen =
      with_job(static_cast<JobState>(*rc::gen::inRange(0, 15)), at(*rc::gen::inRange(100, 200)));
  seen.absences["berth-1"] = {*rc::gen::inRange(0, 8), at(190)};
  Tracked t = track(r, *rc::gen::inRange(0, 2) ? &lease : nullptr, seen, Policy{}, at(200));
  RC_ASSERT(can_follow(r.state, t.record.state));
  if (r.state != ReplicaState::ended && t.record.state == ReplicaState::ended) {
    RC_ASSERT(t.record.end_cause.has_value());
    RC_ASSERT(!t.notes.empty());
  }
}

}  // namespace
}  // namespace berth::plan
