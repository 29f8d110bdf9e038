#include "plan/track.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/verdict.h"

namespace berth::plan {
namespace {

// last_seen_at is for people and for the next start: it need not be written each time.
constexpr Duration kSeenEvery = minutes(5);
constexpr Duration kEstimateSlack = seconds(60);

class Tracker {
 public:
  Tracker(const ReplicaRecord& replica, const LeaseRecord* lease, const Observed& observed,
          const Policy& policy, Instant now)
      : lease_(lease), observed_(observed), policy_(policy), now_(now), was_(replica) {
    out_.record = replica;
  }

  Tracked run() {
    if (r().state == ReplicaState::ended) {
      fill_in_end();
      return std::move(out_);
    }
    adopt_listed();
    if (r().submit != SubmitState::accepted) take_outcome();
    if (r().submit != SubmitState::accepted) adopt_by_lease();
    if (r().state == ReplicaState::ended) return std::move(out_);
    if (r().submit == SubmitState::accepted)
      follow_job();
    else
      follow_submit();
    if (r().state != ReplicaState::ended) follow_lease();
    return std::move(out_);
  }

 private:
  ReplicaRecord& r() { return out_.record; }

  void note(std::string kind, std::string text) {
    out_.notes.push_back({r().service, r().key, std::move(kind), std::move(text)});
  }

  void go(ReplicaState to) {
    if (r().state == to || !can_follow(r().state, to)) return;
    r().state = to;
    r().state_since = now_;
  }

  void end(Verdict verdict, std::optional<Instant> at) {
    go(ReplicaState::ended);
    r().end_cause = verdict.cause;
    r().end_detail = std::move(verdict.detail);
    r().exit_code = verdict.exit_code;
    r().signal = verdict.signal;
    r().ended_at = at;
    out_.drop_lease = lease_ != nullptr;
    note("ended", fmt::format("{}: {}", to_string(verdict.cause), r().end_detail));
  }

  // Ended with a provisional time: accounting may know it by now.
  void fill_in_end() {
    out_.drop_lease = lease_ != nullptr;
    if (r().ended_at || r().job.id == 0) return;
    const EndSeen* seen = find_end(observed_, r(), policy_);
    if (seen && seen->end.ended_at)
      r().ended_at = seen->end.ended_at;
    else if (now_ - r().state_since > policy_.provisional_end_for)
      r().ended_at = r().state_since;
    else
      out_.wants_lookup = true;
  }

  void accept(const JobRef& job, std::string_view how) {
    r().submit = SubmitState::accepted;
    r().job = job;
    r().last_seen_at = now_;
    r().submit_error.clear();
    r().refused_code.reset();
    note(std::string(how), fmt::format("job {}", job.id));
  }

  void adopt_listed() {
    const JobSeen* job = find_job(observed_, r());
    if (r().submit == SubmitState::accepted || !job) return;
    bool expected = observed_.submits_in_flight.contains(r().key) ||
                    observed_.submit_outcomes.contains(r().key);
    accept(job->job.ref, expected ? "submitted" : "adopted");
    r().last_seen_at = job->asked_at;
  }

  void adopt_by_lease() {
    if (lease_ && lease_->job.id != 0) accept(lease_->job, "adopted");
  }

  void take_outcome() {
    auto it = observed_.submit_outcomes.find(r().key);
    if (it == observed_.submit_outcomes.end()) return;
    const SubmitOutcome& outcome = it->second;
    if (outcome.job) {
      accept(*outcome.job, "submitted");
      r().last_seen_at = outcome.at;
      return;
    }
    const Error& error = *outcome.error;
    r().submit_error = error.message;
    switch (error.code) {
      case Code::unknown_outcome:
        r().submit = SubmitState::unknown;
        note("submit_unknown", error.message);
        break;
      case Code::exhausted:
      case Code::unavailable:
      case Code::timeout:
        r().submit = SubmitState::refused;
        r().refused_code = error.code;
        note("refused", error.message);
        break;
      default:
        r().submit = SubmitState::refused;
        r().refused_code = error.code;
        end({EndCause::refused, error.message, std::nullopt, std::nullopt}, now_);
    }
  }

  int absent_polls() const {
    auto it = observed_.absences.find(was_.key);
    if (it == observed_.absences.end()) return 0;
    bool of_this_submit = it->second.last_asked_at > listed_since(out_.record, policy_);
    return of_this_submit || policy_.flaw != Flaw::none ? it->second.polls : 0;
  }

  // Accounting was asked after the job was missed, and answered.
  bool accounting_answered() const {
    auto it = observed_.lookups.find(was_.key);
    return it != observed_.lookups.end() && it->second.answered_at.has_value();
  }

