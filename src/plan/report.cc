#include "plan/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::plan {
namespace {

std::string for_time(const Reason& reason, Instant now) {
  if (!reason.since || now <= *reason.since) return "";
  return ", since " + to_human(now - *reason.since);
}

std::string job(const Reason& reason) {
  std::string text;
  if (reason.job_id != 0) text += fmt::format(" (job {}", reason.job_id);
  if (!reason.node.empty()) text += fmt::format("{}on {}", text.empty() ? " (" : ", ", reason.node);
  return text.empty() ? "" : text + ")";
}

std::string start_estimate(const Reason& reason, Instant now) {
  if (!reason.until || *reason.until <= now) return "";
  return ", estimated start in " + to_human(*reason.until - now);
}

// A status is one line: what an engine last wrote stands below the first and is shown elsewhere.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The reason itself, without the replica's place.
std::string words(const Reason& reason, Instant now) {
  const std::string detail = first_line(reason.detail);
  std::string since = for_time(reason, now);
  switch (reason.kind) {
    case ReasonKind::gave_up:
      return fmt::format("gave up after {} failed start{}; the last: {}", reason.count,
                         reason.count == 1 ? "" : "s", detail);
    case ReasonKind::never_starts:
      return fmt::format("the scheduler can never start it as asked: {}{}", detail, since);
    case ReasonKind::held:
      return fmt::format("held: {}{}", detail, since);
    case ReasonKind::needs_admin:
      return fmt::format("waits for an administrator: {}{}", detail, since);
    case ReasonKind::scheduler_unreachable:
      return fmt::format("the scheduler is unreachable{}: {}", since, detail);
    case ReasonKind::submit_limit:
      return fmt::format("submit limit ({})", detail);
    case ReasonKind::submit_failed:
      return fmt::format("could not submit: {}", detail);
    case ReasonKind::submit_unknown:
      return "the reply to the submit was lost; looking for the job before trying again";
    case ReasonKind::failed_start:
      return fmt::format("the last start failed: {}", detail);
    case ReasonKind::gap_ahead:
      return fmt::format("a gap is ahead: {}", detail);
    case ReasonKind::queued:
      // Slurm's "None": it has not looked at the job yet.
      return fmt::format("{}{}{}", detail.empty() || detail == "None" ? "queued" : detail, since,
                         start_estimate(reason, now));
    case ReasonKind::submitting:
      return "being submitted";
    case ReasonKind::loading:
      return fmt::format("the engine is loading{}", since);
    case ReasonKind::unhealthy:
      return fmt::format("unhealthy: {}{}", detail, since);
    case ReasonKind::replacing:
      return fmt::format("{} older replicas serve until new ones are ready", reason.count);
    case ReasonKind::handing_over:
      return fmt::format("is handed over: {}", detail);
    case ReasonKind::draining:
      return fmt::format("going: {}{}", detail, since);
    case ReasonKind::cancel_repeated:
      return fmt::format("still there after {} cancels: {}{}", reason.count, detail, since);
    case ReasonKind::stuck_completing:
      return fmt::format("stuck in completing{}; Slurm cannot end its processes", since);
    case ReasonKind::blast_guard:
      return detail;
    case ReasonKind::tick_limit:
      return fmt::format("{} more to submit in later ticks", reason.count);
    case ReasonKind::duplicate_job:
      return fmt::format("a second job carries this replica's key: {}", detail);
  }
  return detail;
}

}  // namespace

bool at_rest(const Report& report) {
  return std::all_of(report.services.begin(), report.services.end(), [](const auto& entry) {
    const ServiceReport& service = entry.second;
    return service.next == NextStep::nothing && service.counts.living() == service.counts.ready;
  });
}

std::string_view to_string(NextStep step) {
  switch (step) {
    case NextStep::nothing:
      return "nothing to do";
    case NextStep::submit:
      return "submit a job";
    case NextStep::look_for_job:
      return "look whether the submitted job exists";
    case NextStep::wait_for_scheduler:
      return "wait until the scheduler answers";
    case NextStep::wait_for_start:
      return "wait until the scheduler starts the job";
    case NextStep::wait_for_load:
      return "wait until the engine answers";
    case NextStep::wait_for_end:
      return "wait until stopped replicas have ended";
    case NextStep::ask_a_person:
      return "somebody must act";
  }
  return "";
}

std::string status_line(const ServiceReport& report, Instant now) {
  std::string line(to_string(report.status));
  if (report.status == ServiceStatus::ready || report.status == ServiceStatus::degraded)
    line += fmt::format(": {}/{}", report.counts.ready, report.target);
  if (report.status != ServiceStatus::ready && !report.reasons.empty())
    line += (report.status == ServiceStatus::degraded ? ", " : ": ") +
            words(report.reasons.front(), now);
  return line;
}

std::vector<std::string> explain(const ServiceReport& report, Instant now) {
  std::vector<std::string> lines;
  for (const Reason& reason : report.reasons) {
    std::string where = reason.replica_key.empty() ? "" : reason.replica_key + job(reason) + ": ";
    lines.push_back(where + words(reason, now));
  }
  if (report.lead && report.handover_at) {
    std::string when =
        *report.handover_at > now ? "in " + to_human(*report.handover_at - now) : "now";
    lines.push_back(fmt::format("next handover {}, {}", when, words(*report.lead)));
  }
  std::string next(to_string(report.next));
  if (report.next_attempt_at && *report.next_attempt_at > now)
    next += " in " + to_human(*report.next_attempt_at - now);
  lines.push_back("next: " + next);
  return lines;
}

}  // namespace berth::plan
