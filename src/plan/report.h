// What plan() says of each service, every tick: values; text is made only when somebody asks.
//
// Every declared service has a ServiceReport, also when there is nothing to do. explain() turns
// one into lines for people; status_line() into the short text of a 503 or a table cell.
// Pure and total.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/replica.h"
#include "model/service.h"
#include "plan/handover.h"

namespace berth::plan {

// Why a service is as it is. `detail` of a Reason holds the words of whoever said so.
enum class ReasonKind {
  gave_up,                // too many failed starts; detail: the last one
  never_starts,           // the scheduler can never start it as asked; detail: its reason
  held,                   // somebody holds the job; detail: the scheduler's reason
  needs_admin,            // waits for somebody to act; detail: the scheduler's reason
  scheduler_unreachable,  // detail: its error
  submit_limit,           // detail: the scheduler's words
  submit_failed,          // the scheduler could not be asked; detail: its words
  submit_unknown,         // the reply was lost; looking for the job before trying again
  failed_start,           // the last start failed; detail: how
  gap_ahead,              // no successor will serve when this one ends; detail: what is known
  queued,                 // detail: the scheduler's reason
  submitting,
  loading,
  unhealthy,        // detail: what is wrong
  replacing,        // older replicas serve until the new ones are ready
  handing_over,     // its job ends soon and its successor is on its way; detail: what is known
  draining,         // detail: why it is to go
  cancel_repeated,  // scancel was sent several times and the job is still there
  stuck_completing,
  blast_guard,    // a plan that would have stopped too many was not carried out
  tick_limit,     // more to submit than one tick may
  duplicate_job,  // a second job with a replica's key
};

struct Reason {
  ReasonKind kind = ReasonKind::submitting;
  std::string replica_key;  // or ""
  std::string detail;
  std::optional<Instant> since;
  std::optional<Instant> until;  // estimated start
  uint64_t job_id = 0;
  std::string node;
  int count = 0;

  bool operator==(const Reason&) const = default;
};

enum class NextStep {
  nothing,
  submit,        // at next_attempt_at
  look_for_job,  // whether a lost submit became a job
  wait_for_scheduler,
  wait_for_start,  // in the queue
  wait_for_load,
  wait_for_end,  // of replicas that are being stopped
  ask_a_person,
};

struct Counts {
  int submitted = 0, pending = 0, loading = 0, ready = 0, unhealthy = 0, draining = 0;

  int living() const { return submitted + pending + loading + ready + unhealthy + draining; }
  bool operator==(const Counts&) const = default;
};

struct ServiceReport {
  std::string service;
  ServiceStatus status = ServiceStatus::starting;
  int target = 0;
  Counts counts;
  std::vector<Reason> reasons;  // the most telling first
  NextStep next = NextStep::nothing;
  std::optional<Instant> next_attempt_at;
  int failed_starts = 0;
  int max_start_attempts = 0;
  std::string last_error;              // of the last failed start
  Duration retry_after = seconds(10);  // what a client of a service that is not up is told
  std::optional<Lead> lead;            // of the next handover; absent: no job's end is known
  std::optional<Instant> handover_at;  // when that begins

  bool operator==(const ServiceReport&) const = default;
};

struct Report {
  Instant at{};
  std::map<std::string, ServiceReport> services;  // by public name
  std::optional<Instant> scheduler_failing_since;
  std::string scheduler_error;
  bool scheduler_known = false;           // a complete listing has been seen
  std::optional<std::string> guard;       // why a plan's stops were not carried out
  std::vector<std::string> strange_keys;  // jobs named like ours that no record knows

  bool operator==(const Report&) const = default;
};

// Whether no service waits for anything that the queue would show.
bool at_rest(const Report& report);

std::string_view to_string(NextStep step);

// "waiting: Resources, since 3m05s", "ready: 3/3".
std::string status_line(const ServiceReport& report, Instant now);
// One line for each reason, the most telling first, then "next: ...". What an engine last wrote
// (below the first line of a detail) is in the replica's record and not here.
std::vector<std::string> explain(const ServiceReport& report, Instant now);

}  // namespace berth::plan
