#include "sched/local.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "runtime/command.h"
#include "sched/job_env.h"
#include "sched/process_tree.h"
#include "sched/shim.h"
#include "sched/slurm_text.h"

namespace berth::sched {
namespace {

namespace fs = std::filesystem;

constexpr Duration kShimDeadline = seconds(10);

// Job keys become folder names.
Status check_key(const std::string& key) {
  bool good = !key.empty() && key.size() <= 64 && key[0] != '.' && key[0] != '-' &&
              std::all_of(key.begin(), key.end(), [](char c) {
                return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
              });
  if (!good)
    return invalid_argument(fmt::format(
        "cannot submit '{}': a job's key is 1 to 64 of [A-Za-z0-9_.-], and begins with none of .-",
        key));
  return {};
}

Status check_request(const JobRequest& request, const std::string& own_user) {
  if (Status status = check_key(request.key); !status) return status;
  if (!request.run_as.empty() && request.run_as != own_user)
    return invalid_argument(
        fmt::format("cannot submit {}: the local scheduler runs jobs as {} only, not as {}",
                    request.key, own_user, request.run_as));
  if (!request.log_path.starts_with('/') || !request.work_dir.starts_with('/'))
    return invalid_argument(fmt::format(
        "cannot submit {}: log path and working directory must be absolute", request.key));
  if (!request.script.starts_with("#!"))
    return invalid_argument(
        fmt::format("cannot submit {}: the script does not begin with #!", request.key));
  if (request.resources.nodes > 1)
    return invalid_argument(
        fmt::format("cannot submit {}: it asks for {} nodes, and the local scheduler has one",
                    request.key, request.resources.nodes));
  std::string folder = request.log_path.substr(0, std::max<size_t>(request.log_path.rfind('/'), 1));
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return invalid_argument(fmt::format("cannot submit {}: its log cannot be written to {}: {}",
                                        request.key, request.log_path, std::strerror(errno)));
  if (access(request.work_dir.c_str(), X_OK) != 0)
    return invalid_argument(fmt::format("cannot submit {}: working directory {}: {}", request.key,
                                        request.work_dir, std::strerror(errno)));
  return {};
}

// Kills what a lost shim left. A process that is calling execve shows no environment for a moment,
// so that one empty look proves nothing.
void kill_leftovers(const std::string& mark) {
  int empty_looks = 0;
  for (int i = 0; i < 100 && empty_looks < 4; ++i) {
    std::vector<pid_t> left = processes_with_variable(mark);
    empty_looks = left.empty() ? empty_looks + 1 : 0;
    for (pid_t pid : left) kill(pid, SIGKILL);
    std::this_thread::sleep_for(milliseconds(10));
  }
}

}  // namespace

Result<std::unique_ptr<LocalScheduler>> LocalScheduler::open(LocalSettings settings) {
  if (!settings.state_dir.starts_with('/'))
    return invalid_argument(fmt::format(
        "local scheduler: the state directory must be absolute, and is '{}'", settings.state_dir));
  if (settings.shim_argv.empty())
    return invalid_argument("local scheduler: no command that starts a shim");
  if (settings.max_running <= 0)
    settings.max_running = std::max(1u, std::thread::hardware_concurrency());
  std::unique_ptr<LocalScheduler> scheduler(new LocalScheduler(std::move(settings)));
  std::error_code error;
  fs::create_directories(scheduler->jobs_dir(), error);
  if (error) return system_error("local scheduler: make " + scheduler->jobs_dir(), error.value());
  // Scripts and their variables are nobody else's to read.
  if (chmod(scheduler->jobs_dir().c_str(), 0700) != 0)
    return system_error("local scheduler: chmod " + scheduler->jobs_dir(), errno);
  return scheduler;
}

LocalScheduler::LocalScheduler(LocalSettings settings) : settings_(std::move(settings)) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  host_ = host;
  user_ = own_user_name();
}

Result<uint64_t> LocalScheduler::next_id() {
  std::string path = jobs_dir() + "/.next-id";
  auto text = read_whole(path);
  if (!text) return text.error();
  uint64_t id = 1;
  if (*text) {
    auto stored = parse_count(trim(**text));
    if (!stored || *stored == 0)
      return internal_error(path +
                            " is not a number; ids must not be given twice, so no job is "
                            "started until it holds one above all ids used");
    id = *stored;
  }
  if (Status status = write_whole(path, fmt::format("{}\n", id + 1), 0600); !status)
    return status.error();
  return id;
}

