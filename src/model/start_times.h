// When a replica's start reached which point, on Berth's clock.
//
// Two of the three stretches are Berth's own: from the first line of the job's script to the
// engine's exec (the service's setup included), and from the engine's first right answer to the
// first request that can be routed. The one between is the engine's.
// The agent tells how long ago a point was, never a time, so that clocks of nodes do not matter.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"

namespace berth {

struct StartTimes {
  std::optional<Instant> began_at;     // the job's script; absent when it was not Berth's
  std::optional<Instant> engine_at;    // exec of the engine
  std::optional<Instant> answered_at;  // its first right answer
  std::optional<Instant> routed_at;    // in the gateway's routes from here on

  bool operator==(const StartTimes&) const = default;
};

// "to the engine 0.31 s, to its first right answer 4.20 s, to requests 0.02 s"; what is not known
// is left out, "" when nothing is.
std::string describe(const StartTimes& start);

}  // namespace berth
