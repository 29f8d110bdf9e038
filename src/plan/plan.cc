#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/id.h"
#include "plan/backoff.h"
#include "plan/derive.h"
#include "plan/handover.h"
#include "plan/scale.h"
#include "plan/starts.h"
#include "plan/stop.h"

namespace berth::plan {
namespace {

constexpr std::string_view kKeyPrefix = "berth-";
constexpr Duration kLookupPause = seconds(2);
constexpr Duration kLookupPauseCap = seconds(60);

// One service's part of the plan while it is made.
struct Work {
  const ServiceRecord* service = nullptr;
  std::vector<std::string> keys;  // of its replicas, ended ones included
  StartHistory history;
  int start = 0;          // replicas to create, as far as limits allow
  std::string retry_key;  // a refused submit to repeat
  std::optional<Instant> retry_at;
  int older = 0;
  bool over_limit = false;
  std::vector<Succession> successions;
  std::vector<Reason> more;
};

class Planner {
 public:
  Planner(const Records& records, const Observed& observed, const Estimates& estimates,
          const Policy& policy, Instant now)
      : in_(records),
        observed_(observed),
        estimates_(estimates),
        policy_(policy),
        now_(now),
        usable_(observed.scheduler.usable(now, policy)) {}

  Plan run() {
    index_leases();
    track_all();
    decide_own_stops();
    for (auto& [name, work] : work_) {
      begin_handovers(work);
      decide_scale(work);
    }
    submit();
    follow_handovers();
    carry_out_stops();
    cancel_strays();
    ask_accounting();
    remove_services();
    report();
    collect_changes();
    return std::move(out_);
  }

 private:
  // As it will be, or as it is where nothing changes.
  const ReplicaRecord& record(const std::string& key) const {
    auto it = replicas_.find(key);
    return it == replicas_.end() ? in_.replicas.at(key) : it->second;
  }

  bool living(const std::string& key) const { return record(key).state != ReplicaState::ended; }

  std::vector<const ReplicaRecord*> replicas_of(const Work& work, bool only_living) const {
    std::vector<const ReplicaRecord*> found;
    for (const std::string& key : work.keys)
      if (!only_living || living(key)) found.push_back(&record(key));
    return found;
  }

  const LeaseRecord* lease_of(const std::string& key) const {
    auto it = leases_.find(key);
    return it == leases_.end() ? nullptr : it->second;
  }

  const ServiceRecord* service_of(const ReplicaRecord& r) const {
    auto it = in_.services.find(r.service);
    return it == in_.services.end() ? nullptr : &it->second;
  }

  void note(const ReplicaRecord& r, std::string kind, std::string text) {
    out_.changes.notes.push_back({r.service, r.key, std::move(kind), std::move(text)});
  }

  void index_leases() {
    for (const auto& [id, lease] : in_.leases) {
      if (lease.replica_key.empty()) continue;
      const LeaseRecord*& newest = leases_[lease.replica_key];
      if (!newest || lease.registered_at > newest->registered_at) newest = &lease;
    }
    for (const auto& [id, lease] : in_.leases) {  // an agent that registered again
      auto it = leases_.find(lease.replica_key);
      if (it != leases_.end() && it->second != &lease) out_.changes.remove_leases.push_back(id);
    }
  }

  void track_all() {
    for (const auto& [name, service] : in_.services) work_[name].service = &service;
    for (const auto& [key, replica] : in_.replicas) {
      auto work = work_.find(replica.service);
      if (work != work_.end()) work->second.keys.push_back(key);
      // Nothing changes any more: read where it is, not copied.
      if (replica.state == ReplicaState::ended && replica.ended_at && !lease_of(key)) continue;
      Tracked tracked = track(replica, lease_of(key), observed_, policy_, now_);
      if (tracked.drop_lease) {
        out_.changes.remove_leases.push_back(lease_of(key)->id);
        leases_.erase(key);
      }
      if (tracked.wants_lookup) lookups_.push_back(key);
      for (Note& n : tracked.notes) out_.changes.notes.push_back(std::move(n));
      replicas_[key] = std::move(tracked.record);
    }
  }

  // A reason that is seen here, for the report of the replica's service.
  void tell(const std::string& key, ReasonKind kind, std::string detail, uint64_t job_id) {
    auto it = work_.find(record(key).service);
    if (it == work_.end()) return;
    Reason reason;
    reason.kind = kind;
    reason.replica_key = key;
    reason.detail = std::move(detail);
    reason.job_id = job_id;
    it->second.more.push_back(std::move(reason));
  }

