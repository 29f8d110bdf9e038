// The control side of `berth serve`: store, state, scheduler, controller, leases, API, wired.
//
// Everything here lives on one loop, the control thread's; only blocking calls go to the pool.
// open() blocks (database, folders) and runs before the loop does. run() starts the driver and the
// UNIX socket; publish is called on the control thread whenever routes or keys have changed.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "app/control_service.h"
#include "app/prepare_job.h"
#include "base/result.h"
#include "config/config.h"
#include "controller/api.h"
#include "controller/api_context.h"
#include "controller/controller.h"
#include "controller/driver.h"
#include "controller/leases.h"
#include "controller/registration.h"
#include "controller/routes.h"
#include "controller/state.h"
#include "http/server.h"
#include "identity/munge.h"
#include "route/route_table.h"
#include "runtime/blocking_pool.h"
#include "runtime/loop.h"
#include "runtime/task_scope.h"
#include "sched/sched.h"
#include "store/store.h"

namespace berth::app {

struct Snapshots {
  std::shared_ptr<const route::RouteTable> routes;
  std::shared_ptr<const route::KeyTable> keys;
};

class ControlSide {
 public:
  // `url`: of the gateway as nodes reach it. `publish` hands new snapshots to the shards.
  static Result<std::unique_ptr<ControlSide>> open(const config::Config& config,
                                                   runtime::Loop& loop, std::string url,
                                                   std::function<void(const Snapshots&)> publish);
  ~ControlSide();

  // Opens STATE/berth.sock, publishes a first time and starts the driver.
  Status start();
  // Stops planning and closes the socket. Jobs go on; the next start adopts them.
  runtime::Task<void> stop();

  controller::Api& api() { return *api_; }
  // Prometheus text as of the last publish. Any thread.
  std::string metrics() const;
  std::string scheduler_name() const { return scheduler_->name(); }
  // What the gateway knows of itself, for `berth doctor`.
  void set_gateway_findings(std::function<std::vector<sched::Finding>()> findings) {
    gateway_findings_ = std::move(findings);
  }

 private:
  ControlSide(const config::Config& config, runtime::Loop& loop);
  Status open_store();
  Status open_scheduler(const std::string& url);
  Status wire(std::function<void(const Snapshots&)> publish);
  void publish();
  void changed();
  runtime::Task<void> expire_leases();
  runtime::Task<void> sweep_shared();
  std::optional<controller::ServiceView> view(const std::string& public_name) const;

  config::Config config_;
  runtime::Loop& loop_;
  runtime::BlockingPool pool_{4};
  std::unique_ptr<store::Store> store_;
  std::optional<controller::State> state_;
  std::unique_ptr<sched::Scheduler> scheduler_;
  JobSite site_;
  std::optional<identity::Munge> munge_;
  std::optional<controller::Leases> leases_;
  std::optional<controller::Controller> controller_;
  std::unique_ptr<controller::Driver> driver_;
  controller::LoadTable loads_;
  std::optional<controller::RegistrationPorts> registration_;
  std::unique_ptr<controller::ApiContext> context_;
  std::optional<controller::Api> api_;
  std::optional<ControlService> service_;
  std::unique_ptr<http::Server> server_;
  std::function<void(const Snapshots&)> publish_;
  std::function<std::vector<sched::Finding>()> gateway_findings_;
  Snapshots newest_;
  mutable std::mutex metrics_mutex_;
  std::string metrics_;
  bool stopping_ = false;
  Instant next_sweep_{};
  runtime::TaskScope sweeps_;  // last: destroyed before what its task uses
};

}  // namespace berth::app
