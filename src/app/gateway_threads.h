// The gateway's shards, each a thread with its own loop and listener on one shared port.
//
// open() binds (port 0: the kernel's choice, the same for all shards); start() lets the threads
// run. publish() may be called from any thread. drain() is called once, from the control loop: it
// returns when every shard has finished what was in flight, or after the grace.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "gateway/shard.h"
#include "route/route_table.h"
#include "runtime/loop.h"
#include "runtime/tls.h"

namespace berth::app {

class GatewayThreads {
 public:
  static Result<std::unique_ptr<GatewayThreads>> open(const config::Config& config,
                                                      gateway::ControlPort control,
                                                      gateway::AccessLog* access_log);
  ~GatewayThreads();

  void start();
  void publish(std::shared_ptr<const route::RouteTable> routes,
               std::shared_ptr<const route::KeyTable> keys);
  // What a reload may change, for the next requests.
  void publish_settings(const config::GatewayConfig& config);
  // New certificates from the same files, for new connections.
  Status reload_tls(const config::TlsConfig& tls);
  runtime::Task<void> drain(Duration grace);

  const runtime::Address& address() const { return address_; }
  std::vector<const gateway::Counters*> counters() const;

 private:
  struct Member {
    runtime::Loop loop;
    std::unique_ptr<gateway::Shard> shard;
    std::thread thread;
  };

  std::vector<std::unique_ptr<Member>> members_;
  runtime::Address address_;
};

}  // namespace berth::app
