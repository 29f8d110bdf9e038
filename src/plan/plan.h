// plan(): compares what is declared with what is recorded and observed, and says what to do.
//
// Inputless between calls, level-triggered, idempotent: an event is only a hint to plan again, and
// a second call on the result changes nothing. Total and deterministic; no I/O, clock or RNG.
//
// The caller commits `changes` first and runs `effects` only when that has succeeded (intent
// before effect), then feeds what came back into Observed. Guarantees, given that:
//  - a job is submitted only under a key whose record was committed before;
//  - a key is submitted again only when it is known that no job carries it;
//  - nothing is submitted or cancelled on partial, failed or old knowledge of the queue;
//  - at most max_submits_per_tick submits and max_cancels_per_tick cancels.
// Scaling by load will come as one more value beside Estimates.
// Cost: n log n in the records; copies only those that change (bench/controller).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/estimates.h"
#include "plan/observed.h"
#include "plan/policy.h"
#include "plan/report.h"
#include "plan/track.h"

namespace berth::plan {

// Durable: what the store is to be told.
struct Changes {
  std::vector<ReplicaRecord> put_replicas;
  std::vector<std::string> remove_services;  // removed ones whose replicas have all ended
  std::vector<std::string> remove_leases;    // of runs that are over
  std::vector<Note> notes;

  bool empty() const {
    return put_replicas.empty() && remove_services.empty() && remove_leases.empty() &&
           notes.empty();
  }
};

struct SubmitEffect {
  std::string key;  // of a record with submit == intended
};

struct CancelEffect {
  enum class Force { polite, kill };
  std::string key;
  JobRef job;
  Force force = Force::polite;
};

struct DrainEffect {
  std::string key;
  std::string lease_id;
  std::string why;
};

// Ask the scheduler to let the job run until `until`.
struct ExtendEffect {
  std::string key;
  JobRef job;
  Instant started_at{};
  Instant until{};
};

// Ask accounting how these ended; `jobs` where the id is known, `keys` where it is not.
struct LookUpEffect {
  std::vector<std::string> keys_of_jobs;  // one for each of `jobs`
  std::vector<JobRef> jobs;
  std::vector<std::string> keys;

  bool empty() const { return jobs.empty() && keys.empty(); }
};

struct Effects {
  std::vector<SubmitEffect> submits;
  std::vector<CancelEffect> cancels;
  std::vector<DrainEffect> drains;
  std::vector<ExtendEffect> extensions;
  LookUpEffect lookup;
};

struct Plan {
  Changes changes;
  Effects effects;
  Report report;
};

// What is durable now, by reference.
struct Records {
  const Services& services;
  const Replicas& replicas;
  const Leases& leases;
};

Plan plan(const Records& records, const Observed& observed, const Estimates& estimates,
          const Policy& policy, Instant now);

}  // namespace berth::plan