// Under the submit lock. The folder appears whole or not at all.
Result<LocalJobSpec> LocalScheduler::write_job(const JobRequest& request) {
  auto id = next_id();
  if (!id) return id.error();
  LocalJobSpec spec;
  spec.id = *id;
  spec.key = request.key;
  spec.user = user_;
  spec.uid = geteuid();
  spec.account = request.resources.account;
  // Whole seconds, as Slurm's.
  spec.submitted_at = std::chrono::floor<seconds>(wall_now());
  spec.log_path = request.log_path;
  spec.work_dir = request.work_dir;
  spec.env = job_environment("", settings_.path);
  spec.time_limit = request.resources.time_limit;
  spec.signal_lead = request.signal_lead;
  spec.kill_wait = settings_.kill_wait;
  spec.max_running = settings_.max_running;
  JobDir making(fmt::format("{}/.new-{}", jobs_dir(), request.key));
  std::error_code error;
  fs::remove_all(making.path(), error);
  if (mkdir(making.path().c_str(), 0700) != 0) return system_error("make " + making.path(), errno);
  if (Status status = write_whole(making.file("script"), request.script, 0700); !status)
    return status.error();
  if (Status status = making.write_spec(spec); !status) return status.error();
  std::string path = dir_of(request.key).path();
  if (rename(making.path().c_str(), path.c_str()) != 0) return system_error("make " + path, errno);
  return spec;
}

Status LocalScheduler::start_shim(const JobDir& dir) {
  runtime::Command command;
  command.argv = settings_.shim_argv;
  command.argv.push_back(dir.path());
  command.env = {"PATH=" + settings_.path};
  command.deadline = kShimDeadline;
  auto result = runtime::run_command(command);
  if (!result) return result.error();
  if (result->exited(0)) return {};
  std::string words = fmt::format("cannot start a shim for {}: {}: {}", dir.path(),
                                  runtime::describe_outcome(*result), trim(result->error_output));
  if (result->timed_out) return Error{Code::unknown_outcome, words, Source::scheduler, Retry::no};
  return unavailable(words, Source::scheduler);
}

Result<JobRef> LocalScheduler::submit(const JobRequest& request) {
  if (Status status = check_request(request, user_); !status) return status.error();
  auto lock = FileLock::take(jobs_dir() + "/.lock", FileLock::Wait::yes);
  if (!lock) return Error(lock.error()).wrap("cannot submit " + request.key);
  auto known = read_job(request.key);
  if (!known) return known.error();
  if (*known) {
    if (!(*known)->status)
      if (Status status = mend(**known); !status) return status.error();
    return JobRef{(*known)->spec.id, "", (*known)->spec.submitted_at};
  }
  remove_old_jobs();
  auto spec = write_job(request);
  if (!spec) return Error(spec.error()).wrap("cannot submit " + request.key);
  JobDir dir = dir_of(request.key);
  if (Status started = start_shim(dir); !started) {
    if (started.error().code == Code::unknown_outcome) return started.error();
    // No shim, so nothing has the job: it never was.
    std::error_code error;
    fs::remove_all(dir.path(), error);
    return Error(started.error()).wrap("cannot submit " + request.key);
  }
  return JobRef{spec->id, "", spec->submitted_at};
}

void LocalScheduler::remove_old_jobs() {
  std::string error;
  auto jobs = scan(Scan::all, error);
  if (!jobs) return;
  for (const Job& job : *jobs) {
    if (!job.status || wall_now() - job.status->ended_at < settings_.keep_ended) continue;
    std::error_code ignored;
    fs::remove_all(job.dir.path(), ignored);
    std::lock_guard guard(mutex_);
    specs_.erase(job.spec.key);
  }
}

Result<std::optional<LocalScheduler::Job>> LocalScheduler::read_job(const std::string& key) {
  JobDir dir = dir_of(key);
  std::optional<LocalJobSpec> spec;
  {
    std::lock_guard guard(mutex_);
    if (auto it = specs_.find(key); it != specs_.end()) spec = it->second;
  }
  if (!spec) {
    auto read = dir.read_spec();
    if (!read) return read.error();
    if (!*read) return std::optional<Job>();
    spec = **read;
    std::lock_guard guard(mutex_);
    specs_.emplace(key, *spec);
  }
  auto status = dir.read_status();
  if (!status) return status.error();
  return std::optional<Job>(Job{dir, std::move(*spec), *status});
}

