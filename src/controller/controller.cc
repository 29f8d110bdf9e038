#include "controller/controller.h"

#include <utility>

namespace berth::controller {
namespace {

store::Change to_change(const plan::Changes& changes, Instant now) {
  store::Change change;
  change.put_replicas = changes.put_replicas;
  change.remove_services = changes.remove_services;
  change.remove_leases = changes.remove_leases;
  for (const plan::Note& n : changes.notes)
    change.events.push_back({0, now, n.service, n.replica_key, n.kind, n.text});
  return change;
}

bool same_for_clients(const plan::Report& a, const plan::Report& b) {
  if (a.services.size() != b.services.size()) return false;
  for (auto i = a.services.begin(), j = b.services.begin(); i != a.services.end(); ++i, ++j) {
    bool same = i->first == j->first && i->second.status == j->second.status &&
                i->second.counts == j->second.counts &&
                i->second.reasons.empty() == j->second.reasons.empty();
    if (!same) return false;
  }
  return true;
}

}  // namespace

Controller::Controller(State& state, plan::Policy policy, Instant now)
    : state_(state), policy_(std::move(policy)), last_step_(now) {
  observed_.feed.fresh_since = now;
}

Controller::Step Controller::step(Instant now) {
  // A gap between steps: this process stood still, and so did the heartbeats' way in.
  if (now - last_step_ > policy_.stall_after && observed_.feed.fresh_since)
    observed_.feed.fresh_since = now;
  last_step_ = now;
  Step result;
  if (!deferred_.empty()) {
    result.committed = state_.commit(std::exchange(deferred_, {}));
    if (!result.committed) return result;
  }
  const store::Snapshot& s = state_.snapshot();
  if (estimated_at_ != state_.revision()) {
    estimates_ = plan::estimate(s.services, s.replicas);
    estimated_at_ = state_.revision();
  }
  if (now - window_began_ >= seconds(1)) {
    window_began_ = now;
    submitted_in_window_ = 0;
  }
  plan::Policy policy = policy_;
  policy.max_submits_per_tick -= submitted_in_window_;
  plan::Plan made =
      plan::plan({s.services, s.replicas, s.leases}, observed_, estimates_, policy, now);
  Tally tally = tally_;
  tally.count(made.changes, s.replicas);
  result.committed = commit(made.changes, now);
  if (!result.committed) return result;
  tally_ = std::move(tally);

  observed_.submit_outcomes.clear();
  submitted_in_window_ += static_cast<int>(made.effects.submits.size());
  for (const plan::SubmitEffect& e : made.effects.submits) plan::begin_submit(observed_, e.key);
  for (const plan::CancelEffect& e : made.effects.cancels) {
    observed_.cancels_in_flight.insert(e.key);
    const ReplicaRecord* r = state_.replica(e.key);
    if (!r || r->job.id != e.job.id || r->state == ReplicaState::ended)
      observed_.strays_cancelled_at[e.job.id] = now;
  }
  observed_.lookup_in_flight = observed_.lookup_in_flight || !made.effects.lookup.empty();
  plan::forget_settled(observed_, s.replicas);
  result.publish = state_.revision() != published_at_ || !same_for_clients(report_, made.report);
  published_at_ = state_.revision();
  report_ = std::move(made.report);
  result.effects = std::move(made.effects);
  return result;
}

Status Controller::commit(const plan::Changes& changes, Instant now) {
  store::Change change = to_change(changes, now);
  change.put_scripts = scripts_;
  if (policy_.flaw == plan::Flaw::intent_after_submit) {
    deferred_ = std::move(change);
    return {};
  }
  Status done = state_.commit(change);
  if (done) scripts_.clear();
  return done;
}

void Controller::on_listing(const JobListing& listing) {
  plan::fold_listing(observed_, listing, state_.snapshot().replicas, policy_);
}

void Controller::on_submit_outcome(const std::string& key, const Result<JobRef>& outcome,
                                   Instant now, std::string script) {
  observed_.submits_in_flight.erase(key);
  plan::SubmitOutcome& seen = observed_.submit_outcomes[key];
  seen = {now, std::nullopt, std::nullopt};
  if (outcome)
    seen.job = outcome.value();
  else
    seen.error = outcome.error();
  if (!script.empty()) scripts_[key] = std::move(script);
}

// What scancel says proves nothing (it is silent about jobs it does not know): only the job's end
// counts, and the next attempt's time is in the record.
void Controller::on_cancel_outcome(const std::string& key, const Status& outcome) {
  (void)outcome;
  observed_.cancels_in_flight.erase(key);
}

void Controller::on_ends(const plan::LookUpEffect& asked, Instant asked_at,
                         const Result<std::vector<JobEnd>>& ends) {
  observed_.lookup_in_flight = false;
  std::vector<std::string> keys = asked.keys_of_jobs;
  keys.insert(keys.end(), asked.keys.begin(), asked.keys.end());
  plan::fold_ends(observed_, asked_at, keys, ends, state_.snapshot().replicas, policy_);
}

void Controller::on_feed(Feed feed, Instant now) {
  if (feed == Feed::stale)
    observed_.feed.fresh_since.reset();
  else if (!observed_.feed.fresh_since)
    observed_.feed.fresh_since = now;
}

bool Controller::may_expire(Instant now) const {
  if (policy_.flaw == plan::Flaw::stale_feed_expiry) return true;
  if (now - last_step_ > policy_.stall_after) return false;  // step() has yet to notice a stall
  return observed_.feed.fresh_since && now >= *observed_.feed.fresh_since + policy_.lease_grace;
}

bool Controller::serves(const LeaseRecord& lease, Instant now) const {
  if (lease.state != LeaseState::ready || plan::expired(lease, observed_.feed, policy_, now))
    return false;
  const ReplicaRecord* r = state_.replica(lease.replica_key);
  return r && r->state != ReplicaState::ended && !r->stop && !r->agent_end;
}

std::vector<route::Route> Controller::routes(LoadTable& loads, Instant now) const {
  const store::Snapshot& snapshot = state_.snapshot();
  std::map<std::string, route::Route> by_name;
  for (const auto& [name, service] : snapshot.services) {
    route::Route& route = by_name[name];
    route.public_name = name;
    route.owner = service.owner;
    route.project = service.project;
    route.access = service.spec.access;
    route.created_at = service.created_at;
    auto it = report_.services.find(name);
    if (it == report_.services.end()) continue;
    route.status = it->second.status;
    route.status_text = plan::status_line(it->second, now);
    route.retry_after = it->second.retry_after;
  }
  for (const auto& [id, lease] : snapshot.leases) {
    auto it = by_name.find(lease.public_name);
    if (lease.replica_key.empty() || it == by_name.end()) continue;
    if (lease.context_length) it->second.context_length = lease.context_length;
    if (serves(lease, now)) it->second.targets.push_back(target_of(lease, loads));
  }
  std::vector<route::Route> routes;
  for (auto& [name, route] : by_name) routes.push_back(std::move(route));
  for (route::Route& route : self_registered_routes(snapshot, loads))
    routes.push_back(std::move(route));
  return routes;
}

}  // namespace berth::controller
