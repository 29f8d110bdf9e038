// What a service's past says about its future: how long its jobs queue and load.
//
// A pure fold over replicas that became ready; the median of the newest few. Absent where there is
// no past. Cost: n log n in the replicas given.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "plan/observed.h"

namespace berth::plan {

struct ServiceEstimate {
  std::optional<Duration> queue_wait;  // submit to the job's start
  std::optional<Duration> load_time;   // the job's start to its first readiness
};

using Estimates = std::map<std::string, ServiceEstimate>;  // by public name

Estimates estimate(const Replicas& replicas);

}  // namespace berth::plan