Result<std::vector<LocalScheduler::Job>> LocalScheduler::scan(Scan what, std::string& error) {
  DIR* folder = opendir(jobs_dir().c_str());
  if (!folder) return system_error("read " + jobs_dir(), errno);
  std::vector<std::string> keys;
  errno = 0;
  while (dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') keys.emplace_back(entry->d_name);
  int read_error = errno;
  closedir(folder);
  if (read_error != 0) return system_error("read " + jobs_dir(), read_error);
  std::vector<Job> jobs;
  for (const std::string& key : keys) {
    auto job = read_job(key);
    if (!job && error.empty()) error = job.error().message;
    if (!job || !*job) continue;
    if (what == Scan::not_ended && (*job)->status) continue;
    jobs.push_back(std::move(**job));
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const Job& a, const Job& b) { return a.spec.id < b.spec.id; });
  return jobs;
}

Status LocalScheduler::mend(Job& job) {
  {
    auto lock = FileLock::take(job.dir.file("lock"), FileLock::Wait::no);
    if (!lock) return lock.error();
    if (!*lock) return {};  // its shim lives
    auto status = job.dir.read_status();
    if (!status) return status.error();
    job.status = *status;
    if (job.status) return {};
    auto shim = job.dir.read_shim();
    if (!shim) return shim.error();
    if (*shim) {
      auto start = job.dir.read_start();
      LocalJobStatus lost;
      lost.state = JobState::node_failed;
      lost.reason = "the job's shim was killed, or the machine restarted";
      lost.ended_at = wall_now();
      if (start && *start) lost.started_at = (*start)->at;
      kill_leftovers(fmt::format("{}={}", kLocalJobVariable, job.dir.path()));
      log_warn("local", "job {} ({}): {}", job.spec.id, job.spec.key, lost.reason);
      if (Status written = job.dir.write_status(lost); !written) return written;
      job.status = lost;
      return {};
    }
  }
  // The daemon died between writing the job and starting its shim.
  return start_shim(job.dir);
}

Result<JobObserved> LocalScheduler::observe(const Job& job) {
  JobObserved seen;
  seen.ref = {job.spec.id, "", job.spec.submitted_at};
  seen.key = job.spec.key;
  seen.user = job.spec.user;
  seen.account = job.spec.account;
  seen.time_limit = job.spec.time_limit;
  // One that cannot be read is not one that never started: the queue must not seem to have it back.
  auto start = job.dir.read_start();
  if (!start) return start.error();
  auto cancel = job.dir.read_cancel();
  if (!cancel) return cancel.error();
  if (*start) {
    seen.state = *cancel ? JobState::completing : JobState::running;
    seen.started_at = (*start)->at;
    seen.nodes = {host_};
    if (job.spec.time_limit) seen.ends_at = (*start)->at + *job.spec.time_limit;
  } else {
    seen.state = JobState::pending;
    seen.reason = "Resources";
  }
  seen.state_text = std::string(to_string(seen.state));
  return seen;
}

JobListing LocalScheduler::list() {
  JobListing listing;
  listing.asked_at = wall_now();
  std::string error;
  auto jobs = scan(Scan::not_ended, error);
  if (!jobs) {
    listing.error = jobs.error().message;
    return listing;
  }
  for (Job& job : *jobs) {
    if (Status status = mend(job); !status && error.empty()) error = status.error().message;
    // It may have ended since the scan.
    if (!job.status) {
      auto again = job.dir.read_status();
      if (again) job.status = *again;
    }
    if (job.status) continue;
    if (auto seen = observe(job))
      listing.jobs.push_back(std::move(*seen));
    else if (error.empty())
      error = seen.error().message;
  }
  listing.quality = error.empty() ? JobListing::Quality::complete : JobListing::Quality::partial;
  listing.error = error;
  return listing;
}

Result<std::optional<LocalScheduler::Job>> LocalScheduler::find(uint64_t id) {
  std::string key;
  {
    std::lock_guard guard(mutex_);
    for (const auto& [known, spec] : specs_)
      if (spec.id == id) key = known;
  }
  if (!key.empty()) return read_job(key);
  std::string error;
  auto jobs = scan(Scan::all, error);
  if (!jobs) return jobs.error();
  for (Job& job : *jobs)
    if (job.spec.id == id) return std::optional<Job>(std::move(job));
  if (!error.empty()) return unavailable(error, Source::system);
  return std::optional<Job>();
}

Result<std::vector<JobEnd>> LocalScheduler::ended(const std::vector<JobRef>& jobs) {
  std::vector<JobEnd> ends;
  for (const JobRef& ref : jobs) {
    auto job = find(ref.id);
    if (!job) return job.error();
    if (!*job) continue;
    if (!(*job)->status)
      if (Status status = mend(**job); !status) return status.error();
    const Job& found = **job;
    if (!found.status) continue;
    if (ref.submit_time && found.spec.submitted_at != *ref.submit_time) continue;
    JobEnd end;
    end.ref = {found.spec.id, "", found.spec.submitted_at};
    end.key = found.spec.key;
    end.state = found.status->state;
    end.state_text = std::string(to_string(found.status->state));
    end.exit_code = found.status->exit_code;
    end.signal = found.status->signal;
    end.cancelled_by_uid = found.status->cancelled_by_uid;
    end.started_at = found.status->started_at;
    end.ended_at = found.status->ended_at;
    end.nodes = {host_};
    end.reason = found.status->reason;
    ends.push_back(std::move(end));
  }
  return ends;
}

