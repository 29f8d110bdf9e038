#include "lifecycle/stop_cause.h"

#include <fmt/format.h>

#include <array>
#include <utility>

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

StopVerdict judge_exit(const StopFacts& facts) {
  std::string how = describe_exit(facts.exit_code, facts.signal);
  if (facts.was_ready)
    return {EndCause::crashed, kExitCrashed,
            with_words("the engine ended by itself with " + how, facts.words)};
  return {EndCause::failed_to_load, kExitFailedToLoad,
          with_words("the engine ended with " + how + " before it was ready", facts.words)};
}

}  // namespace

std::string describe_exit(std::optional<int> exit_code, std::optional<int> signal) {
  static constexpr std::array<std::pair<int, const char*>, 9> kNames{{{1, "SIGHUP"},
                                                                      {2, "SIGINT"},
                                                                      {4, "SIGILL"},
                                                                      {6, "SIGABRT"},
                                                                      {7, "SIGBUS"},
                                                                      {8, "SIGFPE"},
                                                                      {9, "SIGKILL"},
                                                                      {11, "SIGSEGV"},
                                                                      {15, "SIGTERM"}}};
  if (signal) {
    for (const auto& [number, name] : kNames)
      if (number == *signal)
        return fmt::format("signal {} ({}{})", number, name,
                           number == 9 ? ", often the kernel when memory is short" : "");
    return fmt::format("signal {}", *signal);
  }
  if (!exit_code) return "an unknown status";
  if (*exit_code == 127) return "status 127 (command not found?)";
  if (*exit_code == 126) return "status 126 (command not executable?)";
  if (*exit_code > 128 && *exit_code < 160)
    return fmt::format("status {} (a shell's word for signal {})", *exit_code, *exit_code - 128);
  return fmt::format("status {}", *exit_code);
}

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
