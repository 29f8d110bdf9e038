#include "plan/observed.h"

#include <gtest/gtest.h>

#include "plan/plan_clock.h"

namespace berth::plan {
namespace {

ReplicaRecord accepted(const std::string& key, uint64_t id, Instant when) {
  ReplicaRecord r;
  r.key = key;
  r.submit = SubmitState::accepted;
  r.submit_sent_at = r.last_seen_at = when;
  r.intended_at = when;
  r.job.id = id;
  return r;
}

JobObserved job(const std::string& key, uint64_t id, JobState state) {
  JobObserved j;
  j.key = key;
  j.ref.id = id;
  j.state = state;
  return j;
}

JobListing listing(Instant asked, std::vector<JobObserved> jobs,
                   JobListing::Quality quality = JobListing::Quality::complete) {
  JobListing l;
  l.quality = quality;
  l.asked_at = asked;
  l.jobs = std::move(jobs);
  if (quality != JobListing::Quality::complete) l.error = "cut";
  return l;
}

struct World {
  Policy policy;
  Replicas replicas;
  Observed seen;
  World() { replicas["k"] = accepted("k", 7, at(100)); }
  void list(JobListing l) { fold_listing(seen, l, replicas, policy); }
  int polls() const {
    auto it = seen.absences.find("k");
    return it == seen.absences.end() ? 0 : it->second.polls;
  }
};

// C03: each kind of bad answer leaves what is known as it was.
TEST(FoldListing, OnlyCompleteAndLaterListingsProveAbsence) {
  World w;
  w.list(listing(at(100), {}));  // asked no later than the job was accepted
  EXPECT_EQ(w.polls(), 0);
  w.list(listing(at(101), {}, JobListing::Quality::partial));
  w.list(listing(at(102), {}, JobListing::Quality::failed));
  EXPECT_EQ(w.polls(), 0);
  EXPECT_FALSE(w.seen.scheduler.usable(at(103), w.policy));
  EXPECT_EQ(w.seen.scheduler.failing_since, at(101));
  w.list(listing(at(103), {}));
  EXPECT_EQ(w.polls(), 1);
  EXPECT_TRUE(w.seen.scheduler.usable(at(104), w.policy));
  w.list(listing(at(102), {}));  // older: arrived late
  EXPECT_EQ(w.polls(), 1);
  w.list(listing(at(105), {job("k", 7, JobState::running)}));
  EXPECT_EQ(w.polls(), 0);
}

TEST(FoldListing, PartialListingsAddButNeverTakeAway) {
  World w;
  w.list(listing(at(110), {job("k", 7, JobState::running)}));
  w.list(listing(at(111), {job("other", 8, JobState::pending)}, JobListing::Quality::partial));
  ASSERT_NE(find_job(w.seen, w.replicas["k"]), nullptr);
  EXPECT_EQ(w.seen.jobs.size(), 2u);
  w.list(listing(at(112), {}));
  EXPECT_EQ(find_job(w.seen, w.replicas["k"]), nullptr);
}

TEST(FoldListing, AnUnansweredSubmitIsMissedOnlyAfterAGrace) {
  World w;
  w.replicas["k"].submit = SubmitState::unknown;
  w.replicas["k"].last_seen_at.reset();
  w.list(listing(at(159), {}));
  EXPECT_EQ(w.polls(), 0);
  w.list(listing(at(161), {}));
  EXPECT_EQ(w.polls(), 1);
}

TEST(FindJob, AReusedIdIsNotOurs) {
  World w;
  w.list(listing(at(110), {job("somebody", 7, JobState::running)}));
  EXPECT_EQ(find_job(w.seen, w.replicas["k"]), nullptr);
  EXPECT_EQ(w.polls(), 1);
  w.list(listing(at(111), {job("k", 9, JobState::running)}));  // our key, another id
  EXPECT_EQ(find_job(w.seen, w.replicas["k"]), nullptr);
}

JobEnd end_of(const std::string& key, uint64_t id, Instant submitted) {
  JobEnd e;
  e.key = key;
  e.ref.id = id;
  e.ref.submit_time = submitted;
  e.state = JobState::completed;
  return e;
}

TEST(FindEnd, KeyIdAndSubmitTimeMustAgree) {
  World w;
  w.replicas["k"].job.submit_time = at(100);
  auto told = [&](JobEnd end) {
    Observed seen;
    fold_ends(seen, at(200), {"k"}, std::vector<JobEnd>{end}, w.replicas, w.policy);
    return find_end(seen, w.replicas["k"], w.policy) != nullptr;
  };
  EXPECT_TRUE(told(end_of("k", 7, at(100))));
  EXPECT_TRUE(told(end_of("", 7, at(100))));        // accounting without names
  EXPECT_FALSE(told(end_of("other", 7, at(300))));  // the id was reused
  EXPECT_FALSE(told(end_of("k", 8, at(100))));
  EXPECT_FALSE(told(end_of("k", 7, at(50))));  // an earlier run of a requeued job
}

TEST(FindEnd, AJobSeenAliveLaterHasNotEnded) {
  World w;
  fold_ends(w.seen, at(200), {"k"}, std::vector<JobEnd>{end_of("k", 7, at(100))}, w.replicas,
            w.policy);
  ASSERT_NE(find_end(w.seen, w.replicas["k"], w.policy), nullptr);
  w.list(listing(at(201), {job("k", 7, JobState::pending)}));
  EXPECT_EQ(find_end(w.seen, w.replicas["k"], w.policy), nullptr);
}

TEST(FoldEnds, AFailedQuestionIsCountedAndAnswersNothing) {
  World w;
  fold_ends(w.seen, at(200), {"k"}, unavailable("slurmdbd", Source::scheduler), w.replicas,
            w.policy);
  EXPECT_EQ(w.seen.lookups["k"].tries, 1);
  EXPECT_FALSE(w.seen.lookups["k"].answered_at.has_value());
}

TEST(Expired, NeverWhileHeartbeatsCouldNotArrive) {
  Policy policy;
  LeaseRecord lease;
  lease.expires_at = at(100);
  EXPECT_FALSE(expired(lease, {}, policy, at(1000)));
  EXPECT_FALSE(expired(lease, {at(990)}, policy, at(1000)));
  EXPECT_TRUE(expired(lease, {at(985)}, policy, at(1000)));
  EXPECT_FALSE(expired(lease, {at(0)}, policy, at(99)));
}

TEST(ForgetSettled, KeepsWhatIsStillAsked) {
  World w;
  w.seen.ends["k"] = {};
  w.seen.ends["gone"] = {};
  forget_settled(w.seen, w.replicas);
  EXPECT_TRUE(w.seen.ends.contains("k"));
  EXPECT_FALSE(w.seen.ends.contains("gone"));
  w.replicas["k"].state = ReplicaState::ended;
  forget_settled(w.seen, w.replicas);
  EXPECT_TRUE(w.seen.ends.contains("k"));  // its end is still provisional
  w.replicas["k"].ended_at = at(1);
  forget_settled(w.seen, w.replicas);
  EXPECT_FALSE(w.seen.ends.contains("k"));
}

}  // namespace
}  // namespace berth::plan