Result<std::vector<JobEnd>> LocalScheduler::ended_by_key(const std::vector<std::string>& keys) {
  std::vector<JobRef> jobs;
  for (const std::string& key : keys) {
    auto job = read_job(key);
    if (!job) return job.error();
    if (*job) jobs.push_back({(*job)->spec.id, "", (*job)->spec.submitted_at});
  }
  return ended(jobs);
}

Status LocalScheduler::extend(const JobRef& ref, Instant, Instant) {
  return Error{
      Code::permission_denied,
      fmt::format("cannot extend job {}: local jobs keep the limit they were given", ref.id),
      Source::scheduler, Retry::no};
}

Status LocalScheduler::cancel(const JobRef& ref, CancelMode mode) {
  auto job = find(ref.id);
  if (!job) return job.error();
  if (!*job || (*job)->status) return {};
  if (ref.submit_time && (*job)->spec.submitted_at != *ref.submit_time) return {};
  auto how = mode == CancelMode::kill ? LocalJobCancel::How::kill : LocalJobCancel::How::polite;
  if (Status status = (*job)->dir.write_cancel({how, geteuid()}); !status)
    return Error(status.error()).wrap(fmt::format("cannot cancel job {}", ref.id));
  if (Status status = mend(**job); !status) return status;
  if ((*job)->status) return {};
  auto shim = (*job)->dir.read_shim();
  if (!shim) return shim.error();
  // The lock was held a moment ago, so the pid is the shim's; its start time is checked all the
  // same. A shim that is only just starting reads the cancel file by itself.
  if (*shim) {
    auto process = look_at_process((*shim)->pid);
    if (process && process->start_ticks == (*shim)->start_ticks) kill((*shim)->pid, SIGTERM);
  }
  return {};
}

Result<std::optional<JobIdentity>> LocalScheduler::identify(uint64_t job_id) {
  auto job = find(job_id);
  if (!job) return job.error();
  if (!*job) return std::optional<JobIdentity>();
  if (Status status = mend(**job); !status) return status.error();
  if ((*job)->status) return std::optional<JobIdentity>();
  auto observed = observe(**job);
  if (!observed) return observed.error();
  const JobObserved& seen = *observed;
  JobIdentity identity;
  identity.ref = seen.ref;
  identity.key = seen.key;
  identity.uid = (*job)->spec.uid;
  identity.user = seen.user;
  identity.account = seen.account;
  identity.state = seen.state;
  identity.nodes = seen.nodes;
  if (!seen.nodes.empty()) identity.addresses = {"127.0.0.1"};
  identity.ends_at = seen.ends_at;
  return std::optional<JobIdentity>(std::move(identity));
}

std::vector<Finding> LocalScheduler::diagnose() {
  using Level = Finding::Level;
  std::vector<Finding> findings;
  std::string error;
  auto jobs = scan(Scan::not_ended, error);
  if (!jobs)
    findings.push_back({Level::problem, "the jobs directory can be read", jobs.error().message});
  else if (!error.empty())
    findings.push_back({Level::problem, "every job's files can be read", error});
  else
    findings.push_back({Level::ok, "the jobs directory can be read",
                        fmt::format("{}: {} jobs run or wait, at most {} run at once", jobs_dir(),
                                    jobs->size(), settings_.max_running)});
  if (access(settings_.shim_argv[0].c_str(), X_OK) != 0)
    findings.push_back({Level::problem, "jobs can be started",
                        fmt::format("{}: {}", settings_.shim_argv[0], std::strerror(errno))});
  struct statfs fs_info {};
  constexpr long kNfs = 0x6969, kLustre = 0x0bd00bd0;
  if (statfs(jobs_dir().c_str(), &fs_info) == 0 &&
      (fs_info.f_type == kNfs || fs_info.f_type == kLustre))
    findings.push_back({Level::problem, "the state directory is on a local disk",
                        jobs_dir() + " is on a network file system, where locks may not hold; move "
                                     "the state directory to a local disk"});
  findings.push_back(
      {Level::warning, "memory, processors and GPUs are enforced",
       "the local scheduler only counts jobs; use Slurm where users share machines"});
  return findings;
}

}  // namespace berth::sched
