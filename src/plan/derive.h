// A service's report, derived from its replicas as plan() leaves them.
//
// Pure and total. Cost: linear in the replicas given.
#pragma once

#include <vector>

#include "plan/estimates.h"
#include "plan/handover.h"
#include "plan/observed.h"
#include "plan/report.h"
#include "plan/scale.h"
#include "plan/starts.h"

namespace berth::plan {

// What plan() decided for one service in this tick.
struct ServiceView {
  const ServiceRecord* service = nullptr;
  std::vector<const ReplicaRecord*> living;  // after this tick's changes
  StartHistory history;
  int missing = 0;  // replicas that should be started and were not
  int older = 0;    // older ones that serve until they are replaced
  bool over_tick_limit = false;
  std::optional<Instant> retry_at;  // of a refused submit
  std::vector<Succession> successions;
  std::vector<Reason> more;  // seen by plan() itself: a guard that held, a second job
};

ServiceReport derive(const ServiceView& view, const Observed& observed, const Estimates& estimates,
                     const Policy& policy, Instant now);

}  // namespace berth::plan
