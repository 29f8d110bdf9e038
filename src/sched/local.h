// The scheduler of one machine: each job under a detached shim (shim.h), kept as files.
//
// Input: a state directory on a local disk that only the daemon's user can write.
// Guarantees: a job outlives the daemon, as a Slurm job does. Submitting a key again returns the
// job that has it (idempotent, also across crashes). Ids rise for ever. At most `max_running` jobs
// run at once; the others are pending with reason "Resources".
// A shim that was killed (or a reboot) shows as JobState::node_failed once somebody looks.
// Non-guarantees: who waits for a slot gets one in no particular order. Memory, processors and GPUs
// are not enforced. A requested partition, qos or constraint means nothing here and is ignored.
// JobRequest::run_as must be empty or the daemon's own user.
// Under systemd the daemon's unit needs KillMode=process, or stopping it kills the shims.
// Threading: any; instances on the same directory, in one or several processes, work together.
// Cost: list() reads a few small files per job that has not ended.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sched/job_dir.h"
#include "sched/sched.h"

namespace berth::sched {

struct LocalSettings {
  std::string state_dir;  // absolute; jobs go to state_dir/jobs
  std::vector<std::string>
      shim_argv;                     // "shim DIR" of berth, without DIR: {"/usr/bin/berth", "shim"}
  int max_running = 0;               // 0: the number of processors
  Duration kill_wait = seconds(30);  // from SIGTERM to SIGKILL, as Slurm's KillWait
  Duration keep_ended = hours(24 * 7);  // how long the files of an ended job stay
  std::string path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
};

class LocalScheduler : public Scheduler {
 public:
  // Makes the jobs directory. Code::invalid_argument when the settings cannot work.
  static Result<std::unique_ptr<LocalScheduler>> open(LocalSettings settings);

  std::string name() const override { return "local"; }
  Result<JobRef> submit(const JobRequest& request) override;
  JobListing list() override;
  Result<std::vector<JobEnd>> ended(const std::vector<JobRef>& jobs) override;
  Result<std::vector<JobEnd>> ended_by_key(const std::vector<std::string>& keys) override;
  Status cancel(const JobRef& job, CancelMode mode) override;
  // Refused: a shim keeps the limit that its job was submitted with.
  Status extend(const JobRef& job, Instant started_at, Instant until) override;
  Result<std::optional<JobIdentity>> identify(uint64_t job_id) override;
  std::vector<Finding> diagnose() override;

 private:
  struct Job {
    JobDir dir;
    LocalJobSpec spec;
    std::optional<LocalJobStatus> status;
  };
  enum class Scan { all, not_ended };

  explicit LocalScheduler(LocalSettings settings);
  std::string jobs_dir() const { return settings_.state_dir + "/jobs"; }
  JobDir dir_of(const std::string& key) const { return JobDir(jobs_dir() + "/" + key); }

  Result<uint64_t> next_id();
  Result<LocalJobSpec> write_job(const JobRequest& request);
  Status start_shim(const JobDir& dir);
  void remove_old_jobs();
  // Reads all jobs; `error` gets the first that cannot be read.
  Result<std::vector<Job>> scan(Scan what, std::string& error);
  Result<std::optional<Job>> read_job(const std::string& key);
  Result<std::optional<Job>> find(uint64_t id);
  // A job without a status whose shim does not live: starts a shim that never came to be, or ends a
  // job whose shim was lost.
  Status mend(Job& job);
  Result<JobObserved> observe(const Job& job);

  LocalSettings settings_;
  std::string host_;
  std::string user_;
  std::mutex mutex_;
  std::map<std::string, LocalJobSpec> specs_;  // never change once written
};

}  // namespace berth::sched
