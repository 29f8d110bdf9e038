// Stopping a replica: when Berth decides it by itself, and how a stop once decided is carried out.
//
// A stop is an intent in the record; it is carried out until the job has ended: a replica that
// serves is asked to drain and given its grace, then (others at once) its job is cancelled, again
// and again with growing pauses, politely at first. Nothing is cancelled that the newest listing
// does not show as ours, since ids are reused.
// Pure and total.
#pragma once

#include <optional>

#include "plan/observed.h"

namespace berth::plan {

enum class StopStep {
  nothing,  // ended, not known yet, or waiting
  drain,    // ask the agent to drain
  cancel,   // politely
  kill,
};

// A reason of Berth's own to stop this replica now: held after a launch failure (C27), an agent
// that never registered, an agent that fell silent. nullopt: none. `service` may be nullptr.
std::optional<StopIntent> overdue(const ReplicaRecord& replica, const LeaseRecord* lease,
                                  const ServiceRecord* service, const Observed& observed,
                                  const Policy& policy, Instant now);

// Whether the replica's job surely is the one of its id now: it is in the newest complete listing,
// or was accepted too recently to be in one. Ids are reused: what was seen a while ago may be
// somebody else's by now.
bool is_surely_its_job(const ReplicaRecord& replica, const Observed& observed, const Policy& policy,
                       Instant now);

// What to do next about a replica with a stop intent.
StopStep next_stop_step(const ReplicaRecord& replica, const LeaseRecord* lease,
                        Duration drain_grace, const Observed& observed, const Policy& policy,
                        Instant now);

}  // namespace berth::plan
