// Slurm by its commands: sbatch, squeue, sacct, scontrol, scancel, sinfo.
//
// Guarantees beyond Scheduler's:
//  - Options are on the command line, which beats environment and script. The job's environment is
//    job_environment() of its user plus what Slurm adds; no login shell runs.
//  - list() is one squeue, however many jobs there are (C25).
//  - submit() makes the log's folder as the job's user, and refuses when that cannot be written or
//    the working directory is missing, both of which Slurm accepts and then fails on (A17).
//  - ended() asks slurmctld, which forgets after MinJobAge and knows real exit statuses, and
//    accounting, which knows who cancelled; one of them is enough (C29). An end whose time is not
//    known yet has no ended_at (C05). A job that slurmctld shows alive has not ended, whatever
//    accounting says.
// Non-guarantees: submit() does not look for the key first; after unknown_outcome the caller must.
// cancel() says only that it was asked for (C33): the end is seen by ended(). Slurm always sends
// SIGTERM first and SIGKILL after KillWait, for CancelMode::kill too. When `impersonate` is on and
// `users` is empty, list() has jobs of any user whose name begins with the prefix: compare `user`.
// extend() needs the right of an operator in Slurm; limits are whole minutes, rounded up.
// Verified with Slurm 22.05 and 24.11. Threading: any; no state but the settings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sched/sched.h"
#include "sched/slurm_answer.h"
#include "sched/slurm_command.h"

namespace berth::sched {

class SlurmScheduler : public Scheduler {
 public:
  // Code::invalid_argument when the settings contradict each other. Runs no command. Takes
  // SLURM_CONF from the environment when the settings have none.
  static Result<std::unique_ptr<SlurmScheduler>> open(SlurmSettings settings);

  std::string name() const override { return "slurm"; }
  Result<JobRef> submit(const JobRequest& request) override;
  JobListing list() override;
  Result<std::vector<JobEnd>> ended(const std::vector<JobRef>& jobs) override;
  Result<std::vector<JobEnd>> ended_by_key(const std::vector<std::string>& keys) override;
  Status cancel(const JobRef& job, CancelMode mode) override;
  Status extend(const JobRef& job, Instant started_at, Instant until) override;
  Result<std::optional<JobIdentity>> identify(uint64_t job_id) override;
  std::vector<Finding> diagnose() override;

 private:
  explicit SlurmScheduler(SlurmSettings settings) : settings_(std::move(settings)) {}

  Result<std::optional<runtime::RunAs>> user_of(const JobRequest& request) const;
  QueueAnswer ask_queue(std::vector<std::string> selection) const;
  Result<std::vector<AccountingRow>> ask_accounting(std::vector<std::string> selection) const;
  Status find_by_key(const std::vector<std::string>& keys, std::vector<JobRef>& jobs) const;
  Status add_ends(const std::vector<JobRef>& jobs, std::vector<JobEnd>& ends) const;

  SlurmSettings settings_;
};

// sbatch's arguments for a request, without --clusters. Code::invalid_argument for a value that
// cannot be passed on.
Result<std::vector<std::string>> sbatch_arguments(const JobRequest& request,
                                                  SlurmSettings::Requeue requeue);

}  // namespace berth::sched
