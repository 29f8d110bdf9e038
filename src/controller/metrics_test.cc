#include "controller/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::controller {
namespace {

using ::testing::HasSubstr;

TEST(ControllerMetrics, CountsWhatWasCommittedOnce) {
  ReplicaRecord r;
  r.key = "berth-1";
  plan::Replicas before{{r.key, r}};
  plan::Changes changes;
  changes.notes = {{"alice/m", r.key, "handover", ""}, {"alice/m", r.key, "ended", ""}};
  r.state = ReplicaState::ended;
  r.end_cause = EndCause::preempted;
  changes.put_replicas = {r};
  Tally tally;
  tally.count(changes, before);
  // Its end's time is filled in later: that is no second end.
  before[r.key] = r;
  plan::Changes later;
  later.put_replicas = {r};
  tally.count(later, before);
  std::string text = metrics_text({}, tally);
  EXPECT_THAT(text, HasSubstr("berth_events_total{kind=\"handover\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("berth_events_total{kind=\"gap_ahead\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("berth_replica_ends_total{cause=\"preempted\"} 1\n"));
}

TEST(ControllerMetrics, AddsUpTheReport) {
  plan::Report report;
  report.scheduler_known = true;
  plan::ServiceReport& a = report.services["alice/a"];
  a.status = ServiceStatus::ready;
  a.counts.ready = 2;
  a.lead.emplace().total = milliseconds(90'500);
  plan::ServiceReport& b = report.services["bob/b"];
  b.status = ServiceStatus::ready;
  b.counts = {.pending = 1, .ready = 1};
  b.lead.emplace().total = seconds(30);
  std::string text = metrics_text(report, {});
  for (const char* line :
       {"berth_services{status=\"ready\"} 2\n", "berth_services{status=\"failed\"} 0\n",
        "berth_replicas{state=\"ready\"} 3\n", "berth_replicas{state=\"pending\"} 1\n",
        "berth_handover_lead_seconds_max 90.500\n", "berth_scheduler_reachable 1\n"})
    EXPECT_THAT(text, HasSubstr(line));
  report.scheduler_failing_since = from_ms(1);
  EXPECT_THAT(metrics_text(report, {}), HasSubstr("berth_scheduler_reachable 0\n"));
}

}  // namespace
}  // namespace berth::controller
