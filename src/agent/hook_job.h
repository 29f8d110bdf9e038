// The job the agent runs in: from its environment, and where that is silent, from Slurm.
//
// Environment: SLURM_JOB_ID, SLURM_CLUSTER_NAME, SLURM_RESTART_COUNT (absent in the first run),
// SLURM_JOB_ACCOUNT, SLURMD_NODENAME, SLURM_JOB_END_TIME (newer Slurm); or the local scheduler's
// BERTH_LOCAL_JOB_ID and BERTH_LOCAL_JOB_END. Neither: no job. BERTH_JOB_BEGAN is the first line of
// a script of Berth's, in seconds since 1970.
// The questions to Slurm are asked with a cleaned environment (every SLURM_* and its kin but
// SLURM_CONF is dropped, A21), fixed formats and a deadline, one command each.
// Guarantees: what is not known stays absent. Errors of the commands are for the log: an agent
// works without them. Threading: the functions that ask block; call them from the blocking pool.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lifecycle/stop_cause.h"

namespace berth::agent {

struct JobFacts {
  enum class Scheduler { none, slurm, local };
  Scheduler scheduler = Scheduler::none;
  uint64_t id = 0;
  std::string cluster;
  int restarts = 0;
  std::string account;
  std::string node;
  std::optional<Instant> began_at;  // the script, by this node's clock
  std::optional<Instant> ends_at;
};

using Environment = std::function<const char*(const char* name)>;  // as getenv
JobFacts read_job_environment(const Environment& get);

// What `scontrol show job -o` says of a job.
struct JobView {
  std::optional<Instant> ends_at;
  lifecycle::SchedulerWord word = lifecycle::SchedulerWord::none;
};
JobView read_scontrol_job(std::string_view output);

// NAME=value lines for Slurm's commands: `own` without what an outer job left.
std::vector<std::string> slurm_environment(char** own);

// These run one command each.
Result<JobView> ask_job(uint64_t id);
Result<Duration> ask_kill_wait();
Result<std::string> ask_node_address(const std::string& node);

}  // namespace berth::agent