  void stop(const std::string& key, StopIntent intent) {
    ReplicaRecord& r = replicas_.at(key);
    note(r, "stopping", intent.why);
    r.stop = std::move(intent);
  }

  // Stops that nobody asked for are bounded: a mistake in what is seen must not end a site.
  void decide_own_stops() {
    int healthy = 0, leaving = 0;
    std::vector<std::pair<std::string, StopIntent>> undeclared, ill;
    for (const auto& [key, r] : replicas_) {
      if (r.state == ReplicaState::ended) continue;
      const ServiceRecord* service = service_of(r);
      if (r.stop) {
        leaving += r.ready_at && r.stop->cause != EndCause::stopped;
        continue;
      }
      healthy += r.ready_at.has_value();
      if (!service) {
        undeclared.push_back({key, {now_, "its service is not declared"}});
      } else if (auto intent = overdue(r, lease_of(key), service, observed_, policy_, now_)) {
        ill.push_back({key, *std::move(intent)});
      }
    }
    const int share = healthy * policy_.max_healthy_stops_percent / 100;
    auto served = [&](const auto& entry) { return replicas_.at(entry.first).ready_at.has_value(); };
    auto hit = static_cast<int>(std::count_if(undeclared.begin(), undeclared.end(), served));
    if (hit > share) {
      out_.report.guard = fmt::format(
          "{} of {} replicas that serve belong to no declared service; stopping them all would be "
          "too many at once (limit {} %), so none is stopped: check the state database",
          hit, healthy, policy_.max_healthy_stops_percent);
    } else {
      for (auto& [key, intent] : undeclared) stop(key, std::move(intent));
    }
    int room = std::max(1, share) - leaving;
    std::vector<std::string> held_back;
    for (auto& [key, intent] : ill) {
      if (replicas_.at(key).ready_at && room-- <= 0)
        held_back.push_back(key);
      else
        stop(key, std::move(intent));
    }
    if (held_back.empty()) return;
    std::string why = fmt::format(
        "{} more replicas have been silent or unhealthy for long and would be replaced, but only "
        "{} of {} may go at once: check the path from the agents to Berth",
        held_back.size(), std::max(1, share), healthy);
    for (const std::string& key : held_back) tell(key, ReasonKind::blast_guard, why, 0);
    if (!out_.report.guard) out_.report.guard = std::move(why);
  }

  const ServiceEstimate* estimate_of(const Work& work) const {
    auto it = estimates_.find(work.service->public_name);
    return it == estimates_.end() ? nullptr : &it->second;
  }

  void begin_handovers(Work& work) {
    if (target_of(*work.service) == 0) return;
    for (const std::string& key : work.keys) {
      auto it = replicas_.find(key);
      if (it == replicas_.end() || it->second.handover_at) continue;
      ReplicaRecord& r = it->second;
      if (!nears_its_end(r, *work.service, estimate_of(work), now_)) continue;
      // A requeued run has another end, which only a listing tells.
      if (!usable_ || !is_surely_its_job(r, observed_, policy_, now_)) continue;
      r.handover_at = now_;
      note(r, "handover",
           words(handover_lead(estimate_of(work), work.service->spec.drain_grace,
                               *r.ends_at - *r.started_at)));
    }
  }

  // Says in advance when a successor will not be ready in time, and asks for more time.
  void follow_handovers() {
    for (auto& [name, work] : work_) {
      work.successions =
          successions(*work.service, replicas_of(work, true), estimate_of(work), now_);
      for (const Succession& s : work.successions) {
        ReplicaRecord& old = replicas_.at(s.old->key);
        if (!gap_ahead(s)) continue;
        if (!old.gap_told_at) {
          old.gap_told_at = now_;
          note(old, "gap_ahead", words(s, now_));
        }
        extend(old, s);
      }
    }
  }

  bool gap_ahead(const Succession& s) const {
    if (s.gap.count() > 0) return true;
    if (s.ready_by) return false;
    const Duration waited = now_ - *s.old->handover_at;
    return waited >= policy_.gap_patience || waited >= s.safe_until - now_;
  }

  void extend(ReplicaRecord& old, const Succession& s) {
    const bool asked_lately =
        old.extend_sent_at && now_ - *old.extend_sent_at < policy_.extend_retry;
    if (policy_.extend_by.count() <= 0 || old.extensions >= policy_.max_extensions ||
        asked_lately || s.safe_until - now_ > policy_.extend_before || !old.started_at ||
        !usable_ || !is_surely_its_job(old, observed_, policy_, now_))
      return;
    old.extend_sent_at = now_;
    ++old.extensions;
    Instant until = *old.ends_at + policy_.extend_by;
    note(old, "extend", fmt::format("asked for {} more", to_human(policy_.extend_by)));
    out_.effects.extensions.push_back({old.key, old.job, *old.started_at, until});
  }

