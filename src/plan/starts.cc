#include "plan/starts.h"

#include <algorithm>

#include "plan/backoff.h"

namespace berth::plan {
namespace {

Instant end_of(const ReplicaRecord& replica) {
  return replica.ended_at.value_or(replica.state_since);
}

bool agent_failed(const ReplicaRecord& r) {
  return r.agent_end && counts_as_failure(r.agent_end->cause);
}
bool given_up(const ReplicaRecord& r) { return r.stop && counts_as_failure(r.stop->cause); }

// When Berth first knew: what it did next followed from this, not from the scheduler's clock.
Instant known_at(const ReplicaRecord& r) {
  if (agent_failed(r)) return r.agent_end->at;
  if (given_up(r)) return r.stop->decided_at;
  return std::max(r.state_since, end_of(r));
}

std::string error_of(const ReplicaRecord& r) {
  if (r.state == ReplicaState::ended) return r.end_detail;
  return agent_failed(r) ? r.agent_end->detail : r.stop->why;
}

bool was_stable(const ReplicaRecord& replica, const Policy& policy, Instant until) {
  return replica.ready_at && until - *replica.ready_at >= policy.stable_after;
}

}  // namespace

bool failed_start(const ReplicaRecord& r) {
  if (agent_failed(r) || given_up(r)) return true;
  if (r.state != ReplicaState::ended) return false;
  EndCause cause = r.end_cause.value_or(EndCause::unknown);
  if (counts_as_failure(cause) || cause == EndCause::cancelled) return true;
  // A job that ends before it ever served is no success, however politely it ended.
  return !r.ready_at && (cause == EndCause::completed || cause == EndCause::time_limit);
}

StartHistory start_history(const ServiceRecord& service,
                           const std::vector<const ReplicaRecord*>& replicas, const Policy& policy,
                           Instant now) {
  StartHistory history;
  std::vector<const ReplicaRecord*> ended;
  std::optional<Instant> proven;  // a living replica has been ready for long since then
  for (const ReplicaRecord* r : replicas) {
    if (r->state == ReplicaState::ended || failed_start(*r)) {
      if (known_at(*r) > service.resumed_at) ended.push_back(r);
    } else if (r->state == ReplicaState::ready && was_stable(*r, policy, now)) {
      proven = std::max(proven.value_or(*r->ready_at), *r->ready_at);
    }
  }
  std::sort(ended.begin(), ended.end(), [](const ReplicaRecord* a, const ReplicaRecord* b) {
    return std::pair(known_at(*a), a->key) < std::pair(known_at(*b), b->key);
  });
  Instant counted = Instant::min();  // when the last counted failure was known
  Instant last_failed{};
  std::optional<Instant> last_unplanned;
  for (const ReplicaRecord* r : ended) {
    if (was_stable(*r, policy, known_at(*r))) history.failures = 0, counted = Instant::min();
    if (r->end_cause == EndCause::stopped) continue;
    last_unplanned = known_at(*r);
    if (!failed_start(*r)) continue;
    if (proven && *proven > known_at(*r)) continue;
    history.last_error = error_of(*r);
    last_failed = known_at(*r);
    bool same_round = r->intended_at < counted;
    if (!same_round) {
      ++history.failures;
      counted = known_at(*r);
    }
  }
  history.gave_up = history.failures >= std::max(service.spec.max_start_attempts, 1);
  if (history.failures > 0)
    history.next_at = last_failed + backoff(history.failures, policy.start_backoff,
                                            policy.start_backoff_cap, service.public_name);
  else if (last_unplanned)
    history.next_at = *last_unplanned + policy.start_backoff;
  for (auto it = ended.rbegin(); it != ended.rend(); ++it) {
    const ReplicaRecord& r = **it;
    bool known = std::find(history.exclude_nodes.begin(), history.exclude_nodes.end(), r.node) !=
                 history.exclude_nodes.end();
    bool launch = r.end_cause == EndCause::launch_failed ||
                  (r.stop && r.stop->cause == EndCause::launch_failed);
    if (launch && !r.node.empty() && !known &&
        std::ssize(history.exclude_nodes) < policy.max_excluded_nodes)
      history.exclude_nodes.push_back(r.node);
  }
  return history;
}

}  // namespace berth::plan
