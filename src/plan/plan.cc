#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>
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

// A replica while the plan is made: as it is, or as it will be. Most stay as they are, and are
// not copied.
struct Slot {
  const ReplicaRecord* now = nullptr;
  ReplicaRecord* edited = nullptr;     // nullptr: nothing changes
  const LeaseRecord* lease = nullptr;  // its newest

  bool living() const { return now->state != ReplicaState::ended; }
  // Nothing changes any more.
  bool settled() const { return !living() && now->ended_at && !lease; }
};

// One service's part of the plan while it is made.
struct Work {
  const ServiceRecord* service = nullptr;
  std::vector<Slot*> slots;  // its replicas, ended ones included
  StartHistory history;
  int start = 0;          // replicas to create, as far as limits allow
  Slot* retry = nullptr;  // a refused submit to repeat
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
    index();
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
  ReplicaRecord& edit(Slot& slot) {
    if (!slot.edited) {
      slot.edited = &edited_.emplace_back(*slot.now);
      slot.now = slot.edited;
    }
    return *slot.edited;
  }

  Slot* slot_of(std::string_view key) const {
    auto it = by_key_.find(key);
    return it == by_key_.end() ? nullptr : it->second;
  }

  enum class Which { all, living };
  std::vector<const ReplicaRecord*> replicas_of(const Work& work, Which which) const {
    std::vector<const ReplicaRecord*> found;
    for (const Slot* slot : work.slots)
      if (which == Which::all || slot->living()) found.push_back(slot->now);
    return found;
  }

  const ServiceRecord* service_of(const ReplicaRecord& r) const {
    auto it = in_.services.find(r.service);
    return it == in_.services.end() ? nullptr : &it->second;
  }

  void note(const ReplicaRecord& r, std::string kind, std::string text) {
    out_.changes.notes.push_back({r.service, r.key, std::move(kind), std::move(text)});
  }

  void index() {
    for (const auto& [name, service] : in_.services) work_[name].service = &service;
    by_key_.reserve(in_.replicas.size());
    for (const auto& [key, replica] : in_.replicas) {
      Slot& slot = slots_.emplace_back();
      slot.now = &replica;
      by_key_[key] = &slot;
      auto work = work_.find(replica.service);
      if (work != work_.end()) work->second.slots.push_back(&slot);
    }
    for (const auto& [id, lease] : in_.leases) {
      Slot* slot = lease.replica_key.empty() ? nullptr : slot_of(lease.replica_key);
      if (!slot) continue;
      const LeaseRecord* older = &lease;  // of an agent that registered again
      if (!slot->lease || lease.registered_at > slot->lease->registered_at)
        std::swap(older, slot->lease);
      if (older) out_.changes.remove_leases.push_back(older->id);
    }
  }

  void track_all() {
    for (Slot& slot : slots_) {
      if (slot.settled()) continue;
      Tracked tracked = track(*slot.now, slot.lease, observed_, policy_, now_);
      if (tracked.drop_lease) {
        out_.changes.remove_leases.push_back(slot.lease->id);
        slot.lease = nullptr;
      }
      if (tracked.wants_lookup) lookups_.push_back(&slot);
      for (Note& n : tracked.notes) out_.changes.notes.push_back(std::move(n));
      if (!(tracked.record == *slot.now)) edit(slot) = std::move(tracked.record);
    }
  }

  // A reason that is seen here, for the report of the replica's service.
  void tell(const ReplicaRecord& r, ReasonKind kind, std::string detail, uint64_t job_id) {
    auto it = work_.find(r.service);
    if (it == work_.end()) return;
    Reason reason;
    reason.kind = kind;
    reason.replica_key = r.key;
    reason.detail = std::move(detail);
    reason.job_id = job_id;
    it->second.more.push_back(std::move(reason));
  }

  void stop(Slot& slot, StopIntent intent) {
    ReplicaRecord& r = edit(slot);
    note(r, "stopping", intent.why);
    r.stop = std::move(intent);
  }

