// What monitoring is told of services and replicas: Prometheus text.
//
// Labels are few and bounded: no service, user or key is one. Counters begin at zero with the
// process. Pure. Cost: linear in the services.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "plan/plan.h"

namespace berth::controller {

// Counts what was committed.
struct Tally {
  std::map<std::string, uint64_t> events;  // by kind of note
  std::map<EndCause, uint64_t> ends;       // of replicas

  // `before`: the replicas as they were.
  void count(const plan::Changes& changes, const plan::Replicas& before);
};

std::string metrics_text(const plan::Report& report, const Tally& tally);

}  // namespace berth::controller