  bool enough_absence() const {
    return absent_polls() >=
           (accounting_answered() ? policy_.absent_polls : policy_.absent_polls_alone);
  }

  // No job is known. Maybe the submit is still on its way, maybe its reply was lost.
  void follow_submit() {
    if (r().submit == SubmitState::refused) {
      if (r().stop) end({r().stop->cause, r().stop->why, std::nullopt, std::nullopt}, now_);
      return;
    }
    if (observed_.submits_in_flight.contains(r().key)) return;
    if (r().submit == SubmitState::intended) r().submit = SubmitState::unknown;
    if (const EndSeen* seen = find_end(observed_, r(), policy_)) {
      accept(seen->end.ref, "adopted");
      end(judge_end(r(), &seen->end, policy_), seen->end.ended_at);
      return;
    }
    if (absent_polls() == 0) return;
    out_.wants_lookup = true;
    if (!enough_absence()) return;
    if (r().stop) {
      end({r().stop->cause, r().stop->why + "; it never became a job", std::nullopt, std::nullopt},
          now_);
      return;
    }
    r().submit = SubmitState::refused;
    r().refused_code = Code::unknown_outcome;
    r().submit_error = "the reply to sbatch was lost, and no job with this key exists";
    out_.lost_submit = true;
    note("submit_lost", r().submit_error);
  }

  void follow_job() {
    const JobSeen* job = find_job(observed_, r());
    if (job && !is_ended(job->job.state)) {
      follow_listed(*job);
      return;
    }
    if (!job && absent_polls() == 0) return;  // not known: nothing changes
    out_.wants_lookup = true;
    if (const EndSeen* seen = find_end(observed_, r(), policy_)) {
      // A job that was preempted or lost its node may be about to come back under the same id.
      JobState state = seen->end.state;
      bool may_requeue = state == JobState::preempted || state == JobState::node_failed;
      if (may_requeue && absent_polls() <= policy_.absent_polls) return;
      end(judge_end(r(), &seen->end, policy_), seen->end.ended_at);
      return;
    }
    if (heartbeat_contradicts()) return;
    bool naive = policy_.flaw == Flaw::partial_absence || policy_.flaw == Flaw::stale_listing;
    if (naive && absent_polls() > 0) {
      end(judge_end(r(), nullptr, policy_), now_);
      return;
    }
    int polls = absent_polls();
    bool agent_said = r().agent_end && accounting_answered() && polls > policy_.absent_polls;
    if (!agent_said && polls < policy_.absent_polls_alone) return;
    Instant sent = r().submit_sent_at.value_or(r().intended_at);
    if (!agent_said && now_ < sent + policy_.submit_grace)
      return;   // accounting may lag behind (C05)
    if (job) {  // the queue itself still shows how it ended
      JobEnd shown{job->job.ref, job->job.key, job->job.state, job->job.state_text};
      shown.reason = job->job.reason;
      shown.nodes = job->job.nodes;
      end(judge_end(r(), &shown, policy_), std::nullopt);
    } else {
      end(judge_end(r(), nullptr, policy_), now_);
    }
  }

  // A heartbeat later than the newest listing without the job: somebody is alive there.
  bool heartbeat_contradicts() const {
    if (!lease_) return false;
    auto it = observed_.absences.find(was_.key);
    Instant missed = it == observed_.absences.end() ? now_ : it->second.last_asked_at;
    return lease_->renewed_at >= missed;
  }

  void follow_listed(const JobSeen& seen) {
    const JobObserved& job = seen.job;
    notice_requeue(seen);
    if (job.ref.submit_time) r().job = job.ref;
    if (r().job.cluster.empty()) r().job.cluster = job.ref.cluster;
    if (!r().last_seen_at || seen.asked_at - *r().last_seen_at > kSeenEvery)
      r().last_seen_at = seen.asked_at;
    follow_reason(job);
    bool queued = job.state == JobState::pending || job.state == JobState::requeued;
    if (queued) {
      if (!lease_ || lease_->registered_at < seen.asked_at) {
        out_.drop_lease = lease_ != nullptr;
        go(ReplicaState::pending);
      }
      bool moved = job.estimated_start.has_value() != r().estimated_start.has_value() ||
                   (job.estimated_start &&
                    std::chrono::abs(*job.estimated_start - *r().estimated_start) > kEstimateSlack);
      if (moved) r().estimated_start = job.estimated_start;
      return;
    }
    r().estimated_start.reset();
    if (job.started_at) r().started_at = job.started_at;
    if (job.ends_at) r().ends_at = job.ends_at;
    if (!job.nodes.empty()) r().node = job.nodes.front();
    if (job.state == JobState::configuring) return;
    if (r().state == ReplicaState::submitted || r().state == ReplicaState::pending) {
      r().reason_since.reset();
      go(ReplicaState::loading);
    }
  }

