// The front: the only door to the engine from the cluster network.
//
// An HTTP server that admits requests with "Authorization: Bearer SECRET" alone (compared in
// constant time), takes the secret off, and relays what is on the engine's list of inference routes
// to the engine's UNIX socket or private network, bytes as they come. Everything else is 404: an
// engine's other routes (metrics, sleep, profiling, loading adapters) stay closed.
//   GET /berth/ready   with the secret: 200 when the engine is ready, 503 otherwise; what the
//                      controller's dial-back and the gateway's checks ask. JSON.
// Closed (draining): new requests get 503 with "x-berth-draining: 1", so that the gateway takes
// another replica; those in flight go on. A client that leaves closes the engine's connection.
// An engine that breaks off mid-answer cuts the gateway's connection, so that nobody takes half an
// answer for a whole one.
// Guarantees: prompts and answers are neither logged nor kept. Ownership: the caller keeps what
// FrontSettings points to. Threading: the loop's thread. Cost: see http/relay.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/hook_probe.h"
#include "http/pool.h"
#include "http/server.h"

namespace berth::agent {

struct FrontSettings {
  std::string secret;
  const EngineTarget* engine = nullptr;
  uint64_t max_body = uint64_t{256} << 20;  // the gateway has the real limit
  std::function<void(int)> on_in_flight;    // after each change
};

class Front final : public http::Service {
 public:
  Front(runtime::Loop& loop, FrontSettings settings);
  ~Front() override;

  // Listens on host with the first free port of those given; {0} is any.
  Result<uint16_t> listen(const std::string& host, const std::vector<uint16_t>& ports);

  enum class Ready { no, yes };
  void set_ready(Ready ready, std::string state);
  // Refuses new requests from now on.
  void close() { closed_ = true; }
  int in_flight() const { return in_flight_; }
  // Ends all connections.
  runtime::Task<void> shut();

  runtime::Task<void> serve(http::Exchange& exchange) override;
  http::Response error_response(int status, std::string_view message) override;

 private:
  bool admitted(const proto::RequestHead& head) const;
  bool offered(const proto::RequestHead& head) const;
  runtime::Task<void> relay(http::Exchange& exchange);
  void count(int change);

  runtime::Loop& loop_;
  FrontSettings settings_;
  http::UpstreamPool pool_;
  std::string engine_address_;
  Ready ready_ = Ready::no;
  std::string state_ = "loading";
  bool closed_ = false;
  int in_flight_ = 0;
  std::unique_ptr<http::Server> server_;
};

}  // namespace berth::agent
