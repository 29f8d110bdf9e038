// A Slurm with a virtual clock, which misbehaves on request and remembers the truth.
//
// It implements the scheduler port; what its answers hide is in jobs(): the oracles look there.
// Faults are percentages, rolled at each call; `down_until` is a slurmctld that does not answer.
// The contract suite of the port holds for it too.
// Facts it is built on: ids are reused after an end; a requeued job keeps its id and gets a new
// submit time; accounting lags and may lack an end's time; scancel of an unknown job succeeds;
// a submit may be carried out although its reply is lost, and late;
// a job that overstays its time limit is ended.
// Threading: one thread. Ownership: the clock outlives it.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "sched/sched.h"
#include "sim/random.h"

namespace berth::sim {

struct Faults {
  int list_fails = 0, list_partial = 0;
  int submit_lost = 0;   // the reply is lost; whether it was carried out is another roll
  int submit_limit = 0;  // refused: try later
  int submit_unreachable = 0;
  int cancel_lost = 0;  // neither carried out nor answered
  int accounting_fails = 0;
  Duration accounting_lag{0};
  int provisional_ends = 0;  // accounting knows the end, not yet its time
  int reuse_ids = 0;         // an ended job's id is given to somebody else's job
};

struct AgentTruth {
  enum class State { none, setup, loading, ready, draining, dead };
  State state = State::none;
  Instant next_at{};                // when it goes on to its next state
  std::optional<Instant> fails_at;  // its engine dies
  bool deaf = false;                // does not do what it is asked to
  std::string lease_id;
  Instant heard_at{};  // a heartbeat last arrived
};

struct JobTruth {
  enum class Phase { pending, running, completing, ended };
  uint64_t id = 0;
  std::string key;
  std::string service;  // "" for somebody else's
  std::string account;
  Instant submitted_at{};
  Phase phase = Phase::pending;
  Instant starts_at{};  // when a pending job will start
  Instant started_at{};
  std::optional<Duration> time_limit;
  Instant goes_at{};  // when a completing job will be gone
  bool held = false;
  std::string reason;
  int restarts = 0;
  std::string node;
  JobState end_state = JobState::unknown;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<uint32_t> cancelled_by;
  Instant ended_at{};
  Instant accounted_at{};
  int cancels = 0;
  bool neared_its_end = false;  // the oracles' note
  AgentTruth agent;

  std::optional<Instant> ends_at() const {
    if (!time_limit || phase == Phase::pending) return std::nullopt;
    return started_at + *time_limit;
  }
  bool alive() const { return phase == Phase::pending || phase == Phase::running; }
};

class SlurmFake : public sched::Scheduler {
 public:
  SlurmFake(uint64_t seed, const Instant& now) : random_(seed), now_(now) {}

  std::string name() const override { return "slurm-fake"; }
  Result<JobRef> submit(const sched::JobRequest& request) override;
  JobListing list() override;
  Result<std::vector<JobEnd>> ended(const std::vector<JobRef>& jobs) override;
  Result<std::vector<JobEnd>> ended_by_key(const std::vector<std::string>& keys) override;
  Status cancel(const JobRef& job, sched::CancelMode mode) override;
  Status extend(const JobRef& job, Instant started_at, Instant until) override;
  Result<std::optional<sched::JobIdentity>> identify(uint64_t job_id) override;
  std::vector<sched::Finding> diagnose() override { return {}; }

  // Moves jobs along to the clock's time: late submits, starts, ends.
  void advance();

  // The truth, and hands to change it.
  std::deque<JobTruth>& jobs() { return jobs_; }
  void begin_end(JobTruth& job, JobState state, Duration completing);
  void requeue(JobTruth& job, std::string reason, bool held);

  Faults faults;
  Instant down_until{};  // no command is answered before
  bool frozen = false;   // while down: it hears, and does later what it was told
  bool lets_extend = false;
  Duration min_queue_wait = seconds(1);
  Duration max_queue_wait = seconds(40);
  int timed_out = 0;
  int created = 0;                               // jobs ever made from requests
  std::optional<std::string> cancelled_foreign;  // a cancel hit somebody else's job
  std::optional<std::string> extended_foreign;

 private:
  struct Reuse {
    Instant at;
    uint64_t id;
  };
  struct Late {
    Instant at;
    sched::JobRequest request;
  };
  bool down() const { return now_ < down_until; }
  uint64_t make(const sched::JobRequest& request);
  JobEnd end_of(const JobTruth& job);
  bool accounted(const JobTruth& job) const {
    return job.phase == JobTruth::Phase::ended && now_ >= job.accounted_at;
  }
  void finish(JobTruth& job);

  Random random_;
  const Instant& now_;
  std::deque<JobTruth> jobs_;  // all there ever were; references stay good
  std::vector<Late> late_;
  std::vector<Reuse> reuses_;
  uint64_t next_id_ = 1;
};

}  // namespace berth::sim