  void decide_scale(Work& work) {
    const ServiceRecord& service = *work.service;
    work.history = start_history(service, replicas_of(work, false), policy_, now_);
    Scale scaled = scale(service, replicas_of(work, true), policy_);
    for (StopChoice& choice : scaled.stops)
      stop(choice.replica->key, {now_, std::move(choice.why)});
    work.start = scaled.start;
    work.older = scaled.older;
    for (const std::string& key : work.keys) {
      const ReplicaRecord& r = record(key);
      if (!living(key) || r.submit != SubmitState::refused || r.stop) continue;
      Instant at = r.submit_sent_at.value_or(r.intended_at) + refused_pause(r);
      if (work.retry_key.empty()) work.retry_key = key;
      work.retry_at = std::max(work.retry_at.value_or(at), at);
    }
  }

  Duration refused_pause(const ReplicaRecord& r) const {
    if (r.refused_code == Code::exhausted)
      return backoff(r.submit_attempts, policy_.limit_backoff, policy_.limit_backoff_cap, r.key);
    return backoff(r.submit_attempts, policy_.unreachable_backoff, policy_.unreachable_backoff_cap,
                   r.key);
  }

  // One after another from each service, so that none holds up the others.
  void submit() {
    int left = policy_.max_submits_per_tick;
    for (bool more = usable_; more && left > 0;) {
      more = false;
      for (auto& [name, work] : work_) {
        if (!may_submit(work)) continue;
        if (left == 0) break;
        --left;
        more = true;
        submit_one(work);
      }
    }
    for (auto& [name, work] : work_) work.over_limit = usable_ && may_submit(work);
  }

  bool may_submit(const Work& work) const {
    if (!work.retry_key.empty()) return work.retry_at && *work.retry_at <= now_;
    return work.start > 0 && !work.history.gave_up &&
           (!work.history.next_at || *work.history.next_at <= now_);
  }

  void submit_one(Work& work) {
    std::string key;
    if (work.retry_key.empty()) {
      key = create(work);
      --work.start;
    } else {
      // One at a time while the scheduler refuses: the rest follow when one gets through.
      key = work.retry_key;
      work.retry_at.reset();
    }
    ReplicaRecord& r = replicas_.at(key);
    r.submit = SubmitState::intended;
    r.refused_code.reset();
    r.submit_sent_at = now_;
    ++r.submit_attempts;
    out_.effects.submits.push_back({key});
  }

  bool known(const std::string& key) const {
    return replicas_.contains(key) || in_.replicas.contains(key);
  }

  std::string create(Work& work) {
    const ServiceRecord& service = *work.service;
    ReplicaRecord r;
    for (int n = 0; r.key.empty() || known(r.key); ++n)
      r.key = fmt::format(
          "{}{:016x}", kKeyPrefix,
          hash64(fmt::format("{}|{}|{}|{}|{}", policy_.installation, service.public_name,
                             to_ms(service.created_at), to_ms(now_), n)));
    r.service = service.public_name;
    r.generation = service.generation;
    r.restart_nonce = service.restart_nonce;
    r.partition = service.spec.resources.partition;
    r.state_since = now_;
    r.intended_at = now_;
    r.exclude_nodes = work.history.exclude_nodes;
    work.keys.push_back(r.key);
    note(r, "intended", fmt::format("generation {}", r.generation));
    std::string key = r.key;
    replicas_[key] = std::move(r);
    return key;
  }

  void carry_out_stops() {
    std::vector<std::pair<ReplicaRecord*, StopStep>> cancels;
    for (auto& [key, r] : replicas_) {
      if (!r.stop || r.state == ReplicaState::ended) continue;
      const ServiceRecord* service = service_of(r);
      Duration grace = service ? service->spec.drain_grace : Duration(seconds(120));
      const LeaseRecord* lease = lease_of(key);
      StopStep step = next_stop_step(r, lease, grace, observed_, policy_, now_);
      if (step == StopStep::drain) {
        r.stop->drain_asked_at = now_;
        if (can_follow(r.state, ReplicaState::draining) && r.state != ReplicaState::draining) {
          r.state = ReplicaState::draining;
          r.state_since = now_;
        }
        out_.effects.drains.push_back({key, lease->id, r.stop->why});
      } else if (step != StopStep::nothing) {
        cancels.push_back({&r, step});
      }
    }
    std::sort(cancels.begin(), cancels.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first->stop->decided_at, a.first->key) <
             std::pair(b.first->stop->decided_at, b.first->key);
    });
    for (auto& [r, step] : cancels) {
      if (std::ssize(out_.effects.cancels) >= policy_.max_cancels_per_tick) break;
      r->stop->cancel_sent_at = now_;
      ++r->stop->cancel_attempts;
      auto force = step == StopStep::kill ? CancelEffect::Force::kill : CancelEffect::Force::polite;
      if (r->stop->cancel_attempts > 1)
        note(*r, "cancel_repeated", fmt::format("attempt {}", r->stop->cancel_attempts));
      out_.effects.cancels.push_back({r->key, r->job, force});
    }
  }

