// One run of the real controller in a world that misbehaves, on a virtual clock.
//
// The world: a SlurmFake, agents with engines that load and die, people who change their minds, a
// controller that is killed and started again, a feed that stalls. Faults run for a while, then
// stop; then the world must converge within a bound. The oracles look at the hidden truth, since
// self-healing hides mistakes from whoever looks at end states only:
//   - nothing is declared ended while its job is alive;
//   - no job reaches Slurm before its intent is durable;
//   - no job of somebody else is cancelled;
//   - a replica that serves is stopped only for a stated reason, and given up only when it was
//     silent or ill;
//   - jobs made are bounded by what changed and what ended;
//   - never more live jobs of a service than its target and the surge;
//   - nobody who was heard in time, or could not be heard, is taken for unhealthy;
//   - in the end each service has what was asked for, and nothing else lives.
// The same seed gives the same run (lease ids are random and decide nothing).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/policy.h"

namespace berth::sim {

enum class StoreKind { memory, sqlite };

struct Options {
  uint64_t seed = 1;
  plan::Flaw flaw = plan::Flaw::none;
  StoreKind store = StoreKind::memory;
  enum class Trace { off, on } trace = Trace::off;
};

struct Outcome {
  std::optional<std::string> violation;  // which oracle, and what it saw
  int64_t virtual_ms = 0;
  int steps = 0, commits = 0, submits = 0, jobs = 0, cancels = 0, restarts = 0, ends = 0;
  int handovers = 0;
  int64_t converged_ms = 0;  // after the faults had stopped
  uint64_t digest = 0;       // of what happened, to compare runs

  bool ok() const { return !violation; }
};

Outcome simulate(const Options& options);

}  // namespace berth::sim
