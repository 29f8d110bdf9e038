#include "plan/stop.h"

#include <fmt/format.h>

#include "plan/backoff.h"

namespace berth::plan {
namespace {

constexpr std::string_view kLaunchHeld = "launch failed requeued held";

bool heard(const LeaseRecord* lease, const Observed& observed, const Policy& policy, Instant now) {
  return lease && !expired(*lease, observed.feed, policy, now);
}

}  // namespace

std::optional<StopIntent> overdue(const ReplicaRecord& replica, const LeaseRecord* lease,
                                  const ServiceRecord* service, const Observed& observed,
                                  const Policy& policy, Instant now) {
  if (replica.stop || replica.submit != SubmitState::accepted) return std::nullopt;
  auto stop = [&](EndCause cause, std::string why) {
    StopIntent intent;
    intent.decided_at = now;
    intent.why = std::move(why);
    intent.cause = cause;
    return intent;
  };
  const JobSeen* job = find_job(observed, replica);
  if (!job || !observed.scheduler.usable(now, policy)) return std::nullopt;
  if (replica.state == ReplicaState::pending &&
      job->job.reason.find(kLaunchHeld) != std::string::npos)
    return stop(EndCause::launch_failed,
                fmt::format("Slurm could not launch it{} and holds it ({})",
                            replica.node.empty() ? "" : " on " + replica.node, job->job.reason));
  Duration load = service ? service->spec.load_timeout : Duration(minutes(30));
  if (replica.state == ReplicaState::loading && !lease && replica.lease_id.empty() &&
      replica.started_at && now - *replica.started_at > load + policy.register_grace)
    return stop(EndCause::load_timeout,
                fmt::format("its job has run for {} and no agent has registered",
                            to_human(now - *replica.started_at)));
  if (replica.state != ReplicaState::unhealthy) return std::nullopt;
  Duration ill = now - replica.state_since;
  if (!heard(lease, observed, policy, now)) {
    bool whole = observed.feed.fresh_since && now - *observed.feed.fresh_since > policy.lease_grace;
    if (whole && ill > policy.agent_silent_after)
      return stop(EndCause::crashed,
                  fmt::format("its agent has not been heard for {}", to_human(ill)));
  } else if (ill > policy.unhealthy_after) {
    return stop(EndCause::crashed, fmt::format("unhealthy for {}", to_human(ill)));
  }
  return std::nullopt;
}

bool is_surely_its_job(const ReplicaRecord& replica, const Observed& observed, const Policy& policy,
                       Instant now) {
  const JobSeen* job = find_job(observed, replica);
  if (!job)
    return replica.last_seen_at && observed.scheduler.complete_asked_at &&
           *observed.scheduler.complete_asked_at <= *replica.last_seen_at &&
           now - *replica.last_seen_at <= policy.cancel_knowledge &&
           !observed.absences.contains(replica.key);
  return !is_ended(job->job.state) && job->job.state != JobState::completing &&
         now - job->asked_at <= policy.cancel_knowledge;
}

StopStep next_stop_step(const ReplicaRecord& replica, const LeaseRecord* lease,
                        Duration drain_grace, const Observed& observed, const Policy& policy,
                        Instant now) {
  if (!replica.stop || replica.state == ReplicaState::ended ||
      replica.submit != SubmitState::accepted)
    return StopStep::nothing;
  const StopIntent& stop = *replica.stop;
  if (replica.agent_end) {
    if (now < replica.agent_end->at + policy.drain_margin) return StopStep::nothing;
  } else if (heard(lease, observed, policy, now) && lease->state != LeaseState::loading) {
    if (!stop.drain_asked_at) return StopStep::drain;
    if (now < *stop.drain_asked_at + drain_grace + policy.drain_margin) return StopStep::nothing;
  }
  if (!observed.scheduler.usable(now, policy) ||
      !is_surely_its_job(replica, observed, policy, now) ||
      observed.cancels_in_flight.contains(replica.key))
    return StopStep::nothing;
  if (stop.cancel_attempts > 0) {
    if (policy.flaw == Flaw::lost_cancel) return StopStep::nothing;
    Duration pause =
        backoff(stop.cancel_attempts, policy.cancel_retry, policy.cancel_retry_cap, replica.key);
    if (now < *stop.cancel_sent_at + pause) return StopStep::nothing;
  }
  return stop.cancel_attempts >= policy.kill_after_attempts ? StopStep::kill : StopStep::cancel;
}

}  // namespace berth::plan
