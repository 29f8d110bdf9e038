// What the API's functions work with. Values and references, wired by app/.
//
// Ownership: everything referenced outlives the context. Threading: the control thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "controller/declare.h"
#include "controller/leases.h"
#include "controller/state.h"
#include "proto/control.h"
#include "route/route_table.h"
#include "runtime/blocking_pool.h"
#include "runtime/task.h"
#include "sched/sched.h"
#include "store/store.h"

namespace berth::controller {

// What the controller says of one service at its last tick, for the API and `berth explain`.
struct ServiceView {
  Instant at{};  // when the plan was made; what was wished later is not in it
  ServiceStatus status = ServiceStatus::starting;
  std::string status_text;  // one line
  int ready = 0;
  int wanted_replicas = 0;
  std::vector<std::string> explanation;  // lines for people, most important first
  std::optional<Instant> next_attempt_at;
};

struct ApiContext {
  State& state;
  Leases& leases;
  store::Store& store;
  sched::Scheduler& scheduler;
  runtime::BlockingPool& pool;
  Clock clock;
  config::ServiceDefaults defaults;  // for what a declared service leaves out
  LoopbackPolicy loopback;           // whether a service may have its engine on a loopback port

  // The controller's newest view of a declared service; nullopt before its first tick.
  std::function<std::optional<ServiceView>(const std::string& public_name)> view;
  // Something changed: plan again soon and publish new snapshots to the gateway.
  std::function<void()> changed;
  // Where a replica's job writes its output.
  std::function<std::string(const ReplicaRecord&)> log_path;
  // Asks the agent's front whether it is there: GET /berth/ready with the secret.
  std::function<runtime::Task<Leases::Reachability>(LeaseRecord)> dial_back;
  // Turns the Authorization header of a registration into a Claim. Blocking parts on the pool.
  std::function<runtime::Task<Result<Claim>>(std::string authorization, std::string body,
                                             proto::RegisterRequest)>
      verify;
  // What Berth finds wrong with itself, for `berth doctor`: gateway and controller.
  std::function<std::vector<sched::Finding>()> own_findings;
  // The API key's owner, or nullptr: the same table as the gateway uses.
  std::function<std::shared_ptr<const route::KeyTable>()> keys;
};

}  // namespace berth::controller