  void follow_reason(const JobObserved& job) {
    bool queued = job.state == JobState::pending || job.state == JobState::requeued;
    std::string reason = queued ? job.reason : "";
    if (job.state == JobState::completing) reason = "Completing";
    if (reason != r().reason) {
      r().reason = reason;
      r().reason_since = reason.empty() ? std::nullopt : std::optional(now_);
    }
    r().pending_class = queued ? job.pending_class : PendingClass::waiting;
  }

  // The same job, back in the queue (C07): the same record, a new run.
  void notice_requeue(const JobSeen& seen) {
    const JobObserved& job = seen.job;
    bool queued = job.state == JobState::pending || job.state == JobState::requeued;
    bool had_run = r().state != ReplicaState::submitted && r().state != ReplicaState::pending;
    bool back = queued && had_run && seen.asked_at > r().state_since &&
                (!lease_ || lease_->registered_at < seen.asked_at);
    if (job.restarts <= r().restarts && !back) return;
    bool of_old_run =
        lease_ && (queued ? lease_->registered_at < seen.asked_at
                          : job.started_at && lease_->registered_at < *job.started_at);
    if (policy_.flaw == Flaw::requeue_as_new) {
      r().restarts = job.restarts;
      end({EndCause::preempted, "requeued", std::nullopt, std::nullopt}, now_);
      return;
    }
    r().restarts = std::max(job.restarts, r().restarts + (back ? 1 : 0));
    out_.drop_lease = of_old_run;
    r().ready_at.reset();
    r().start = {};
    r().started_at.reset();
    r().ends_at.reset();
    r().lease_id.clear();
    r().agent_end.reset();
    r().handover_at.reset();
    r().gap_told_at.reset();
    r().extend_sent_at.reset();
    r().extensions = 0;
    if (r().stop) r().stop->drain_asked_at.reset();
    go(ReplicaState::pending);
    note("requeued", fmt::format("job {} is queued again (restart {}): {}", r().job.id,
                                 r().restarts, job.reason));
  }

  void follow_lease() {
    if (r().state == ReplicaState::ended) return;
    if (r().agent_end) {
      if (r().state != ReplicaState::pending) go(ReplicaState::draining);
      return;
    }
    if (!lease_ || out_.drop_lease) {
      bool lost = !r().lease_id.empty() &&
                  (r().state == ReplicaState::ready || r().state == ReplicaState::loading);
      if (lost) {
        go(ReplicaState::unhealthy);
        note("unhealthy", "its agent's lease is gone");
      }
      if (r().stop && r().stop->drain_asked_at) go(ReplicaState::draining);
      return;
    }
    r().lease_id = lease_->id;
    if (!r().start.routed_at) r().start = lease_->start;  // else it has registered again
    if (!lease_->node.empty() && r().node.empty()) r().node = lease_->node;
    follow_lease_state();
  }

  void follow_lease_state() {
    if (expired(*lease_, observed_.feed, policy_, now_)) {
      if (r().state != ReplicaState::unhealthy && r().state != ReplicaState::draining)
        note("unhealthy", "its agent has not been heard in time");
      go(ReplicaState::unhealthy);
      return;
    }
    ReplicaState before = r().state;
    switch (lease_->state) {
      case LeaseState::loading:
        go(ReplicaState::loading);
        break;
      case LeaseState::ready:
        go(ReplicaState::ready);
        break;
      case LeaseState::unhealthy:
        go(ReplicaState::unhealthy);
        break;
      case LeaseState::draining:
        go(ReplicaState::draining);
        break;
    }
    if (r().stop && r().stop->drain_asked_at) go(ReplicaState::draining);
    if (r().state == ReplicaState::ready && !r().ready_at) r().ready_at = now_;
    if (r().state != before)
      note(std::string(to_string(r().state)),
           lease_->detail.empty() ? std::string(to_string(r().state)) : lease_->detail);
  }

  const LeaseRecord* lease_;
  const Observed& observed_;
  const Policy& policy_;
  Instant now_;
  const ReplicaRecord& was_;
  Tracked out_;
};

}  // namespace

Tracked track(const ReplicaRecord& replica, const LeaseRecord* lease, const Observed& observed,
              const Policy& policy, Instant now) {
  return Tracker(replica, lease, observed, policy, now).run();
}

}  // namespace berth::plan
