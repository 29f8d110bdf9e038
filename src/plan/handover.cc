#include "plan/handover.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/end_lead.h"
#include "plan/scale.h"

namespace berth::plan {
namespace {

// Assumed until the service has started once.
constexpr Duration kAssumedQueue = minutes(2);
constexpr Duration kAssumedLoad = minutes(5);
// Looks at the queue, heartbeats and the way of a submit, which no estimate contains.
constexpr Duration kMargin = seconds(20);
// With few samples the highest seen says little about the next: up to twice is allowed for, a
// quarter more when much has been seen.
constexpr int kSamplesPerStep = 5;
constexpr int kSteps = 4;

Duration stretched(Duration start, int samples) {
  const int steps = std::clamp(samples / kSamplesPerStep, 1, kSteps);
  return start + start / steps;
}

Duration queue_of(const ServiceEstimate* e) {
  return e && e->queue_high ? *e->queue_high : kAssumedQueue;
}
Duration load_of(const ServiceEstimate* e) {
  return e && e->load_high ? *e->load_high : kAssumedLoad;
}

// When one that does not serve yet will, by the medians: what is said, not what is feared.
std::optional<Instant> ready_by(const ReplicaRecord& r, const ServiceEstimate* e, Instant now) {
  const Duration load = e && e->load_time ? *e->load_time : kAssumedLoad;
  if (r.started_at) return std::max(now, *r.started_at + load);
  if (r.estimated_start) return std::max(now, *r.estimated_start) + load;
  if (r.submit == SubmitState::refused || r.pending_class != PendingClass::waiting)
    return std::nullopt;
  if (!e || !e->queue_wait) return std::nullopt;
  const Instant sent = r.submit_sent_at.value_or(r.intended_at);
  // Waited longer than it ever did: how much longer, nobody knows.
  if (now > sent + *e->queue_high + kMargin) return std::nullopt;
  return std::max(now, sent + *e->queue_wait) + load;
}

}  // namespace

Lead handover_lead(const ServiceEstimate* estimate, Duration drain_grace, Duration run) {
  Lead lead;
  lead.queue = queue_of(estimate);
  lead.load = load_of(estimate);
  lead.end = end_lead(drain_grace, run);
  lead.samples = estimate ? estimate->samples : 0;
  const Duration start =
      lead.samples == 0 ? lead.queue + lead.load : stretched(lead.queue + lead.load, lead.samples);
  const Duration wanted = lead.end + start + kMargin;
  // What is only assumed must not cost more than half of a run.
  const Duration most = lead.samples == 0 ? run / 2 : run * 9 / 10;
  lead.bounded = wanted > most;
  lead.total = std::max(Duration(0), std::min(wanted, most));
  return lead;
}

std::string words(const Lead& lead) {
  std::string basis =
      lead.samples == 0 ? "assumed, as nothing was measured yet"
                        : fmt::format("by {} start{}", lead.samples, lead.samples == 1 ? "" : "s");
  return fmt::format("{} before its end (queue at most {}, load at most {}, {}; its own end {}{})",
                     to_human(lead.total), to_human(lead.queue), to_human(lead.load), basis,
                     to_human(lead.end), lead.bounded ? "; bounded by the time limit" : "");
}

std::optional<Instant> last_safe(const ReplicaRecord& replica, Duration drain_grace) {
  if (!replica.ends_at) return std::nullopt;
  std::optional<Duration> run;
  if (replica.started_at) run = *replica.ends_at - *replica.started_at;
  return *replica.ends_at - end_lead(drain_grace, run);
}

bool nears_its_end(const ReplicaRecord& r, const ServiceRecord& service,
                   const ServiceEstimate* estimate, Instant now) {
  if (!r.ready_at || !r.ends_at || !r.started_at || r.stop || r.agent_end) return false;
  if (r.state != ReplicaState::ready && r.state != ReplicaState::unhealthy) return false;
  const Lead lead = handover_lead(estimate, service.spec.drain_grace, *r.ends_at - *r.started_at);
  return now >= *r.ends_at - lead.total;
}

std::vector<Succession> successions(const ServiceRecord& service,
                                    const std::vector<const ReplicaRecord*>& living,
                                    const ServiceEstimate* estimate, Instant now) {
  std::vector<Succession> handed_over;
  struct Next {
    const ReplicaRecord* replica;
    std::optional<Instant> ready_by;
  };
  std::vector<Next> coming;
  for (const ReplicaRecord* r : living) {
    if (r->stop || r->agent_end) continue;
    if (r->handover_at) {
      if (auto safe = last_safe(*r, service.spec.drain_grace); safe && r->ready_at)
        handed_over.push_back({r, nullptr, *safe, std::nullopt, Duration(0)});
    } else if (!r->ready_at && is_current(*r, service)) {
      coming.push_back({r, ready_by(*r, estimate, now)});
    }
  }
  std::sort(handed_over.begin(), handed_over.end(), [](const Succession& a, const Succession& b) {
    return std::pair(a.safe_until, a.old->key) < std::pair(b.safe_until, b.old->key);
  });
  std::sort(coming.begin(), coming.end(), [](const Next& a, const Next& b) {
    auto at = [](const Next& n) { return n.ready_by.value_or(Instant::max()); };
    return std::pair(at(a), a.replica->key) < std::pair(at(b), b.replica->key);
  });
  for (size_t i = 0; i < handed_over.size(); ++i) {
    Succession& s = handed_over[i];
    if (i < coming.size()) {
      s.next = coming[i].replica;
      s.ready_by = coming[i].ready_by;
    }
    if (s.ready_by) s.gap = std::max(Duration(0), *s.ready_by - s.safe_until);
  }
  return handed_over;
}

std::string words(const Succession& s, Instant now) {
  auto in = [now](Instant at) { return at > now ? "in " + to_human(at - now) : "now"; };
  std::string text = fmt::format("takes its last request {}; ", in(s.safe_until));
  if (!s.next) return text + "its successor could not be submitted yet";
  const ReplicaRecord& next = *s.next;
  text += fmt::format("its successor {}", next.key);
  if (next.job.id != 0) text += fmt::format(" (job {})", next.job.id);
  text += fmt::format(" is {}", to_string(next.state));
  if (next.state == ReplicaState::pending && !next.reason.empty()) text += ": " + next.reason;
  if (!s.ready_by) return text + ", and nobody can say when it will serve";
  text += fmt::format(" and should serve {}", in(*s.ready_by));
  if (s.gap.count() > 0) text += fmt::format(", {} too late", to_human(s.gap));
  return text;
}

}  // namespace berth::plan
