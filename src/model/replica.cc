#include "model/replica.h"

#include <array>

namespace berth {
namespace {

template <class Enum, size_t N>
std::optional<Enum> parse(const std::array<Enum, N>& all, std::string_view text) {
  for (Enum e : all)
    if (to_string(e) == text) return e;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(ReplicaState state) {
  switch (state) {
    case ReplicaState::submitted:
      return "submitted";
    case ReplicaState::pending:
      return "pending";
    case ReplicaState::loading:
      return "loading";
    case ReplicaState::ready:
      return "ready";
    case ReplicaState::unhealthy:
      return "unhealthy";
    case ReplicaState::draining:
      return "draining";
    case ReplicaState::ended:
      return "ended";
  }
  return "ended";
}

std::optional<ReplicaState> parse_replica_state(std::string_view text) {
  using enum ReplicaState;
  return parse(std::array{submitted, pending, loading, ready, unhealthy, draining, ended}, text);
}

bool can_follow(ReplicaState from, ReplicaState to) {
  using enum ReplicaState;
  if (from == to) return true;
  if (from == ended) return false;  // final
  if (to == ended || to == draining) return true;
  if (to == submitted) return false;   // only at birth
  if (to == pending) return true;      // first sight in the queue, or a requeue
  if (from == draining) return false;  // a draining replica never serves again
  return true;                         // loading, ready, unhealthy among themselves
}

std::string_view to_string(SubmitState state) {
  switch (state) {
    case SubmitState::intended:
      return "intended";
    case SubmitState::unknown:
      return "unknown";
    case SubmitState::accepted:
      return "accepted";
    case SubmitState::refused:
      return "refused";
  }
  return "unknown";
}

std::optional<SubmitState> parse_submit_state(std::string_view text) {
  using enum SubmitState;
  return parse(std::array{intended, unknown, accepted, refused}, text);
}

std::string_view to_string(EndCause cause) {
  switch (cause) {
    case EndCause::refused:
      return "refused";
    case EndCause::failed_to_load:
      return "failed_to_load";
    case EndCause::load_timeout:
      return "load_timeout";
    case EndCause::crashed:
      return "crashed";
    case EndCause::launch_failed:
      return "launch_failed";
    case EndCause::time_limit:
      return "time_limit";
    case EndCause::preempted:
      return "preempted";
    case EndCause::node_failed:
      return "node_failed";
    case EndCause::out_of_memory:
      return "out_of_memory";
    case EndCause::cancelled:
      return "cancelled";
    case EndCause::stopped:
      return "stopped";
    case EndCause::completed:
      return "completed";
    case EndCause::unknown:
      return "unknown";
  }
  return "unknown";
}

std::optional<EndCause> parse_end_cause(std::string_view text) {
  using enum EndCause;
  return parse(
      std::array{refused, failed_to_load, load_timeout, crashed, launch_failed, time_limit,
                 preempted, node_failed, out_of_memory, cancelled, stopped, completed, unknown},
      text);
}

bool counts_as_failure(EndCause cause) {
  switch (cause) {
    case EndCause::refused:
    case EndCause::failed_to_load:
    case EndCause::load_timeout:
    case EndCause::crashed:
    case EndCause::launch_failed:
    case EndCause::out_of_memory:
    case EndCause::unknown:
      return true;
    case EndCause::time_limit:
    case EndCause::preempted:
    case EndCause::node_failed:
    case EndCause::cancelled:
    case EndCause::stopped:
    case EndCause::completed:
      return false;
  }
  return false;
}

}  // namespace berth
