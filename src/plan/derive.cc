#include "plan/derive.h"

#include <algorithm>

namespace berth::plan {
namespace {

void count(const ReplicaRecord& r, Counts& counts) {
  bool leaving = r.stop && r.state == ReplicaState::ready;
  switch (leaving ? ReplicaState::draining : r.state) {
    case ReplicaState::submitted:
      ++counts.submitted;
      break;
    case ReplicaState::pending:
      ++counts.pending;
      break;
    case ReplicaState::loading:
      ++counts.loading;
      break;
    case ReplicaState::ready:
      ++counts.ready;
      break;
    case ReplicaState::unhealthy:
      ++counts.unhealthy;
      break;
    case ReplicaState::draining:
      ++counts.draining;
      break;
    case ReplicaState::ended:
      break;
  }
}

bool is_hold(const std::string& reason) {
  return reason.find("JobHeld") != std::string::npos ||
         reason.find("held state") != std::string::npos ||
         reason.find("requeued held") != std::string::npos;
}

Reason about(const ReplicaRecord& r, ReasonKind kind, std::string detail,
             std::optional<Instant> since) {
  Reason reason;
  reason.kind = kind;
  reason.replica_key = r.key;
  reason.detail = std::move(detail);
  reason.since = since;
  reason.job_id = r.job.id;
  reason.node = r.node;
  return reason;
}

Reason of_submit(const ReplicaRecord& r) {
  if (r.submit == SubmitState::unknown) return about(r, ReasonKind::submit_unknown, "", {});
  if (r.submit != SubmitState::refused) return about(r, ReasonKind::submitting, "", {});
  ReasonKind kind =
      r.refused_code == Code::exhausted ? ReasonKind::submit_limit : ReasonKind::submit_failed;
  return about(r, kind, r.submit_error, r.intended_at);
}

Reason of_pending(const ReplicaRecord& r) {
  ReasonKind kind = ReasonKind::queued;
  if (is_hold(r.reason))
    kind = ReasonKind::held;
  else if (r.pending_class == PendingClass::never)
    kind = ReasonKind::never_starts;
  else if (r.pending_class == PendingClass::needs_admin)
    kind = ReasonKind::needs_admin;
  Reason reason = about(r, kind, r.reason, r.reason_since);
  reason.until = r.estimated_start;
  return reason;
}

// nullopt: nothing to say, it serves.
std::optional<Reason> of_replica(const ReplicaRecord& r, const Policy& policy, Instant now) {
  if (r.reason == "Completing" && r.reason_since && now - *r.reason_since > policy.stuck_after)
    return about(r, ReasonKind::stuck_completing, "", r.reason_since);
  if (r.stop && r.stop->cancel_attempts > 1) {
    Reason reason = about(r, ReasonKind::cancel_repeated, r.stop->why, r.stop->decided_at);
    reason.count = r.stop->cancel_attempts;
    return reason;
  }
  if (r.stop) return about(r, ReasonKind::draining, r.stop->why, r.stop->decided_at);
  switch (r.state) {
    case ReplicaState::submitted:
      return of_submit(r);
    case ReplicaState::pending:
      return of_pending(r);
    case ReplicaState::loading:
      return about(r, ReasonKind::loading, "", r.started_at.value_or(r.state_since));
    case ReplicaState::unhealthy:
      return about(r, ReasonKind::unhealthy, "its agent is silent or says so", r.state_since);
    case ReplicaState::draining:
      return about(r, ReasonKind::draining, r.agent_end ? r.agent_end->detail : "its agent drains",
                   r.state_since);
    default:
      return std::nullopt;
  }
}

bool blocks(ReasonKind kind) {
  return kind == ReasonKind::never_starts || kind == ReasonKind::held;
}

ServiceStatus status_of(const ServiceReport& report, const ServiceView& view) {
  if (view.service->wanted != ServiceRecord::Wanted::running || report.target == 0)
    return ServiceStatus::stopped;
  const Counts& c = report.counts;
  bool blocked = std::any_of(report.reasons.begin(), report.reasons.end(),
                             [](const Reason& r) { return blocks(r.kind); });
  if (c.ready >= report.target && !blocked) return ServiceStatus::ready;
  if (c.ready > 0 || blocked) return ServiceStatus::degraded;
  if (c.loading > 0) return ServiceStatus::starting;
  if (c.unhealthy > 0) return ServiceStatus::degraded;
  bool refused = std::any_of(report.reasons.begin(), report.reasons.end(), [](const Reason& r) {
    return r.kind == ReasonKind::submit_limit || r.kind == ReasonKind::submit_failed ||
           r.kind == ReasonKind::scheduler_unreachable;
  });
  if (c.pending > 0 || refused) return ServiceStatus::waiting;
  if (view.history.gave_up && c.submitted == 0) return ServiceStatus::failed;
  return ServiceStatus::starting;
}

NextStep next_of(const ServiceReport& report, const ServiceView& view, bool usable) {
  const Counts& c = report.counts;
  for (const Reason& r : report.reasons)
    if (blocks(r.kind)) return NextStep::ask_a_person;
  if (view.missing > 0 || view.retry_at) {
    if (view.history.gave_up && !view.retry_at) return NextStep::ask_a_person;
    return usable ? NextStep::submit : NextStep::wait_for_scheduler;
  }
  for (const Reason& r : report.reasons)
    if (r.kind == ReasonKind::submit_unknown) return NextStep::look_for_job;
  if (c.loading > 0) return NextStep::wait_for_load;
  if (c.pending + c.submitted > 0) return NextStep::wait_for_start;
  return c.draining > 0 || (report.target == 0 && c.living() > 0) ? NextStep::wait_for_end
                                                                  : NextStep::nothing;
}

// When the next handover of one that serves begins, and why then.
void add_lead(ServiceReport& report, const ServiceView& view, const ServiceEstimate* estimate) {
  for (const ReplicaRecord* r : view.living) {
    if (!r->ends_at || !r->started_at || !r->ready_at || r->handover_at || r->stop) continue;
    Lead lead =
        handover_lead(estimate, view.service->spec.drain_grace, *r->ends_at - *r->started_at);
    Instant at = *r->ends_at - lead.total;
    if (report.handover_at && *report.handover_at <= at) continue;
    report.handover_at = at;
    report.lead = lead;
  }
}

Reason of_succession(const Succession& s, Instant now) {
  // Told once; it may have been closed since.
  const bool gap = s.old->gap_told_at && (s.gap.count() > 0 || !s.ready_by);
  return about(*s.old, gap ? ReasonKind::gap_ahead : ReasonKind::handing_over, words(s, now),
               s.old->handover_at);
}

// How long until a client should try again.
Duration retry_after(const ServiceReport& report, const ServiceView& view,
                     const Estimates& estimates, Instant now) {
  auto it = estimates.find(view.service->public_name);
  Duration load =
      it != estimates.end() && it->second.load_time ? *it->second.load_time : Duration(seconds(30));
  Duration wait = seconds(10);
  for (const ReplicaRecord* r : view.living)
    if (r->state == ReplicaState::loading && r->started_at)
      wait = std::max(Duration(seconds(2)), load - (now - *r->started_at));
  if (report.counts.living() == 0 && report.next_attempt_at)
    wait = std::max(Duration(seconds(2)), *report.next_attempt_at - now + load);
  if (report.status == ServiceStatus::failed || report.status == ServiceStatus::stopped)
    wait = minutes(5);
  return std::clamp(wait, Duration(seconds(2)), Duration(minutes(10)));
}

}  // namespace

ServiceReport derive(const ServiceView& view, const Observed& observed, const Estimates& estimates,
                     const Policy& policy, Instant now) {
  const ServiceRecord& service = *view.service;
  const bool usable = observed.scheduler.usable(now, policy);
  ServiceReport report;
  report.service = service.public_name;
  report.target = target_of(service);
  report.failed_starts = view.history.failures;
  report.max_start_attempts = service.spec.max_start_attempts;
  report.last_error = view.history.last_error;

  auto add = [&](ReasonKind kind, std::string detail, int n) {
    Reason reason;
    reason.kind = kind;
    reason.detail = std::move(detail);
    reason.count = n;
    report.reasons.push_back(std::move(reason));
  };
  if (view.missing > 0 && view.history.gave_up)
    add(ReasonKind::gave_up, report.last_error, view.history.failures);
  if (observed.scheduler.failing_since) {
    add(ReasonKind::scheduler_unreachable, observed.scheduler.error, 0);
    report.reasons.back().since = observed.scheduler.failing_since;
  }
  if (view.history.failures > 0 && !view.history.gave_up)
    add(ReasonKind::failed_start, report.last_error, view.history.failures);
  for (const ReplicaRecord* r : view.living) {
    count(*r, report.counts);
    if (std::optional<Reason> reason = of_replica(*r, policy, now))
      report.reasons.push_back(*std::move(reason));
  }
  for (const Succession& s : view.successions) report.reasons.push_back(of_succession(s, now));
  for (const Reason& reason : view.more) report.reasons.push_back(reason);
  if (view.older > 0) add(ReasonKind::replacing, "", view.older);
  if (view.over_tick_limit) add(ReasonKind::tick_limit, "", view.missing);
  std::stable_sort(report.reasons.begin(), report.reasons.end(),
                   [](const Reason& a, const Reason& b) { return a.kind < b.kind; });

  report.status = status_of(report, view);
  report.next = next_of(report, view, usable);
  if (report.next == NextStep::submit || report.next == NextStep::wait_for_scheduler)
    report.next_attempt_at = view.retry_at ? view.retry_at : view.history.next_at;
  report.retry_after = retry_after(report, view, estimates, now);
  auto estimate = estimates.find(service.public_name);
  add_lead(report, view, estimate == estimates.end() ? nullptr : &estimate->second);
  return report;
}

}  // namespace berth::plan
