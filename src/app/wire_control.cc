#include "app/wire_control.h"

#include <sys/stat.h>
#include <unistd.h>

#include "app/shared_dir.h"
#include "app/state_dir.h"
#include "base/id.h"
#include "base/log.h"
#include "controller/report_findings.h"
#include "http/client.h"
#include "sched/local.h"
#include "sched/slurm_cli.h"
#include "store/sqlite_store.h"

namespace berth::app {
namespace {

// Asks an agent's front whether it is there and knows its own secret.
runtime::Task<controller::Leases::Reachability> dial_back(runtime::Loop& loop, LeaseRecord lease) {
  using Answer = controller::Leases::Reachability::Answer;
  std::string what = "unreachable_address http://" + lease.address + "/berth/ready: ";
  auto address = runtime::Address::parse(lease.address);
  if (!address)
    co_return controller::Leases::Reachability{Answer::unreachable, what + address.error().message};
  http::ClientRequest request;
  request.address = *address;
  request.target = "/berth/ready";
  request.fields = "Authorization: Bearer " + lease.secret + "\r\n";
  request.connect_timeout = seconds(2);
  request.deadline = seconds(5);
  request.max_body = 64 * 1024;
  auto answer = co_await http::fetch(loop, request);
  if (!answer)
    co_return controller::Leases::Reachability{Answer::unreachable, what + answer.error().message};
  if (answer->status != 200)
    co_return controller::Leases::Reachability{
        Answer::unreachable, what + "it answered " + std::to_string(answer->status)};
  co_return controller::Leases::Reachability{Answer::reachable, ""};
}

Result<std::unique_ptr<sched::Scheduler>> open_local(const config::Config& config,
                                                     const std::string& program) {
  sched::LocalSettings settings;
  settings.state_dir = config.state_dir;
  settings.shim_argv = {program, "shim"};
  settings.max_running = static_cast<int>(config.local_max_jobs);
  auto opened = sched::LocalScheduler::open(std::move(settings));
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<sched::Scheduler>(std::move(opened).value());
}

Result<std::unique_ptr<sched::Scheduler>> open_slurm(const config::Config& config) {
  sched::SlurmSettings settings;
  settings.slurm_conf = config.slurm.conf;
  settings.bin_dir = config.slurm.bin_dir;
  settings.query_deadline = config.slurm.query_timeout;
  settings.submit_deadline = config.slurm.submit_timeout;
  settings.cancel_deadline = config.slurm.cancel_timeout;
  if (config.slurm.submit_as == config::SubmitAs::owner)
    settings.impersonate = sched::SlurmSettings::Impersonate::yes;
  auto opened = sched::SlurmScheduler::open(std::move(settings));
  if (!opened) return std::move(opened).error();
  return std::unique_ptr<sched::Scheduler>(std::move(opened).value());
}

constexpr Duration kSweepEvery = minutes(10);

bool answers(sched::Scheduler& scheduler) {
  return scheduler.list().quality == JobListing::Quality::complete;
}

plan::Policy policy_from(const config::Config& config, const std::string& secret) {
  plan::Policy policy;
  policy.installation = sha256_hex("installation:" + secret).substr(0, 8);
  policy.max_submits_per_tick = static_cast<int>(config.controller.max_submits_per_tick);
  policy.max_cancels_per_tick = static_cast<int>(config.controller.max_cancels_per_tick);
  policy.max_healthy_stops_percent = static_cast<int>(config.controller.max_stop_percent);
  policy.start_backoff = config.backoff.first;
  policy.start_backoff_cap = config.backoff.most;
  policy.extend_by = config.slurm.extend_by;
  policy.own_uid = ::geteuid();
  return policy;
}

}  // namespace

ControlSide::ControlSide(const config::Config& config, runtime::Loop& loop)
    : config_(config), loop_(loop), sweeps_(loop) {}

ControlSide::~ControlSide() = default;

Result<std::unique_ptr<ControlSide>> ControlSide::open(
    const config::Config& config, runtime::Loop& loop, std::string url,
    std::function<void(const Snapshots&)> publish) {
  std::unique_ptr<ControlSide> side(new ControlSide(config, loop));
  if (auto s = make_folder(config.shared_dir, 0755); !s) return std::move(s).error();
  if (auto s = side->open_store(); !s) return std::move(s).error();
  if (auto s = side->open_scheduler(url); !s) return std::move(s).error();
  if (auto s = side->wire(std::move(publish)); !s) return std::move(s).error();
  return side;
}

Status ControlSide::open_store() {
  auto opened = store::SqliteStore::open(config_.state_dir);
  if (!opened) return std::move(opened).error();
  store_ = std::move(opened).value();
  auto state = controller::State::load(*store_);
  if (!state) return std::move(state).error();
  state_.emplace(std::move(state).value());
  return {};
}

Status ControlSide::open_scheduler(const std::string& url) {
  auto program = stage_program(config_.shared_dir, config_.state_dir + "/program");
  if (!program) return std::move(program).error();
  site_.shared_dir = config_.shared_dir;
  site_.log_pattern = config_.log_dir;
  site_.program = *program;
  site_.url = url;
  site_.submit_as = config_.slurm.submit_as;
  site_.node_address = config_.node_address;
  if (config_.scheduler != config::SchedulerChoice::local) {
    auto slurm = open_slurm(config_);
    if (!slurm) return std::move(slurm).error();
    scheduler_ = std::move(slurm).value();
    site_.launcher = sched::JobScript::Launcher::srun;
    if (config_.scheduler == config::SchedulerChoice::slurm || answers(*scheduler_)) return {};
    log_info("serve", "Slurm does not answer here: jobs run on this machine (scheduler: auto)");
  }
  auto local = open_local(config_, *program);
  if (!local) return std::move(local).error();
  scheduler_ = std::move(local).value();
  site_.launcher = sched::JobScript::Launcher::direct;
  site_.submit_as = config::SubmitAs::daemon;
  return {};
}

Status ControlSide::wire(std::function<void(const Snapshots&)> publish) {
  auto secret = site_secret(config_.state_dir);
  if (!secret) return std::move(secret).error();
  publish_ = std::move(publish);
  bool local = scheduler_->name() == "local";
  controller::LeasePolicy lease_policy;
  lease_policy.ttl = config_.lease.ttl;
  lease_policy.heartbeat = config_.lease.heartbeat;
  lease_policy.job_needed =
      local ? controller::LeasePolicy::JobNeeded::no : controller::LeasePolicy::JobNeeded::yes;
  leases_.emplace(*state_, lease_policy, *secret);
  plan::Policy policy = policy_from(config_, *secret);
  // A local job is made by this very process: what a killed one had not made will never be.
  if (local) policy.submit_grace = seconds(1);
  controller_.emplace(*state_, std::move(policy), wall_now());

  controller::Leases* leases = &*leases_;
  JobSite* site = &site_;
  controller::DriverPorts ports{loop_,
                                pool_,
                                *scheduler_,
                                *state_,
                                *controller_,
                                *leases_,
                                wall_now,
                                [site, leases](const ReplicaRecord& r, const ServiceRecord& s) {
                                  return prepare_job(*site, r, s, leases->join_token(r.key));
                                },
                                [this] { this->publish(); }};
  controller::DriverSettings settings;
  settings.tick = config_.controller.tick;
  settings.poll_interval = local
                               ? std::min<Duration>(config_.slurm.poll_interval, milliseconds(500))
                               : config_.slurm.poll_interval;
  driver_ = std::make_unique<controller::Driver>(std::move(ports), settings);

  if (auto munge = identity::Munge::open(config_.munge_socket)) munge_.emplace(std::move(*munge));
  registration_.emplace(controller::RegistrationPorts{
      *scheduler_, pool_, wall_now, [this] { return newest_.keys; },
      [this](const std::string& credential) -> Result<controller::MungeProof> {
        if (!munge_)
          return unavailable("MUNGE credentials cannot be read here: libmunge is not installed",
                             Source::system);
        auto decoded = munge_->decode(credential);
        if (!decoded) return std::move(decoded).error();
        return controller::MungeProof{decoded->uid, decoded->payload};
      },
      config_.node_address.names});

  context_ = std::make_unique<controller::ApiContext>(controller::ApiContext{
      *state_, *leases_, *store_, *scheduler_, pool_, wall_now, config_.defaults,
      config_.allow_loopback ? controller::LoopbackPolicy::allowed
                             : controller::LoopbackPolicy::refused});
  context_->view = [this](const std::string& name) { return view(name); };
  context_->changed = [this] { changed(); };
  context_->log_path = [this](const ReplicaRecord& r) {
    const ServiceRecord* service = state_->service(r.service);
    return service ? app::log_path(site_, *service, r.key) : std::string();
  };
  runtime::Loop* loop = &loop_;
  context_->dial_back = [loop](LeaseRecord lease) { return dial_back(*loop, std::move(lease)); };
  context_->verify = [this](std::string authorization, std::string body,
                            proto::RegisterRequest request) {
    return controller::verify_registration(*registration_, std::move(authorization),
                                           std::move(body), std::move(request));
  };
  context_->own_findings = [this] {
    auto findings = gateway_findings_ ? gateway_findings_() : std::vector<sched::Finding>{};
    for (sched::Finding& f : controller::findings_of(controller_->report(), wall_now()))
      findings.push_back(std::move(f));
    return findings;
  };
  context_->keys = [this] { return newest_.keys; };
  api_.emplace(*context_);
  return {};
}

Status ControlSide::start() {
  std::string path = config_.state_dir + "/berth.sock";
  ::unlink(path.c_str());  // the store's lock says that no other daemon is using it
  auto address = runtime::Address::parse("unix:" + path);
  if (!address) return std::move(address).error();
  mode_t before = ::umask(0177);
  auto listener = runtime::Listener::open(loop_, *address);
  ::umask(before);
  if (!listener) return std::move(listener).error();
  service_.emplace(*api_, static_cast<uint64_t>(config_.gateway.api_body_limit));
  server_ = std::make_unique<http::Server>(loop_, *service_);
  server_->listen(std::move(listener).value());
  leases_->resume(wall_now());
  publish();
  driver_->start();
  loop_.spawn(expire_leases());
  return {};
}

runtime::Task<void> ControlSide::stop() {
  stopping_ = true;
  co_await driver_->stop();
  co_await sweeps_.join();
  co_await server_->drain(seconds(2));
  ::unlink((config_.state_dir + "/berth.sock").c_str());
}

// A silent agent leaves the routes when its lease runs out; the controller then looks after the
// replica's job.
runtime::Task<void> ControlSide::expire_leases() {
  while (!stopping_) {
    co_await runtime::sleep_for(loop_, milliseconds(250));
    if (stopping_) co_return;
    bool known = controller_->report().scheduler_known;  // what is in the queue
    if (known && sweeps_.size() == 0 && wall_now() >= next_sweep_) {
      next_sweep_ = wall_now() + kSweepEvery;
      sweeps_.spawn(sweep_shared());
    }
    // After a stall of this very process, agents are heard first.
    if (!controller_->may_expire(wall_now())) continue;
    auto expired = leases_->expire(wall_now());
    for (const LeaseRecord& lease : expired)
      log_warn("leases", "no heartbeat from {} at {}: {} is out of routing", lease.node,
               lease.address, lease.public_name);
    if (!expired.empty()) changed();
  }
}

// Takes away what no live job needs.
runtime::Task<void> ControlSide::sweep_shared() {
  std::string shared = config_.shared_dir, program = site_.program;
  auto look = [shared] { return job_folders(shared); };
  std::vector<std::string> folders = co_await pool_.run(look);
  SharedSweep what;
  what.now = wall_now();
  for (const auto& [key, replica] : state_->snapshot().replicas)
    if (replica.state != ReplicaState::ended) what.live.insert(key);
  // Jobs that no record knows, as after a database was restored, keep their folders too.
  for (const auto& [key, jobs] : controller_->observed().jobs) what.live.insert(key);
  for (const std::string& key : folders)
    if (!what.live.contains(key)) what.over.push_back(key);
  controller::Leases* leases = &*leases_;
  what.join_token = [leases](const std::string& key) { return leases->join_token(key); };
  store::Store* store = store_.get();
  auto tidy = [store, shared, program, what]() mutable {
    for (const std::string& key : what.live)
      if (auto script = store->script(key); script && *script)
        what.needed.push_back(std::move(**script));
    return sweep(shared, program, what);
  };
  Swept swept = co_await pool_.run(tidy);
  if (swept.jobs + swept.programs + swept.logs > 0)
    log_info("serve", "{}: removed the folders of {} jobs, {} old programs and {} old logs", shared,
             swept.jobs, swept.programs, swept.logs);
}

void ControlSide::changed() {
  publish();
  driver_->wake();
}

void ControlSide::publish() {
  const store::Snapshot& snapshot = state_->snapshot();
  loads_.keep_only(snapshot.leases);
  newest_.routes =
      std::make_shared<const route::RouteTable>(controller_->routes(loads_, wall_now()));
  newest_.keys = controller::key_table(snapshot);
  publish_(newest_);
  std::string metrics = controller::metrics_text(controller_->report(), controller_->tally());
  std::lock_guard lock(metrics_mutex_);
  metrics_ = std::move(metrics);
}

std::string ControlSide::metrics() const {
  std::lock_guard lock(metrics_mutex_);
  return metrics_;
}

std::optional<controller::ServiceView> ControlSide::view(const std::string& public_name) const {
  const auto& services = controller_->report().services;
  auto it = services.find(public_name);
  if (it == services.end()) return std::nullopt;
  const plan::ServiceReport& report = it->second;
  controller::ServiceView view;
  Instant now = wall_now();
  view.status = report.status;
  view.status_text = plan::status_line(report, now);
  view.ready = report.counts.ready;
  view.wanted_replicas = report.target;
  view.at = controller_->report().at;
  view.explanation = plan::explain(report, now);
  view.next_attempt_at = report.next_attempt_at;
  return view;
}

}  // namespace berth::app
