// The handover of a replica to its successor before the job's time is up.
//
//   lead:  job's end - - - [end_lead: the old one drains] - - - [start: queue and load] <- handover
//
// The lead is learned: a high quantile of what the service's jobs waited and loaded on their
// partition, stretched while little is known, plus a margin for the looks and heartbeats between
// them. It is bounded by a share of the run, so that jobs are not replaced as soon as they serve.
// The old replica serves until as many others do as are wanted (scale.h), or to its last safe
// instant, when its agent begins the planned end by itself.
// Pure and total. Cost: n log n in the replicas given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/replica.h"
#include "model/service.h"
#include "plan/estimates.h"

namespace berth::plan {

struct Lead {
  Duration queue{};      // expected at most
  Duration load{};       // expected at most
  Duration end{};        // the planned end itself
  Duration total{};      // the successor is submitted this long before the job's end
  int samples = 0;       // starts measured; 0: queue and load are assumed
  bool bounded = false;  // by the length of the run: a gap is likely

  bool operator==(const Lead&) const = default;
};

// `estimate` nullptr: nothing is known of the service. `run`: from the job's start to its end.
Lead handover_lead(const ServiceEstimate* estimate, Duration drain_grace, Duration run);

// "1m10s before its end (queue at most 2s, load at most 5s, by 3 starts; its own end 40s)".
std::string words(const Lead& lead);

// When the replica stops to take requests by itself; nullopt: its job's end is not known.
std::optional<Instant> last_safe(const ReplicaRecord& replica, Duration drain_grace);

// Whether the replica's handover should have begun: it has served, nobody stops it, and its end
// is nearer than the lead.
bool nears_its_end(const ReplicaRecord& replica, const ServiceRecord& service,
                   const ServiceEstimate* estimate, Instant now);

// One that is handed over, and what is known of its successor.
struct Succession {
  const ReplicaRecord* old = nullptr;
  const ReplicaRecord* next = nullptr;  // nullptr: not submitted yet
  Instant safe_until{};                 // of the old one
  std::optional<Instant> ready_by;      // of the successor, as far as can be said
  Duration gap{};                       // expected between them; 0: none
};

// The service's handovers, soonest end first, each with the successor that will be ready first.
std::vector<Succession> successions(const ServiceRecord& service,
                                    const std::vector<const ReplicaRecord*>& living,
                                    const ServiceEstimate* estimate, Instant now);

// For people: where the successor is and whether it will be in time.
std::string words(const Succession& succession, Instant now);

}  // namespace berth::plan
