#include "controller/report_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::controller {
namespace {

using Level = sched::Finding::Level;
using testing::HasSubstr;

const Instant kReportedAt = from_ms(1'000'000'000);

TEST(ReportFindings, AGoodSiteIsOneGoodFinding) {
  plan::Report report;
  report.scheduler_known = true;
  auto findings = findings_of(report, kReportedAt);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].level, Level::ok);
}

TEST(ReportFindings, AQueueThatCannotBeReadIsAProblem) {
  plan::Report report;
  report.scheduler_failing_since = kReportedAt - seconds(30);
  report.scheduler_error = "Socket timed out";
  auto findings = findings_of(report, kReportedAt);
  EXPECT_EQ(findings[0].level, Level::problem);
  EXPECT_THAT(findings[0].detail, HasSubstr("Socket timed out"));
  EXPECT_THAT(findings[0].detail, HasSubstr("30s"));
}

TEST(ReportFindings, GuardAndStrangeJobsAreSaid) {
  plan::Report report;
  report.scheduler_known = true;
  report.guard = "12 of 12 replicas would go";
  for (int i = 0; i < 7; ++i) report.strange_keys.push_back("berth-" + std::to_string(i));
  auto findings = findings_of(report, kReportedAt);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[1].level, Level::problem);
  EXPECT_EQ(findings[1].detail, *report.guard);
  EXPECT_EQ(findings[2].level, Level::warning);
  EXPECT_THAT(findings[2].detail, HasSubstr("7 are not: berth-0, "));
  EXPECT_THAT(findings[2].detail, HasSubstr(", ..."));
}

}  // namespace
}  // namespace berth::controller