  // Stops that nobody asked for are bounded: a mistake in what is seen must not end a site.
  void decide_own_stops() {
    int healthy = 0, leaving = 0;
    std::vector<std::pair<Slot*, StopIntent>> undeclared, ill;
    for (Slot& slot : slots_) {
      if (!slot.living()) continue;
      const ReplicaRecord& r = *slot.now;
      const ServiceRecord* service = service_of(r);
      if (r.stop) {
        leaving += r.ready_at && r.stop->cause != EndCause::stopped;
        continue;
      }
      healthy += r.ready_at.has_value();
      if (!service) {
        undeclared.push_back({&slot, {now_, "its service is not declared"}});
      } else if (auto intent = overdue(r, slot.lease, service, observed_, policy_, now_)) {
        ill.push_back({&slot, *std::move(intent)});
      }
    }
    const int share = healthy * policy_.max_healthy_stops_percent / 100;
    auto served = [](const auto& entry) { return entry.first->now->ready_at.has_value(); };
    auto hit = static_cast<int>(std::count_if(undeclared.begin(), undeclared.end(), served));
    if (hit > share) {
      out_.report.guard = fmt::format(
          "{} of {} replicas that serve belong to no declared service; stopping them all would be "
          "too many at once (limit {} %), so none is stopped: check the state database",
          hit, healthy, policy_.max_healthy_stops_percent);
    } else {
      for (auto& [slot, intent] : undeclared) stop(*slot, std::move(intent));
    }
    int room = std::max(1, share) - leaving;
    std::vector<const Slot*> held_back;
    for (auto& [slot, intent] : ill) {
      if (slot->now->ready_at && room-- <= 0)
        held_back.push_back(slot);
      else
        stop(*slot, std::move(intent));
    }
    if (held_back.empty()) return;
    std::string why = fmt::format(
        "{} more replicas have been silent or unhealthy for long and would be replaced, but only "
        "{} of {} may go at once: check the path from the agents to Berth",
        held_back.size(), std::max(1, share), healthy);
    for (const Slot* slot : held_back) tell(*slot->now, ReasonKind::blast_guard, why, 0);
    if (!out_.report.guard) out_.report.guard = std::move(why);
  }

  const ServiceEstimate* estimate_of(const Work& work) const {
    auto it = estimates_.find(work.service->public_name);
    return it == estimates_.end() ? nullptr : &it->second;
  }

  void begin_handovers(Work& work) {
    if (target_of(*work.service) == 0) return;
    for (Slot* slot : work.slots) {
      if (slot->now->handover_at ||
          !nears_its_end(*slot->now, *work.service, estimate_of(work), now_))
        continue;
      // A requeued run has another end, which only a listing tells.
      if (!usable_ || !is_surely_its_job(*slot->now, observed_, policy_, now_)) continue;
      ReplicaRecord& r = edit(*slot);
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
          successions(*work.service, replicas_of(work, Which::living), estimate_of(work), now_);
      for (const Succession& s : work.successions) {
        if (!gap_ahead(s)) continue;
        Slot& old = *slot_of(s.old->key);
        if (!s.old->gap_told_at) {
          ReplicaRecord& r = edit(old);
          r.gap_told_at = now_;
          note(r, "gap_ahead", words(s, now_));
        }
        extend(old, s);
      }
      if (!work.successions.empty())  // of the records as they are now
        work.successions =
            successions(*work.service, replicas_of(work, Which::living), estimate_of(work), now_);
    }
  }

  bool gap_ahead(const Succession& s) const {
    if (s.gap.count() > 0) return true;
    if (s.ready_by) return false;
    const Duration waited = now_ - *s.old->handover_at;
    return waited >= policy_.gap_patience || waited >= s.safe_until - now_;
  }

