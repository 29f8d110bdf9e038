#include "app/wire_serve.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "app/gateway_threads.h"
#include "app/health_service.h"
#include "app/state_dir.h"
#include "app/static_routes.h"
#include "app/wire_control.h"
#include "base/log.h"
#include "gateway/counters.h"
#include "runtime/mailbox.h"
#include "runtime/resolve.h"
#include "runtime/signals.h"

namespace berth::app {
namespace {

Status check_role(const config::Config& config) {
  if (config.role == config::Role::all) return {};
  return invalid_argument(
      "role: only `all` is there yet; gateway and controller run in one process");
}

Status check_user(const config::Config& config) {
  if (::geteuid() != 0 || !config.allow_root.empty()) return {};
  return Error{Code::permission_denied,
               "berth serve refuses to run as root: start it as a user of its own, or say why in "
               "the configuration (allow_root: \"reason\")",
               Source::caller, Retry::no};
}

runtime::Task<controller::ApiReply> call_api(controller::Api* api, controller::ApiRequest request) {
  return api->handle(std::move(request));
}

runtime::Task<gateway::ControlReply> forward(std::shared_ptr<runtime::Mailbox> control,
                                             controller::Api* api, gateway::ControlRequest asked) {
  if (!api) {  // static routes
    controller::ApiReply none =
        controller::reply_error(not_found("this gateway has no controller"));
    co_return gateway::ControlReply{none.status, std::move(none.body), none.content_type};
  }
  controller::ApiRequest request;
  request.method = std::move(asked.method);
  request.path = std::move(asked.path);
  request.query = std::move(asked.query);
  request.authorization = std::move(asked.authorization);
  request.body = std::move(asked.body);
  auto call = [api, request = std::move(request)]() mutable {
    return call_api(api, std::move(request));
  };
  Result<controller::ApiReply> reply =
      co_await runtime::call_on<controller::ApiReply>(control, std::move(call));
  controller::ApiReply answer =
      reply ? std::move(reply).value() : controller::reply_error(reply.error());
  co_return gateway::ControlReply{answer.status, std::move(answer.body),
                                  std::move(answer.content_type), answer.routine};
}

// The health thread: a loop of its own.
class HealthThread {
 public:
  static Result<std::unique_ptr<HealthThread>> open(const std::string& listen,
                                                    std::function<std::string()> metrics,
                                                    std::function<HealthService::Ready()> ready) {
    auto health = std::make_unique<HealthThread>(std::move(metrics), std::move(ready));
    auto addresses = runtime::resolve_now(listen);
    if (!addresses) return std::move(addresses).error().wrap("health_listen: " + listen);
    auto listener = runtime::Listener::open(health->loop_, addresses->front());
    if (!listener) return std::move(listener).error().wrap("health_listen: " + listen);
    health->address_ = (*listener)->address().to_string();
    health->server_.listen(std::move(listener).value());
    HealthThread* h = health.get();
    health->thread_ = std::thread([h] { h->loop_.run(); });
    return health;
  }
  HealthThread(std::function<std::string()> metrics, std::function<HealthService::Ready()> ready)
      : service_(std::move(metrics), std::move(ready)), server_(loop_, service_) {}
  ~HealthThread() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  runtime::Loop loop_;
  HealthService service_;
  http::Server server_;
  std::string address_;
  std::thread thread_;
};

class Serve {
 public:
  Serve(const config::Config& config, const std::function<Result<config::Config>()>& reload)
      : config_(config), reload_(reload), signals_(loop_, {SIGTERM, SIGINT, SIGHUP}) {}

  Status start();
  runtime::Task<void> run();
  runtime::Loop& loop() { return loop_; }

 private:
  Status start_gateway();
  void prefer_last_port();
  Status start_control();
  Status use_static_routes();
  void announce();
  std::string url() const;
  std::vector<sched::Finding> findings() const;

  void hang_up();

