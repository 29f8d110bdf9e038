#include "controller/report_findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::controller {
namespace {

using Level = sched::Finding::Level;

constexpr size_t kNamed = 5;  // keys that are spelled out

sched::Finding queue(const plan::Report& report, Instant now) {
  if (report.scheduler_failing_since)
    return {Level::problem, "the controller knows the queue",
            fmt::format("not for {}: {}; nothing is submitted or cancelled meanwhile",
                        to_human(now - *report.scheduler_failing_since), report.scheduler_error)};
  if (!report.scheduler_known)
    return {Level::warning, "the controller knows the queue", "not yet: it has just been started"};
  return {Level::ok, "the controller knows the queue",
          fmt::format("{} services are planned for", report.services.size())};
}

}  // namespace

std::vector<sched::Finding> findings_of(const plan::Report& report, Instant now) {
  std::vector<sched::Finding> findings{queue(report, now)};
  if (report.guard)
    findings.push_back({Level::problem, "the controller may do what it plans", *report.guard});
  if (!report.strange_keys.empty()) {
    size_t count = std::min(report.strange_keys.size(), kNamed);
    std::vector<std::string> named(report.strange_keys.begin(),
                                   report.strange_keys.begin() + static_cast<ptrdiff_t>(count));
    findings.push_back(
        {Level::warning, "every job named like Berth's is known",
         fmt::format("{} are not: {}{}; they belong to another Berth, or to this one before its "
                     "database was replaced. Berth leaves them alone; cancel them with scancel "
                     "--name if they are yours",
                     report.strange_keys.size(), fmt::join(named, ", "),
                     report.strange_keys.size() > count ? ", ..." : "")});
  }
  return findings;
}

}  // namespace berth::controller
