#include "gateway/shard.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/id.h"
#include "http/upstream_fake.h"

namespace berth::gateway {
namespace {

using http::FakeClient;
using http::until;
using runtime::Loop;
using runtime::Task;

struct ShardAnswer {
  std::string raw;
  std::string body;
};
Task<ShardAnswer> get(Loop& loop, std::string address, std::string path, std::string key) {
  FakeClient c = co_await FakeClient::connect(loop, address);
  co_await c.send("GET " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + key +
                  "\r\n\r\n");
  ShardAnswer a;
  a.raw = co_await c.response(&a.body);
  co_return a;
}

Task<ShardAnswer> get_models(Loop& loop, std::string address, std::string key) {
  return get(loop, std::move(address), "/v1/models", std::move(key));
}

Task<ControlReply> beat_or_not(ControlRequest request) {
  ControlReply reply;
  reply.routine = request.path.ends_with("/heartbeat");
  co_return reply;
}

std::shared_ptr<const route::KeyTable> keys_with(const std::string& key) {
  std::unordered_map<std::string, route::KeyTable::Entry> entries;
  entries[sha256_hex(key)].caller.user = "u";
  return std::make_shared<route::KeyTable>(std::move(entries));
}

std::string id_of(const std::string& raw) {
  size_t at = raw.find("X-Request-Id: ");
  return at == raw.npos ? "" : raw.substr(at + 14, raw.find("\r\n", at) - at - 14);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Snapshots come from another thread; requests see them from then on. Every request has an id of
// its own, which stands in the log with what happened, and without the key.
TEST(Shard, TakesSnapshotsFromOtherThreadsAndLogsEveryRequest) {
  auto dir = std::filesystem::temp_directory_path() / ("berth-shard-" + std::to_string(getpid()));
  std::filesystem::create_directory(dir);
  std::string first_id, second_id;
  {
    auto log = std::move(AccessLog::open(dir / "access.log")).value();
    Loop loop;
    Shard shard(loop, ShardSettings{}, {}, {}, log.get());
    auto listener = std::move(runtime::Listener::open(loop, runtime::Address::loopback(0))).value();
    std::string address = listener->address().to_string();
    shard.listen(std::move(listener));
    ShardAnswer before = loop.run_until(get_models(loop, address, "sk-secret-key"));
    EXPECT_TRUE(before.raw.starts_with("HTTP/1.1 401")) << before.raw;
    std::thread publisher([&] {
      shard.publish_keys(keys_with("sk-secret-key"));
      route::Route r;
      r.public_name = "m";
      r.access.scope = AccessSpec::Scope::everybody;
      std::vector<route::Route> routes;
      routes.push_back(r);
      shard.publish_routes(std::make_shared<route::RouteTable>(std::move(routes)));
    });
    publisher.join();
    ShardAnswer after = loop.run_until(get_models(loop, address, "sk-secret-key"));
    EXPECT_TRUE(after.raw.starts_with("HTTP/1.1 200")) << after.raw;
    EXPECT_NE(after.body.find("\"id\":\"m\""), after.body.npos);
    first_id = id_of(before.raw);
    second_id = id_of(after.raw);
    loop.run_until(shard.drain(seconds(1)));
    const std::vector<const Counters*> all = {&shard.counters()};
    EXPECT_NE(metrics_text(all).find("responses_total{class=\"4xx\"} 1\n"), std::string::npos);
  }
  std::string lines = text_of(dir / "access.log");
  EXPECT_EQ(first_id.size(), 32u);
  EXPECT_NE(first_id, second_id);
  EXPECT_NE(lines.find("\"id\":\"" + first_id + "\""), lines.npos) << lines;
  EXPECT_NE(lines.find("\"status\":401"), lines.npos);
  EXPECT_NE(lines.find("\"id\":\"" + second_id + "\""), lines.npos);
  EXPECT_EQ(lines.find("sk-secret-key"), lines.npos);
  std::filesystem::remove_all(dir);
}

TEST(Shard, WhatIsRoutineIsCountedAndNotLogged) {
  auto path =
      std::filesystem::temp_directory_path() / ("berth-routine-" + std::to_string(getpid()));
  {
    auto log = std::move(AccessLog::open(path)).value();
    Loop loop;
    Shard shard(loop, ShardSettings{}, {}, beat_or_not, log.get());
    auto listener = std::move(runtime::Listener::open(loop, runtime::Address::loopback(0))).value();
    std::string address = listener->address().to_string();
    shard.listen(std::move(listener));
    for (const char* route : {"/berth/v1/leases/x/heartbeat", "/berth/v1/other"})
      EXPECT_TRUE(loop.run_until(get(loop, address, route, "k")).raw.starts_with("HTTP/1.1 200"));
    loop.run_until(shard.drain(seconds(1)));
    const std::vector<const Counters*> all = {&shard.counters()};
    EXPECT_NE(metrics_text(all).find("responses_total{class=\"2xx\"} 2\n"), std::string::npos);
  }
  std::string lines = text_of(path);
  EXPECT_NE(lines.find("/berth/v1/other"), lines.npos) << lines;
  EXPECT_EQ(lines.find("heartbeat"), lines.npos) << lines;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace berth::gateway
