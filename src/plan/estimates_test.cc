#include "plan/estimates.h"

#include <gtest/gtest.h>

namespace berth::plan {
namespace {

struct Past {
  Services services;
  Replicas replicas;

  ServiceRecord& service(const std::string& name, const std::string& partition) {
    ServiceRecord& s = services[name];
    s.public_name = name;
    s.spec.resources.partition = partition;
    return s;
  }
  void start(const std::string& service, const std::string& partition, Duration queue,
             Duration load) {
    ReplicaRecord r;
    r.key = "k" + std::to_string(replicas.size());
    r.service = service;
    r.partition = partition;
    r.submit_sent_at = from_ms(static_cast<int64_t>(replicas.size()) * 3'600'000);
    r.started_at = *r.submit_sent_at + queue;
    r.ready_at = *r.started_at + load;
    replicas[r.key] = r;
  }
  ServiceEstimate of(const std::string& name) {
    Estimates all = estimate(services, replicas);
    return all.contains(name) ? all[name] : ServiceEstimate{};
  }
};

TEST(Estimate, MedianAndHighValueOfWhatBecameReady) {
  Past past;
  past.service("alice/m", "h100");
  past.service("alice/never", "a40");
  for (int i = 1; i <= 10; ++i) past.start("alice/m", "h100", seconds(i), seconds(10 * i));
  past.replicas["x"].service = "alice/never";
  ServiceEstimate e = past.of("alice/m");
  EXPECT_EQ(e.samples, 10);
  EXPECT_EQ(e.queue_wait, seconds(5));
  EXPECT_EQ(e.load_time, seconds(50));
  EXPECT_EQ(e.queue_high, seconds(9));
  EXPECT_EQ(e.load_high, seconds(90));
  EXPECT_FALSE(estimate(past.services, past.replicas).contains("alice/never"));
}

TEST(Estimate, TheHighestOfFewAndTheNewestOfMany) {
  Past past;
  past.service("alice/m", "h100");
  past.start("alice/m", "h100", hours(9), hours(1));
  past.start("alice/m", "h100", seconds(1), seconds(3));
  EXPECT_EQ(past.of("alice/m").queue_high, hours(9));
  for (int i = 0; i < 20; ++i) past.start("alice/m", "h100", seconds(2), seconds(3));
  EXPECT_EQ(past.of("alice/m").queue_high, seconds(2));
  EXPECT_EQ(past.of("alice/m").samples, 20);
}

TEST(Estimate, OfThePartitionThatIsAskedForNow) {
  Past past;
  past.service("alice/m", "h100");
  past.start("alice/m", "h100", hours(2), minutes(1));
  past.service("alice/m", "a40");
  past.service("bob/m", "a40");
  past.start("bob/m", "a40", seconds(7), minutes(9));
  ServiceEstimate moved = past.of("alice/m");
  EXPECT_EQ(moved.samples, 0);
  EXPECT_EQ(moved.queue_high, seconds(7));  // others' queue there
  EXPECT_FALSE(moved.load_high);            // not others' loads
}

TEST(Estimate, ARequeuedRunSaysNothingOfTheQueue) {
  Past past;
  past.service("alice/m", "h100");
  past.start("alice/m", "h100", hours(2), minutes(1));
  past.replicas["k0"].restarts = 1;
  EXPECT_EQ(past.of("alice/m").samples, 0);
}

}  // namespace
}  // namespace berth::plan
