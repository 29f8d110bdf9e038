#include "agent/hook_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "runtime/command.h"
#include "sched/slurm_text.h"

namespace berth::agent {
namespace {

constexpr Duration kDeadline = seconds(20);

std::string text(const Environment& get, const char* name) {
  const char* value = get(name);
  return value ? value : "";
}

// "1764543000.123456", as bash has it in EPOCHREALTIME: its decimal point is the locale's.
std::optional<Instant> read_epoch(std::string_view text) {
  int64_t whole = 0, thousandths = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error != std::errc() || whole <= 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  std::string part(text.substr(std::min<size_t>(text.size(), 1), 3));
  part.resize(3, '0');
  std::from_chars(part.data(), part.data() + part.size(), thousandths);
  return from_ms(whole * 1000 + thousandths);
}

Result<std::string> scontrol(std::vector<std::string> arguments) {
  runtime::Command command;
  command.argv = {"scontrol"};
  for (std::string& a : arguments) command.argv.push_back(std::move(a));
  command.env = slurm_environment(environ);
  command.deadline = kDeadline;
  command.max_output = size_t{4} << 20;
  auto result = runtime::run_command(command);
  if (!result) return std::move(result).error();
  if (!result->exited(0))
    return unavailable(
        fmt::format("scontrol {} {}: {}: {}", command.argv[1], command.argv[2],
                    runtime::describe_outcome(*result), sched::trim(result->error_output)),
        Source::scheduler);
  return std::move(result->output);
}

bool has_time(std::string_view line, std::string_view field) {
  auto value = sched::scontrol_field(line, field);
  return value && sched::parse_slurm_time(*value).has_value();
}

}  // namespace

JobFacts read_job_environment(const Environment& get) {
  JobFacts job;
  job.began_at = read_epoch(text(get, "BERTH_JOB_BEGAN"));
  auto slurm = sched::parse_count(text(get, "SLURM_JOB_ID"));
  auto local = sched::parse_count(text(get, "BERTH_LOCAL_JOB_ID"));
  // A local job may have been started from inside a Slurm job; the inner one counts.
  if (local) {
    job.scheduler = JobFacts::Scheduler::local;
    job.id = *local;
    job.ends_at = sched::parse_slurm_time(text(get, "BERTH_LOCAL_JOB_END"));
    return job;
  }
  if (!slurm) return job;
  job.scheduler = JobFacts::Scheduler::slurm;
  job.id = *slurm;
  job.cluster = text(get, "SLURM_CLUSTER_NAME");
  job.account = text(get, "SLURM_JOB_ACCOUNT");
  job.node = text(get, "SLURMD_NODENAME");
  if (auto n = sched::parse_count(text(get, "SLURM_RESTART_COUNT"))) job.restarts = int(*n);
  job.ends_at = sched::parse_slurm_time(text(get, "SLURM_JOB_END_TIME"));
  return job;
}

JobView read_scontrol_job(std::string_view output) {
  JobView view;
  std::string_view line = output.substr(0, output.find('\n'));
  if (auto end = sched::scontrol_field(line, "EndTime"))
    view.ends_at = sched::parse_slurm_time(*end);
  auto state = sched::scontrol_field(line, "JobState");
  auto reason = sched::scontrol_field(line, "Reason");
  if (!state) return view;
  JobState parsed = sched::parse_slurm_state(*state).state;
  using lifecycle::SchedulerWord;
  // While the processes get their time to end, the state reads COMPLETING and only the reason and
  // the time of a preemption tell why.
  if (has_time(line, "PreemptTime") || parsed == JobState::preempted)
    view.word = SchedulerWord::preempted;
  else if (parsed == JobState::timed_out || (reason && *reason == "TimeLimit"))
    view.word = SchedulerWord::time_limit;
  else if (parsed == JobState::cancelled || parsed == JobState::completing)
    view.word = SchedulerWord::cancelled;
  return view;
}

std::vector<std::string> slurm_environment(char** own) {
  std::vector<std::string> env;
  for (char** entry = own; entry && *entry; ++entry) {
    std::string_view text = *entry;
    std::string_view name = text.substr(0, text.find('='));
    bool outer = name.starts_with("SLURM") || name.starts_with("SBATCH_") ||
                 name.starts_with("SRUN_") || name.starts_with("SALLOC_") ||
                 name.starts_with("SQUEUE_") || name.starts_with("SCONTROL_") ||
                 name.starts_with("BERTH_") || name == "TZ" || name.starts_with("LC_") ||
                 name == "LANG";
    if (!outer || name == "SLURM_CONF") env.emplace_back(text);
  }
  env.insert(env.end(), {"LC_ALL=C", "TZ=UTC0", "SLURM_TIME_FORMAT=%s"});
  return env;
}

Result<JobView> ask_job(uint64_t id) {
  auto output = scontrol({"show", "job", "-o", std::to_string(id)});
  if (!output) return std::move(output).error();
  return read_scontrol_job(*output);
}

Result<Duration> ask_kill_wait() {
  auto output = scontrol({"show", "config"});
  if (!output) return std::move(output).error();
  auto value = sched::config_value(*output, "KillWait");
  auto number = value ? sched::parse_count(value->substr(0, value->find(' '))) : std::nullopt;
  if (!number) return not_found("scontrol show config names no KillWait");
  return Duration(seconds(*number));
}

Result<std::string> ask_node_address(const std::string& node) {
  auto output = scontrol({"show", "node", "-o", node});
  if (!output) return std::move(output).error();
  for (auto& [name, address] : sched::parse_node_addresses(*output))
    if (name == node) return address;
  return not_found(fmt::format("scontrol show node {} names no NodeAddr", node));
}

}  // namespace berth::agent
