// A job as a scheduler shows it. Everything here is *observed*: possibly stale, possibly partial.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace berth {

// Identity of a job. Ids are reused and requeued jobs keep theirs: a job is ours only when id,
// submit time (once known) and key (its name) all agree.
struct JobRef {
  uint64_t id = 0;                     // 0: not known yet
  std::string cluster;                 // "" unless the site's sbatch names one ("30;lab")
  std::optional<Instant> submit_time;  // as Slurm reports it, whole seconds

  bool operator==(const JobRef&) const = default;
};

// The states Berth tells apart; Slurm's others are mapped onto them by sched/slurm_text.
enum class JobState {
  pending,
  configuring,  // nodes are being booted or set up
  running,
  suspended,
  completing,
  completed,
  failed,  // ended with a non-zero exit code or could not be launched
  cancelled,
  timed_out,  // its time limit
  preempted,
  node_failed,  // NODE_FAIL, BOOT_FAIL
  out_of_memory,
  deadline,  // --deadline missed
  requeued,  // this run ended by requeue; the same id goes on
  unknown,   // text Berth does not know; never taken for an end
};

std::string_view to_string(JobState state);
// True for the states from which no process of this run is left.
bool is_ended(JobState state);

// What a pending reason means for the one who waits (field case C15).
enum class PendingClass {
  waiting,      // will start by itself
  needs_admin,  // somebody must act: node down, held
  never,        // can never start as asked
};

struct JobObserved {
  JobRef ref;
  std::string key;  // the job's name: the replica's key when it is one of ours
  std::string user;
  std::string account;
  JobState state = JobState::unknown;
  std::string state_text;  // as the scheduler wrote it
  std::string reason;      // verbatim; meaning depends on the state
  PendingClass pending_class = PendingClass::waiting;
  std::vector<std::string> nodes;
  int restarts = 0;  // how often it was requeued
  std::optional<Instant> started_at;
  std::optional<Instant> estimated_start;
  std::optional<Instant> ends_at;  // start + time limit, for a running job
  std::optional<Duration> time_limit;

  bool operator==(const JobObserved&) const = default;
};

// One look at the scheduler's queue. `absence_is_evidence()` is the only way to conclude anything
// from a job that is not listed.
struct JobListing {
  enum class Quality {
    complete,  // the scheduler answered, wholly
    partial,   // cut, filtered, or with an error beside it: what is listed is true, no more
    failed,    // no answer; `error` says why
  };
  Quality quality = Quality::failed;
  Instant asked_at{};  // before the question was sent: jobs submitted later may be missing
  std::vector<JobObserved> jobs;
  std::string error;

  // A complete listing asked for later than `since` proves that a job not in it is not queued.
  bool absence_is_evidence(Instant since) const {
    return quality == Quality::complete && asked_at > since;
  }
};

// How a job ended, from accounting or the scheduler's memory of ended jobs.
struct JobEnd {
  JobRef ref;
  std::string key;
  JobState state = JobState::unknown;
  std::string state_text;
  std::optional<int> exit_code;  // of the job's script; values of 128 and more are the real ones
  std::optional<int> signal;
  std::optional<uint32_t> cancelled_by_uid;
  std::optional<Instant> started_at;
  std::optional<Instant> ended_at;  // absent: provisional (C05)
  std::vector<std::string> nodes;
  std::string reason;

  bool operator==(const JobEnd&) const = default;
};

}  // namespace berth
