#include "agent/front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/hook_address.h"
#include "agent/hook_isolation.h"
#include "http/client.h"
#include "http/upstream_fake.h"

namespace berth::agent {
namespace {

using runtime::Loop;
using runtime::Task;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSecret(48, 's');

Task<void> answer_each(http::FakeConnection& c) {
  for (;;) {
    bool more = co_await c.next_request();
    if (!more) co_return;
    co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  }
}

Task<void> wait_for_go(http::FakeConnection& c) {
  bool more = co_await c.next_request();
  if (!more) co_return;
  co_await c.until_flag("go");
  co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
}

Task<void> break_in_the_middle(http::FakeConnection& c) {
  bool more = co_await c.next_request();
  if (!more) co_return;
  co_await c.send(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "9\r\ndata: 1\n\n\r\n");
}

struct Rig {
  explicit Rig(http::UpstreamFake::Script script) : engine(loop, script) {
    target.address = *runtime::Address::parse(engine.address());
    target.preset = &config::preset(EngineKind::vllm);
    FrontSettings settings;
    settings.secret = kSecret;
    settings.engine = &target;
    settings.on_in_flight = [this](int n) { counts.push_back(n); };
    front = std::make_unique<Front>(loop, std::move(settings));
    auto bound = front->listen("127.0.0.1", {0});
    CHECK(bound.ok());
    port = *bound;
  }
  http::ClientRequest request(std::string method, std::string target_path) {
    http::ClientRequest r;
    r.address = runtime::Address::loopback(port);
    r.method = std::move(method);
    r.target = std::move(target_path);
    r.fields = "Authorization: Bearer " + kSecret + "\r\nX-Request-Id: id7\r\n";
    if (r.method == "POST") r.body = "{\"prompt\":\"x\"}";
    return r;
  }
  http::ClientResponse ask(const http::ClientRequest& r) {
    auto answer = loop.run_until(http::fetch(loop, r));
    EXPECT_TRUE(answer.ok()) << (answer ? "" : answer.error().message);
    return answer ? *answer : http::ClientResponse{};
  }
  Loop loop;
  http::UpstreamFake engine;
  EngineTarget target;
  std::unique_ptr<Front> front;
  uint16_t port = 0;
  std::vector<int> counts;
};

TEST(Front, LetsInTheGatewayAndNobodyElse) {
  Rig rig(answer_each);
  auto answer = rig.ask(rig.request("POST", "/v1/completions?x=1"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_THAT(rig.engine.raw(), HasSubstr("POST /v1/completions?x=1 HTTP/1.1"));
  EXPECT_THAT(rig.engine.raw(), HasSubstr("{\"prompt\":\"x\"}"));
  EXPECT_THAT(rig.engine.raw(), HasSubstr("X-Request-Id: id7"));
  EXPECT_THAT(rig.engine.raw(), Not(HasSubstr(kSecret)));
  EXPECT_EQ(rig.counts, (std::vector<int>{1, 0}));
  const std::vector<std::string> strangers{"",
                                           "Authorization: Bearer \r\n",
                                           "Authorization: " + kSecret + "\r\n",
                                           "Authorization: Bearer " + kSecret + "x\r\n",
                                           "Authorization: Basic " + kSecret + "\r\n",
                                           "X-Api-Key: " + kSecret + "\r\n"};
  for (const std::string& fields : strangers) {
    auto r = rig.request("POST", "/v1/completions");
    r.fields = fields;
    EXPECT_EQ(rig.ask(r).status, 401) << fields;
    r.target = "/berth/ready";
    EXPECT_EQ(rig.ask(r).status, 401) << fields;
  }
  EXPECT_EQ(rig.engine.requests, 1u);
}

TEST(Front, OtherRoutesOfTheEngineStayClosed) {
  Rig rig(answer_each);
  for (const char* path :
       {"/metrics", "/v1/models", "/sleep", "/v1/completions/", "/v1/load_lora_adapter",
        "/v1/../metrics", "//v1/completions", "/V1/completions", "/"})
    EXPECT_EQ(rig.ask(rig.request("POST", path)).status, 404) << path;
  EXPECT_EQ(rig.ask(rig.request("GET", "/v1/completions")).status, 404);
  EXPECT_EQ(rig.engine.requests, 0u);
}

// A09: each replica is asked at its own door, without any user's key.
TEST(Front, TellsWhetherTheEngineIsReady) {
  Rig rig(answer_each);
  auto r = rig.request("GET", "/berth/ready");
  EXPECT_EQ(rig.ask(r).status, 503);
  EXPECT_THAT(rig.ask(r).body, HasSubstr("loading"));
  rig.front->set_ready(Front::Ready::yes, "ready");
  EXPECT_EQ(rig.ask(r).status, 200);
  rig.front->close();
  EXPECT_EQ(rig.ask(r).status, 503);
  EXPECT_THAT(rig.ask(r).body, HasSubstr("draining"));
}

Task<void> drain_with_one_in_flight(Rig& rig) {
  auto opened = rig.request("POST", "/v1/completions");
  runtime::TaskScope scope(rig.loop);
  std::optional<Result<http::ClientResponse>> late;
  struct Ask {
    static Task<void> run(Rig& rig, http::ClientRequest r,
                          std::optional<Result<http::ClientResponse>>& out) {
      out.emplace(co_await http::fetch(rig.loop, r));
    }
  };
  scope.spawn(Ask::run(rig, opened, late));
  while (rig.engine.requests == 0) co_await runtime::sleep_for(rig.loop, milliseconds(2));
  rig.front->close();
  auto refused = co_await http::fetch(rig.loop, opened);
  EXPECT_TRUE(refused.ok());
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->field("x-berth-draining"), "1");
  EXPECT_EQ(rig.front->in_flight(), 1);
  rig.engine.raise("go");
  co_await scope.join();
  EXPECT_TRUE(late && late->ok());
  EXPECT_EQ((**late).body, "late");
  EXPECT_EQ(rig.front->in_flight(), 0);
}

TEST(Front, ClosedItRefusesNewRequestsAndFinishesTheOthers) {
  Rig rig(wait_for_go);
  rig.loop.run_until(drain_with_one_in_flight(rig));
}

TEST(Front, AnEngineThatBreaksOffIsACutNotAnEnd) {
  Rig rig(break_in_the_middle);
  auto answer = rig.loop.run_until(http::fetch(rig.loop, rig.request("POST", "/v1/completions")));
  EXPECT_FALSE(answer.ok());
}

TEST(Front, AnEngineThatIsNotThereIsABadGateway) {
  Rig rig(answer_each);
  rig.engine.stop_listening();
  auto answer = rig.ask(rig.request("POST", "/v1/completions"));
  EXPECT_EQ(answer.status, 502);
  EXPECT_THAT(answer.body, HasSubstr("connect_failed"));
  EXPECT_EQ(rig.front->in_flight(), 0);
}

// A01: the port really bound is the one that is told; a full range is named.
TEST(Front, ListensOnAFreePortOfItsRange) {
  Rig rig(answer_each);
  EngineTarget target = rig.target;
  FrontSettings settings;
  settings.secret = kSecret;
  settings.engine = &target;
  Front second(rig.loop, settings);
  auto taken = second.listen("127.0.0.1", {rig.port, rig.port});
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.error().message, HasSubstr(std::to_string(rig.port)));
  auto other = second.listen("127.0.0.1", {rig.port, 0});
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_NE(*other, rig.port);
}

}  // namespace
}  // namespace berth::agent
