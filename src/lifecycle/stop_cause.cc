#include "lifecycle/stop_cause.h"

#include <fmt/format.h>

#include <utility>

#include "model/exit_status.h"

namespace berth::lifecycle {
namespace {

// SIGTERM this close to the job's end is the time limit: slurmctld looks about every 30 s, always
// late, so a TERM for the limit comes at or after the end.
constexpr Duration kLimitTolerance = seconds(5);
// --signal may come up to this much earlier than asked for (sbatch's manual).
constexpr Duration kWarningSlack = seconds(60);
// The lead of --signal is the script's choice and not known here; scripts use a few minutes.
constexpr Duration kWarningLead = minutes(15);

std::string with_words(std::string text, const std::string& words) {
  return words.empty() ? text : std::move(text) + ": " + words;
}

std::string left(const StopFacts& facts) {
  if (!facts.time_left) return "the job's end is not known";
  if (facts.time_left->count() <= 0) return "the job's time is up";
  return to_human(*facts.time_left) + " of the job's time left";
}

StopVerdict judge_term(const StopFacts& facts) {
  if (facts.scheduler == SchedulerWord::preempted)
    return {EndCause::preempted, kExitPreempted, "SIGTERM: the scheduler preempts the job"};
  if (facts.scheduler == SchedulerWord::cancelled)
    return {EndCause::cancelled, kExitCancelled, "SIGTERM: the job was cancelled"};
  bool at_limit = facts.time_left && *facts.time_left <= kLimitTolerance;
  if (facts.scheduler == SchedulerWord::time_limit || at_limit)
    return {EndCause::time_limit, kExitTimeLimit, "SIGTERM at the job's time limit"};
  return {EndCause::cancelled, kExitCancelled,
          fmt::format("SIGTERM with {}: cancelled or preempted, the signal does not tell",
                      left(facts))};
}

StopVerdict judge_warning(const StopFacts& facts) {
  if (facts.scheduler == SchedulerWord::preempted)
    return {EndCause::preempted, kExitPreempted, "SIGUSR1: the scheduler preempts the job"};
  bool early =
      facts.time_left && *facts.time_left > std::max(kWarningLead, facts.end_lead) + kWarningSlack;
  if (early)
    return {EndCause::preempted, kExitPreempted,
            fmt::format("SIGUSR1 with {}: too early for a warning of the time limit, taken for "
                        "a preemption",
                        left(facts))};
  return {EndCause::completed, kExitPlanned, fmt::format("SIGUSR1: {}", left(facts))};
}

// The engine's last lines stand below the sentence, which is complete without them.
std::string with_last_lines(std::string text, const std::string& lines) {
  return lines.empty() ? text : std::move(text) + "\n" + lines;
}

StopVerdict judge_exit(const StopFacts& facts) {
  std::string how = describe_exit(facts.exit_code, facts.signal);
  if (facts.was_ready)
    return {EndCause::crashed, kExitCrashed,
            with_last_lines("the engine ended by itself: " + how, facts.words)};
  return {EndCause::failed_to_load, kExitFailedToLoad,
          with_last_lines("the engine ended before it was ready: " + how, facts.words)};
}

}  // namespace

StopVerdict judge_stop(const StopFacts& facts) {
  switch (facts.reason) {
    case StopReason::directive:
      return {EndCause::stopped, kExitPlanned, with_words("Berth asked for a drain", facts.words)};
    case StopReason::job_end_near:
      return {EndCause::completed, kExitPlanned,
              fmt::format("the job's time is nearly up ({})", left(facts))};
    case StopReason::signal_usr1:
      return judge_warning(facts);
    case StopReason::signal_term:
      return judge_term(facts);
    case StopReason::signal_int:
      return {EndCause::cancelled, kExitCancelled, "interrupted by SIGINT"};
    case StopReason::engine_exited:
      return judge_exit(facts);
    case StopReason::wrong_model:
      return {EndCause::failed_to_load, kExitFailedToLoad,
              with_words("the engine answers, but not as the right model", facts.words)};
    case StopReason::load_timeout:
      return {EndCause::load_timeout, kExitLoadTimeout,
              with_words("the engine was not ready in time", facts.words)};
    case StopReason::refused:
      return {EndCause::failed_to_load, kExitRefused,
              with_words("Berth refused the registration", facts.words)};
    case StopReason::could_not_start:
      return {EndCause::failed_to_load, kExitFault, with_words("could not start", facts.words)};
  }
  return {EndCause::unknown, kExitFault, facts.words};
}

}  // namespace berth::lifecycle
