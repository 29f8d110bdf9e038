// How a replica ended, from two witnesses: its agent (what the engine did) and the scheduler's
// accounting (what became of the job). Either may be missing.
//
// The scheduler is believed about what it did itself (preemption, node failure, time limit,
// memory), the agent about its engine. Berth's own cancels are told from other people's by
// whether one was sent. Pure and total.
#pragma once

#include <optional>
#include <string>

#include "model/job.h"
#include "model/replica.h"
#include "plan/policy.h"

namespace berth::plan {

struct Verdict {
  EndCause cause = EndCause::unknown;
  std::string detail;  // for people
  std::optional<int> exit_code;
  std::optional<int> signal;
};

// `end` nullptr: accounting knows nothing.
Verdict judge_end(const ReplicaRecord& replica, const JobEnd* end, const Policy& policy);

}  // namespace berth::plan
