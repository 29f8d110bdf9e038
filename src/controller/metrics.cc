#include "controller/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace berth::controller {
namespace {

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void value(std::string& out, std::string_view name, std::string_view label, std::string_view of,
           uint64_t n) {
  out += fmt::format("{}{{{}=\"{}\"}} {}\n", name, label, of, n);
}

void services(std::string& out, const plan::Report& report) {
  std::map<std::string_view, uint64_t> by_status;
  for (ServiceStatus s : {ServiceStatus::ready, ServiceStatus::degraded, ServiceStatus::starting,
                          ServiceStatus::waiting, ServiceStatus::asleep, ServiceStatus::failed,
                          ServiceStatus::stopped})
    by_status[to_string(s)] = 0;
  for (const auto& [name, service] : report.services) ++by_status[to_string(service.status)];
  head(out, "berth_services", "gauge", "Declared services by status.");
  for (const auto& [status, n] : by_status) value(out, "berth_services", "status", status, n);
}

void replicas(std::string& out, const plan::Report& report) {
  plan::Counts all;
  for (const auto& [name, service] : report.services) {
    const plan::Counts& c = service.counts;
    all.submitted += c.submitted;
    all.pending += c.pending;
    all.loading += c.loading;
    all.ready += c.ready;
    all.unhealthy += c.unhealthy;
    all.draining += c.draining;
  }
  head(out, "berth_replicas", "gauge", "Replicas of declared services by state.");
  auto of = [&out](ReplicaState state, int n) {
    value(out, "berth_replicas", "state", to_string(state), static_cast<uint64_t>(n));
  };
  of(ReplicaState::submitted, all.submitted);
  of(ReplicaState::pending, all.pending);
  of(ReplicaState::loading, all.loading);
  of(ReplicaState::ready, all.ready);
  of(ReplicaState::unhealthy, all.unhealthy);
  of(ReplicaState::draining, all.draining);
}

}  // namespace

void Tally::count(const plan::Changes& changes, const plan::Replicas& before) {
  for (const plan::Note& note : changes.notes) ++events[note.kind];
  for (const ReplicaRecord& r : changes.put_replicas) {
    if (r.state != ReplicaState::ended || !r.end_cause) continue;
    auto was = before.find(r.key);
    if (was == before.end() || was->second.state != ReplicaState::ended) ++ends[*r.end_cause];
  }
}

std::string metrics_text(const plan::Report& report, const Tally& tally) {
  std::string out;
  services(out, report);
  replicas(out, report);
  head(out, "berth_events_total", "counter",
       "What happened to replicas, by kind: handover, gap_ahead, extend, requeued, ended ...");
  for (std::string_view kind : {"handover", "gap_ahead", "extend"})  // there from the start
    if (!tally.events.contains(std::string(kind)))
      value(out, "berth_events_total", "kind", kind, 0);
  for (const auto& [kind, n] : tally.events) value(out, "berth_events_total", "kind", kind, n);
  head(out, "berth_replica_ends_total", "counter", "Replicas that ended, by cause.");
  for (const auto& [cause, n] : tally.ends)
    value(out, "berth_replica_ends_total", "cause", to_string(cause), n);
  Duration lead(0);
  for (const auto& [name, service] : report.services)
    if (service.lead) lead = std::max(lead, service.lead->total);
  head(out, "berth_handover_lead_seconds_max", "gauge",
       "The longest lead of any service's next handover.");
  out += fmt::format("berth_handover_lead_seconds_max {:.3f}\n",
                     std::chrono::duration<double>(lead).count());
  head(out, "berth_scheduler_reachable", "gauge", "1 while the queue can be read.");
  out += fmt::format("berth_scheduler_reachable {}\n",
                     report.scheduler_known && !report.scheduler_failing_since ? 1 : 0);
  return out;
}

}  // namespace berth::controller
