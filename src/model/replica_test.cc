#include "model/replica.h"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Replica, LegalTransitions) {
  using enum ReplicaState;
  EXPECT_TRUE(can_follow(submitted, pending));
  EXPECT_TRUE(can_follow(loading, ready));
  EXPECT_TRUE(can_follow(ready, unhealthy));
  EXPECT_TRUE(can_follow(ready, pending)) << "a requeued job keeps its record";
  EXPECT_FALSE(can_follow(draining, ready)) << "a draining replica never serves again";
  EXPECT_FALSE(can_follow(ended, pending));
  EXPECT_FALSE(can_follow(pending, submitted));
}

TEST(Replica, TextsRoundTrip) {
  EXPECT_EQ(parse_replica_state("draining"), ReplicaState::draining);
  EXPECT_EQ(parse_submit_state("unknown"), SubmitState::unknown);
  for (auto text : {"refused", "failed_to_load", "load_timeout", "crashed", "launch_failed",
                    "time_limit", "preempted", "node_failed", "out_of_memory", "cancelled",
                    "stopped", "completed", "unknown"})
    EXPECT_EQ(to_string(parse_end_cause(text).value()), text);
  EXPECT_EQ(parse_end_cause("x"), std::nullopt);
}

}  // namespace
}  // namespace berth
