#include "plan/verdict.h"

#include <fmt/format.h>

#include "model/exit_status.h"

namespace berth::plan {
namespace {

bool we_cancelled(const ReplicaRecord& replica) {
  return replica.stop && replica.stop->cancel_attempts > 0;
}

// Slurm reports a script that it could not start as killed by signal 53, or says so.
bool launch_failed(const ReplicaRecord& replica, const JobEnd& end) {
  if (end.signal == 53) return true;
  return end.reason == "JobLaunchFailure" && !end.signal && !replica.agent_end &&
         !replica.ready_at && replica.lease_id.empty();
}

EndCause engine_cause(const ReplicaRecord& replica) {
  return replica.ready_at ? EndCause::crashed : EndCause::failed_to_load;
}

std::string how(const JobEnd& end) {
  std::string text = end.state_text.empty() ? std::string(to_string(end.state)) : end.state_text;
  if (!end.signal && !end.exit_code) return text;
  return fmt::format("{}, {}", text, describe_exit(end.exit_code, end.signal));
}

std::string on_nodes(const JobEnd& end, const ReplicaRecord& replica) {
  if (!end.nodes.empty()) return " on " + end.nodes.front();
  return replica.node.empty() ? "" : " on " + replica.node;
}

// The agent's own account, when it gave one.
Verdict by_agent(const AgentEnd& agent, const ReplicaRecord& replica) {
  EndCause cause = agent.cause;
  if (cause == EndCause::completed && replica.stop) cause = replica.stop->cause;
  return {cause, agent.detail, agent.exit_code, agent.signal};
}

bool agent_blames_engine(const ReplicaRecord& replica) {
  return replica.agent_end && counts_as_failure(replica.agent_end->cause);
}

Verdict judge_cancelled(const ReplicaRecord& replica, const JobEnd& end, const Policy& policy) {
  if (we_cancelled(replica)) return {replica.stop->cause, replica.stop->why};
  if (agent_blames_engine(replica)) return by_agent(*replica.agent_end, replica);
  std::string who = "somebody";
  if (end.cancelled_by_uid) {
    who = fmt::format("user {}", *end.cancelled_by_uid);
    if (policy.own_uid == end.cancelled_by_uid) who += " (the account Berth runs as)";
  }
  std::string text = "cancelled by " + who;
  if (replica.stop) return {replica.stop->cause, replica.stop->why + "; " + text};
  return {EndCause::cancelled, text};
}

Verdict judge_failed(const ReplicaRecord& replica, const JobEnd& end) {
  if (replica.agent_end) return by_agent(*replica.agent_end, replica);
  if (launch_failed(replica, end))
    return {
        EndCause::launch_failed,
        fmt::format("the scheduler could not start the job's script{} ({}{}{}): look at its "
                    "output path and at the node's prolog",
                    on_nodes(end, replica), how(end), end.reason.empty() ? "" : ", ", end.reason)};
  if (we_cancelled(replica)) return {replica.stop->cause, replica.stop->why + "; " + how(end)};
  return {engine_cause(replica), how(end) + on_nodes(end, replica)};
}

}  // namespace

Verdict judge_end(const ReplicaRecord& replica, const JobEnd* end, const Policy& policy) {
  if (!end) {
    if (replica.agent_end) return by_agent(*replica.agent_end, replica);
    if (replica.stop) return {replica.stop->cause, replica.stop->why};
    return {EndCause::unknown,
            "the job left the queue, and neither its agent nor accounting says how it ended"};
  }
  Verdict verdict;
  switch (end->state) {
    case JobState::node_failed:
      verdict = {EndCause::node_failed, "its node failed" + on_nodes(*end, replica)};
      break;
    case JobState::preempted:
      verdict = {EndCause::preempted, "preempted" + on_nodes(*end, replica)};
      break;
    case JobState::out_of_memory:
      verdict = {EndCause::out_of_memory, "out of memory" + on_nodes(*end, replica)};
      break;
    case JobState::timed_out:
    case JobState::deadline: {
      bool loaded = replica.ready_at.has_value();
      verdict = {EndCause::time_limit,
                 loaded ? "reached its time limit" : "reached its time limit before it was ready"};
      break;
    }
    case JobState::cancelled:
      verdict = judge_cancelled(replica, *end, policy);
      break;
    case JobState::completed:
      if (replica.agent_end)
        verdict = by_agent(*replica.agent_end, replica);
      else if (replica.stop)
        verdict = {replica.stop->cause, replica.stop->why + "; it completed by itself"};
      else
        verdict = {EndCause::completed, "the job's script ended with success"};
      break;
    default:
      verdict = judge_failed(replica, *end);
      break;
  }
  if (!verdict.exit_code) verdict.exit_code = end->exit_code;
  if (!verdict.signal) verdict.signal = end->signal;
  return verdict;
}

}  // namespace berth::plan
