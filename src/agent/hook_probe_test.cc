#include "agent/hook_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "http/server.h"

namespace berth::agent {
namespace {

using lifecycle::Probed;
using runtime::Loop;
using runtime::Task;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Answers each "METHOD /path" with a status and body.
class ScriptedEngine final : public http::Service {
 public:
  explicit ScriptedEngine(Loop& loop) : server_(loop, *this) {
    auto listener = runtime::Listener::open(loop, runtime::Address::loopback(0));
    CHECK(listener.ok());
    address = (*listener)->address();
    server_.listen(std::move(listener).value());
  }
  Task<void> serve(http::Exchange& x) override {
    std::string what = std::string(x.head().method) + " " + std::string(x.head().path());
    authorization = x.head().authorization;
    if (!x.body_is_here()) (void)co_await x.receive_body(1 << 20);
    last_body = x.body();
    asked.push_back(what);
    http::Response r;
    auto it = answers.find(what);
    r.status = it == answers.end() ? 404 : it->second.first;
    r.body = it == answers.end() ? "{}" : it->second.second;
    co_await x.respond(std::move(r));
  }
  http::Response error_response(int status, std::string_view) override {
    http::Response r;
    r.status = status;
    return r;
  }
  std::map<std::string, std::pair<int, std::string>> answers;
  std::vector<std::string> asked;
  std::string last_body, authorization;
  runtime::Address address;

 private:
  http::Server server_;
};

class ProbeTest : public ::testing::Test {
 protected:
  ProbeTest() {
    engine.answers["GET /health"] = {200, ""};
    engine.answers["GET /v1/models"] = {
        200, R"({"object":"list","data":[{"id":"qwen","max_model_len":8192}]})"};
    engine.answers["POST /v1/completions"] = {200, "{}"};
    target.address = engine.address;
    target.preset = &config::preset(EngineKind::vllm);
    target.model_ids = {"qwen"};
  }
  ProbeAnswer full() { return loop.run_until(probe_full(loop, target)); }
  ProbeAnswer light() { return loop.run_until(probe_light(loop, target)); }

  Loop loop;
  ScriptedEngine engine{loop};
  EngineTarget target;
};

TEST_F(ProbeTest, RightOnlyAfterARealRequest) {
  target.key = "engine-key";
  ProbeAnswer a = full();
  EXPECT_EQ(a.verdict, Probed::Verdict::right) << a.detail;
  EXPECT_EQ(a.served_model, "qwen");
  EXPECT_EQ(a.context_length, 8192);
  EXPECT_THAT(engine.asked, Contains("POST /v1/completions"));
  EXPECT_THAT(engine.last_body, HasSubstr("\"qwen\""));
  EXPECT_EQ(engine.authorization, "Bearer engine-key");
}

TEST_F(ProbeTest, AnotherModelIsWrong) {
  target.model_ids = {"llama"};
  ProbeAnswer a = full();
  EXPECT_EQ(a.verdict, Probed::Verdict::wrong);
  EXPECT_THAT(a.detail, HasSubstr("qwen"));
  EXPECT_THAT(engine.asked, Not(Contains("POST /v1/completions")));
}

TEST_F(ProbeTest, WhatLoadingLooksLike) {
  target.preset = &config::preset(EngineKind::llama_server);
  engine.answers["GET /health"] = {503, R"({"error":{"message":"Loading model"}})"};
  EXPECT_EQ(full().verdict, Probed::Verdict::loading);
  EXPECT_THAT(full().detail, HasSubstr("Loading model"));
  engine.answers["GET /health"] = {502, "Bad Gateway"};  // a proxy of the engine's own
  EXPECT_EQ(full().verdict, Probed::Verdict::loading);
  engine.answers["GET /health"] = {200, ""};
  engine.answers["GET /v1/models"] = {200, R"({"object":"list","data":[]})"};
  EXPECT_EQ(full().verdict, Probed::Verdict::loading);
  target.address = runtime::Address::loopback(1);
  EXPECT_EQ(full().verdict, Probed::Verdict::loading);
  EXPECT_THAT(full().detail, HasSubstr("refused"));
}

TEST_F(ProbeTest, AnEngineForEmbeddingsIsAskedForOne) {
  engine.answers["POST /v1/completions"] = {404, "{}"};
  engine.answers["POST /v1/embeddings"] = {200, "{}"};
  EXPECT_EQ(full().verdict, Probed::Verdict::right);
  engine.answers["POST /v1/completions"] = {500, R"({"error":"CUDA"})"};
  ProbeAnswer a = full();
  EXPECT_EQ(a.verdict, Probed::Verdict::wrong);
  EXPECT_THAT(a.detail, HasSubstr("CUDA"));
}

// A01: somebody else listens on the port.
TEST_F(ProbeTest, AForeignListenerDoesNotPass) {
  target.check_listener = [] { return Status(unavailable("not ours", Source::engine)); };
  ProbeAnswer a = full();
  EXPECT_EQ(a.verdict, Probed::Verdict::wrong);
  EXPECT_EQ(a.detail, "not ours");
}

TEST_F(ProbeTest, LightAsksOneCheapQuestion) {
  EXPECT_EQ(light().verdict, Probed::Verdict::right);
  EXPECT_EQ(engine.asked.size(), 1u);
  engine.answers["GET /health"] = {503, "dead"};
  EXPECT_EQ(light().verdict, Probed::Verdict::wrong);
}

}  // namespace
}  // namespace berth::agent
