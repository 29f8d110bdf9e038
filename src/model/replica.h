// A replica: one job that serves a service. The record is durable; it is written before the job
// is submitted (intent before effect) and keeps what is needed to adopt the job after a crash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/job.h"
#include "model/start_times.h"

namespace berth {

enum class ReplicaState { submitted, pending, loading, ready, unhealthy, draining, ended };

std::string_view to_string(ReplicaState state);
std::optional<ReplicaState> parse_replica_state(std::string_view text);
// Whether a record may go from one state to another. `ended` is final; a requeued job goes back
// to pending.
bool can_follow(ReplicaState from, ReplicaState to);

// What is known about the submission of the replica's job.
enum class SubmitState {
  intended,  // recorded; the command may not have been sent
  unknown,   // sent, and the outcome is not known: look for the key before sending again
  accepted,  // the job's id is known
  refused,   // the scheduler said no
};

std::string_view to_string(SubmitState state);
std::optional<SubmitState> parse_submit_state(std::string_view text);

enum class EndCause {
  refused,         // never became a job
  failed_to_load,  // the engine ended, or answered wrongly, before it was ready
  load_timeout,    // not ready within load_timeout
  crashed,         // the engine died after it was ready
  launch_failed,   // Slurm could not start the script (output file, prolog)
  time_limit,
  preempted,
  node_failed,
  out_of_memory,
  cancelled,  // by somebody else than Berth
  stopped,    // by Berth, as intended: scaled down, stopped, replaced, drained
  completed,  // the agent ended by itself, as planned
  unknown,    // gone, and nobody can say how
};

std::string_view to_string(EndCause cause);
std::optional<EndCause> parse_end_cause(std::string_view text);
// Whether this end counts as a failed start for the crash-loop back-off.
bool counts_as_failure(EndCause cause);

// Why Berth wants a replica gone; decided once, then carried out until the job has ended.
struct StopIntent {
  Instant decided_at{};
  std::string why;  // for people: "scaled down to 1", "restart by alice"
  std::optional<Instant> drain_asked_at;
  std::optional<Instant> cancel_sent_at;  // the last time scancel was sent; retried until ended
  int cancel_attempts = 0;
  EndCause cause = EndCause::stopped;  // what the end will be called when this stop brings it about

  bool operator==(const StopIntent&) const = default;
};

// What the agent said of its end, the last thing before it went (proto::EndReport). Kept in the
// record so that it survives a crash; the end itself is believed once the scheduler agrees.
struct AgentEnd {
  Instant at{};
  EndCause cause = EndCause::completed;
  std::string detail;
  std::optional<int> exit_code;  // the engine's
  std::optional<int> signal;

  bool operator==(const AgentEnd&) const = default;
};

struct ReplicaRecord {
  std::string key;      // unique for ever; the job's name: "berth-" + 16 hexadecimal digits
  std::string service;  // the service's public name
  uint64_t generation = 0;
  uint64_t restart_nonce = 0;
  std::string partition;  // asked for; "": the site's default
  ReplicaState state = ReplicaState::submitted;
  Instant state_since{};  // when `state` was last changed

  Instant intended_at{};
  SubmitState submit = SubmitState::intended;
  std::optional<Instant> submit_sent_at;  // when the last sbatch was started
  int submit_attempts = 0;
  std::string submit_error;                // the scheduler's words at the last refusal or failure
  std::optional<Code> refused_code;        // with submit == refused: what kind of no it was
  std::vector<std::string> exclude_nodes;  // besides the spec's: jobs failed to launch there

  JobRef job;
  int restarts = 0;    // requeues seen
  std::string reason;  // the scheduler's pending reason, verbatim
  PendingClass pending_class = PendingClass::waiting;
  std::optional<Instant> reason_since;
  std::optional<Instant> estimated_start;
  std::string node;
  std::optional<Instant> started_at;
  std::optional<Instant> ends_at;       // the job's time limit
  std::optional<Instant> ready_at;      // first time it was ready in this run
  StartTimes start;                     // of this run, as far as it has come
  std::optional<Instant> last_seen_at;  // last good listing or heartbeat that showed it alive
  std::string lease_id;

  // The handover of this run to a successor, before the job's time is up.
  std::optional<Instant> handover_at;  // begun; never taken back
  std::optional<Instant> gap_told_at;  // people were told that no successor will be ready in time
  std::optional<Instant> extend_sent_at;  // more time was last asked of the scheduler
  int extensions = 0;                     // ... so often

  std::optional<StopIntent> stop;
  std::optional<AgentEnd> agent_end;

  std::optional<Instant> ended_at;  // absent in an ended record: not known yet (provisional)
  std::optional<EndCause> end_cause;
  std::string end_detail;  // for people
  std::optional<int> exit_code;
  std::optional<int> signal;

  bool operator==(const ReplicaRecord&) const = default;
};

}  // namespace berth
