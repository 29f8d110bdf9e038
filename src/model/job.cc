#include "model/job.h"

namespace berth {

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::pending:
      return "pending";
    case JobState::configuring:
      return "configuring";
    case JobState::running:
      return "running";
    case JobState::suspended:
      return "suspended";
    case JobState::completing:
      return "completing";
    case JobState::completed:
      return "completed";
    case JobState::failed:
      return "failed";
    case JobState::cancelled:
      return "cancelled";
    case JobState::timed_out:
      return "timed_out";
    case JobState::preempted:
      return "preempted";
    case JobState::node_failed:
      return "node_failed";
    case JobState::out_of_memory:
      return "out_of_memory";
    case JobState::deadline:
      return "deadline";
    case JobState::requeued:
      return "requeued";
    case JobState::unknown:
      return "unknown";
  }
  return "unknown";
}

bool is_ended(JobState state) {
  switch (state) {
    case JobState::completed:
    case JobState::failed:
    case JobState::cancelled:
    case JobState::timed_out:
    case JobState::preempted:
    case JobState::node_failed:
    case JobState::out_of_memory:
    case JobState::deadline:
      return true;
    case JobState::pending:
    case JobState::configuring:
    case JobState::running:
    case JobState::suspended:
    case JobState::completing:
    case JobState::requeued:
    case JobState::unknown:
      return false;
  }
  return false;
}

}  // namespace berth
