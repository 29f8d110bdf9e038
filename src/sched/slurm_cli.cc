#include "sched/slurm_cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/id.h"
#include "sched/job_env.h"
#include "sched/slurm_doctor.h"

namespace berth::sched {
namespace {

constexpr size_t kIdsPerCommand = 200;
// How far back accounting is asked about a key. A submit is settled within minutes; this is for a
// daemon that was down for days.
constexpr std::string_view kKeyHistory = "--starttime=now-7days";

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

Error refuse(const JobRequest& request, const std::string& why) {
  return invalid_argument(fmt::format("cannot submit {}: {}", request.key, why));
}

// Slurm expands %j and the like in the output's name; a backslash switches that off and vanishes.
std::string output_pattern(std::string_view path) {
  std::string pattern;
  for (char c : path) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  return pattern;
}

// As the job's user: makes the log's folder, proves that the log can be written, enters the working
// directory.
Status prepare_paths(const SlurmSettings& settings, const JobRequest& request,
                     const std::optional<runtime::RunAs>& run_as) {
  runtime::Command command;
  command.argv = {"/bin/sh",
                  "-c",
                  R"(mkdir -p -- "${1%/*}/" && : >>"$1" && cd -- "$2")",
                  "sh",
                  request.log_path,
                  request.work_dir};
  command.env = {"PATH=" + settings.path, "LC_ALL=C"};
  command.run_as = run_as;
  command.deadline = settings.query_deadline;
  auto result = runtime::run_command(command);
  if (!result) return result.error();
  if (result->timed_out)
    return Error{Code::timeout,
                 fmt::format("cannot submit {}: {} or {} did not answer within {}; is a file "
                             "system hanging?",
                             request.key, request.log_path, request.work_dir,
                             to_human(settings.query_deadline)),
                 Source::system, Retry::yes};
  if (result->exited(0)) return {};
  return refuse(request,
                fmt::format("its log {} must be writable and its working directory {} "
                            "must exist for the job's user: {}",
                            request.log_path, request.work_dir, trim(result->error_output)));
}

std::string join_ids(const std::vector<JobRef>& jobs) {
  std::string ids;
  for (const JobRef& job : jobs) ids += fmt::format("{}{}", ids.empty() ? "" : ",", job.id);
  return ids;
}

// squeue asked for a single id it does not know says so with status 1; for several it leaves the
// unknown ones out (C29).
bool says_unknown_id(const std::string& error) {
  return error.find("Invalid job id specified") != std::string::npos;
}

// States after which Slurm may requeue. Without slurmctld's word accounting may lag behind that.
bool may_be_requeued(JobState state) {
  return state == JobState::preempted || state == JobState::node_failed;
}

}  // namespace

Result<std::vector<std::string>> sbatch_arguments(const JobRequest& request,
                                                  SlurmSettings::Requeue requeue) {
  const ResourceSpec& r = request.resources;
  if (!is_job_name(request.key)) return refuse(request, "a job's key is 1 to 64 of [A-Za-z0-9_.-]");
  if (!request.log_path.starts_with('/') || !request.work_dir.starts_with('/'))
    return refuse(request, "log path and working directory must be absolute");
  if (request.log_path.find('\\') != std::string::npos)
    return refuse(request, "Slurm cannot write to a path with a backslash: " + request.log_path);
  if (!request.script.starts_with("#!"))
    return refuse(request, "the script does not begin with #!");
  if (r.nodes < 1 || r.cpus_per_task < 1 || r.gpus < 0)
    return refuse(request,
                  fmt::format("{} nodes, {} cpus, {} gpus", r.nodes, r.cpus_per_task, r.gpus));
  std::vector<std::string> args = {
      "--parsable",
      "--export=ALL",
      "--ignore-pbs",
      "--propagate=NONE",  // the daemon's limits are not the job's
      "--open-mode=append",
      requeue == SlurmSettings::Requeue::yes ? "--requeue" : "--no-requeue",
      "--job-name=" + request.key,
      "--chdir=" + request.work_dir,
      "--output=" + output_pattern(request.log_path),
      fmt::format("--nodes={}", r.nodes),
      fmt::format("--ntasks={}", r.nodes),
      "--ntasks-per-node=1",
      fmt::format("--cpus-per-task={}", r.cpus_per_task)};
  auto add = [&args](std::string_view option, const std::string& value) {
    if (!value.empty()) args.push_back(fmt::format("--{}={}", option, value));
  };
  add("partition", r.partition);
  add("account", r.account);
  add("qos", r.qos);
  add("reservation", r.reservation);
  add("constraint", r.constraint);
  if (r.gpus > 0)
    add("gres", r.gpu_type.empty() ? fmt::format("gpu:{}", r.gpus)
                                   : fmt::format("gpu:{}:{}", r.gpu_type, r.gpus));
  if (r.mem_mib) add("mem", fmt::format("{}M", *r.mem_mib));
  if (r.time_limit) add("time", format_slurm_duration(*r.time_limit));
  add("exclude", fmt::format("{}", fmt::join(r.exclude_nodes, ",")));
  if (request.signal_lead.count() > 0)
    add("signal",
        fmt::format("USR1@{}",
                    std::clamp<int64_t>((request.signal_lead.count() + 999) / 1000, 1, 65535)));
  for (const std::string& arg : args)
    if (!is_plain(arg)) return refuse(request, "an option has a control character: " + arg);
  return args;
}

Result<std::unique_ptr<SlurmScheduler>> SlurmScheduler::open(SlurmSettings settings) {
  if (settings.impersonate == SlurmSettings::Impersonate::yes && geteuid() != 0)
    return invalid_argument(
        "slurm: submitting as other users needs root; run as root or switch impersonation off");
  if (settings.slurm_conf.empty())
    if (const char* conf = std::getenv("SLURM_CONF")) settings.slurm_conf = conf;
  return std::unique_ptr<SlurmScheduler>(new SlurmScheduler(std::move(settings)));
}

Result<std::optional<runtime::RunAs>> SlurmScheduler::user_of(const JobRequest& request) const {
  if (request.run_as.empty()) return std::optional<runtime::RunAs>();
  auto who = runtime::run_as_user(request.run_as);
  if (!who) return refuse(request, who.error().message);
  if (who->uid == geteuid()) return std::optional<runtime::RunAs>();
  if (settings_.impersonate == SlurmSettings::Impersonate::no)
    return refuse(request, fmt::format("it is to run as {}, and this daemon submits as itself only "
                                       "(impersonation is off)",
                                       request.run_as));
  return std::optional<runtime::RunAs>(std::move(*who));
}

Result<JobRef> SlurmScheduler::submit(const JobRequest& request) {
  auto args = sbatch_arguments(request, settings_.requeue);
  if (!args) return args.error();
  auto run_as = user_of(request);
  if (!run_as) return run_as.error();
  if (Status ready = prepare_paths(settings_, request, *run_as); !ready) return ready.error();
  SlurmCommand command{"sbatch",           std::move(*args),
                       request.script,     job_environment(request.run_as, settings_.path),
                       std::move(*run_as), settings_.submit_deadline};
  auto result = run_slurm(settings_, command);
  if (!result) return Error(result.error()).wrap("cannot submit " + request.key);
  if (result->exited(0))
    if (auto job = parse_submitted(result->output))
      return JobRef{job->id, job->cluster.empty() ? settings_.cluster : job->cluster, std::nullopt};
  return explain_sbatch_failure(*result).wrap("cannot submit " + request.key);
}

QueueAnswer SlurmScheduler::ask_queue(std::vector<std::string> selection) const {
  std::string nonce = random_hex(8);
  SlurmCommand command{"squeue", std::move(selection), {}, {}, {}, settings_.query_deadline};
  command.args.push_back("--all");  // partitions that are hidden, too
  command.args.push_back("--Format=" + squeue_format(nonce));
  auto result = run_slurm(settings_, command);
  if (result) return read_squeue(*result, nonce);
  QueueAnswer answer;
  answer.error = result.error().message;
  return answer;
}

JobListing SlurmScheduler::list() {
  JobListing listing;
  listing.asked_at = wall_now();
  std::vector<std::string> selection;
  if (!settings_.users.empty())
    selection.push_back(fmt::format("--user={}", fmt::join(settings_.users, ",")));
  else if (settings_.impersonate == SlurmSettings::Impersonate::no)
    selection.push_back(fmt::format("--user={}", geteuid()));
  QueueAnswer answer = ask_queue(std::move(selection));
  listing.quality = answer.quality;
  listing.error = std::move(answer.error);
  for (QueueRow& row : answer.rows) {
    if (!row.job.key.starts_with(settings_.key_prefix) || is_ended(row.job.state)) continue;
    row.job.ref.cluster = settings_.cluster;
    listing.jobs.push_back(std::move(row.job));
  }
  return listing;
}

Result<std::vector<AccountingRow>> SlurmScheduler::ask_accounting(
    std::vector<std::string> selection) const {
  std::string nonce = random_hex(8);
  // -D: every run of a requeued job; a delimiter after the last field too.
  SlurmCommand command{"sacct",
                       {"--noheader", "--allocations", "--parsable", "--duplicates",
                        "--delimiter=" + sacct_delimiter(nonce), "--format=" + sacct_format()},
                       {},
                       {},
                       {},
                       settings_.query_deadline};
  for (std::string& arg : selection) command.args.push_back(std::move(arg));
  auto result = run_slurm(settings_, command);
  if (!result) return result.error();
  return read_sacct(*result, nonce);
}

Status SlurmScheduler::add_ends(const std::vector<JobRef>& jobs, std::vector<JobEnd>& ends) const {
  std::string ids = join_ids(jobs);
  QueueAnswer queue = ask_queue({"--states=all", "--jobs=" + ids});
  bool queue_answered =
      queue.quality == JobListing::Quality::complete || says_unknown_id(queue.error);
  auto accounting = ask_accounting({"--jobs=" + ids});
  if (!queue_answered && !accounting)
    return unavailable(fmt::format("cannot learn how jobs {} ended: {}; {}", ids, queue.error,
                                   accounting.error().message),
                       Source::scheduler);
  for (const JobRef& ref : jobs) {
    bool alive = std::any_of(queue.rows.begin(), queue.rows.end(), [&ref](const QueueRow& row) {
      return row.job.ref.id == ref.id && !is_ended(row.job.state);
    });
    if (alive) continue;
    std::optional<JobEnd> now = end_from_queue(ref, queue.rows), recorded;
    if (accounting) recorded = end_from_accounting(ref, *accounting);
    if (now && recorded)
      ends.push_back(merge_ends(*now, *recorded));
    else if (now)
      ends.push_back(std::move(*now));
    else if (recorded && (queue_answered || !may_be_requeued(recorded->state)))
      ends.push_back(std::move(*recorded));
  }
  return {};
}

Result<std::vector<JobEnd>> SlurmScheduler::ended(const std::vector<JobRef>& jobs) {
  std::vector<JobEnd> ends;
  for (size_t at = 0; at < jobs.size(); at += kIdsPerCommand) {
    size_t end = std::min(jobs.size(), at + kIdsPerCommand);
    std::vector<JobRef> chunk(jobs.begin() + static_cast<std::ptrdiff_t>(at),
                              jobs.begin() + static_cast<std::ptrdiff_t>(end));
    if (Status status = add_ends(chunk, ends); !status) return status.error();
  }
  return ends;
}

// Every job that carries one of the keys, by slurmctld and by accounting.
Status SlurmScheduler::find_by_key(const std::vector<std::string>& keys,
                                   std::vector<JobRef>& jobs) const {
  std::string names = fmt::format("--name={}", fmt::join(keys, ","));
  QueueAnswer queue = ask_queue({"--states=all", names});
  auto accounting = ask_accounting({names, std::string(kKeyHistory)});
  if (queue.quality != JobListing::Quality::complete && !accounting)
    return unavailable(
        fmt::format("cannot look for jobs by key: {}; {}", queue.error, accounting.error().message),
        Source::scheduler);
  std::set<uint64_t> known;
  auto add = [&](const std::string& key, uint64_t id) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end() && known.insert(id).second)
      jobs.push_back({id, settings_.cluster, std::nullopt});
  };
  for (const QueueRow& row : queue.rows) add(row.job.key, row.job.ref.id);
  if (accounting)
    for (const AccountingRow& row : *accounting) add(row.name, row.id);
  return {};
}

Result<std::vector<JobEnd>> SlurmScheduler::ended_by_key(const std::vector<std::string>& keys) {
  std::vector<JobRef> jobs;
  for (size_t at = 0; at < keys.size(); at += kIdsPerCommand) {
    size_t end = std::min(keys.size(), at + kIdsPerCommand);
    std::vector<std::string> chunk(keys.begin() + static_cast<std::ptrdiff_t>(at),
                                   keys.begin() + static_cast<std::ptrdiff_t>(end));
    if (!std::all_of(chunk.begin(), chunk.end(), is_job_name))
      return invalid_argument("cannot look for jobs by key: a key is 1 to 64 of [A-Za-z0-9_.-]");
    if (Status status = find_by_key(chunk, jobs); !status) return status.error();
  }
  if (jobs.empty()) return std::vector<JobEnd>{};
  auto ends = ended(jobs);
  if (!ends) return ends;
  // An id may have been another job's before.
  std::erase_if(*ends, [&keys](const JobEnd& end) {
    return std::find(keys.begin(), keys.end(), end.key) == keys.end();
  });
  return ends;
}

Status SlurmScheduler::cancel(const JobRef& job, CancelMode mode) {
  if (job.id == 0) return invalid_argument("cannot cancel a job without an id");
  SlurmCommand command{"scancel", {}, {}, {}, {}, settings_.cancel_deadline};
  if (mode == CancelMode::kill) command.args = {"--signal=KILL", "--full"};
  command.args.push_back(std::to_string(job.id));
  SlurmSettings settings = settings_;
  if (!job.cluster.empty()) settings.cluster = job.cluster;
  auto result = run_slurm(settings, command);
  std::string what = fmt::format("cannot cancel job {}", job.id);
  if (!result) return Error(result.error()).wrap(what);
  const std::string& said = result->error_output;
  // Unknown, ended and ending jobs need no cancel.
  if (result->exited(0) || says_unknown_id(said) ||
      said.find("already completing or completed") != std::string::npos)
    return {};
  std::string words =
      fmt::format("{}: scancel: {} ({})", what, words_of(said), runtime::describe_outcome(*result));
  if (said.find("Access/permission denied") != std::string::npos)
    return Error{Code::permission_denied, words, Source::scheduler, Retry::no};
  if (said.find("connect failure") != std::string::npos)
    return unavailable(words, Source::scheduler);
  return Error{Code::unknown_outcome, words, Source::scheduler, Retry::yes};
}

Status SlurmScheduler::extend(const JobRef& job, Instant started_at, Instant until) {
  const int64_t limit = std::chrono::ceil<minutes>(until - started_at).count();
  if (job.id == 0 || limit <= 0) return invalid_argument("cannot extend a job without id or time");
  SlurmCommand command{
      "scontrol", {"update", fmt::format("JobId={}", job.id), fmt::format("TimeLimit={}", limit)},
      {},         {},
      {},         settings_.query_deadline};
  SlurmSettings settings = settings_;
  if (!job.cluster.empty()) settings.cluster = job.cluster;
  auto result = run_slurm(settings, command);
  std::string what = fmt::format("cannot extend job {} to {} minutes", job.id, limit);
  if (!result) return Error(result.error()).wrap(what);
  if (result->exited(0)) return {};
  const std::string& said = result->error_output;
  std::string words = fmt::format("{}: scontrol: {} ({})", what, words_of(said),
                                  runtime::describe_outcome(*result));
  if (said.find("Access/permission denied") != std::string::npos)
    return Error{Code::permission_denied, words, Source::scheduler, Retry::no};
  if (says_unknown_id(said)) return Error{Code::not_found, words, Source::scheduler, Retry::no};
  if (said.find("connect failure") != std::string::npos)
    return unavailable(words, Source::scheduler);
  return Error{Code::unknown_outcome, words, Source::scheduler, Retry::yes};
}

Result<std::optional<JobIdentity>> SlurmScheduler::identify(uint64_t job_id) {
  QueueAnswer answer = ask_queue({fmt::format("--jobs={}", job_id)});
  const QueueRow* row = nullptr;
  for (const QueueRow& candidate : answer.rows)
    if (candidate.job.ref.id == job_id && !is_ended(candidate.job.state)) row = &candidate;
  if (!row) {
    if (answer.quality == JobListing::Quality::complete || says_unknown_id(answer.error))
      return std::optional<JobIdentity>();
    return unavailable(fmt::format("cannot look up job {}: {}", job_id, answer.error),
                       Source::scheduler);
  }
  JobIdentity identity;
  identity.ref = row->job.ref;
  identity.ref.cluster = settings_.cluster;
  identity.key = row->job.key;
  identity.uid = row->uid;
  identity.user = row->job.user;
  identity.account = row->job.account;
  identity.state = row->job.state;
  identity.nodes = row->job.nodes;
  identity.ends_at = row->job.ends_at;
  if (identity.nodes.empty()) return std::optional<JobIdentity>(std::move(identity));
  SlurmCommand command{
      "scontrol", {"--oneliner", "show", "node", fmt::format("{}", fmt::join(identity.nodes, ","))},
      {},         {},
      {},         settings_.query_deadline};
  auto result = run_slurm(settings_, command);
  if (!result) return result.error();
  auto addresses = parse_node_addresses(result->output);
  if (!result->exited(0) || addresses.empty())
    return unavailable(
        fmt::format("cannot look up the nodes of job {}: scontrol: {} ({})", job_id,
                    words_of(result->error_output), runtime::describe_outcome(*result)),
        Source::scheduler);
  for (auto& [node, address] : addresses) identity.addresses.push_back(std::move(address));
  return std::optional<JobIdentity>(std::move(identity));
}

std::vector<Finding> SlurmScheduler::diagnose() { return diagnose_slurm(settings_, list()); }

}  // namespace berth::sched
