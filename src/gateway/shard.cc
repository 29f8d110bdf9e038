#include "gateway/shard.h"

#include <cstring>

#include "base/id.h"
#include "gateway/session.h"

namespace berth::gateway {

using runtime::Task;

namespace {

uint64_t random_salt() {
  uint64_t salt = 0;
  for (char c : random_hex(8))
    salt = salt << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  return salt;
}

http::ServerOptions server_options(const config::GatewayConfig& config) {
  http::ServerOptions o;
  o.head_deadline = config.timeouts.head;
  o.body_stall = config.timeouts.body;
  o.idle_limit = config.timeouts.idle;
  o.write_stall = config.timeouts.write;
  o.half_close = config.half_close == config::HalfClose::cancel ? http::HalfClose::is_leaving
                                                                : http::HalfClose::is_allowed;
  return o;
}

Task<void> run_session(Shard& shard, http::Exchange& exchange) {
  Session session(shard, exchange);
  co_await session.answer();
  if (session.admitted()) co_await session.relay_to_replicas();
  if (session.failed()) co_await session.refuse_failed();
  session.account();
}

}  // namespace

ShardSettings ShardSettings::from(const config::GatewayConfig& config) {
  ShardSettings s;
  s.body_limit = static_cast<uint64_t>(config.body_limit);
  s.audio_body_limit = static_cast<uint64_t>(config.audio_body_limit);
  s.api_body_limit = static_cast<uint64_t>(config.api_body_limit);
  s.timeouts.connect = config.timeouts.connect;
  s.timeouts.head = config.timeouts.first_event;
  s.timeouts.first_event = config.timeouts.first_event;
  s.timeouts.between_events = config.timeouts.between_events;
  s.timeouts.write_stall = config.timeouts.write;
  s.cors_origins = config.cors_origins;
  return s;
}

Shard::Shard(runtime::Loop& loop, const config::GatewayConfig& config, ControlPort control,
             AccessLog* log, Clock clock)
    : Shard(loop, ShardSettings::from(config), server_options(config), std::move(control), log,
            std::move(clock)) {}

Shard::Shard(runtime::Loop& loop, ShardSettings settings, http::ServerOptions server,
             ControlPort control, AccessLog* log, Clock clock)
    : loop_(loop),
      control_(std::move(control)),
      log_(log),
      clock_(std::move(clock)),
      pool_(loop),
      key_digests_(random_salt()),
      id_salt_(random_salt()),
      server_(loop, *this, server),
      tasks_(loop) {
  auto view = std::make_shared<View>();
  view->settings = std::move(settings);
  view_ = std::move(view);
  if (log_) tasks_.spawn(flush_now_and_then());
}

Shard::~Shard() { flush_log(); }

void Shard::listen(std::unique_ptr<runtime::Listener> listener,
                   std::shared_ptr<const runtime::TlsContext> tls) {
  server_.listen(std::move(listener), std::move(tls));
}

Task<void> Shard::drain(Duration grace) {
  co_await server_.drain(grace);
  flush_log();
}

template <class Change>
void Shard::change_view(Change change) {
  loop_.post([this, alive = std::weak_ptr<bool>(alive_), change = std::move(change)]() mutable {
    if (alive.expired()) return;
    auto next = std::make_shared<View>(*view_);
    change(*next);
    view_ = std::move(next);
  });
}

void Shard::publish_routes(std::shared_ptr<const route::RouteTable> routes) {
  change_view([routes = std::move(routes)](View& v) { v.routes = routes; });
}

void Shard::publish_keys(std::shared_ptr<const route::KeyTable> keys) {
  change_view([keys = std::move(keys)](View& v) { v.keys = keys; });
}

void Shard::publish_settings(ShardSettings settings) {
  change_view([settings = std::move(settings)](View& v) { v.settings = settings; });
}

void Shard::publish(std::shared_ptr<const route::RouteTable> routes,
                    std::shared_ptr<const route::KeyTable> keys) {
  auto next = std::make_shared<View>(*view_);
  next->routes = std::move(routes);
  next->keys = std::move(keys);
  view_ = std::move(next);
}

void Shard::set_tls(std::shared_ptr<const runtime::TlsContext> tls) {
  server_.set_tls(std::move(tls));
}

Task<void> Shard::serve(http::Exchange& exchange) { return run_session(*this, exchange); }

http::Response Shard::error_response(int status, std::string_view message) {
  std::string_view code = status == 408   ? "request_timeout"
                          : status == 413 ? "request_too_large"
                          : status == 417 ? "expectation_failed"
                          : status == 431 ? "request_head_too_large"
                          : status >= 500 ? "server_error"
                                          : "invalid_request";
  http::Response r;
  r.status = status;
  auto id = next_request_id();
  r.fields.append("X-Request-Id: ").append(id.data(), id.size()).append("\r\n");
  r.body = proto::error_body(proto::make_api_error(status, code, message));
  counters_.by_class[static_cast<size_t>(status / 100)].add();
  return r;
}

// Fixed length: some engines match ids by prefix.
std::array<char, 32> Shard::next_request_id() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::array<char, 32> id;
  const uint64_t parts[2] = {id_salt_, ++id_count_ * 0x9E3779B97F4A7C15u ^ id_salt_};
  unsigned char bytes[sizeof parts];
  memcpy(bytes, parts, sizeof parts);
  for (size_t i = 0; i < sizeof bytes; i++) {
    id[2 * i] = kDigits[bytes[i] >> 4];
    id[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  return id;
}

void Shard::flush_log() {
  if (!log_ || log_lines_.empty()) return;
  log_->write(std::move(log_lines_));
  std::string().swap(log_lines_);
}

Task<void> Shard::flush_now_and_then() {
  for (;;) {
    co_await runtime::sleep_for(loop_, Duration(250));
    flush_log();
  }
}

}  // namespace berth::gateway
