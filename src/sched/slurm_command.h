// Runs one of Slurm's commands with an environment that is the same wherever Berth runs.
//
// Nothing of the caller's environment gets in: SLURM_*, SBATCH_*, SRUN_*, SQUEUE_* and so on of an
// outer job, of a site's profile or of a user would beat or contradict what Berth asks for (A21,
// C23). The environment is made from the settings alone. Times are asked for as seconds since 1970.
// Each command has a deadline; at it the command is killed and the result says timed_out.
// Blocking. Threading: any. Errors: only when the command cannot be started at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "runtime/command.h"

namespace berth::sched {

struct SlurmSettings {
  std::string bin_dir;     // where sbatch and the others are; empty: in `path`
  std::string slurm_conf;  // SLURM_CONF of the commands; empty: where Slurm looks by itself
  std::string cluster;     // -M for every command; empty: the local cluster (C09)
  // PATH of the commands, and the one jobs start with.
  std::string path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
  // Longer than MessageTimeout of the slurm.conf in use (10 s by default), or a hung slurmctld is
  // seen as a command killed here instead of one that says so. A slurm.conf of Berth's own with a
  // short MessageTimeout makes outages cheaper to notice.
  Duration query_deadline = seconds(20);
  Duration submit_deadline = seconds(40);
  Duration cancel_deadline = seconds(20);

  // Whether Slurm may put a preempted or lost job back in its queue under the same id. By default
  // it may not: a requeued run would start with an older generation of the service, waits
  // cred_expire (two minutes) before it is looked at again, and its one-time join token is used up.
  // A replica that ended is replaced by a new job at once.
  enum class Requeue { no, yes };
  Requeue requeue = Requeue::no;

  // Whether JobRequest::run_as may name another user. Needs root.
  enum class Impersonate { no, yes };
  Impersonate impersonate = Impersonate::no;
  // Whose jobs list() asks for. Empty: the daemon's user, or, when it may impersonate, everybody's.
  std::vector<std::string> users;
  // A job is Berth's when its name begins with this.
  std::string key_prefix = "berth-";
};

struct SlurmCommand {
  std::string tool;  // "squeue"
  std::vector<std::string> args;
  std::optional<std::string> input;
  std::vector<std::string> env;  // more variables; these win
  std::optional<runtime::RunAs> run_as;
  Duration deadline = seconds(20);
};

Result<runtime::CommandResult> run_slurm(const SlurmSettings& settings,
                                         const SlurmCommand& command);

}  // namespace berth::sched
