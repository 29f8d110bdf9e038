// Brings one replica's record up to date with what has been observed: adopts its job, follows it
// through queue, load and service, notices requeues, and establishes its end.
//
// Guarantees: a record becomes `ended` only on evidence: an end told by accounting, or enough
// complete listings without the job while no heartbeat contradicts them, or a refusal. `ended` is
// final (its time may be filled in later). States follow can_follow().
// Pure and total. Cost: constant.
#pragma once

#include <string>
#include <vector>

#include "plan/observed.h"

namespace berth::plan {

// Something worth remembering; becomes an event in the store.
struct Note {
  std::string service;
  std::string replica_key;
  std::string kind;  // "adopted", "ready", "ended", ...
  std::string text;
};

struct Tracked {
  ReplicaRecord record;
  std::vector<Note> notes;
  bool drop_lease = false;    // the lease belongs to a run that is over
  bool wants_lookup = false;  // accounting should be asked how it ended
  bool lost_submit = false;   // surely never became a job: may be sent again
};

// `lease`: the newest lease of this replica, or nullptr.
Tracked track(const ReplicaRecord& replica, const LeaseRecord* lease, const Observed& observed,
              const Policy& policy, Instant now);

}  // namespace berth::plan
