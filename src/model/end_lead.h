// How long before its job's end a replica begins its planned end: agents act on it, and the
// controller has the successor ready by then. Pure and total.
#pragma once

#include <optional>

#include "base/time.h"

namespace berth {

inline constexpr Duration kEngineStop = seconds(15);  // SIGTERM to SIGKILL of the engine
inline constexpr Duration kEndMargin = seconds(5);    // all is over this long before the job's end

// Jobs of declared services are to get SIGUSR1 this long before their limit. It matters to an agent
// that does not know the job's end, or not that it was moved.
inline constexpr Duration kLimitWarning = seconds(30);
// Slurm looks that rarely at limits: a warning comes up to so much earlier than it was asked for.
inline constexpr Duration kWarningEarly = seconds(65);

// The whole end, but at most a third of the run: a short job must not spend most of its life on
// its end. `run`: from the replica's start to the job's end; nullopt: not known.
Duration end_lead(Duration drain_grace, std::optional<Duration> run,
                  Duration engine_stop = kEngineStop, Duration end_margin = kEndMargin);

}  // namespace berth
