#include "plan/scale.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::plan {
namespace {

// On its way out already, whoever wanted it.
bool going(const ReplicaRecord& r) {
  return r.stop || r.agent_end || r.state == ReplicaState::draining;
}

int worth(const ReplicaRecord& r) {
  switch (r.state) {
    case ReplicaState::submitted:
    case ReplicaState::pending:
      return 0;
    case ReplicaState::unhealthy:
      return 1;
    case ReplicaState::loading:
      return 2;
    default:
      return 3;
  }
}

// Least worth first; among equals the newest.
bool stop_before(const ReplicaRecord* a, const ReplicaRecord* b) {
  if (worth(*a) != worth(*b)) return worth(*a) < worth(*b);
  return std::pair(a->intended_at, a->key) > std::pair(b->intended_at, b->key);
}

std::string why_none(const ServiceRecord& service) {
  switch (service.wanted) {
    case ServiceRecord::Wanted::stopped:
      return "the service was stopped";
    case ServiceRecord::Wanted::removed:
      return "the service was removed";
    case ServiceRecord::Wanted::running:
      break;
  }
  return "scaled down to 0";
}

std::string why_replaced(const ReplicaRecord& r, const ServiceRecord& service) {
  if (r.generation != service.generation)
    return fmt::format("replaced by generation {}", service.generation);
  return "restart";
}

}  // namespace

int target_of(const ServiceRecord& service) {
  return service.wanted == ServiceRecord::Wanted::running ? std::max(service.spec.replicas, 0) : 0;
}

bool is_current(const ReplicaRecord& replica, const ServiceRecord& service) {
  return replica.generation == service.generation && replica.restart_nonce == service.restart_nonce;
}

Scale scale(const ServiceRecord& service, const std::vector<const ReplicaRecord*>& living,
            const Policy& policy) {
  Scale out;
  const int target = target_of(service);
  std::vector<const ReplicaRecord*> current, older;
  int ready = 0;
  for (const ReplicaRecord* r : living) {
    if (target == 0) {
      if (!r->stop) out.stops.push_back({r, why_none(service)});
      continue;
    }
    if (going(*r)) continue;
    (is_current(*r, service) ? current : older).push_back(r);
    ready += r->state == ReplicaState::ready;
  }
  if (target == 0) return out;

  std::sort(current.begin(), current.end(), stop_before);
  int surplus = static_cast<int>(std::ssize(current)) - target;
  for (int i = 0; i < surplus; ++i) {
    const ReplicaRecord* r = current[static_cast<size_t>(i)];
    ready -= r->state == ReplicaState::ready;
    out.stops.push_back({r, fmt::format("scaled down to {}", target)});
  }
  std::sort(older.begin(), older.end(), stop_before);
  for (const ReplicaRecord* r : older) {
    bool serves = r->state == ReplicaState::ready;
    if (serves && ready <= target) {
      ++out.older;
      continue;
    }
    ready -= serves;
    out.stops.push_back({r, why_replaced(*r, service)});
  }
  int room = target + policy.surge - static_cast<int>(std::ssize(living));
  out.start = std::max(0, std::min(-surplus, room));
  return out;
}

}  // namespace berth::plan
