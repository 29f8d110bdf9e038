// Shard: one thread's share of the gateway: listener, sessions, upstream pool, counters, log
// buffer.
//
// A shard answers the OpenAI-style API from immutable snapshots (keys, routes, settings) that
// others publish to it, and forwards /berth/v1/ to the control side. It never waits for a lock, a
// disk or another thread while a request is relayed.
//
// publish_*() may be called from any thread: the snapshot goes through the loop's mailbox; requests
// in flight keep the one they began with.
// Ownership: the shard owns its server and connections; loop, control port and log outlive it.
// Threading: constructed, listened on, drained and destroyed on the loop's thread; counters() is
// readable from anywhere. Errors: answered to the client in one shape (error_response()).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "gateway/access_log.h"
#include "gateway/counters.h"
#include "gateway/key_digests.h"
#include "http/pool.h"
#include "http/relay.h"
#include "http/server.h"
#include "proto/api_error.h"
#include "route/route_table.h"
#include "runtime/loop.h"
#include "runtime/tls.h"

namespace berth::gateway {

// What a reload may change. Published as a whole.
struct ShardSettings {
  static ShardSettings from(const config::GatewayConfig& config);

  uint64_t body_limit = 64 << 20;
  uint64_t audio_body_limit = 64 << 20;
  uint64_t api_body_limit = 1 << 20;
  http::RelayTimeouts timeouts;
  std::vector<std::string> cors_origins;  // exact origins; "*" allows every one
  int max_replicas_tried = 3;             // for one request
};

// A request for the control side, and its answer.
struct ControlRequest {
  std::string method;
  std::string path;  // without the query, as sent
  std::string query;
  std::string authorization;
  std::string body;
};
struct ControlReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  bool routine = false;  // as a heartbeat that went well: counted, and no line in the access log
};
// Called on the shard's thread; an in-process control side is reached by call_on(), a remote one by
// the HTTP client. Empty: /berth/v1/ answers 404.
using ControlPort = std::function<runtime::Task<ControlReply>(ControlRequest)>;

class Shard final : public http::Service {
 public:
  // `log`: nullptr for none. `clock`: for keys that expire and for the log.
  Shard(runtime::Loop& loop, const config::GatewayConfig& config, ControlPort control,
        AccessLog* log, Clock clock);
  Shard(runtime::Loop& loop, ShardSettings settings, http::ServerOptions server = {},
        ControlPort control = {}, AccessLog* log = nullptr, Clock clock = wall_now);
  ~Shard() override;

  void listen(std::unique_ptr<runtime::Listener> listener,
              std::shared_ptr<const runtime::TlsContext> tls = {});
  runtime::Task<void> drain(Duration grace);

  // On the shard's loop: for the next requests.
  void publish(std::shared_ptr<const route::RouteTable> routes,
               std::shared_ptr<const route::KeyTable> keys);
  void set_tls(std::shared_ptr<const runtime::TlsContext> tls);
  // Any thread.
  void publish_routes(std::shared_ptr<const route::RouteTable> routes);
  void publish_keys(std::shared_ptr<const route::KeyTable> keys);
  void publish_settings(ShardSettings settings);
  const Counters& counters() const { return counters_; }

  // http::Service
  runtime::Task<void> serve(http::Exchange& exchange) override;
  http::Response error_response(int status, std::string_view message) override;

 private:
  friend class Session;
  // The snapshots of the moment. Sessions hold it; its reference count is this shard's alone.
  struct View {
    std::shared_ptr<const route::RouteTable> routes;
    std::shared_ptr<const route::KeyTable> keys;
    ShardSettings settings;
  };
  template <class Change>
  void change_view(Change change);
  std::array<char, 32> next_request_id();
  void flush_log();
  runtime::Task<void> flush_now_and_then();

  runtime::Loop& loop_;
  std::shared_ptr<const View> view_;
  ControlPort control_;
  AccessLog* log_;
  Clock clock_;
  Counters counters_;
  http::UpstreamPool pool_;
  KeyDigests key_digests_;
  uint64_t id_salt_;
  uint64_t id_count_ = 0;
  uint64_t ticket_ = 0;
  std::string log_lines_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  http::Server server_;
  runtime::TaskScope tasks_;
};

}  // namespace berth::gateway