  // Jobs that carry our keys and that no living record owns: a submit that came through after all.
  void cancel_strays() {
    for (const auto& [key, jobs] : observed_.jobs) {
      if (!key.starts_with(kKeyPrefix)) continue;
      if (!known(key)) {
        out_.report.strange_keys.push_back(key);
        continue;
      }
      const ReplicaRecord& r = record(key);
      for (const JobSeen& seen : jobs) {
        if (is_ended(seen.job.state) || seen.job.state == JobState::completing) continue;
        bool ours = r.state != ReplicaState::ended &&
                    (r.submit != SubmitState::accepted || r.job.id == seen.job.ref.id);
        if (!ours)
          tell(key, ReasonKind::duplicate_job, fmt::format("job {}", seen.job.ref.id), r.job.id);
        if (ours || seen.asked_at <= r.state_since || !usable_ ||
            now_ - seen.asked_at > policy_.cancel_knowledge)
          continue;
        auto last = observed_.strays_cancelled_at.find(seen.job.ref.id);
        if (last != observed_.strays_cancelled_at.end() &&
            now_ - last->second < policy_.cancel_retry)
          continue;
        if (std::ssize(out_.effects.cancels) >= policy_.max_cancels_per_tick) return;
        note(r, "stray_cancelled", fmt::format("job {} carries this key too", seen.job.ref.id));
        out_.effects.cancels.push_back({key, seen.job.ref, CancelEffect::Force::polite});
      }
    }
  }

  void ask_accounting() {
    if (observed_.lookup_in_flight) return;
    LookUpEffect& lookup = out_.effects.lookup;
    for (const std::string& key : lookups_) {
      auto it = observed_.lookups.find(key);
      if (it != observed_.lookups.end() &&
          now_ < it->second.last_asked_at +
                     backoff(it->second.tries, kLookupPause, kLookupPauseCap, key))
        continue;
      const ReplicaRecord& r = replicas_.at(key);
      if (r.job.id != 0) {
        lookup.keys_of_jobs.push_back(key);
        lookup.jobs.push_back(r.job);
      } else {
        lookup.keys.push_back(key);
      }
    }
  }

  void remove_services() {
    for (const auto& [name, work] : work_) {
      if (work.service->wanted != ServiceRecord::Wanted::removed) continue;
      if (!replicas_of(work, true).empty()) continue;
      out_.changes.remove_services.push_back(name);
      out_.changes.notes.push_back({name, "", "removed", "all of its replicas have ended"});
    }
  }

  void report() {
    Report& report = out_.report;
    report.at = now_;
    report.scheduler_failing_since = observed_.scheduler.failing_since;
    report.scheduler_error = observed_.scheduler.error;
    report.scheduler_known = observed_.scheduler.complete_asked_at.has_value();
    for (const auto& [name, work] : work_) {
      ServiceView view{work.service, replicas_of(work, true), work.history,  work.start,
                       work.older,   work.over_limit,         work.retry_at, work.successions,
                       work.more};
      report.services[name] = derive(view, observed_, estimates_, policy_, now_);
    }
  }

  void collect_changes() {
    for (auto& [key, r] : replicas_) {
      auto it = in_.replicas.find(key);
      if (it == in_.replicas.end() || !(it->second == r))
        out_.changes.put_replicas.push_back(std::move(r));
    }
  }

  const Records& in_;
  const Observed& observed_;
  const Estimates& estimates_;
  const Policy& policy_;
  const Instant now_;
  const bool usable_;

  std::map<std::string, ReplicaRecord> replicas_;     // as they will be; settled ones left out
  std::map<std::string, const LeaseRecord*> leases_;  // the newest of each replica
  std::map<std::string, Work> work_;                  // by service
  std::vector<std::string> lookups_;
  Plan out_;
};

}  // namespace

Plan plan(const Records& records, const Observed& observed, const Estimates& estimates,
          const Policy& policy, Instant now) {
  return Planner(records, observed, estimates, policy, now).run();
}

}  // namespace berth::plan
