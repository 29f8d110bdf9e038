#include "model/lease.h"

namespace berth {

std::string_view to_string(LeaseState state) {
  switch (state) {
    case LeaseState::loading:
      return "loading";
    case LeaseState::ready:
      return "ready";
    case LeaseState::unhealthy:
      return "unhealthy";
    case LeaseState::draining:
      return "draining";
  }
  return "draining";
}

std::optional<LeaseState> parse_lease_state(std::string_view text) {
  for (LeaseState s :
       {LeaseState::loading, LeaseState::ready, LeaseState::unhealthy, LeaseState::draining})
    if (to_string(s) == text) return s;
  return std::nullopt;
}

}  // namespace berth
