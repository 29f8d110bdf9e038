// What a service's past says about its future: how long its jobs queue and load.
//
// A pure fold over the replicas that became ready in their first run, the newest few of each
// service, on the partition that the service asks for now: the median is what is said to people,
// the high value what is planned for. A service that never started borrows the queue of others on
// its partition. Absent where there is no past. Cost: n log n in the replicas given.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "plan/observed.h"

namespace berth::plan {

struct ServiceEstimate {
  std::optional<Duration> queue_wait;  // submit to the job's start; median
  std::optional<Duration> load_time;   // the job's start to its first readiness; median
  std::optional<Duration> queue_high;  // the 90th percentile; of fewer than ten the highest
  std::optional<Duration> load_high;
  int samples = 0;  // of the service itself
};

using Estimates = std::map<std::string, ServiceEstimate>;  // by public name

Estimates estimate(const Services& services, const Replicas& replicas);

}  // namespace berth::plan
