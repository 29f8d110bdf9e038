#include "app/gateway_threads.h"

#include <algorithm>

#include "runtime/mailbox.h"
#include "runtime/resolve.h"

namespace berth::app {
namespace {

Result<std::shared_ptr<const runtime::TlsContext>> load_tls(const config::TlsConfig& tls) {
  if (tls.cert.empty()) return std::shared_ptr<const runtime::TlsContext>();
  return runtime::TlsContext::server(tls.cert, tls.key);
}

runtime::Task<bool> drain_shard(gateway::Shard* shard, Duration grace) {
  co_await shard->drain(grace);
  co_return true;
}

runtime::Task<void> drain_member(std::shared_ptr<runtime::Mailbox> mailbox, gateway::Shard* shard,
                                 Duration grace) {
  auto drain = [shard, grace] { return drain_shard(shard, grace); };
  co_await runtime::call_on<bool>(mailbox, drain);
}

}  // namespace

Result<std::unique_ptr<GatewayThreads>> GatewayThreads::open(const config::Config& config,
                                                             gateway::ControlPort control,
                                                             gateway::AccessLog* access_log) {
  auto threads = std::make_unique<GatewayThreads>();
  auto addresses = runtime::resolve_now(config.listen);
  if (!addresses) return std::move(addresses).error().wrap("listen: " + config.listen);
  threads->address_ = addresses->front();
  auto tls = load_tls(config.tls);
  if (!tls) return std::move(tls).error().wrap("tls");
  size_t count = config.shards > 0 ? static_cast<size_t>(config.shards)
                                   : std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 0; i < count; ++i) {
    auto member = std::make_unique<Member>();
    runtime::ListenOptions options;
    if (count > 1) options.reuse_port = runtime::ReusePort::yes;
    auto listener = runtime::Listener::open(member->loop, threads->address_, options);
    if (!listener) return std::move(listener).error().wrap("listen: " + config.listen);
    threads->address_ = (*listener)->address();
    member->shard = std::make_unique<gateway::Shard>(member->loop, config.gateway, control,
                                                     access_log, wall_now);
    member->shard->listen(std::move(listener).value(), *tls);
    threads->members_.push_back(std::move(member));
  }
  return threads;
}

GatewayThreads::~GatewayThreads() {
  for (auto& member : members_) member->loop.stop();
  for (auto& member : members_)
    if (member->thread.joinable()) member->thread.join();
}

void GatewayThreads::start() {
  for (auto& member : members_) {
    Member* m = member.get();
    m->thread = std::thread([m] { m->loop.run(); });
  }
}

void GatewayThreads::publish(std::shared_ptr<const route::RouteTable> routes,
                             std::shared_ptr<const route::KeyTable> keys) {
  for (auto& member : members_) {
    gateway::Shard* shard = member->shard.get();
    member->loop.post([shard, routes, keys] { shard->publish(routes, keys); });
  }
}

void GatewayThreads::publish_settings(const config::GatewayConfig& config) {
  for (auto& member : members_)
    member->shard->publish_settings(gateway::ShardSettings::from(config));
}

Status GatewayThreads::reload_tls(const config::TlsConfig& files) {
  auto tls = load_tls(files);
  if (!tls) return std::move(tls).error();
  for (auto& member : members_) {
    gateway::Shard* shard = member->shard.get();
    auto context = *tls;
    member->loop.post([shard, context] { shard->set_tls(context); });
  }
  return {};
}

// All shards are told at once, then all are waited for.
runtime::Task<void> GatewayThreads::drain(Duration grace) {
  runtime::TaskScope scope(runtime::Loop::current());
  for (auto& member : members_)
    scope.spawn(drain_member(member->loop.mailbox(), member->shard.get(), grace));
  co_await scope.join();
}

std::vector<const gateway::Counters*> GatewayThreads::counters() const {
  std::vector<const gateway::Counters*> all;
  for (const auto& member : members_) all.push_back(&member->shard->counters());
  return all;
}

}  // namespace berth::app
