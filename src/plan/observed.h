// What has been seen of the world since this process started: possibly stale, possibly partial.
//
// Observed is built by pure folds over events (a listing came, a submit answered, accounting said
// how a job ended) and read by plan(). It is not durable: after a restart it is empty, and plan()
// then knows nothing, which is safe (it neither submits nor cancels before a whole listing).
// Guarantees: events may arrive late, twice or out of order; an older listing never overrides a
// newer one. A listing proves absence only where JobListing::absence_is_evidence says so.
// Cost: a fold is linear in the listing and the records.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/job.h"
#include "model/lease.h"
#include "model/replica.h"
#include "model/service.h"
#include "plan/policy.h"

namespace berth::plan {

using Services = std::map<std::string, ServiceRecord>;  // by public name
using Replicas = std::map<std::string, ReplicaRecord>;  // by key
using Leases = std::map<std::string, LeaseRecord>;      // by id

struct JobSeen {
  JobObserved job;
  Instant asked_at{};  // of the newest listing that showed it
};

// Good listings in a row that should have shown a job and did not.
struct Absence {
  int polls = 0;
  Instant last_asked_at{};
};

// Questions to accounting about one replica's end.
struct Lookup {
  int tries = 0;
  Instant last_asked_at{};
  std::optional<Instant> answered_at;  // when a question was asked that accounting answered
};

struct EndSeen {
  JobEnd end;
  Instant asked_at{};
};

// What came back from a submit; `job` on success, else `error`.
struct SubmitOutcome {
  Instant at{};
  std::optional<JobRef> job;
  std::optional<Error> error;
};

struct SchedulerObserved {
  std::optional<Instant> newest_asked_at;    // of any listing taken in
  std::optional<Instant> complete_asked_at;  // of the newest complete one
  std::optional<Instant> failing_since;      // set while the newest was not complete
  std::string error;

  // Whether what is known is good enough to act on: submit and cancel.
  bool usable(Instant now, const Policy& policy) const {
    return !failing_since && complete_asked_at &&
           now - *complete_asked_at <= policy.listing_stale_after;
  }
};

// Whether heartbeats could arrive. `fresh_since` is the instant since which they could without a
// break; absent: they cannot now (start, a stall of this process, a gateway that was cut off).
struct FeedObserved {
  std::optional<Instant> fresh_since;
};

struct Observed {
  SchedulerObserved scheduler;
  FeedObserved feed;
  // By key; several only if something is wrong.
  std::unordered_map<std::string, std::vector<JobSeen>> jobs;
  std::map<std::string, Absence> absences;               // by key
  std::map<std::string, Lookup> lookups;                 // by key
  std::map<std::string, EndSeen> ends;                   // by key
  std::map<std::string, SubmitOutcome> submit_outcomes;  // by key; not yet in the records
  std::set<std::string> submits_in_flight;               // keys
  std::set<std::string> cancels_in_flight;               // keys
  std::map<uint64_t, Instant> strays_cancelled_at;       // jobs that no living record owns, by id
  bool lookup_in_flight = false;
};

// From when on a complete listing must show the replica's job.
Instant listed_since(const ReplicaRecord& replica, const Policy& policy);

void fold_listing(Observed& observed, const JobListing& listing, const Replicas& replicas,
                  const Policy& policy);

// `keys` were asked about at `asked_at`; `ends` is the answer.
void fold_ends(Observed& observed, Instant asked_at, const std::vector<std::string>& keys,
               const Result<std::vector<JobEnd>>& ends, const Replicas& replicas,
               const Policy& policy);

// A submit under this key is on its way: what was known of an earlier one no longer counts.
void begin_submit(Observed& observed, const std::string& key);

// Drops what is kept about replicas that need it no more.
void forget_settled(Observed& observed, const Replicas& replicas);

// The job in the newest listings that is this replica's, by key and, once known, id.
const JobSeen* find_job(const Observed& observed, const ReplicaRecord& replica);

// How this replica's job ended, if accounting said so: key, id and submit time agree, and no newer
// listing shows the job alive (a requeued job keeps its id, and its earlier runs have ends).
const EndSeen* find_end(const Observed& observed, const ReplicaRecord& replica,
                        const Policy& policy);

// Whether the lease has run out, given that heartbeats must have been able to arrive for a while.
bool expired(const LeaseRecord& lease, const FeedObserved& feed, const Policy& policy, Instant now);

}  // namespace berth::plan
