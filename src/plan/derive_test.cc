#include "plan/derive.h"

#include <gtest/gtest.h>

namespace berth::plan {
namespace {

ReplicaRecord replica(ReplicaState state) {
  ReplicaRecord r;
  r.key = "berth-1";
  r.state = state;
  r.submit = SubmitState::accepted;
  return r;
}

struct Case {
  int target;
  std::vector<ReplicaState> states;
  bool gave_up;
  ServiceStatus status;
  NextStep next;
};

TEST(Derive, StatusFollowsFromTheReplicas) {
  using enum ReplicaState;
  for (const Case& c : {
           Case{2, {ready, ready}, false, ServiceStatus::ready, NextStep::nothing},
           {2, {ready, loading}, false, ServiceStatus::degraded, NextStep::wait_for_load},
           {2, {ready}, false, ServiceStatus::degraded, NextStep::submit},
           {1, {loading}, false, ServiceStatus::starting, NextStep::wait_for_load},
           {1, {pending}, false, ServiceStatus::waiting, NextStep::wait_for_start},
           {1, {submitted}, false, ServiceStatus::starting, NextStep::wait_for_start},
           {1, {unhealthy}, false, ServiceStatus::degraded, NextStep::nothing},
           {1, {}, false, ServiceStatus::starting, NextStep::submit},
           {1, {}, true, ServiceStatus::failed, NextStep::ask_a_person},
           {2, {ready}, true, ServiceStatus::degraded, NextStep::ask_a_person},
           {0, {}, false, ServiceStatus::stopped, NextStep::nothing},
           {0, {draining}, false, ServiceStatus::stopped, NextStep::wait_for_end},
       }) {
    ServiceRecord service;
    service.public_name = "alice/m";
    service.spec.replicas = c.target;
    std::vector<ReplicaRecord> replicas;
    for (ReplicaState s : c.states) replicas.push_back(replica(s));
    ServiceView view;
    view.service = &service;
    for (const ReplicaRecord& r : replicas) view.living.push_back(&r);
    view.missing = std::max(0, c.target - static_cast<int>(std::ssize(replicas)));
    view.history.gave_up = c.gave_up;
    view.history.failures = c.gave_up ? 5 : 0;
    Observed seen;
    seen.scheduler.complete_asked_at = from_ms(1000);
    ServiceReport r = derive(view, seen, {}, Policy{}, from_ms(2000));
    EXPECT_EQ(to_string(r.status), to_string(c.status)) << c.target << " of " << c.states.size();
    EXPECT_EQ(to_string(r.next), to_string(c.next)) << c.target << " of " << c.states.size();
    EXPECT_EQ(r.counts.living(), std::ssize(c.states));
  }
}

TEST(Derive, AGapIsAheadOnlyWhileItIs) {
  const Instant now = from_ms(1'000'000);
  ReplicaRecord old = replica(ReplicaState::ready), next = replica(ReplicaState::pending);
  old.handover_at = old.gap_told_at = now - seconds(9);
  ServiceRecord service;
  service.public_name = "alice/m";
  ServiceView view;
  view.service = &service;
  view.living = {&old};
  Observed seen;
  seen.scheduler.complete_asked_at = now;
  auto kind = [&](std::optional<Instant> ready_by, Duration gap) {
    view.successions = {{&old, &next, now + minutes(5), ready_by, gap}};
    return derive(view, seen, {}, Policy{}, now).reasons.at(0).kind;
  };
  EXPECT_EQ(kind(now + minutes(9), minutes(4)), ReasonKind::gap_ahead);
  EXPECT_EQ(kind(std::nullopt, Duration(0)), ReasonKind::gap_ahead);
  EXPECT_EQ(kind(now + minutes(2), Duration(0)), ReasonKind::handing_over);
}

TEST(Derive, TellsClientsWhenALoadShouldBeOver) {
  ServiceRecord service;
  service.public_name = "alice/m";
  ReplicaRecord r = replica(ReplicaState::loading);
  r.started_at = from_ms(0);
  ServiceView view;
  view.service = &service;
  view.living = {&r};
  Estimates estimates;
  estimates["alice/m"].load_time = minutes(4);
  EXPECT_EQ(derive(view, {}, estimates, Policy{}, from_ms(60'000)).retry_after, minutes(3));
  EXPECT_EQ(derive(view, {}, estimates, Policy{}, from_ms(600'000)).retry_after, seconds(2));
}

}  // namespace
}  // namespace berth::plan
