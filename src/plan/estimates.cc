#include "plan/estimates.h"

#include <algorithm>
#include <vector>

namespace berth::plan {
namespace {

constexpr size_t kNewest = 20;

struct Sample {
  Instant at;
  Duration queue, load;
};
using Samples = std::vector<Sample>;

void keep_newest(Samples& samples) {
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.at > b.at; });
  if (samples.size() > kNewest) samples.resize(kNewest);
}

// The smallest value that `percent` of the samples do not exceed.
template <class Get>
Duration quantile(Samples& samples, size_t percent, Get get) {
  size_t rank = (samples.size() * percent + 99) / 100;
  auto at = samples.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(samples.begin(), at, samples.end(),
                   [&](const Sample& a, const Sample& b) { return get(a) < get(b); });
  return get(*at);
}

Duration queue(const Sample& s) { return s.queue; }
Duration load(const Sample& s) { return s.load; }

}  // namespace

Estimates estimate(const Services& services, const Replicas& replicas) {
  std::map<std::string, Samples> by_service, by_partition;
  for (const auto& [key, r] : replicas) {
    if (!r.started_at || !r.ready_at || !r.submit_sent_at || r.restarts > 0) continue;
    auto service = services.find(r.service);
    if (service == services.end()) continue;
    // Slurm's start has whole seconds on another clock: a difference below zero is none.
    Sample sample{*r.ready_at, std::max(*r.started_at - *r.submit_sent_at, Duration(0)),
                  std::max(*r.ready_at - *r.started_at, Duration(0))};
    by_partition[r.partition].push_back(sample);
    if (r.partition == service->second.spec.resources.partition)
      by_service[r.service].push_back(sample);
  }
  std::map<std::string, ServiceEstimate> borrowed;
  for (auto& [partition, samples] : by_partition) {
    keep_newest(samples);
    borrowed[partition].queue_wait = quantile(samples, 50, queue);
    borrowed[partition].queue_high = quantile(samples, 90, queue);
  }
  Estimates estimates;
  for (const auto& [name, service] : services) {
    auto own = by_service.find(name);
    if (own == by_service.end()) {
      auto of_others = borrowed.find(service.spec.resources.partition);
      if (of_others != borrowed.end()) estimates[name] = of_others->second;
      continue;
    }
    Samples& samples = own->second;
    keep_newest(samples);
    ServiceEstimate& e = estimates[name];
    e.samples = static_cast<int>(samples.size());
    e.queue_wait = quantile(samples, 50, queue);
    e.queue_high = quantile(samples, 90, queue);
    e.load_time = quantile(samples, 50, load);
    e.load_high = quantile(samples, 90, load);
  }
  return estimates;
}

}  // namespace berth::plan
