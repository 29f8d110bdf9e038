#include "plan/observed.h"

#include <algorithm>

namespace berth::plan {
namespace {

bool alive(const JobSeen& seen) { return !is_ended(seen.job.state); }

// The key a listed job counts under.
std::string key_of(const JobObserved& job, const Replicas& replicas, const Policy& policy) {
  if (policy.flaw == Flaw::reused_id)
    for (const auto& [key, replica] : replicas)
      if (replica.job.id == job.ref.id && replica.state != ReplicaState::ended) return key;
  return job.key;
}

}  // namespace

Instant listed_since(const ReplicaRecord& replica, const Policy& policy) {
  Instant sent = replica.submit_sent_at.value_or(replica.intended_at);
  if (replica.submit != SubmitState::accepted) return sent + policy.submit_grace;
  return std::max(sent, replica.last_seen_at.value_or(sent));
}

void fold_listing(Observed& observed, const JobListing& listing, const Replicas& replicas,
                  const Policy& policy) {
  SchedulerObserved& scheduler = observed.scheduler;
  if (scheduler.newest_asked_at && listing.asked_at <= *scheduler.newest_asked_at) return;
  scheduler.newest_asked_at = listing.asked_at;
  if (listing.quality == JobListing::Quality::complete) {
    scheduler.complete_asked_at = listing.asked_at;
    scheduler.failing_since.reset();
    scheduler.error.clear();
  } else {
    if (!scheduler.failing_since) scheduler.failing_since = listing.asked_at;
    scheduler.error = listing.error;
  }
  if (listing.quality == JobListing::Quality::failed) return;

  std::unordered_map<std::string, std::vector<JobSeen>> listed;
  listed.reserve(listing.jobs.size());
  for (const JobObserved& job : listing.jobs)
    listed[key_of(job, replicas, policy)].push_back({job, listing.asked_at});

  bool absence_counts =
      listing.quality == JobListing::Quality::complete || policy.flaw == Flaw::partial_absence;
  for (const auto& [key, replica] : replicas) {
    if (replica.state == ReplicaState::ended) continue;
    auto it = listed.find(key);
    if (it != listed.end() && std::any_of(it->second.begin(), it->second.end(), alive)) {
      observed.absences.erase(key);
      observed.lookups.erase(key);
      observed.ends.erase(key);
      continue;
    }
    if (!absence_counts || observed.submits_in_flight.contains(key)) continue;
    bool evidence = listing.absence_is_evidence(listed_since(replica, policy)) ||
                    policy.flaw == Flaw::stale_listing || policy.flaw == Flaw::partial_absence;
    if (!evidence) continue;
    Absence& absence = observed.absences[key];
    ++absence.polls;
    absence.last_asked_at = listing.asked_at;
  }
  if (listing.quality == JobListing::Quality::complete) {
    observed.jobs = std::move(listed);
  } else {
    for (auto& [key, seen] : listed) observed.jobs[key] = std::move(seen);
    if (policy.flaw == Flaw::partial_absence)
      std::erase_if(observed.jobs, [&](const auto& entry) {
        return entry.second.front().asked_at < listing.asked_at;
      });
  }
}

void fold_ends(Observed& observed, Instant asked_at, const std::vector<std::string>& keys,
               const Result<std::vector<JobEnd>>& ends, const Replicas& replicas,
               const Policy& policy) {
  for (const std::string& key : keys) {
    Lookup& lookup = observed.lookups[key];
    ++lookup.tries;
    lookup.last_asked_at = std::max(lookup.last_asked_at, asked_at);
    if (ends.ok()) lookup.answered_at = asked_at;
  }
  if (!ends.ok()) return;
  for (const JobEnd& end : ends.value()) {
    if (!is_ended(end.state)) continue;
    std::string key = end.key;
    if (key.empty() || policy.flaw == Flaw::reused_id)  // not told: by id, checked in find_end
      for (const std::string& asked : keys) {
        auto it = replicas.find(asked);
        if (it != replicas.end() && it->second.job.id == end.ref.id) key = asked;
      }
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    auto it = observed.ends.find(key);
    if (it != observed.ends.end() && it->second.end.ref.submit_time > end.ref.submit_time) continue;
    observed.ends[key] = {end, asked_at};
  }
}

void begin_submit(Observed& observed, const std::string& key) {
  observed.submits_in_flight.insert(key);
  observed.submit_outcomes.erase(key);
  observed.absences.erase(key);
  observed.lookups.erase(key);
  observed.ends.erase(key);
}

void forget_settled(Observed& observed, const Replicas& replicas) {
  auto settled = [&](const auto& entry) {
    auto it = replicas.find(entry.first);
    return it == replicas.end() ||
           (it->second.state == ReplicaState::ended && it->second.ended_at.has_value());
  };
  std::erase_if(observed.absences, settled);
  std::erase_if(observed.lookups, settled);
  std::erase_if(observed.ends, settled);
}

const JobSeen* find_job(const Observed& observed, const ReplicaRecord& replica) {
  auto it = observed.jobs.find(replica.key);
  if (it == observed.jobs.end()) return nullptr;
  const JobSeen* found = nullptr;
  for (const JobSeen& seen : it->second) {
    if (replica.job.id != 0) {
      if (seen.job.ref.id == replica.job.id) return &seen;
    } else if (!found || seen.job.ref.id < found->job.ref.id) {
      found = &seen;
    }
  }
  return found;
}

const EndSeen* find_end(const Observed& observed, const ReplicaRecord& replica,
                        const Policy& policy) {
  auto it = observed.ends.find(replica.key);
  if (it == observed.ends.end()) return nullptr;
  const EndSeen& seen = it->second;
  if (replica.job.id != 0 && seen.end.ref.id != replica.job.id) return nullptr;
  // Accounting keeps an end for each run of a requeued job; earlier runs were submitted earlier.
  if (policy.flaw != Flaw::reused_id && replica.job.submit_time && seen.end.ref.submit_time &&
      *seen.end.ref.submit_time < *replica.job.submit_time)
    return nullptr;
  const JobSeen* job = find_job(observed, replica);
  if (job && alive(*job) && job->asked_at > seen.asked_at) return nullptr;
  return &seen;
}

bool expired(const LeaseRecord& lease, const FeedObserved& feed, const Policy& policy,
             Instant now) {
  if (policy.flaw == Flaw::stale_feed_expiry) return now >= lease.expires_at;
  if (!feed.fresh_since) return false;
  return now >= lease.expires_at && now >= *feed.fresh_since + policy.lease_grace;
}

}  // namespace berth::plan