  void extend(Slot& slot, const Succession& s) {
    const ReplicaRecord& was = *slot.now;
    const bool asked_lately =
        was.extend_sent_at && now_ - *was.extend_sent_at < policy_.extend_retry;
    if (policy_.extend_by.count() <= 0 || was.extensions >= policy_.max_extensions ||
        asked_lately || s.safe_until - now_ > policy_.extend_before || !was.started_at ||
        !usable_ || !is_surely_its_job(was, observed_, policy_, now_))
      return;
    ReplicaRecord& old = edit(slot);
    old.extend_sent_at = now_;
    ++old.extensions;
    Instant until = *old.ends_at + policy_.extend_by;
    note(old, "extend", fmt::format("asked for {} more", to_human(policy_.extend_by)));
    out_.effects.extensions.push_back({old.key, old.job, *old.started_at, until});
  }

  void decide_scale(Work& work) {
    const ServiceRecord& service = *work.service;
    work.history = start_history(service, replicas_of(work, Which::all), policy_, now_);
    Scale scaled = scale(service, replicas_of(work, Which::living), policy_);
    for (StopChoice& choice : scaled.stops)
      stop(*slot_of(choice.replica->key), {now_, std::move(choice.why)});
    work.start = scaled.start;
    work.older = scaled.older;
    for (Slot* slot : work.slots) {
      const ReplicaRecord& r = *slot->now;
      if (!slot->living() || r.submit != SubmitState::refused || r.stop) continue;
      Instant at = r.submit_sent_at.value_or(r.intended_at) + refused_pause(r);
      if (!work.retry) work.retry = slot;
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
    if (work.retry) return work.retry_at && *work.retry_at <= now_;
    return work.start > 0 && !work.history.gave_up &&
           (!work.history.next_at || *work.history.next_at <= now_);
  }

  void submit_one(Work& work) {
    // One at a time while the scheduler refuses: the rest follow when one gets through.
    Slot* slot = work.retry;
    if (slot) {
      work.retry_at.reset();
    } else {
      slot = &create(work);
      --work.start;
    }
    ReplicaRecord& r = edit(*slot);
    r.submit = SubmitState::intended;
    r.refused_code.reset();
    r.submit_sent_at = now_;
    ++r.submit_attempts;
    out_.effects.submits.push_back({r.key});
  }

  Slot& create(Work& work) {
    const ServiceRecord& service = *work.service;
    ReplicaRecord r;
    for (int n = 0; r.key.empty() || slot_of(r.key); ++n)
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
    note(r, "intended", fmt::format("generation {}", r.generation));
    Slot& slot = slots_.emplace_back();
    slot.edited = &edited_.emplace_back(std::move(r));
    slot.now = slot.edited;
    by_key_[slot.now->key] = &slot;
    work.slots.push_back(&slot);
    return slot;
  }

  void carry_out_stops() {
    std::vector<std::pair<ReplicaRecord*, StopStep>> cancels;
    for (Slot& slot : slots_) {
      if (!slot.now->stop || !slot.living()) continue;
      const ServiceRecord* service = service_of(*slot.now);
      Duration grace = service ? service->spec.drain_grace : Duration(seconds(120));
      StopStep step = next_stop_step(*slot.now, slot.lease, grace, observed_, policy_, now_);
      if (step == StopStep::nothing) continue;
      ReplicaRecord& r = edit(slot);
      if (step != StopStep::drain) {
        cancels.push_back({&r, step});
        continue;
      }
      r.stop->drain_asked_at = now_;
      if (can_follow(r.state, ReplicaState::draining) && r.state != ReplicaState::draining) {
        r.state = ReplicaState::draining;
        r.state_since = now_;
      }
      out_.effects.drains.push_back({r.key, slot.lease->id, r.stop->why});
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
    std::vector<std::pair<const Slot*, const std::vector<JobSeen>*>> doubtful;
    for (const auto& [key, jobs] : observed_.jobs) {
      if (!key.starts_with(kKeyPrefix)) continue;
      const Slot* slot = slot_of(key);
      if (!slot)
        out_.report.strange_keys.push_back(key);
      else if (jobs.size() != 1 || !slot->living() || slot->now->job.id != jobs[0].job.ref.id)
        doubtful.push_back({slot, &jobs});
    }
    std::sort(out_.report.strange_keys.begin(), out_.report.strange_keys.end());
    std::sort(doubtful.begin(), doubtful.end(),
              [](const auto& a, const auto& b) { return a.first->now->key < b.first->now->key; });
    for (const auto& [slot, jobs] : doubtful) {
      const ReplicaRecord& r = *slot->now;
      for (const JobSeen& seen : *jobs) {
        if (is_ended(seen.job.state) || seen.job.state == JobState::completing) continue;
        bool ours = r.state != ReplicaState::ended &&
                    (r.submit != SubmitState::accepted || r.job.id == seen.job.ref.id);
        if (!ours)
          tell(r, ReasonKind::duplicate_job, fmt::format("job {}", seen.job.ref.id), r.job.id);
        if (ours || seen.asked_at <= r.state_since || !usable_ ||
            now_ - seen.asked_at > policy_.cancel_knowledge)
          continue;
        auto last = observed_.strays_cancelled_at.find(seen.job.ref.id);
        if (last != observed_.strays_cancelled_at.end() &&
            now_ - last->second < policy_.cancel_retry)
          continue;
        if (std::ssize(out_.effects.cancels) >= policy_.max_cancels_per_tick) return;
        note(r, "stray_cancelled", fmt::format("job {} carries this key too", seen.job.ref.id));
        out_.effects.cancels.push_back({r.key, seen.job.ref, CancelEffect::Force::polite});
      }
    }
  }

  void ask_accounting() {
    if (observed_.lookup_in_flight) return;
    LookUpEffect& lookup = out_.effects.lookup;
    for (const Slot* slot : lookups_) {
      const ReplicaRecord& r = *slot->now;
      auto it = observed_.lookups.find(r.key);
      if (it != observed_.lookups.end() &&
          now_ < it->second.last_asked_at +
                     backoff(it->second.tries, kLookupPause, kLookupPauseCap, r.key))
        continue;
      if (r.job.id != 0) {
        lookup.keys_of_jobs.push_back(r.key);
        lookup.jobs.push_back(r.job);
      } else {
        lookup.keys.push_back(r.key);
      }
    }
  }

  void remove_services() {
    for (const auto& [name, work] : work_) {
      if (work.service->wanted != ServiceRecord::Wanted::removed) continue;
      if (!replicas_of(work, Which::living).empty()) continue;
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
      ServiceView view{work.service,  replicas_of(work, Which::living),
                       work.history,  work.start,
                       work.older,    work.over_limit,
                       work.retry_at, work.successions,
                       work.more};
      report.services[name] = derive(view, observed_, estimates_, policy_, now_);
    }
  }

  void collect_changes() {
    for (Slot& slot : slots_) {
      if (!slot.edited) continue;
      auto was = in_.replicas.find(slot.now->key);
      if (was == in_.replicas.end() || !(was->second == *slot.edited))
        out_.changes.put_replicas.push_back(*slot.edited);
    }
  }

  const Records& in_;
  const Observed& observed_;
  const Estimates& estimates_;
  const Policy& policy_;
  const Instant now_;
  const bool usable_;

  std::deque<Slot> slots_;  // all replicas, by key; then those created
  std::deque<ReplicaRecord> edited_;
  std::unordered_map<std::string_view, Slot*> by_key_;
  std::map<std::string, Work> work_;  // by service
  std::vector<const Slot*> lookups_;
  Plan out_;
};

}  // namespace

Plan plan(const Records& records, const Observed& observed, const Estimates& estimates,
          const Policy& policy, Instant now) {
  return Planner(records, observed, estimates, policy, now).run();
}

}  // namespace berth::plan
