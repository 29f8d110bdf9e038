// Why a replica's agent ends, and the exit status that tells it.
//
// A pure function from what is known (the first thing that asked for the end, the job's time left,
// the scheduler's own word where it was asked, the engine's exit) to an EndCause, the agent's exit
// status and a sentence for people.
//
// Exit statuses of `berth agent`, all below 128 so that none looks like a signal:
//
//   0   planned: Berth asked for a drain, or the job's time was nearly up and the agent left first
//   1   the agent could not do its work (workspace, port, isolation, engine not executable)
//   2   wrong usage of the command line
//   10  the engine ended, or answered as another model, before it was ready
//   11  the engine was not ready within --load-timeout
//   12  the engine died after it was ready
//   13  Berth refused the registration
//   20  cancelled: SIGTERM or SIGINT with time left, from somebody else than Berth
//   21  the job's time limit: SIGTERM when the time was up
//   22  preempted
//
// What cannot be known: Slurm sends the same SIGTERM for scancel, the time limit and preemption.
// With the job's end known, the time limit is told apart by the clock; scancel and preemption only
// by asking the scheduler (SchedulerWord), which may not answer in time. Then SIGTERM counts as
// cancelled, and the sentence says that it may have been a preemption.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "model/replica.h"

namespace berth::lifecycle {

enum class StopReason {
  directive,     // Berth asked for a drain
  job_end_near,  // by the clock
  signal_usr1,   // the warning that a batch script asks for with --signal
  signal_term,
  signal_int,
  engine_exited,  // by itself
  wrong_model,    // it answers, but not as the right model
  load_timeout,
  refused,          // Berth refused the registration for good
  could_not_start,  // the engine could not be executed, or the agent has no address
};

// What the scheduler said of the job after a signal.
enum class SchedulerWord { none, cancelled, time_limit, preempted };

struct StopFacts {
  StopReason reason = StopReason::directive;
  bool was_ready = false;
  std::optional<Duration> time_left;  // to the job's end, when the stop was asked for
  Duration end_lead = seconds(0);     // how long before the job's end a planned end begins
  SchedulerWord scheduler = SchedulerWord::none;
  std::optional<int> exit_code;  // of the engine, when it ended by itself
  std::optional<int> signal;     // that killed the engine
  std::string words;  // what is known more: Berth's reason, the engine's last lines, the error
};

struct StopVerdict {
  EndCause cause = EndCause::completed;
  int exit_status = 0;
  std::string detail;  // for people: one sentence, then perhaps the engine's last lines

  bool operator==(const StopVerdict&) const = default;
};

inline constexpr int kExitPlanned = 0;
inline constexpr int kExitFault = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFailedToLoad = 10;
inline constexpr int kExitLoadTimeout = 11;
inline constexpr int kExitCrashed = 12;
inline constexpr int kExitRefused = 13;
inline constexpr int kExitCancelled = 20;
inline constexpr int kExitTimeLimit = 21;
inline constexpr int kExitPreempted = 22;

StopVerdict judge_stop(const StopFacts& facts);

}  // namespace berth::lifecycle
