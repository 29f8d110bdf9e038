// The history of a service's starts: how many failed in a row, and when the next may be tried.
//
// A fold over the service's replicas, ended and living; nothing is stored. A replica has failed
// when its agent says so or Berth has given it up, though its job may still be there. Replicas
// that failed together count as one failed start. Failures before `resumed_at` (start, restart,
// apply) do not count; nor do those before a replica that stayed ready for Policy::stable_after. A
// cancel by somebody else counts, so that Berth does not fight a person for ever. Pure and total.
// Cost: n log n in the replicas given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/replica.h"
#include "model/service.h"
#include "plan/policy.h"

namespace berth::plan {

struct StartHistory {
  int failures = 0;                        // in a row
  bool gave_up = false;                    // max_start_attempts reached
  std::optional<Instant> next_at;          // no new replica before this
  std::string last_error;                  // how the last of them failed
  std::vector<std::string> exclude_nodes;  // where jobs failed to launch, newest first
};

// `replicas`: all of the service's, in any order.
StartHistory start_history(const ServiceRecord& service,
                           const std::vector<const ReplicaRecord*>& replicas, const Policy& policy,
                           Instant now);

// Whether this replica has failed, in a way that speaks against starting again at once.
bool failed_start(const ReplicaRecord& replica);

}  // namespace berth::plan
