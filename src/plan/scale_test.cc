#include "plan/scale.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace berth::plan {
namespace {

ReplicaRecord replica(const std::string& key, ReplicaState state, uint64_t generation = 1) {
  static int64_t clock = 0;
  ReplicaRecord r;
  r.key = key;
  r.state = state;
  r.generation = generation;
  r.intended_at = from_ms(++clock);
  return r;
}

ServiceRecord service(int replicas, uint64_t generation = 1) {
  ServiceRecord s;
  s.public_name = "alice/m";
  s.spec.replicas = replicas;
  s.generation = generation;
  return s;
}

struct Outcome {
  int start;
  std::vector<std::string> stops;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const ServiceRecord& s, const std::vector<ReplicaRecord>& living) {
  std::vector<const ReplicaRecord*> pointers;
  for (const ReplicaRecord& r : living) pointers.push_back(&r);
  Scale out = scale(s, pointers, Policy{});
  Outcome o{out.start, {}};
  for (const StopChoice& c : out.stops) o.stops.push_back(c.replica->key);
  return o;
}

using enum ReplicaState;

TEST(Scale, StartsWhatIsMissingAndCountsWhatQueues) {
  EXPECT_EQ(run(service(3), {}), (Outcome{3, {}}));
  // A25: queued replicas are capacity.
  EXPECT_EQ(run(service(3), {replica("a", pending), replica("b", submitted)}), (Outcome{1, {}}));
  EXPECT_EQ(run(service(1), {replica("a", unhealthy)}), (Outcome{0, {}}));
}

TEST(Scale, StopsQueuedOnesFirstNewestFirst) {
  std::vector<ReplicaRecord> living{replica("old", ready), replica("q1", pending),
                                    replica("new", ready), replica("q2", pending),
                                    replica("load", loading)};
  EXPECT_EQ(run(service(4), living), (Outcome{0, {"q2"}}));
  EXPECT_EQ(run(service(1), living), (Outcome{0, {"q2", "q1", "load", "new"}}));
}

TEST(Scale, StoppedAndRemovedStopEverything) {
  ServiceRecord s = service(2);
  s.wanted = ServiceRecord::Wanted::stopped;
  EXPECT_EQ(run(s, {replica("a", ready), replica("b", pending)}), (Outcome{0, {"a", "b"}}));
  s.wanted = ServiceRecord::Wanted::removed;
  EXPECT_EQ(run(s, {replica("a", ready)}), (Outcome{0, {"a"}}));
  EXPECT_EQ(run(service(0), {replica("a", ready)}), (Outcome{0, {"a"}}));
}

TEST(Scale, ReplacesAnOlderGenerationWithoutAGap) {
  ServiceRecord s = service(1, 2);
  // The new one first, beside the old one.
  EXPECT_EQ(run(s, {replica("old", ready, 1)}), (Outcome{1, {}}));
  EXPECT_EQ(run(s, {replica("old", ready, 1), replica("new", loading, 2)}), (Outcome{0, {}}));
  // The old one once the new one serves.
  EXPECT_EQ(run(s, {replica("old", ready, 1), replica("new", ready, 2)}), (Outcome{0, {"old"}}));
  // One that does not serve is worth nothing.
  EXPECT_EQ(run(s, {replica("old", pending, 1)}), (Outcome{1, {"old"}}));
}

TEST(Scale, ARestartReplacesLikeAGeneration) {
  ServiceRecord s = service(1);
  s.restart_nonce = 1;
  EXPECT_EQ(run(s, {replica("old", ready)}), (Outcome{1, {}}));
}

TEST(Scale, ReplacesSeveralOneByOne) {
  ServiceRecord s = service(3, 2);
  std::vector<ReplicaRecord> living{replica("a", ready, 1), replica("b", ready, 1),
                                    replica("c", ready, 1)};
  EXPECT_EQ(run(s, living), (Outcome{1, {}}));
  living.push_back(replica("n1", ready, 2));
  EXPECT_EQ(run(s, living), (Outcome{0, {"c"}}));
  living[2].stop = StopIntent{};
  living[2].state = draining;
  EXPECT_EQ(run(s, living), (Outcome{0, {}}));  // until it has ended, there is no room
  living.erase(living.begin() + 2);
  EXPECT_EQ(run(s, living), (Outcome{1, {}}));
}

TEST(Scale, FewerReplicasAndANewGenerationAtOnceDoNotLock) {
  ServiceRecord s = service(1, 2);
  std::vector<ReplicaRecord> living{replica("a", ready, 1), replica("b", ready, 1),
                                    replica("c", ready, 1)};
  EXPECT_EQ(run(s, living), (Outcome{0, {"c", "b"}}));
}

TEST(Scale, HandsOverInAdditionToTheSurge) {
  ServiceRecord s = service(2);
  ReplicaRecord a = replica("a", ready), b = replica("b", ready);
  a.handover_at = b.handover_at = from_ms(1);
  a.ends_at = from_ms(2000);
  b.ends_at = from_ms(1000);
  // Their jobs end in any case: both successors at once.
  EXPECT_EQ(run(s, {a, b}), (Outcome{2, {}}));
  EXPECT_EQ(run(s, {a, b, replica("c", pending), replica("d", loading)}), (Outcome{0, {}}));
  // The one whose time is up first goes first.
  EXPECT_EQ(run(s, {a, b, replica("c", ready), replica("d", loading)}), (Outcome{0, {"b"}}));
  EXPECT_EQ(run(s, {a, b, replica("c", ready), replica("d", ready)}), (Outcome{0, {"b", "a"}}));
  EXPECT_EQ(run(service(1), {a, b, replica("c", ready)}), (Outcome{0, {"b", "a"}}));
}

TEST(Scale, OneThatIsHandedOverMayRecoverWhileItIsNeeded) {
  ReplicaRecord a = replica("a", unhealthy);
  a.handover_at = from_ms(1);
  EXPECT_EQ(run(service(1), {a, replica("b", pending)}), (Outcome{0, {}}));
  EXPECT_EQ(run(service(1), {a, replica("b", ready)}), (Outcome{0, {"a"}}));
}

// A model of the world in which what is started becomes ready and what is stopped ends.
RC_GTEST_PROP(Scale, ComesToItsTargetWithinTheSurgeAndWithoutAGap, ()) {
  const int before = *rc::gen::inRange(0, 6), target = *rc::gen::inRange(0, 6);
  ServiceRecord s = service(target, 2);
  std::vector<ReplicaRecord> living;
  for (int i = 0; i < before; ++i) living.push_back(replica("o" + std::to_string(i), ready, 1));
  const int bound = std::max(before, target + 1), serving_bound = std::min(before, target);
  int named = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<const ReplicaRecord*> pointers;
    for (const ReplicaRecord& r : living) pointers.push_back(&r);
    Scale out = scale(s, pointers, Policy{});
    std::vector<std::string> stops;
    for (const StopChoice& c : out.stops) stops.push_back(c.replica->key);
    for (ReplicaRecord& r : living)
      if (r.state == loading) r.state = ready;
    std::erase_if(living, [](const ReplicaRecord& r) { return r.stop.has_value(); });
    for (ReplicaRecord& r : living)
      if (std::find(stops.begin(), stops.end(), r.key) != stops.end()) {
        r.stop = StopIntent{};
        r.state = draining;
      }
    for (int i = 0; i < out.start; ++i)
      living.push_back(replica("n" + std::to_string(named++), loading, 2));
    int serving = 0;
    for (const ReplicaRecord& r : living) serving += r.state == ready;
    RC_ASSERT(std::ssize(living) <= bound);
    RC_ASSERT(serving >= serving_bound);
  }
  RC_ASSERT(std::ssize(living) == target);
  for (const ReplicaRecord& r : living) RC_ASSERT(r.generation == 2u);
  RC_ASSERT(named == target);
}

}  // namespace
}  // namespace berth::plan
