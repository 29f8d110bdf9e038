#include "sim/slurm_fake.h"

#include <algorithm>

#include "sched/slurm_text.h"

namespace berth::sim {
namespace {

using Phase = JobTruth::Phase;

Error no_answer(Code code) {
  return Error{code, "Unable to contact slurm controller (connect failure)", Source::scheduler,
               Retry::yes};
}

constexpr const char* kUser = "berth";
constexpr const char* kNoPartition = "nope";

// Slurm's times have whole seconds.
Instant whole(Instant t) { return from_ms(to_ms(t) / 1000 * 1000); }

}  // namespace

uint64_t SlurmFake::make(const sched::JobRequest& request) {
  JobTruth& job = jobs_.emplace_back();
  job.id = next_id_++;
  job.key = request.key;
  job.service = request.work_dir;  // the simulation's own label
  job.submitted_at = whole(now_);
  job.starts_at = now_ + random_.between(min_queue_wait, max_queue_wait);
  job.account = request.resources.account;
  job.time_limit = request.resources.time_limit;
  job.reason = "Priority";
  ++created;
  return job.id;
}

Result<JobRef> SlurmFake::submit(const sched::JobRequest& request) {
  if (!sched::is_job_name(request.key))
    return invalid_argument("cannot submit " + request.key + ": not a job's name");
  if (request.resources.partition == kNoPartition)
    return invalid_argument("cannot submit " + request.key +
                            ": invalid partition specified: " + request.resources.partition);
  if (down()) {
    if (!frozen && random_.percent(50)) return no_answer(Code::unavailable);
    if (frozen || random_.percent(50))
      late_.push_back({down_until, request});  // it was queued in a socket
    return no_answer(Code::unknown_outcome);
  }
  if (random_.percent(faults.submit_limit))
    return Error{Code::exhausted, "AssocMaxSubmitJobLimit", Source::scheduler, Retry::yes};
  if (random_.percent(faults.submit_unreachable)) return no_answer(Code::unavailable);
  if (random_.percent(faults.submit_lost)) {
    if (random_.percent(60))
      late_.push_back({now_ + random_.between(Duration(0), seconds(30)), request});
    return Error{Code::unknown_outcome, "Socket timed out on send/recv operation",
                 Source::scheduler, Retry::no};
  }
  uint64_t id = make(request);
  return JobRef{id, "", std::nullopt};
}

JobListing SlurmFake::list() {
  JobListing listing;
  listing.asked_at = now_;
  if (down() || random_.percent(faults.list_fails)) {
    listing.error = "slurm_load_jobs error: Socket timed out on send/recv operation";
    return listing;
  }
  listing.quality = JobListing::Quality::complete;
  bool cut = random_.percent(faults.list_partial);
  if (cut) {
    listing.quality = JobListing::Quality::partial;
    listing.error = "the answer was cut";
  }
  for (const JobTruth& job : jobs_) {
    if (job.phase == Phase::ended || (cut && random_.percent(60))) continue;
    JobObserved& seen = listing.jobs.emplace_back();
    seen.ref = {job.id, "", job.submitted_at};
    seen.key = job.key;
    seen.user = job.service.empty() ? "somebody" : kUser;
    seen.account = job.account;
    seen.restarts = job.restarts;
    seen.reason = job.phase == Phase::pending ? job.reason : "None";
    if (job.held) seen.pending_class = PendingClass::needs_admin;
    seen.state = job.phase == Phase::pending   ? JobState::pending
                 : job.phase == Phase::running ? JobState::running
                                               : JobState::completing;
    if (job.phase != Phase::pending) {
      seen.nodes = {job.node};
      seen.started_at = whole(job.started_at);
      seen.time_limit = job.time_limit;
      if (auto end = job.ends_at()) seen.ends_at = whole(*end);
    } else {
      seen.time_limit = job.time_limit;
    }
  }
  return listing;
}

JobEnd SlurmFake::end_of(const JobTruth& job) {
  JobEnd end;
  end.ref = {job.id, "", job.submitted_at};
  end.key = job.key;
  end.state = job.end_state;
  end.exit_code = job.exit_code;
  end.signal = job.signal;
  if (job.started_at != Instant{}) end.started_at = whole(job.started_at);
  end.cancelled_by_uid = job.cancelled_by;
  if (!random_.percent(faults.provisional_ends)) end.ended_at = whole(job.ended_at);
  end.nodes = {job.node};
  return end;
}

Result<std::vector<JobEnd>> SlurmFake::ended(const std::vector<JobRef>& asked) {
  if (random_.percent(faults.accounting_fails)) return no_answer(Code::unavailable);
  std::vector<JobEnd> ends;
  for (const JobRef& ref : asked)
    for (const JobTruth& job : jobs_)
      if (job.id == ref.id && accounted(job)) ends.push_back(end_of(job));
  return ends;
}

Result<std::vector<JobEnd>> SlurmFake::ended_by_key(const std::vector<std::string>& keys) {
  if (random_.percent(faults.accounting_fails)) return no_answer(Code::unavailable);
  std::vector<JobEnd> ends;
  for (const std::string& key : keys)
    for (const JobTruth& job : jobs_)
      if (job.key == key && accounted(job)) ends.push_back(end_of(job));
  return ends;
}

Status SlurmFake::cancel(const JobRef& ref, sched::CancelMode mode) {
  if (down()) return no_answer(Code::unknown_outcome);
  if (random_.percent(faults.cancel_lost)) return no_answer(Code::unknown_outcome);
  for (JobTruth& job : jobs_) {
    if (job.id != ref.id || !job.alive()) continue;
    if (job.service.empty()) {
      cancelled_foreign = job.key;
      return {};
    }
    ++job.cancels;
    bool kill = mode == sched::CancelMode::kill;
    begin_end(job, JobState::cancelled,
              kill ? Duration(0) : random_.between(Duration(0), seconds(5)));
    job.cancelled_by = 900;  // Berth's own user
  }
  return {};
}

Status SlurmFake::extend(const JobRef& ref, Instant started_at, Instant until) {
  if (down()) return no_answer(Code::unknown_outcome);
  if (!lets_extend)
    return Error{Code::permission_denied, "Access/permission denied", Source::scheduler, Retry::no};
  for (JobTruth& job : jobs_) {
    if (job.id != ref.id || job.phase != Phase::running) continue;
    if (job.service.empty()) extended_foreign = job.key;
    if (job.time_limit) job.time_limit = std::max(*job.time_limit, until - started_at);
    return {};
  }
  return not_found("Invalid job id specified");
}

Result<std::optional<sched::JobIdentity>> SlurmFake::identify(uint64_t job_id) {
  if (down()) return no_answer(Code::unavailable);
  for (const JobTruth& job : jobs_) {
    if (job.id != job_id || job.phase == Phase::ended) continue;
    sched::JobIdentity identity;
    identity.ref = {job.id, "", job.submitted_at};
    identity.key = job.key;
    identity.user = job.service.empty() ? "somebody" : kUser;
    identity.account = job.account;
    identity.state = job.phase == Phase::pending ? JobState::pending : JobState::running;
    if (job.phase != Phase::pending) {
      identity.nodes = {job.node};
      identity.addresses = {"10.0.0." + job.node.substr(1)};
      identity.ends_at = job.ends_at();
    }
    return std::optional(identity);
  }
  return std::optional<sched::JobIdentity>{};
}

void SlurmFake::begin_end(JobTruth& job, JobState state, Duration completing) {
  if (!job.alive()) return;
  if (job.phase == Phase::pending) completing = Duration(0);
  job.phase = Phase::completing;
  job.goes_at = now_ + completing;
  job.end_state = state;
  job.agent.state = AgentTruth::State::dead;
  if (completing == Duration(0)) finish(job);
}

void SlurmFake::finish(JobTruth& job) {
  job.phase = Phase::ended;
  job.ended_at = now_;
  job.accounted_at = now_ + random_.between(Duration(0), faults.accounting_lag);
  if (!job.service.empty() && random_.percent(faults.reuse_ids))
    reuses_.push_back({now_ + random_.between(seconds(12), seconds(15)), job.id});
}

void SlurmFake::requeue(JobTruth& job, std::string reason, bool held) {
  job.phase = Phase::pending;
  job.reason = std::move(reason);
  job.held = held;
  ++job.restarts;
  job.submitted_at = whole(now_);
  job.starts_at = now_ + random_.between(seconds(20), seconds(60));
  job.agent = AgentTruth{};
}

void SlurmFake::advance() {
  while (!reuses_.empty() && reuses_.front().at <= now_) {
    JobTruth& foreign = jobs_.emplace_back();
    foreign.id = reuses_.front().id;
    foreign.key = "training-" + std::to_string(foreign.id);
    foreign.submitted_at = whole(now_);
    foreign.phase = Phase::running;
    foreign.started_at = now_;
    foreign.node = "n9";
    reuses_.erase(reuses_.begin());
  }
  for (size_t i = 0; i < late_.size();) {
    if (late_[i].at > now_) {
      ++i;
      continue;
    }
    make(late_[i].request);
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (size_t i = 0; i < jobs_.size(); ++i) {
    JobTruth& job = jobs_[i];
    if (job.phase == Phase::pending && !job.held && now_ >= job.starts_at) {
      job.phase = Phase::running;
      job.started_at = now_;
      job.reason.clear();
      job.node = "n" + std::to_string(random_.below(8));
    } else if (auto end = job.ends_at(); job.phase == Phase::running && end && now_ >= *end) {
      ++timed_out;
      begin_end(job, JobState::timed_out, Duration(0));
    } else if (job.phase == Phase::completing && now_ >= job.goes_at) {
      finish(job);
    }
  }
}

}  // namespace berth::sim