  config::Config config_;
  std::function<Result<config::Config>()> reload_;
  runtime::Loop loop_;
  runtime::Signals signals_;
  std::atomic<HealthService::Ready> ready_{HealthService::Ready::yes};
  std::unique_ptr<gateway::AccessLog> access_log_;
  controller::Api* api_ = nullptr;  // of control_, once it is open
  std::unique_ptr<ControlSide> control_;
  std::unique_ptr<GatewayThreads> gateway_;
  std::unique_ptr<HealthThread> health_;
};

std::string Serve::url() const {
  if (!config_.advertise.empty())
    return config_.advertise.find("://") != std::string::npos
               ? config_.advertise
               : (config_.tls.cert.empty() ? "http://" : "https://") + config_.advertise;
  return (config_.tls.cert.empty() ? "http://" : "https://") + gateway_->address().to_string();
}

// With port 0, the port of the last run is tried first: agents that are still running know it.
void Serve::prefer_last_port() {
  if (!config_.listen.ends_with(":0")) return;
  auto last = read_small_file(config_.state_dir + "/address", 256);
  if (!last) return;
  std::string host = config_.listen.substr(0, config_.listen.size() - 1);
  std::string address = last->substr(0, last->find('\n'));
  if (!address.starts_with(host)) return;
  auto parsed = runtime::Address::parse(address);
  if (!parsed) return;
  runtime::Loop probe;
  if (runtime::Listener::open(probe, *parsed)) config_.listen = address;
}

Status Serve::start_gateway() {
  if (!config_.gateway.access_log.empty()) {
    auto log = gateway::AccessLog::open(config_.gateway.access_log);
    if (!log) return std::move(log).error();
    access_log_ = std::move(log).value();
  }
  std::shared_ptr<runtime::Mailbox> mailbox = loop_.mailbox();
  Serve* self = this;
  gateway::ControlPort port = [self, mailbox](gateway::ControlRequest request) {
    return forward(mailbox, self->api_, std::move(request));
  };
  auto gateway = GatewayThreads::open(config_, std::move(port), access_log_.get());
  if (!gateway) return std::move(gateway).error();
  gateway_ = std::move(gateway).value();
  return {};
}

Status Serve::start_control() {
  GatewayThreads* gateway = gateway_.get();
  auto publish = [gateway](const Snapshots& s) { gateway->publish(s.routes, s.keys); };
  auto control = ControlSide::open(config_, loop_, url(), publish);
  if (!control) return std::move(control).error();
  control_ = std::move(control).value();
  control_->set_gateway_findings([this] { return findings(); });
  api_ = &control_->api();
  return control_->start();
}

Status Serve::use_static_routes() {
  auto text = read_small_file(config_.static_routes, 16 << 20);
  if (!text) return std::move(text).error();
  auto fixed = parse_static_routes(*text);
  if (!fixed) return std::move(fixed).error().wrap(config_.static_routes);
  gateway_->publish(fixed->routes, fixed->keys);
  return {};
}

std::vector<sched::Finding> Serve::findings() const {
  using Level = sched::Finding::Level;
  bool loopback =
      url().find("://127.") != std::string::npos || url().find("://[::1]") != std::string::npos;
  sched::Finding gateway{
      Level::ok, "gateway",
      "listens at " + gateway_->address().to_string() + "; agents reach it at " + url()};
  if (loopback && control_->scheduler_name() == "slurm") {
    gateway.level = Level::warning;
    gateway.detail +=
        ": only jobs on this very machine can; set listen, or advertise, to an address of the "
        "cluster's network";
  }
  return {std::move(gateway),
          {Level::ok, "health and metrics", health_ ? "at " + health_->address() : "off"}};
}

void Serve::announce() {
  log_info("serve", "berth {} listens at {}; health and metrics at {}", BERTH_VERSION,
           gateway_->address().to_string(), health_ ? health_->address() : "none");
  std::string line = gateway_->address().to_string() + "\n";
  ssize_t n = ::write(STDOUT_FILENO, line.data(), line.size());
  (void)n;  // standard output may be closed
}

Status Serve::start() {
  if (auto s = check_user(config_); !s) return s;
  if (auto s = check_role(config_); !s) return s;
  bool fixed = !config_.static_routes.empty();
  if (!fixed)  // the access log may be in it
    if (auto s = make_folder(config_.state_dir, 0700); !s) return s;
  if (!fixed) prefer_last_port();
  if (auto s = start_gateway(); !s) return s;
  if (auto s = fixed ? use_static_routes() : start_control(); !s) return s;
  gateway_->start();
  if (!config_.health_listen.empty()) {
    GatewayThreads* gateway = gateway_.get();
    ControlSide* control = control_.get();
    auto* ready = &ready_;
    auto health = HealthThread::open(
        config_.health_listen,
        [gateway, control] {
          return gateway::metrics_text(gateway->counters()) + (control ? control->metrics() : "");
        },
        [ready] { return ready->load(); });
    if (!health) return std::move(health).error();
    health_ = std::move(health).value();
  }
  if (!config_.state_dir.empty() && !fixed) {
    if (auto s = write_file(config_.state_dir + "/address", gateway_->address().to_string() + "\n",
                            0644);
        !s)
      return s;
    if (health_)
      if (auto s =
              write_file(config_.state_dir + "/health_address", health_->address() + "\n", 0644);
          !s)
        return s;
  }
  announce();
  return {};
}

// SIGHUP.
void Serve::hang_up() {
  if (access_log_) access_log_->reopen();
  auto fresh = reload_();
  if (!fresh) {
    log_error("serve", "SIGHUP: the old configuration stays: {}", fresh.error().message);
    return;
  }
  if (auto s = gateway_->reload_tls(fresh->tls); !s) {
    log_error("serve", "SIGHUP: the old certificates stay: {}", s.error().message);
    return;
  }
  gateway_->publish_settings(fresh->gateway);
  log_info("serve", "SIGHUP: configuration and certificates were read again");
}

runtime::Task<void> Serve::run() {
  for (;;) {
    int signal = co_await signals_.next();
    if (signal != SIGHUP) {
      log_info("serve", "signal {}: finishing what is in flight", signal);
      break;
    }
    hang_up();
  }
  ready_.store(HealthService::Ready::draining);
  co_await gateway_->drain(config_.gateway.drain);
  if (control_) co_await control_->stop();
}

}  // namespace

int run_serve(const config::Config& config, const std::function<Result<config::Config>()>& reload) {
  std::signal(SIGPIPE, SIG_IGN);
  Serve serve(config, reload);
  if (auto s = serve.start(); !s) {
    log_error("serve", "cannot start: {}", s.error().message);
    return 1;
  }
  serve.loop().run_until(serve.run());
  log_info("serve", "stopped");
  return 0;
}

}  // namespace berth::app
