#include "sched/slurm_doctor.h"

#include <fmt/format.h>

#include "sched/slurm_answer.h"
#include "sched/slurm_text.h"

namespace berth::sched {
namespace {

using Level = Finding::Level;

// "5 sec" to 5 s.
std::optional<Duration> config_seconds(std::string_view config, std::string_view key) {
  auto value = config_value(config, key);
  if (!value) return std::nullopt;
  auto n = parse_count(std::string_view(*value).substr(0, value->find(' ')));
  if (!n) return std::nullopt;
  return seconds(static_cast<int64_t>(*n));
}

struct Asked {
  bool good = false;
  std::string output;
  std::string trouble;
};

Asked ask(const SlurmSettings& settings, std::string tool, std::vector<std::string> args) {
  SlurmCommand command{std::move(tool), std::move(args), {}, {}, {}, settings.query_deadline};
  auto result = run_slurm(settings, command);
  if (!result) return {false, "", result.error().message};
  std::string trouble =
      fmt::format("{} ({})", words_of(result->error_output), runtime::describe_outcome(*result));
  return {result->exited(0), result->output, std::move(trouble)};
}

void judge_preemption(std::string_view config, std::string_view partitions,
                      std::vector<Finding>& findings) {
  std::string type = config_value(config, "PreemptType").value_or("");
  if (type.empty() || type == "preempt/none" || type == "(null)") return;
  std::string without_grace;
  for (std::string_view line : split(partitions, "\n")) {
    auto name = scontrol_field(line, "PartitionName"), grace = scontrol_field(line, "GraceTime"),
         mode = scontrol_field(line, "PreemptMode");
    if (name && grace && *grace == "0" && mode && *mode != "OFF")
      without_grace += fmt::format("{}{}", without_grace.empty() ? "" : ", ", *name);
  }
  if (without_grace.empty())
    findings.push_back({Level::ok, "preempted jobs get time to drain", type});
  else
    findings.push_back(
        {Level::warning, "preempted jobs get time to drain",
         fmt::format("GraceTime is 0 in partitions {}: unless a QOS gives one, a preempted replica "
                     "is told and killed KillWait later; set GraceTime to the drain grace of the "
                     "services there",
                     without_grace)});
}

}  // namespace

std::vector<Finding> judge_slurm_config(std::string_view config, std::string_view partitions,
                                        const SlurmSettings& settings) {
  std::vector<Finding> findings;
  std::string version = config_value(config, "SLURM_VERSION").value_or("unknown");
  bool verified = version.starts_with("22.05") || version.starts_with("24.11");
  findings.push_back({verified ? Level::ok : Level::warning, "Slurm's version is a verified one",
                      version + (verified ? "" : "; verified are 22.05 and 24.11")});
  if (auto wait = config_seconds(config, "KillWait"))
    findings.push_back({*wait >= seconds(30) ? Level::ok : Level::warning,
                        "cancelled jobs get time to drain",
                        fmt::format("KillWait is {}: requests still running that long after "
                                    "SIGTERM are lost",
                                    to_human(*wait))});
  if (auto timeout = config_seconds(config, "MessageTimeout");
      timeout && *timeout >= settings.query_deadline)
    findings.push_back(
        {Level::warning, "commands give up before they are killed",
         fmt::format(
             "MessageTimeout is {}, and Berth waits {} for a command; raise the deadline or "
             "give Berth a slurm.conf with a shorter MessageTimeout",
             to_human(*timeout), to_human(settings.query_deadline))});
  bool accounting =
      config_value(config, "AccountingStorageType").value_or("").ends_with("slurmdbd");
  auto age = config_seconds(config, "MinJobAge");
  if (!accounting)
    findings.push_back({Level::warning, "jobs are accounted",
                        "no slurmdbd: how a job ended is known for MinJobAge only, and nobody "
                        "can be billed"});
  if (age && *age < seconds(60))
    findings.push_back({accounting ? Level::ok : Level::problem, "slurmctld remembers ended jobs",
                        fmt::format("MinJobAge is {}", to_human(*age))});
  std::string privacy = config_value(config, "PrivateData").value_or("none");
  if (privacy.find("jobs") != std::string::npos)
    findings.push_back(
        {Level::warning, "Berth sees the jobs of those who register",
         fmt::format("PrivateData={}: make Berth's user an operator (sacctmgr modify "
                     "user NAME set adminlevel=operator), or users' own batch "
                     "scripts cannot register",
                     privacy)});
  if (config_value(config, "ProctrackType").value_or("") == "proctrack/linuxproc")
    findings.push_back({Level::warning, "no process outlives its job",
                        "ProctrackType=proctrack/linuxproc: a process that leaves its parent "
                        "survives the job; use proctrack/cgroup"});
  judge_preemption(config, partitions, findings);
  return findings;
}

std::vector<Finding> diagnose_slurm(const SlurmSettings& settings, const JobListing& listing) {
  std::vector<Finding> findings;
  Asked version = ask(settings, "sbatch", {"--version"});
  findings.push_back({version.good ? Level::ok : Level::problem, "Slurm's commands are here",
                      version.good ? std::string(trim(version.output))
                                   : version.trouble + "; set the folder of Slurm's commands"});
  if (!version.good) return findings;
  Asked ping = ask(settings, "scontrol", {"ping"});
  bool up = ping.good && ping.output.find(" UP") != std::string::npos;
  findings.push_back({up ? Level::ok : Level::problem, "slurmctld answers",
                      ping.output.empty() ? ping.trouble : std::string(trim(ping.output))});
  bool complete = listing.quality == JobListing::Quality::complete;
  findings.push_back({complete ? Level::ok : Level::problem, "squeue lists Berth's jobs",
                      complete ? fmt::format("{} jobs", listing.jobs.size()) : listing.error});
  if (!up) return findings;
  Asked config = ask(settings, "scontrol", {"show", "config"});
  Asked partitions = ask(settings, "scontrol", {"--oneliner", "show", "partition"});
  if (!config.good) {
    findings.push_back({Level::problem, "slurmctld shows its configuration", config.trouble});
    return findings;
  }
  size_t count = 0;
  for (std::string_view line : split(partitions.output, "\n"))
    count += line.starts_with("PartitionName=");
  findings.push_back({count ? Level::ok : Level::problem, "partitions are visible",
                      count ? fmt::format("{} partitions", count) : partitions.trouble});
  if (config_value(config.output, "AccountingStorageType").value_or("").ends_with("slurmdbd")) {
    Asked sacct =
        ask(settings, "sacct",
            {"--noheader", "--allocations", "--parsable2", "--jobs=1", "--format=JobIDRaw"});
    findings.push_back({sacct.good ? Level::ok : Level::problem, "slurmdbd answers",
                        sacct.good
                            ? "sacct works"
                            : sacct.trouble + "; how jobs ended is known for MinJobAge only"});
  }
  for (Finding& finding : judge_slurm_config(config.output, partitions.output, settings))
    findings.push_back(std::move(finding));
  return findings;
}

}  // namespace berth::sched
