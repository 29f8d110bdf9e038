// The port to whatever runs jobs: Slurm, or the local shim.
//
// Contract of every implementation (tests/contract/sched_contract.cc holds them to it):
//  - A job is found again by its key (its name), so that a submit whose reply was lost is
//    adopted, never repeated.
//  - `submit` that may have happened returns Code::unknown_outcome; one that surely did not
//    returns another code, with the scheduler's own words in the message.
//  - `list` never turns a failure into an empty queue: see JobListing::Quality.
//  - `cancel` of a job that has ended already is a success.
//  - No method throws, none reads the caller's environment for options, each has a deadline.
// Threading: methods block; they are called from the blocking pool, possibly several at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "model/service.h"

namespace berth::sched {

struct JobRequest {
  std::string key;     // becomes the job's name
  std::string script;  // whole text, from job_script.h
  ResourceSpec resources;
  std::string log_path;  // standard output and error, absolute; its folder exists and is writable
  std::string work_dir;  // absolute
  std::string run_as;    // user name; empty: the daemon's own user
  Duration signal_lead =
      seconds(0);  // SIGUSR1 to the steps this long before the time limit; 0: none
};

// Whose job an id is, and where it runs: what a registration is checked against.
struct JobIdentity {
  JobRef ref;
  std::string key;
  uint32_t uid = 0;
  std::string user;
  std::string account;
  JobState state = JobState::unknown;
  std::vector<std::string> nodes;
  std::vector<std::string> addresses;  // of the nodes, as the scheduler knows them (NodeAddr)
  std::optional<Instant> ends_at;
};

enum class CancelMode {
  polite,  // the job's processes get SIGTERM, and SIGKILL after the scheduler's own wait
  kill,
};

// One finding about the scheduler, for `berth doctor`.
struct Finding {
  enum class Level { ok, warning, problem };
  Level level = Level::ok;
  std::string what;    // "slurmctld answers"
  std::string detail;  // what was seen and what to do
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  virtual std::string name() const = 0;  // "slurm", "local"

  virtual Result<JobRef> submit(const JobRequest& request) = 0;
  // All jobs of Berth that have not left the queue, by one question.
  virtual JobListing list() = 0;
  // How the given jobs ended, for those that have. A job not in the answer is not known to have
  // ended. An error: nothing is known.
  virtual Result<std::vector<JobEnd>> ended(const std::vector<JobRef>& jobs) = 0;
  // The same by key, for jobs whose id was never learnt (the reply to their submit was lost).
  virtual Result<std::vector<JobEnd>> ended_by_key(const std::vector<std::string>& keys) = 0;
  virtual Status cancel(const JobRef& job, CancelMode mode) = 0;
  // Lets a running job that began at `started_at` run until `until` or somewhat longer.
  // Code::permission_denied: this site does not let Berth do that.
  virtual Status extend(const JobRef& job, Instant started_at, Instant until) = 0;
  // nullopt: no such job among those that run or wait now.
  virtual Result<std::optional<JobIdentity>> identify(uint64_t job_id) = 0;
  virtual std::vector<Finding> diagnose() = 0;
};

}  // namespace berth::sched
