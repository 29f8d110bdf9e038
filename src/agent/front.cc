#include "agent/front.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/hook_address.h"
#include "base/id.h"
#include "base/json.h"
#include "http/relay.h"
#include "proto/api_error.h"

namespace berth::agent {
namespace {

using runtime::Task;

constexpr std::string_view kReadyPath = "/berth/ready";
constexpr std::string_view kDrainingField = "x-berth-draining: 1\r\nRetry-After: 1\r\n";

// Everything through, as it comes; a break stays a break.
class PassThrough final : public http::RelayObserver {
 public:
  Plan on_head(const proto::ResponseHead&, std::string&) override { return {}; }
  void on_payload(std::string_view) override {}
  std::string break_event(http::RelayEnd) override { return ""; }
};

http::RelayTimeouts relay_timeouts() {
  http::RelayTimeouts t;
  // The gateway decides how long an answer may take, and leaves when it has waited enough.
  t.connect = seconds(5);
  t.head = hours(24);
  t.first_event = hours(24);
  t.between_events = hours(24);
  t.write_stall = seconds(120);
  return t;
}

int status_of(http::RelayEnd end) {
  switch (end) {
    case http::RelayEnd::connect_timeout:
    case http::RelayEnd::head_timeout:
    case http::RelayEnd::first_event_timeout:
    case http::RelayEnd::between_events_timeout:
      return 504;
    default:
      return 502;
  }
}

}  // namespace

Front::Front(runtime::Loop& loop, FrontSettings settings)
    : loop_(loop),
      settings_(std::move(settings)),
      pool_(loop),
      engine_address_(settings_.engine->address.to_string()) {
  http::ServerOptions options;
  options.idle_limit = seconds(300);  // the gateway's pool closes first
  options.write_stall = seconds(120);
  server_ = std::make_unique<http::Server>(loop_, *this, options);
}

Front::~Front() {
  settings_.on_in_flight = nullptr;  // whoever listens may be half gone
  server_.reset();
}

Result<uint16_t> Front::listen(const std::string& host, const std::vector<uint16_t>& ports) {
  Error last = invalid_argument("no port to listen on");
  for (uint16_t port : ports) {
    auto address = runtime::Address::parse(join_host_port(host, port));
    if (!address) return std::move(address).error();
    auto listener = runtime::Listener::open(loop_, *address);
    if (listener) {
      uint16_t bound = (*listener)->address().port();
      server_->listen(std::move(listener).value());
      return bound;
    }
    last = std::move(listener).error();
  }
  if (ports.size() > 1)
    last = last.wrap(fmt::format("no free port for the agent on {} in the range {}-{}", host,
                                 ports.front(), ports.back()));
  return last;
}

void Front::set_ready(Ready ready, std::string state) {
  ready_ = ready;
  state_ = std::move(state);
}

Task<void> Front::shut() { co_await server_->drain(Duration(0)); }

void Front::count(int change) {
  in_flight_ += change;
  if (settings_.on_in_flight) settings_.on_in_flight(in_flight_);
}

bool Front::admitted(const proto::RequestHead& head) const {
  constexpr std::string_view kScheme = "Bearer ";
  return head.authorization.starts_with(kScheme) &&
         constant_time_equal(head.authorization.substr(kScheme.size()), settings_.secret);
}

bool Front::offered(const proto::RequestHead& head) const {
  for (const config::EngineRoute& route : settings_.engine->preset->routes)
    if (route.method == head.method && route.path == head.path()) return true;
  return false;
}

http::Response Front::error_response(int status, std::string_view message) {
  http::Response r;
  r.status = status;
  r.body = proto::error_body(proto::make_api_error(status, "", message));
  return r;
}

Task<void> Front::serve(http::Exchange& exchange) {
  const proto::RequestHead& head = exchange.head();
  if (!admitted(head)) {
    co_await exchange.respond(error_response(401, "this door is the gateway's only"));
    co_return;
  }
  if (head.method == "GET" && head.path() == kReadyPath) {
    bool ready = ready_ == Ready::yes && !closed_;
    http::Response r;
    r.status = ready ? 200 : 503;
    r.body = dump_json(Json{
        {"ready", ready}, {"state", closed_ ? "draining" : state_}, {"in_flight", in_flight_}});
    co_await exchange.respond(std::move(r));
    co_return;
  }
  if (!offered(head)) {
    co_await exchange.respond(error_response(404, "the engine's other routes are closed"));
    co_return;
  }
  if (closed_) {
    http::Response r = error_response(503, "this replica is draining");
    r.fields = kDrainingField;
    co_await exchange.respond(std::move(r));
    co_return;
  }
  // Leaves by whatever way this coroutine ends, also when the server destroys it.
  struct Counted {
    Front& front;
    explicit Counted(Front& f) : front(f) { front.count(1); }
    ~Counted() { front.count(-1); }
  } counted(*this);
  co_await relay(exchange);
}

Task<void> Front::relay(http::Exchange& exchange) {
  if (!exchange.body_is_here()) {
    Status received = co_await exchange.receive_body(settings_.max_body);
    if (!received) {
      if (received.error().code != Code::cancelled)
        co_await exchange.respond(error_response(
            received.error().code == Code::too_large ? 413 : 400, received.error().message));
      co_return;
    }
  }
  const proto::RequestHead& head = exchange.head();
  http::UpstreamRequest request;
  request.head.append(head.method).append(" ").append(head.target);
  request.head.append(" HTTP/1.1\r\nHost: localhost\r\n");
  head.append_passing(request.head);
  if (!head.request_id.empty())
    request.head.append("X-Request-Id: ").append(head.request_id).append("\r\n");
  if (!settings_.engine->key.empty())
    request.head.append("Authorization: Bearer ").append(settings_.engine->key).append("\r\n");
  if (head.method != "GET" || !exchange.body().empty())
    request.head.append(fmt::format("Content-Length: {}\r\n", exchange.body().size()));
  request.head.append("\r\n");
  request.body = exchange.take_body();
  exchange.release_request();

  const http::RelayTimeouts timeouts = relay_timeouts();
  PassThrough observer;
  http::RelayTask task{exchange.client(), exchange.is_http10(),
                       exchange.closes(), pool_,
                       engine_address_,   settings_.engine->preset->pool_idle,
                       request,           timeouts,
                       observer,          settings_.engine->dialer};
  http::Relay relay(task);
  http::RelayResult result = co_await relay.run();
  if (result.head_sent) {
    exchange.relayed(result.client_open ? http::Exchange::After::keep_open
                                        : http::Exchange::After::close);
  } else if (result.end != http::RelayEnd::client_left) {
    co_await exchange.respond(
        error_response(status_of(result.end),
                       fmt::format("the engine did not answer: {}{}{}", http::to_string(result.end),
                                   result.message.empty() ? "" : ": ", result.message)));
  }
}

}  // namespace berth::agent
