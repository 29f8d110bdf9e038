#include "plan/estimates.h"

#include <gtest/gtest.h>

namespace berth::plan {
namespace {

TEST(Estimate, MedianOfWhatBecameReady) {
  Replicas replicas;
  for (int i = 0; i < 3; ++i) {
    ReplicaRecord r;
    r.key = "k" + std::to_string(i);
    r.service = "alice/m";
    r.submit_sent_at = from_ms(0);
    r.started_at = from_ms(1000 * (i + 1));
    r.ready_at = *r.started_at + seconds(10 * (i + 1));
    replicas[r.key] = r;
  }
  replicas["x"].service = "alice/never";
  Estimates estimates = estimate(replicas);
  EXPECT_EQ(estimates["alice/m"].queue_wait, seconds(2));
  EXPECT_EQ(estimates["alice/m"].load_time, seconds(20));
  EXPECT_FALSE(estimates.contains("alice/never"));
}

}  // namespace
}  // namespace berth::plan
