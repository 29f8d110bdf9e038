#include "sched/slurm_command.h"

#include <algorithm>

namespace berth::sched {

Result<runtime::CommandResult> run_slurm(const SlurmSettings& settings,
                                         const SlurmCommand& command) {
  runtime::Command run;
  run.argv.push_back(settings.bin_dir.empty() ? command.tool
                                              : settings.bin_dir + "/" + command.tool);
  if (!settings.cluster.empty()) run.argv.push_back("--clusters=" + settings.cluster);
  run.argv.insert(run.argv.end(), command.args.begin(), command.args.end());
  run.env = command.env;
  auto add = [&run](const std::string& name, const std::string& value) {
    bool known = std::any_of(run.env.begin(), run.env.end(), [&name](const std::string& entry) {
      return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
    });
    if (!known) run.env.push_back(name + "=" + value);
  };
  add("PATH", settings.path);
  if (!settings.slurm_conf.empty()) add("SLURM_CONF", settings.slurm_conf);
  // sbatch hands its environment to the job, which is not to inherit these.
  if (command.tool != "sbatch") {
    add("LC_ALL", "C");
    add("TZ", "UTC0");
    add("SLURM_TIME_FORMAT", "%s");
  }
  run.input = command.input;
  run.run_as = command.run_as;
  run.deadline = command.deadline;
  return runtime::run_command(run);
}

}  // namespace berth::sched
