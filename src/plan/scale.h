// How many replicas a service should start now, and which it should stop, to come to its target.
//
// Living replicas that queue or load are capacity (A25). Stopped first are those that serve least:
// queued, unhealthy, loading, ready; among equals the newest. Replicas of an older generation or
// restart are replaced with at most Policy::surge jobs above the target. One whose handover has
// begun (handover.h) is replaced as well, in addition to the surge: its job ends in any case. One
// that serves is stopped only when as many others serve as are wanted.
// Guarantee: living replicas never exceed target + surge + those handed over by what is started
// here.
// Pure and total. Cost: n log n in the replicas given.
#pragma once

#include <string>
#include <vector>

#include "model/replica.h"
#include "model/service.h"
#include "plan/policy.h"

namespace berth::plan {

struct StopChoice {
  const ReplicaRecord* replica = nullptr;
  std::string why;
};

struct Scale {
  int start = 0;
  std::vector<StopChoice> stops;
  int older = 0;  // replicas of an older generation or restart that still serve
};

// How many replicas the service wants now.
int target_of(const ServiceRecord& service);

bool is_current(const ReplicaRecord& replica, const ServiceRecord& service);

// `living`: the service's replicas that have not ended, those being stopped included.
Scale scale(const ServiceRecord& service, const std::vector<const ReplicaRecord*>& living,
            const Policy& policy);

}  // namespace berth::plan
