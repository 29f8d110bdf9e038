#include "plan/starts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "plan/plan_clock.h"

namespace berth::plan {
namespace {

ReplicaRecord gone(int64_t intended_s, int64_t ended_s, EndCause cause,
                   std::optional<int64_t> ready_s = std::nullopt) {
  ReplicaRecord r;
  r.key = "k" + std::to_string(intended_s);
  r.state = ReplicaState::ended;
  r.intended_at = at(intended_s);
  r.ended_at = r.state_since = at(ended_s);
  r.end_cause = cause;
  if (ready_s) r.ready_at = at(*ready_s);
  return r;
}

StartHistory history(const std::vector<ReplicaRecord>& replicas, int64_t now_s,
                     Instant resumed_at = at(0)) {
  ServiceRecord service;
  service.public_name = "alice/m";
  service.resumed_at = resumed_at;
  std::vector<const ReplicaRecord*> pointers;
  for (const ReplicaRecord& r : replicas) pointers.push_back(&r);
  return start_history(service, pointers, Policy{}, at(now_s));
}

TEST(StartHistory, CountsFailuresInARow) {
  using enum EndCause;
  struct Row {
    const char* what;
    std::vector<ReplicaRecord> replicas;
    int failures;
  };
  for (const Row& row : {
           Row{"none", {}, 0},
           {"one", {gone(10, 20, failed_to_load)}, 1},
           {"two", {gone(10, 20, failed_to_load), gone(30, 40, load_timeout)}, 2},
           {"together is once",
            {gone(10, 20, failed_to_load), gone(11, 21, failed_to_load),
             gone(12, 22, failed_to_load)},
            1},
           {"planned ends do not count", {gone(10, 20, stopped), gone(30, 40, preempted, 35)}, 0},
           {"a long readiness forgives",
            {gone(10, 20, failed_to_load), gone(30, 1000, crashed, 40)},
            1},
           {"a short readiness does not",
            {gone(10, 20, failed_to_load), gone(30, 100, crashed, 40)},
            2},
           {"somebody's cancel counts", {gone(10, 20, cancelled, 15)}, 1},
           {"ended politely before it served", {gone(10, 20, completed)}, 1},
           {"out of time before it served", {gone(10, 20, time_limit)}, 1},
           {"out of time after it served", {gone(10, 20, time_limit, 15)}, 0},
       })
    EXPECT_EQ(history(row.replicas, 1000).failures, row.failures) << row.what;
}

// A07: after a back-off, again without anybody's help; after the last attempt, until resumed.
TEST(StartHistory, BacksOffThenGivesUpUntilResumed) {
  std::vector<ReplicaRecord> replicas;
  for (int i = 0; i < 5; ++i) {
    replicas.push_back(gone(100 * i + 10, 100 * i + 20, EndCause::failed_to_load));
    StartHistory h = history(replicas, 100 * i + 21);
    Duration wait = *h.next_at - at(100 * i + 20);
    EXPECT_GE(wait, seconds(5 << i));
    EXPECT_LE(wait, Duration(seconds(5 << i)) * 5 / 4);
    EXPECT_EQ(h.gave_up, i == 4);
  }
  StartHistory resumed = history(replicas, 600, at(500));
  EXPECT_EQ(resumed.failures, 0);
  EXPECT_FALSE(resumed.gave_up);
  EXPECT_FALSE(resumed.next_at.has_value());
}

TEST(StartHistory, ALivingReplicaReadyForLongForgives) {
  std::vector<ReplicaRecord> replicas{gone(10, 20, EndCause::crashed)};
  ReplicaRecord ready;
  ready.key = "r";
  ready.state = ReplicaState::ready;
  ready.ready_at = at(30);
  replicas.push_back(ready);
  EXPECT_EQ(history(replicas, 40).failures, 1);
  EXPECT_EQ(history(replicas, 30 + 600).failures, 0);
}

TEST(StartHistory, AvoidsTheNodesOfLaunchFailures) {
  std::vector<ReplicaRecord> replicas;
  for (int i = 0; i < 5; ++i) {
    replicas.push_back(gone(100 * i + 10, 100 * i + 20, EndCause::launch_failed));
    replicas.back().node = "n" + std::to_string(i);
  }
  EXPECT_EQ(history(replicas, 1000).exclude_nodes, (std::vector<std::string>{"n4", "n3", "n2"}));
}

RC_GTEST_PROP(StartHistory, NeverMoreFailuresThanEndsAndNoFailureWithoutOne, ()) {
  auto causes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 13));
  std::vector<ReplicaRecord> replicas;
  int bad = 0;
  for (size_t i = 0; i < causes.size(); ++i) {
    auto t = static_cast<int64_t>(i);
    replicas.push_back(gone(10 * t, 10 * t + 5, static_cast<EndCause>(causes[i])));
    bad += failed_start(replicas.back());
  }
  StartHistory h = history(replicas, 100'000);
  RC_ASSERT(h.failures <= bad);
  RC_ASSERT((h.failures == 0) == (bad == 0));
  RC_ASSERT(!h.gave_up || h.failures >= 5);
}

}  // namespace
}  // namespace berth::plan
