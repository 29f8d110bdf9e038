#include "plan/estimates.h"

#include <algorithm>
#include <vector>

namespace berth::plan {
namespace {

constexpr size_t kNewest = 9;

struct Sample {
  Instant at;
  Duration queue, load;
};

template <class Get>
Duration median(std::vector<Sample>& samples, Get get) {
  auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end(),
                   [&](const Sample& a, const Sample& b) { return get(a) < get(b); });
  return get(*middle);
}

}  // namespace

Estimates estimate(const Replicas& replicas) {
  std::map<std::string, std::vector<Sample>> by_service;
  for (const auto& [key, r] : replicas) {
    if (!r.started_at || !r.ready_at || !r.submit_sent_at || r.restarts > 0) continue;
    // Slurm's start has whole seconds on another clock: a difference below zero is none.
    Duration queue = std::max(*r.started_at - *r.submit_sent_at, Duration(0));
    Duration load = std::max(*r.ready_at - *r.started_at, Duration(0));
    by_service[r.service].push_back({*r.ready_at, queue, load});
  }
  Estimates estimates;
  for (auto& [service, samples] : by_service) {
    std::sort(samples.begin(), samples.end(),
              [](const Sample& a, const Sample& b) { return a.at > b.at; });
    if (samples.size() > kNewest) samples.resize(kNewest);
    ServiceEstimate& e = estimates[service];
    e.queue_wait = median(samples, [](const Sample& s) { return s.queue; });
    e.load_time = median(samples, [](const Sample& s) { return s.load; });
  }
  return estimates;
}

}  // namespace berth::plan
