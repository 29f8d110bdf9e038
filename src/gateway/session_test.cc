#include "gateway/session.h"

#include "base/id.h"
#include "http/upstream_fake.h"
#include "proto/http1_write.h"

namespace berth::gateway {
namespace {

using http::FakeClient;
using http::FakeConnection;
using http::until;
using http::UpstreamFake;
using runtime::Loop;
using runtime::Task;
using std::chrono::milliseconds;

const std::string kKey = "sk-berth-user-key-0123456789";
const std::string kModel = "hf.co/org/My-Model:Q4_K_M";

// One or two replicas of one service behind a shard, all on one loop.
struct Rig {
  explicit Rig(UpstreamFake::Script a, UpstreamFake::Script b = nullptr,
               ShardSettings settings = {}, std::string served = kModel)
      : first(loop, a) {
    if (b) second = std::make_unique<UpstreamFake>(loop, b);
    shard = std::make_unique<Shard>(loop, std::move(settings), http::ServerOptions{}, control());
    route::Route r;
    r.public_name = kModel;
    r.owner = "alice";
    r.access.scope = AccessSpec::Scope::everybody;
    r.status = ServiceStatus::ready;
    r.context_length = 4096;
    r.targets.push_back(target("first", first.address(), served));
    if (second) r.targets.push_back(target("second", second->address(), served));
    route::Route waiting;
    waiting.public_name = "waiting";
    waiting.access.scope = AccessSpec::Scope::everybody;
    waiting.status = ServiceStatus::waiting;
    waiting.status_text = "waiting: Resources since 3m05s";
    waiting.retry_after = seconds(7);
    route::Route secret;
    secret.public_name = "secret";
    secret.owner = "carol";
    std::vector<route::Route> all;
    all.push_back(std::move(r));
    all.push_back(std::move(waiting));
    all.push_back(std::move(secret));
    shard->publish_routes(std::make_shared<route::RouteTable>(std::move(all)));
    std::unordered_map<std::string, route::KeyTable::Entry> keys;
    keys[sha256_hex(kKey)].caller.user = "bob";
    keys[sha256_hex("expired")].expires_at = from_ms(1000);
    shard->publish_keys(std::make_shared<route::KeyTable>(std::move(keys)));
    auto listener = std::move(runtime::Listener::open(loop, runtime::Address::loopback(0))).value();
    address = listener->address().to_string();
    shard->listen(std::move(listener));
  }
  route::Target target(std::string id, std::string at, std::string served) {
    route::Target t;
    t.lease_id = std::move(id);
    t.address = std::move(at);
    t.secret = "replica-secret";
    t.served_model = std::move(served);
    t.engine = EngineKind::vllm;
    t.load = std::make_shared<route::ReplicaLoad>();
    loads.push_back(t.load);
    return t;
  }
  static Task<ControlReply> answer_control(ControlRequest r) {
    ControlReply reply;
    reply.body = r.method + "|" + r.path + "|" + r.query + "|" + r.authorization + "|" + r.body;
    co_return reply;
  }
  static ControlPort control() { return answer_control; }
  uint64_t ended(http::RelayEnd end) const {
    return shard->counters().by_end[static_cast<size_t>(end)].get();
  }

