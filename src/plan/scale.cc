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

// The next to go: least worth first, then the one whose job ends first, then the newest.
bool replace_before(const ReplicaRecord* a, const ReplicaRecord* b) {
  if (worth(*a) != worth(*b)) return worth(*a) < worth(*b);
  auto end = [](const ReplicaRecord* r) {
    return r->handover_at ? r->ends_at.value_or(Instant::max()) : Instant::max();
  };
  if (end(a) != end(b)) return end(a) < end(b);
  return stop_before(a, b);
}

std::string why_replaced(const ReplicaRecord& r, const ServiceRecord& service) {
  if (r.generation != service.generation)
    return fmt::format("replaced by generation {}", service.generation);
  if (r.restart_nonce != service.restart_nonce) return "restart";
  return "handed over before its time limit";
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
  std::vector<const ReplicaRecord*> staying, leaving;
  int ready = 0, handed_over = 0;
  for (const ReplicaRecord* r : living) {
    if (target == 0) {
      if (!r->stop) out.stops.push_back({r, why_none(service)});
      continue;
    }
    handed_over += r->handover_at.has_value();
    if (going(*r)) continue;
    (is_current(*r, service) && !r->handover_at ? staying : leaving).push_back(r);
    ready += r->state == ReplicaState::ready;
  }
  if (target == 0) return out;

  std::sort(staying.begin(), staying.end(), stop_before);
  int surplus = static_cast<int>(std::ssize(staying)) - target;
  for (int i = 0; i < surplus; ++i) {
    const ReplicaRecord* r = staying[static_cast<size_t>(i)];
    ready -= r->state == ReplicaState::ready;
    out.stops.push_back({r, fmt::format("scaled down to {}", target)});
  }
  std::sort(leaving.begin(), leaving.end(), replace_before);
  for (const ReplicaRecord* r : leaving) {
    bool serves = r->state == ReplicaState::ready;
    // An older one that does not serve is worth nothing; one that is handed over may recover.
    bool needed = serves ? ready <= target : r->handover_at && ready < target;
    if (needed) {
      out.older += !is_current(*r, service);
      continue;
    }
    ready -= serves;
    out.stops.push_back({r, why_replaced(*r, service)});
  }
  int room = target + policy.surge + handed_over - static_cast<int>(std::ssize(living));
  out.start = std::max(0, std::min(-surplus, room));
  return out;
}

}  // namespace berth::plan
