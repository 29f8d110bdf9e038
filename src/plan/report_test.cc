#include "plan/report.h"

#include <gtest/gtest.h>

namespace berth::plan {
namespace {

TEST(Explain, ReadsLikeSentences) {
  const Instant now = from_ms(1'000'000);
  ServiceReport r;
  r.service = "alice/m";
  r.status = ServiceStatus::waiting;
  r.target = 1;
  Reason queued;
  queued.kind = ReasonKind::queued;
  queued.replica_key = "berth-1";
  queued.job_id = 42;
  queued.detail = "Resources";
  queued.since = now - seconds(185);
  queued.until = now + minutes(12);
  r.reasons = {queued};
  r.next = NextStep::wait_for_start;
  std::vector<std::string> lines = explain(r, now);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(status_line(r, now), "waiting: Resources, since 3m05s, estimated start in 12m00s");
  EXPECT_EQ(lines[0], "berth-1 (job 42): Resources, since 3m05s, estimated start in 12m00s");
  EXPECT_EQ(lines[1], "next: wait until the scheduler starts the job");
}

TEST(Explain, EveryReasonHasWordsAndEveryStepToo) {
  for (int kind = 0; kind <= static_cast<int>(ReasonKind::duplicate_job); ++kind) {
    ServiceReport r;
    Reason reason;
    reason.kind = static_cast<ReasonKind>(kind);
    reason.detail = "because";
    r.reasons = {reason};
    EXPECT_GT(explain(r, from_ms(1)).at(0).size(), 6u) << kind;
  }
  for (int step = 0; step <= static_cast<int>(NextStep::ask_a_person); ++step)
    EXPECT_FALSE(to_string(static_cast<NextStep>(step)).empty());
}

TEST(Explain, IsOneLineForEachReason) {
  ServiceReport r;
  r.status = ServiceStatus::failed;
  Reason reason;
  reason.kind = ReasonKind::gave_up;
  reason.count = 5;
  reason.detail = "the engine ended before it was ready: exit status 1\nTraceback:\n  boom";
  r.reasons = {reason};
  std::string words =
      "gave up after 5 failed starts; the last: the engine ended before it was ready: exit status "
      "1";
  EXPECT_EQ(status_line(r, from_ms(1)), "failed: " + words);
  EXPECT_EQ(explain(r, from_ms(1)).at(0), words);
}

TEST(Explain, SaysWhenTheNextAttemptIs) {
  ServiceReport r;
  r.next = NextStep::submit;
  r.next_attempt_at = from_ms(65'000);
  EXPECT_EQ(explain(r, from_ms(1000)).back(), "next: submit a job in 1m04s");
}

}  // namespace
}  // namespace berth::plan