  Loop loop;
  UpstreamFake first;
  std::unique_ptr<UpstreamFake> second;
  std::vector<std::shared_ptr<route::ReplicaLoad>> loads;
  std::unique_ptr<Shard> shard;
  std::string address;
};

std::string request(std::string method, std::string path, std::string body,
                    std::string fields = "Authorization: Bearer " + kKey + "\r\n") {
  return method + " " + path + " HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\n" +
         fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string chat(std::string rest = "", std::string model = kModel) {
  return request("POST", "/v1/chat/completions",
                 "{\"model\":\"" + model + "\",\"messages\":[]" + rest + "}");
}

struct Answer {
  std::string raw;
  std::string body;
  std::string status() const { return raw.size() > 12 ? raw.substr(9, 3) : "none"; }
  bool has(const std::string& text) const { return raw.find(text) != raw.npos; }
};
Task<Answer> ask(Rig& rig, std::string bytes) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(bytes);
  Answer a;
  a.raw = co_await c.response(&a.body);
  co_return a;
}
Answer run(Rig& rig, std::string bytes) { return rig.loop.run_until(ask(rig, std::move(bytes))); }

// The request's body as the replica got it.
std::string upstream_body(const UpstreamFake& fake) {
  std::string raw = fake.raw();
  return raw.substr(raw.find("\r\n\r\n") + 4);
}

const std::string kReply = R"({"model":"engine-name","choices":[{"message":{"content":"hi"}}],)"
                           R"("usage":{"prompt_tokens":40,"completion_tokens":10}})";

std::string json_response(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nServer: uvicorn\r\n" +
         "Access-Control-Allow-Origin: *\r\nX-Request-Id: engines-own\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
Task<void> answers(FakeConnection& c) {
  for (;;) {
    bool more = co_await c.next_request();
    if (!more) co_return;
    co_await c.send(json_response(kReply));
  }
}

TEST(Session, RelaysAndCountsTokens) {
  Rig rig(answers);
  Answer a = run(rig, chat());
  EXPECT_EQ(a.status(), "200");
  EXPECT_EQ(a.body, kReply);
  EXPECT_EQ(rig.shard->counters().prompt_tokens.get(), 40u);
  EXPECT_EQ(rig.shard->counters().completion_tokens.get(), 10u);
  EXPECT_EQ(rig.loads[0]->outstanding.load(), 0);
  EXPECT_EQ(rig.shard->counters().in_flight.get(), 0u);
}

// B09, B13, B15: what the replica sees.
TEST(Session, TheReplicaSeesNoCredentialsOfTheUser) {
  Rig rig(answers);
  std::string bytes = request("POST", "/v1/chat/completions?a=b", "{\"model\":\"" + kModel + "\"}",
                              "Authorization: Bearer " + kKey + "\r\nX-Api-Key: " + kKey +
                                  "\r\nCookie: k=" + kKey + "\r\nProxy-Authorization: " + kKey +
                                  "\r\nConnection: X-Named\r\nX-Named: 1\r\nTE: trailers\r\n"
                                  "Accept-Encoding: gzip, br, zstd\r\nExpect: 100-continue\r\n"
                                  "X-Kept: yes\r\n");
  EXPECT_EQ(run(rig, bytes).status(), "200");
  std::string raw = rig.first.raw();
  EXPECT_EQ(raw.find(kKey), raw.npos) << raw;
  for (const char* absent : {"Cookie", "Proxy-", "X-Named", "TE:", "gzip", "Expect", "Connection"})
    EXPECT_EQ(raw.find(absent), raw.npos) << absent << raw;
  EXPECT_TRUE(raw.starts_with(
      "POST /v1/chat/completions?a=b HTTP/1.1\r\nHost: " + rig.first.address() + "\r\n"))
      << raw;
  for (const char* present :
       {"Authorization: Bearer replica-secret\r\n", "Accept-Encoding: identity\r\n", "X-Kept: yes"})
    EXPECT_NE(raw.find(present), raw.npos) << present;
}

// B23: what the gateway does not own stays as it is, byte for byte.
TEST(Session, UnknownFieldsAndNumbersSurvive) {
  const std::string rest =
      R"(  "seed":18446744073709551615, "logit_bias":{"50256":-100},"user":"\u00e4\u0000",)"
      R"("x_vendor":{"big":165598928036513123123,"f":0.30000000000000004,"e":1E400,"neg0":-0.0},)"
      R"("o":{},"a":[ ], "z":"\ud83d\ude00"})";
  {
    Rig rig(answers);
    std::string body = "{\"model\":\"" + kModel + "\"," + rest;
    EXPECT_EQ(run(rig, request("POST", "/v1/chat/completions", body)).status(), "200");
    EXPECT_EQ(upstream_body(rig.first), body);
  }
  Rig rig(answers, nullptr, {}, "served");
  std::string body = "{\"model\":\"" + kModel + "\"," + rest;
  EXPECT_EQ(run(rig, request("POST", "/v1/chat/completions", body)).status(), "200");
  EXPECT_EQ(upstream_body(rig.first), "{\"model\":\"served\"," + rest);
}

// B19: the model's name in the answer is what was asked for.
TEST(Session, RestoresTheNameThatWasAskedFor) {
  Rig rig(answers, nullptr, {}, "served");
  Answer a = run(rig, chat());
  EXPECT_NE(a.body.find("\"model\":\"" + kModel + "\""), a.body.npos) << a.body;
  EXPECT_NE(a.body.find("\"prompt_tokens\":40"), a.body.npos);
}

TEST(Session, ModelPathsWithSlashesColonsAndEscapes) {
  Rig rig(answers);
  auto get = [&](const std::string& path) { return run(rig, request("GET", path, "")); };
  Answer list = get("/v1/models");
  EXPECT_NE(list.body.find("\"id\":\"" + kModel + "\""), list.body.npos) << list.body;
  EXPECT_NE(list.body.find("waiting: Resources"), list.body.npos);
  EXPECT_EQ(list.body.find("secret"), list.body.npos);
  std::string id = "\"id\":\"" + kModel + "\"";
  for (const char* path :
       {"/v1/models/hf.co/org/My-Model:Q4_K_M", "/v1/models/hf.co%2Forg%2FMy-Model:Q4_K_M",
        "/v1/models/hf.co%2Forg%2FMy-Model%3AQ4_K_M"}) {
    Answer a = get(path);
    EXPECT_EQ(a.status(), "200") << path;
    EXPECT_NE(a.body.find(id), a.body.npos) << a.body;
  }
  for (const char* path : {"/v1/models/hf.co%252Forg%252FMy-Model:Q4_K_M", "/v1/models/unknown",
                           "/v1/models/secret"}) {
    Answer a = get(path);
    EXPECT_EQ(a.status(), "404") << path;
    EXPECT_NE(a.body.find("\"code\":\"model_not_found\""), a.body.npos) << a.body;
  }
}

// B27: every error in one shape, with a request id.
Task<void> drops(FakeConnection& c) {
  co_await c.next_request();
  c.reset();
}
Task<void> sleeps(FakeConnection& c) {
  co_await c.next_request();
  co_await c.until_peer_closes();
}
Task<void> full(FakeConnection& c) {
  for (;;) {
    bool more = co_await c.next_request();
    if (!more) co_return;
    co_await c.send("HTTP/1.1 503 Full\r\nRetry-After: 5\r\nContent-Length: 2\r\n\r\nno");
  }
}
Task<void> flat_error(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(json_response(R"({"object":"error","message":"bad top_p","type":"BadRequest"})",
                                "400 Bad Request"));
  co_await c.until_peer_closes();
}

void expect_error(const Answer& a, const std::string& status, const std::string& code) {
  EXPECT_EQ(a.status(), status) << a.raw;
  EXPECT_TRUE(a.has("Content-Type: application/json\r\n")) << a.raw;
  EXPECT_TRUE(a.has("X-Request-Id: ")) << a.raw;
  EXPECT_TRUE(a.body.starts_with("{\"error\":{\"message\":\"")) << a.body;
  EXPECT_NE(a.body.find("\"code\":\"" + code + "\""), a.body.npos) << a.body;
  EXPECT_NE(a.body.find("\"param\":"), a.body.npos);
  if (status == "503" || status == "429") {
    EXPECT_TRUE(a.has("Retry-After: ")) << a.raw;
  }
}

TEST(Session, ErrorsHaveOneShape) {
  ShardSettings s;
  s.body_limit = 1000;
  s.timeouts.head = milliseconds(40);
  Rig rig(sleeps, nullptr, s);
  const std::string ok = "{\"model\":\"" + kModel + "\"}";
  const std::string path = "/v1/chat/completions";
  expect_error(run(rig, request("POST", path, ok, "Authorization: Bearer wrong\r\n")), "401",
               "invalid_api_key");
  expect_error(run(rig, request("POST", path, ok, "Authorization: Bearer expired\r\n")), "401",
               "invalid_api_key");
  expect_error(run(rig, request("POST", path, ok, "")), "401", "invalid_api_key");
  expect_error(run(rig, chat("", "no-such")), "404", "model_not_found");
  expect_error(run(rig, chat("", "secret")), "404", "model_not_found");
  expect_error(run(rig, request("POST", "/v1/nothing", ok)), "404", "route_not_found");
  expect_error(run(rig, request("POST", "/metrics", ok)), "404", "route_not_found");
  Answer method = run(rig, request("GET", path, ""));
  expect_error(method, "405", "method_not_allowed");
  EXPECT_TRUE(method.has("Allow: POST\r\n"));
  expect_error(run(rig, request("POST", path, "{\"model\":")), "400", "invalid_request");
  expect_error(run(rig, request("POST", path, "{}")), "400", "invalid_request");
  expect_error(run(rig, request("POST", path, std::string(1001, ' '))), "413", "request_too_large");
  Answer waiting = run(rig, chat("", "waiting"));
  expect_error(waiting, "503", "model_not_ready");
  EXPECT_TRUE(waiting.has("Retry-After: 7\r\n")) << waiting.raw;
  EXPECT_NE(waiting.body.find("waiting: Resources since 3m05s"), waiting.body.npos);
  expect_error(run(rig, chat()), "504", "first_token_timeout");
  expect_error(run(rig, "GET / HTTP/1.1\r\n\r\n"), "400", "invalid_request");
  Rig dropping(drops);
  expect_error(run(dropping, chat()), "502", "upstream_disconnected");
  Rig gone(drops);
  gone.first.stop_listening();
  expect_error(run(gone, chat()), "502", "upstream_unavailable");
  Rig busy(full);
  Answer b = run(busy, chat());
  expect_error(b, "503", "model_busy");
  EXPECT_TRUE(b.has("Retry-After: 5\r\n")) << b.raw;
  EXPECT_EQ(busy.loads[0]->consecutive_failures.load(), 0u);
  Rig flat(flat_error);
  expect_error(run(flat, chat()), "400", "engine_error");
}

// B25
TEST(Session, BrokenUnicodeIsTheCallersError) {
  Rig rig(answers);
  EXPECT_EQ(run(rig, chat(",\"x\":\"\\ud83d\"")).status(), "400");
  EXPECT_EQ(run(rig, chat(",\"x\":\"\\ud83d\\ude00 \xF0\x9F\x98\x80\"")).status(), "200");
  EXPECT_EQ(run(rig, chat(",\"x\":\"\xFF\"")).status(), "400");
  EXPECT_EQ(run(rig, chat(",\"x\":\"\xC0\x80\"")).status(), "400");
}

// B15: never forwarded as opaque.
TEST(Session, CompressedRequestsAreRefused) {
  Rig rig(answers);
  std::string bytes = request("POST", "/v1/chat/completions", "xx",
                              "Content-Encoding: gzip\r\nAuthorization: Bearer " + kKey + "\r\n");
  expect_error(run(rig, bytes), "415", "unsupported_content_encoding");
  EXPECT_EQ(rig.first.requests, 0u);
}

// B29
TEST(Session, LargeBodiesPassAndTheLimitIsExact) {
  ShardSettings s;
  Rig rig(answers, nullptr, s);
  std::string begin = "{\"model\":\"" + kModel + "\",\"image\":\"";
  std::string body = begin + std::string(9 * 1024 * 1024, 'a') + "\"}";
  EXPECT_EQ(run(rig, request("POST", "/v1/chat/completions", body)).status(), "200");
  EXPECT_EQ(sha256_hex(upstream_body(rig.first)), sha256_hex(body));
  ShardSettings small;
  small.body_limit = body.size();
  Rig exact(answers, nullptr, small);
  EXPECT_EQ(run(exact, request("POST", "/v1/chat/completions", body)).status(), "200");
  Answer over =
      run(exact, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + kKey +
                     "\r\nContent-Length: " + std::to_string(body.size() + 1) + "\r\n\r\n");
  expect_error(over, "413", "request_too_large");
  std::string head = "GET /v1/models HTTP/1.1\r\nHost: h\r\nA: " + std::string(66'000, 'x');
  expect_error(run(exact, head + "\r\n\r\n"), "431", "request_head_too_large");
}

// B13
Task<void> expectation(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  std::string body = "{\"model\":\"" + kModel + "\",\"x\":\"" + std::string(2 << 20, 'b') + "\"}";
  std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n";
  std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  co_await c.send(head + "Authorization: Bearer " + kKey + "\r\n" + length);
  co_await c.read_until("\r\n\r\n");
  EXPECT_EQ(c.got, "HTTP/1.1 100 Continue\r\n\r\n");
  c.got.clear();
  co_await c.send(body);
  std::string raw = co_await c.response();
  EXPECT_TRUE(raw.starts_with("HTTP/1.1 200")) << raw;
  EXPECT_EQ(rig.first.raw().find("Expect"), std::string::npos);
  FakeClient d = co_await FakeClient::connect(rig.loop, rig.address);
  co_await d.send(head + "Authorization: Bearer wrong\r\n" + length);
  std::string refused = co_await d.response();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 401")) << refused;
}

TEST(Session, ContinueIsSaidOnlyToWhoIsAdmitted) {
  Rig rig(answers);
  rig.loop.run_until(expectation(rig));
}

// B35
TEST(Session, CorsIsAnsweredWithoutAKeyAndOnlyForListedOrigins) {
  ShardSettings s;
  s.cors_origins = {"https://ui.example"};
  Rig rig(answers, nullptr, s);
  auto preflight = [&](const std::string& origin) {
    return run(rig, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: h\r\nOrigin: " + origin +
                        "\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  };
  Answer good = preflight("https://ui.example");
  EXPECT_EQ(good.status(), "204");
  EXPECT_TRUE(good.has("Access-Control-Allow-Origin: https://ui.example\r\n"));
  EXPECT_TRUE(good.has("authorization, content-type"));
  EXPECT_FALSE(good.has("Allow-Credentials"));
  EXPECT_FALSE(preflight("https://evil.example").has("Access-Control-Allow"));
  const std::string origin = "Origin: https://ui.example\r\n";
  Answer bad_key = run(rig, request("POST", "/v1/chat/completions", "{}", origin));
  EXPECT_EQ(bad_key.status(), "401");
  EXPECT_TRUE(bad_key.has("Access-Control-Allow-Origin: https://ui.example\r\n"));
  std::string body = "{\"model\":\"" + kModel + "\"}";
  std::string auth = "Authorization: Bearer " + kKey + "\r\n";
  Answer ok = run(rig, request("POST", "/v1/chat/completions", body, origin + auth));
  EXPECT_TRUE(ok.has("Access-Control-Allow-Origin: https://ui.example\r\n")) << ok.raw;
  EXPECT_FALSE(ok.has("Access-Control-Allow-Origin: *"));
  EXPECT_EQ(rig.first.requests, 1u);
  Rig off(answers);
  Answer none = run(off, request("POST", "/v1/chat/completions", body, origin + auth));
  EXPECT_FALSE(none.has("Access-Control"));
}

// ---- several replicas -----------------------------------------------------------------------

TEST(Session, AFullOrDeadReplicaIsPassedOver) {
  for (UpstreamFake::Script bad : {full, drops}) {
    Rig rig(bad, answers);
    for (int i = 0; i < 4; i++) {
      Answer a = run(rig, chat());
      EXPECT_EQ(a.status(), "200") << a.raw;
    }
    EXPECT_GT(rig.shard->counters().other_replica.get(), 0u);
    EXPECT_EQ(upstream_body(*rig.second).substr(0, 10), "{\"model\":\"");
  }
  Rig both(full, full);
  expect_error(run(both, chat()), "503", "model_busy");
  EXPECT_EQ(both.first.requests + both.second->requests, 2u);
}

// B09 in a second attempt: the other replica gets its own secret and address.
TEST(Session, ARequestIsRebuiltForAnotherReplica) {
  Rig rig(drops, answers, {}, "served");
  for (int i = 0; i < 2; i++) EXPECT_EQ(run(rig, chat(",\"q\":1.0")).status(), "200");
  std::string raw = rig.second->raw();
  EXPECT_NE(raw.find("Host: " + rig.second->address()), raw.npos);
  EXPECT_NE(raw.find("{\"model\":\"served\",\"messages\":[],\"q\":1.0}"), raw.npos) << raw;
}

// ---- streams --------------------------------------------------------------------------------

std::string chunk(std::string_view payload) {
  std::string out;
  proto::append_chunk_size(out, payload.size());
  return out.append(payload).append("\r\n");
}
const std::string kSseHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";
const std::string kDelta1 =
    "data: {\"model\":\"e\",\"choices\":[{\"delta\":{\"content\":\"\u4f60\"}}]}\n\n";
const std::string kDelta2 =
    "data: {\"model\":\"e\",\"choices\":[{\"delta\":{\"content\":\"\U0001F600\"}}]}\n\n";
const std::string kUsage =
    "data: {\"model\":\"e\",\"choices\":[],\"usage\":{\"prompt_tokens\":40,"
    "\"completion_tokens\":10}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

Task<void> usage_when_asked(FakeConnection& c) {
  for (;;) {
    bool more = co_await c.next_request();
    if (!more) co_return;
    bool asked = c.raw.find("\"include_usage\":true") != c.raw.npos;
    std::string all = kSseHead + chunk(kDelta1) + chunk(kDelta2);
    if (asked) all += chunk(kUsage);
    co_await c.send(all + chunk(kDone) + "0\r\n\r\n");
  }
}

// B05
TEST(Session, UsageOfStreamsIsKnownAndShownOnlyWhenAsked) {
  struct Case {
    std::string rest;
    bool shown;
  };
  for (const Case& c :
       {Case{",\"stream\":true", false},
        Case{",\"stream\":true,\"stream_options\":{\"include_usage\":false}", false},
        Case{",\"stream\":true,\"stream_options\":{\"include_usage\":true}", true}}) {
    Rig rig(usage_when_asked);
    Answer a = run(rig, chat(c.rest));
    EXPECT_EQ(a.body, kDelta1 + kDelta2 + (c.shown ? kUsage : "") + kDone);
    EXPECT_EQ(rig.shard->counters().prompt_tokens.get(), 40u);
    EXPECT_EQ(rig.shard->counters().completion_tokens.get(), 10u);
  }
}

// B03 through the rewriting relay as well.
Task<void> byte_by_byte(FakeConnection& c) {
  co_await c.next_request();
  std::string all = kSseHead + chunk(kDelta1) + chunk(kDelta2) + chunk(kUsage) + chunk(kDone);
  for (char b : all + "0\r\n\r\n") {
    co_await c.send(std::string(1, b));
    co_await runtime::sleep_for(c.fake.loop, Duration(0));
  }
  co_await c.until_peer_closes();
}

TEST(Session, StreamsCutAtEveryByteStayTheSame) {
  Rig rig(byte_by_byte);
  EXPECT_EQ(run(rig, chat(",\"stream\":true")).body, kDelta1 + kDelta2 + kDone);
  EXPECT_EQ(rig.shard->counters().completion_tokens.get(), 10u);
}

Task<void> dies_in_mid_event(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk(kDelta1) + chunk(kDelta2) + chunk("data: {\"choi"));
  co_await c.until_flag("die");
  c.reset();
}
Task<void> dying(Rig& rig, std::string rest) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(chat(rest));
  co_await c.read_until("\U0001F600");
  rig.first.raise("die");
  std::string body;
  co_await c.response(&body);
  EXPECT_TRUE(body.starts_with(kDelta1 + kDelta2)) << body;
  size_t error = body.find("data: {\"error\":{\"message\":\"");
  EXPECT_NE(error, body.npos) << body;
  EXPECT_NE(body.find("\"code\":\"upstream_disconnected\"", error), body.npos);
  EXPECT_EQ(body.find("[DONE]"), body.npos);
  co_await c.read_to_end();
  EXPECT_EQ(rig.ended(http::RelayEnd::broken), 1u);
  EXPECT_EQ(rig.loads[0]->consecutive_failures.load(), 1u);
  EXPECT_EQ(rig.first.requests, 1u);
}

// B07, edited and verbatim
TEST(Session, AStreamThatBreaksSaysSo) {
  Rig edited(dies_in_mid_event);
  edited.loop.run_until(dying(edited, ",\"stream\":true"));
  Rig verbatim(dies_in_mid_event);
  verbatim.loop.run_until(
      dying(verbatim, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"));
}

Task<void> endless(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk(kDelta1) + chunk(kDelta2));
  co_await c.until_peer_closes();
}
Task<void> leaves(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(chat(",\"stream\":true"));
  co_await c.read_until("\U0001F600");
  EXPECT_EQ(rig.loads[0]->outstanding.load(), 1);
  c.stream.reset();
  auto closed = [&] { return rig.first.connections[0]->peer_closed; };
  co_await until(rig.loop, "the upstream to be closed", closed);
  auto idle = [&] { return rig.shard->counters().in_flight.get() == 0; };
  co_await until(rig.loop, "the session to end", idle);
  EXPECT_EQ(rig.loads[0]->outstanding.load(), 0);
  EXPECT_EQ(rig.loads[0]->consecutive_failures.load(), 0u);
}

// B01 through the whole gateway: nothing is held afterwards.
TEST(Session, AClientThatLeavesFreesEverything) {
  Rig rig(endless);
  rig.loop.run_until(leaves(rig));
}

TEST(Session, ForwardsTheControlApi) {
  Rig rig(answers);
  Answer a = run(rig, request("PUT", "/berth/v1/services/x?dry=1", "doc"));
  EXPECT_EQ(a.body, "PUT|/berth/v1/services/x|dry=1|Bearer " + kKey + "|doc");
}

TEST(Session, AcceptsTheKeyFieldOfOtherClients) {
  Rig rig(answers);
  std::string body = "{\"model\":\"" + kModel + "\"}";
  EXPECT_EQ(run(rig, request("POST", "/v1/messages", body, "x-api-key: " + kKey + "\r\n")).status(),
            "200");
}

TEST(Session, FormsKeepTheirBytesButForTheModel) {
  Rig rig(answers, nullptr, {}, "served");
  const std::string file("\0\xFF\r\n--b\r\nbinary", 15);
  std::string body =
      "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\u0437 "
      "\\\"1\\\".wav\"\r\n\r\n" +
      file + "\r\n--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + kModel +
      "\r\n--B--\r\n";
  std::string bytes =
      "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + kKey +
      "\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  EXPECT_EQ(run(rig, bytes).status(), "200");
  std::string want = body;
  want.replace(want.find(kModel), kModel.size(), "served");
  EXPECT_EQ(upstream_body(rig.first), want);
}

}  // namespace
}  // namespace berth::gateway
