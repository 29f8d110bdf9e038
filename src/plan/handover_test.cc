#include "plan/handover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace berth::plan {
namespace {

using ::testing::HasSubstr;

ServiceEstimate measured(Duration queue, Duration load, int samples) {
  return {queue, load, queue, load, samples};
}

ServiceRecord service() {
  ServiceRecord s;
  s.public_name = "alice/m";
  s.spec.drain_grace = seconds(120);
  return s;
}

ReplicaRecord serving(const std::string& key, Instant started, Duration run) {
  ReplicaRecord r;
  r.key = key;
  r.generation = 1;
  r.state = ReplicaState::ready;
  r.submit = SubmitState::accepted;
  r.started_at = started;
  r.ready_at = started + seconds(30);
  r.ends_at = started + run;
  return r;
}

TEST(Lead, IsTheEndAndTheStartAndMoreWhereLittleIsKnown) {
  ServiceEstimate few = measured(seconds(40), seconds(60), 3);
  // 140 s of its own end, 100 s to start, doubled for three samples only, 20 s of margin.
  EXPECT_EQ(handover_lead(&few, seconds(120), hours(8)).total, seconds(140 + 200 + 20));
  ServiceEstimate many = measured(seconds(40), seconds(60), 20);
  EXPECT_EQ(handover_lead(&many, seconds(120), hours(8)).total, seconds(140 + 125 + 20));
}

TEST(Lead, IsAssumedUntilSomethingIsMeasured) {
  Lead lead = handover_lead(nullptr, seconds(120), hours(8));
  EXPECT_EQ(lead.total, seconds(140) + minutes(7) + seconds(20));
  EXPECT_EQ(lead.samples, 0);
  EXPECT_THAT(words(lead), HasSubstr("assumed"));
  // What is only assumed costs at most half of a run, what is measured nine tenths.
  EXPECT_EQ(handover_lead(nullptr, seconds(120), minutes(2)).total, minutes(1));
  ServiceEstimate slow = measured(hours(3), minutes(10), 9);
  Lead bounded = handover_lead(&slow, seconds(120), hours(1));
  EXPECT_EQ(bounded.total, minutes(54));
  EXPECT_TRUE(bounded.bounded);
}

RC_GTEST_PROP(Lead, IsBoundedAndGrowsWithWhatIsMeasured, ()) {
  auto duration = [](int64_t most) { return Duration(*rc::gen::inRange<int64_t>(0, most)); };
  Duration queue = duration(100'000'000), load = duration(10'000'000), run = duration(90'000'000);
  int samples = *rc::gen::inRange(1, 30);
  ServiceEstimate e = measured(queue, load, samples), worse = measured(queue + load, load, samples);
  Lead lead = handover_lead(&e, seconds(120), run);
  RC_ASSERT(lead.total >= Duration(0));
  RC_ASSERT(lead.total <= run);
  RC_ASSERT(lead.bounded || lead.total >= queue + load + lead.end);
  RC_ASSERT(handover_lead(&worse, seconds(120), run).total >= lead.total);
}

TEST(NearsItsEnd, OnlyOneThatHasServedAndIsToStay) {
  Instant start = from_ms(0);
  ServiceEstimate e = measured(seconds(40), seconds(60), 20);  // lead: 285 s
  ReplicaRecord r = serving("a", start, hours(1));
  EXPECT_FALSE(nears_its_end(r, service(), &e, start + hours(1) - seconds(286)));
  Instant due = start + hours(1) - seconds(285);
  EXPECT_TRUE(nears_its_end(r, service(), &e, due));
  ReplicaRecord stopped = r, never = r, unlimited = r, loads = r;
  stopped.stop = StopIntent{};
  never.ready_at.reset();
  unlimited.ends_at.reset();
  loads.state = ReplicaState::loading;
  for (const ReplicaRecord& other : {stopped, never, unlimited, loads})
    EXPECT_FALSE(nears_its_end(other, service(), &e, due));
}

class Successions : public ::testing::Test {
 protected:
  Successions() {
    old_ = serving("old", now_ - minutes(50), hours(1));  // last safe: in 7m40s
    old_.handover_at = now_;
    next_.key = "next";
    next_.generation = 1;
    next_.submit = SubmitState::accepted;
    next_.state = ReplicaState::pending;
    next_.submit_sent_at = now_;
    next_.job.id = 7;
  }
  Succession run() {
    auto all = successions(service(), {&old_, &next_}, &estimate_, now_);
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  }

  Instant now_ = from_ms(10'000'000'000);
  ServiceEstimate estimate_ = measured(seconds(30), seconds(60), 9);
  ReplicaRecord old_, next_;
};

TEST_F(Successions, InTimeByWhatIsUsual) {
  Succession s = run();
  EXPECT_EQ(s.safe_until, now_ + minutes(10) - seconds(140));
  EXPECT_EQ(s.ready_by, now_ + seconds(90));
  EXPECT_EQ(s.gap, Duration(0));
}

TEST_F(Successions, TooLateByTheSchedulersEstimate) {
  next_.estimated_start = now_ + minutes(20);
  next_.reason = "Resources";
  Succession s = run();
  EXPECT_EQ(s.ready_by, now_ + minutes(21));
  EXPECT_EQ(s.gap, minutes(21) - (minutes(10) - seconds(140)));
  std::string text = words(s, now_);
  for (const char* part : {"job 7", "Resources", "too late", "takes its last request in 7m40s"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST_F(Successions, WaitsLongerThanEverSoNobodyKnows) {
  next_.submit_sent_at = now_ - minutes(5);
  EXPECT_FALSE(run().ready_by);
}

TEST_F(Successions, OneSuccessorIsForTheSoonestEnd) {
  ReplicaRecord later = serving("later", now_ - minutes(45), hours(1));
  later.handover_at = now_;
  auto all = successions(service(), {&later, &old_, &next_}, &estimate_, now_);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].old->key, "old");
  EXPECT_EQ(all[0].next, &next_);
  EXPECT_EQ(all[1].next, nullptr);
  EXPECT_THAT(words(all[1], now_), HasSubstr("could not be submitted"));
}

}  // namespace
}  // namespace berth::plan
