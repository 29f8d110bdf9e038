#include "controller/api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/id.h"
#include "controller/api_context.h"
#include "controller/routes.h"
#include "proto/api_error.h"
#include "runtime/loop.h"
#include "store/memory_store.h"

namespace berth::controller {
namespace {

constexpr Instant kNow = from_ms(1'000'000);

class NoScheduler : public sched::Scheduler {
 public:
  std::string name() const override { return "none"; }
  Result<JobRef> submit(const sched::JobRequest&) override { return internal_error("not used"); }
  JobListing list() override { return {}; }
  Result<std::vector<JobEnd>> ended(const std::vector<JobRef>&) override {
    return std::vector<JobEnd>{};
  }
  Result<std::vector<JobEnd>> ended_by_key(const std::vector<std::string>&) override {
    return std::vector<JobEnd>{};
  }
  Status cancel(const JobRef&, sched::CancelMode) override { return {}; }
  Status extend(const JobRef&, Instant, Instant) override { return {}; }
  Result<std::optional<sched::JobIdentity>> identify(uint64_t) override {
    return std::optional<sched::JobIdentity>{};
  }
  std::vector<sched::Finding> diagnose() override {
    return {{sched::Finding::Level::problem, "slurmctld", "does not answer"}};
  }
};

runtime::Task<Leases::Reachability> reachable(LeaseRecord) {
  co_return Leases::Reachability{Leases::Reachability::Answer::reachable, ""};
}

runtime::Task<Result<Claim>> claim_bob(std::string, std::string, proto::RegisterRequest) {
  Claim claim;
  claim.user = "bob";
  claim.key_project = "research";
  co_return claim;
}

class ApiTest : public ::testing::Test {
 protected:
  ApiTest()
      : state_(State::load(store_).value()),
        leases_(state_, local_policy(), "secret"),
        context_{state_, leases_,
                 store_, scheduler_,
                 pool_,  [] { return kNow; },
                 {},     LoopbackPolicy::refused} {
    context_.view = [](const std::string&) { return std::optional<ServiceView>{}; };
    context_.changed = [this] { changes_++; };
    context_.log_path = [](const ReplicaRecord& r) { return "/logs/" + r.key; };
    context_.dial_back = reachable;
    context_.verify = claim_bob;
    context_.own_findings = [] { return std::vector<sched::Finding>{}; };
    context_.keys = [this] { return key_table(state_.snapshot()); };
  }
  static LeasePolicy local_policy() {
    LeasePolicy p;
    p.job_needed = LeasePolicy::JobNeeded::no;
    return p;
  }

  // As an operator over the UNIX socket, unless a key is given.
  ApiReply call(std::string method, std::string path, const Json& body = nullptr,
                const std::string& key = "") {
    ApiRequest request;
    request.method = std::move(method);
    size_t question = path.find('?');
    request.path = path.substr(0, question);
    if (question != std::string::npos) request.query = path.substr(question + 1);
    if (!body.is_null()) request.body = dump_json(body);
    if (key.empty()) {
      request.peer.emplace();
      request.peer->user = "ops";
      request.peer->role = route::Caller::Role::operator_;
    } else {
      request.authorization = "Bearer " + key;
    }
    Api api(context_);
    return loop_.run_until(api.handle(std::move(request)));
  }
  Json document(const ApiReply& reply) { return parse_json(reply.body).value(); }
  std::string make_key(const std::string& user, const std::string& project) {
    auto reply =
        call("POST", "/berth/v1/keys", {{"name", "k"}, {"user", user}, {"project", project}});
    EXPECT_EQ(reply.status, 201) << reply.body;
    return document(reply)["key"];
  }

  runtime::Loop loop_;
  runtime::BlockingPool pool_{1};
  store::MemoryStore store_;
  NoScheduler scheduler_;
  State state_;
  Leases leases_;
  ApiContext context_;
  int changes_ = 0;
};

Json spec(const std::string& name) {
  return {{"name", name}, {"engine", "vllm"}, {"model", "/models/m"}};
}

TEST_F(ApiTest, KeysAreShownOnceAndStoredAsDigests) {
  std::string key = make_key("bob", "research");
  EXPECT_EQ(key.rfind("sk-berth-", 0), 0u);
  const KeyRecord& record = state_.snapshot().keys.begin()->second;
  EXPECT_EQ(record.digest, sha256_hex(key));
  EXPECT_EQ(call("GET", "/berth/v1/keys").body.find(key), std::string::npos);
  EXPECT_EQ(call("GET", "/berth/v1/services", nullptr, key).status, 200);
  EXPECT_EQ(call("DELETE", "/berth/v1/keys/" + record.id).status, 200);
  EXPECT_EQ(call("GET", "/berth/v1/services", nullptr, key).status, 401);
}

TEST_F(ApiTest, OnlyOperatorsMakeKeysForOthers) {
  std::string key = make_key("bob", "research");
  EXPECT_EQ(call("POST", "/berth/v1/keys", {{"name", "mine"}}, key).status, 201);
  EXPECT_EQ(call("POST", "/berth/v1/keys", {{"name", "x"}, {"user", "eve"}}, key).status, 403);
  EXPECT_EQ(call("POST", "/berth/v1/keys", {{"name", "x"}, {"role", "operator"}}, key).status, 403);
  EXPECT_EQ(call("POST", "/berth/v1/grants", {{"name", "m"}, {"holder", "bob"}}, key).status, 403);
}

TEST_F(ApiTest, PutPlanThenPut) {
  auto plan = call("PUT", "/berth/v1/services/qwen?plan=1", {{"v", 1}, {"spec", spec("qwen")}});
  ASSERT_EQ(plan.status, 200) << plan.body;
  EXPECT_EQ(document(plan)["plan"]["action"], "create");
  EXPECT_TRUE(state_.snapshot().services.empty()) << "a plan does nothing";
  EXPECT_EQ(changes_, 0);
  auto put = call("PUT", "/berth/v1/services/qwen", {{"v", 1}, {"spec", spec("qwen")}});
  EXPECT_EQ(put.status, 201) << put.body;
  EXPECT_EQ(document(put)["name"], "qwen");
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(document(call("GET", "/berth/v1/services"))["services"].size(), 1u);
}

TEST_F(ApiTest, NamesWithSlashesAreEncoded) {  // B19
  std::string key = make_key("bob", "research");
  auto put = call("PUT", "/berth/v1/services/org%2Fmodel%3Aq4",
                  {{"v", 1}, {"spec", spec("org/model:q4")}}, key);
  ASSERT_EQ(put.status, 201) << put.body;
  EXPECT_EQ(document(put)["name"], "bob/org/model:q4");
  EXPECT_EQ(call("GET", "/berth/v1/services/bob%2Forg%2Fmodel%3Aq4", nullptr, key).status, 200);
  EXPECT_EQ(call("GET", "/berth/v1/services/org%2Fmodel:q4", nullptr, key).status, 200);
  EXPECT_EQ(call("GET", "/berth/v1/services/org%252Fmodel:q4", nullptr, key).status, 404);
}

TEST_F(ApiTest, Actions) {
  ASSERT_EQ(call("PUT", "/berth/v1/services/q", {{"v", 1}, {"spec", spec("q")}}).status, 201);
  auto act = [&](Json body) { return call("POST", "/berth/v1/services/q/actions", body).status; };
  EXPECT_EQ(act({{"action", "stop"}}), 200);
  EXPECT_EQ(state_.service("q")->wanted, ServiceRecord::Wanted::stopped);
  EXPECT_EQ(act({{"action", "scale"}, {"replicas", 4}}), 200);
  EXPECT_EQ(state_.service("q")->spec.replicas, 4);
  EXPECT_EQ(act({{"action", "scale"}, {"replicas", -1}}), 400);
  EXPECT_EQ(act({{"action", "dance"}}), 400);
  EXPECT_EQ(act({{"action", "restart"}}), 200);
  EXPECT_EQ(state_.service("q")->restart_nonce, 1u);
  EXPECT_EQ(call("DELETE", "/berth/v1/services/q").status, 202);
  EXPECT_EQ(act({{"action", "start"}}), 409);
}

TEST_F(ApiTest, AViewOfBeforeAWishDoesNotAnswerIt) {
  ServiceView view;
  view.at = kNow - seconds(1);
  view.status = ServiceStatus::ready;
  view.status_text = "ready: 1/1";
  view.ready = 1;
  context_.view = [&](const std::string&) { return std::optional(view); };
  ASSERT_EQ(call("PUT", "/berth/v1/services/q", {{"v", 1}, {"spec", spec("q")}}).status, 201);
  auto status_after = [&](Json body) {
    return document(call("POST", "/berth/v1/services/q/actions", body))["status"];
  };
  EXPECT_EQ(status_after({{"action", "scale"}, {"replicas", 2}}), "starting");
  EXPECT_EQ(status_after({{"action", "scale"}, {"replicas", 1}}), "ready");
  EXPECT_EQ(status_after({{"action", "stop"}}), "stopped");
  view.status = ServiceStatus::failed;
  EXPECT_EQ(status_after({{"action", "start"}}), "starting");
  view.at = kNow + seconds(1);
  EXPECT_EQ(document(call("GET", "/berth/v1/services/q"))["status"], "failed");

  store::Change change;
  ReplicaRecord replica;
  replica.key = "berth-0123456789abcdef";
  replica.service = "q";
  replica.generation = 1;
  replica.state = ReplicaState::ready;
  change.put_replicas.push_back(replica);
  ASSERT_TRUE(state_.commit(change));
  EXPECT_EQ(document(call("GET", "/berth/v1/services/q"))["older_replicas"], 0);
  call("POST", "/berth/v1/services/q/actions", {{"action", "restart"}});
  EXPECT_EQ(document(call("GET", "/berth/v1/services/q"))["older_replicas"], 1);
}

TEST_F(ApiTest, AgentsRegisterRenewAndEnd) {
  proto::RegisterRequest request;
  request.service = "tiny";
  request.address = "127.0.0.1:4000";
  request.secret = std::string(40, 's');
  request.renew = std::string(40, 'r');
  auto reply = call("POST", "/berth/v1/leases", proto::to_json(request), "whatever");
  ASSERT_EQ(reply.status, 201) << reply.body;
  std::string id = document(reply)["lease_id"];
  proto::HeartbeatRequest beat;
  beat.state = LeaseState::ready;
  const std::string heartbeat = "/berth/v1/leases/" + id + "/heartbeat";
  auto foreign = call("POST", heartbeat, proto::to_json(beat), "wrong");
  EXPECT_EQ(foreign.status, 401);
  EXPECT_FALSE(foreign.routine);
  auto beaten = call("POST", heartbeat, proto::to_json(beat), request.renew);
  EXPECT_EQ(beaten.status, 200);
  EXPECT_TRUE(beaten.routine);
  EXPECT_EQ(state_.lease(id)->state, LeaseState::ready);
  std::string bob = make_key("bob", "research"), eve = make_key("eve", "other");
  EXPECT_EQ(document(call("GET", "/berth/v1/services", nullptr, bob))["services"].size(), 1u);
  EXPECT_EQ(document(call("GET", "/berth/v1/services", nullptr, eve))["services"].size(), 0u);
  EXPECT_EQ(call("POST", "/berth/v1/leases/" + id + "/end", proto::to_json(proto::EndReport{}),
                 request.renew)
                .status,
            200);
  EXPECT_TRUE(state_.snapshot().leases.empty());
}

TEST_F(ApiTest, ErrorsAreOneShape) {
  for (auto [method, path, status] : {std::tuple{"GET", "/berth/v1/nothing", 404},
                                      {"POST", "/berth/v1/services", 405},
                                      {"GET", "/berth/v1/services/none", 404},
                                      {"GET", "/berth/v1/services/%zz", 404},
                                      {"PUT", "/berth/v1/services/q", 400}}) {
    auto reply = call(method, path);
    EXPECT_EQ(reply.status, status) << path;
    Json error = document(reply)["error"];
    EXPECT_TRUE(error["message"].is_string() && error["type"].is_string() &&
                error.contains("param") && error["code"].is_string())
        << reply.body;
  }
}

TEST_F(ApiTest, TheOpenApiDocumentHasEveryRouteAndNoOther) {
  Json paths = document(call("GET", "/berth/v1/openapi.json"))["paths"];
  std::set<std::string> in_code, in_document;
  for (const ApiRoute& route : api_routes())
    in_code.insert(std::string(route.method) + " " + std::string(route.pattern));
  for (const auto& [path, operations] : paths.items())
    for (const auto& [method, operation] : operations.items()) {
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(c & ~0x20);
      in_document.insert(upper + " " + path);
    }
  EXPECT_EQ(in_code, in_document);
}

TEST_F(ApiTest, DoctorShowsTheSchedulersProblems) {
  Json findings = document(call("GET", "/berth/v1/doctor"))["findings"];
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0]["level"], "problem");
}

// B27: the same envelope as the gateway's, from the same table.
TEST(ApiErrors, AreTheGateways) {
  for (int code = 0; code <= static_cast<int>(Code::internal); ++code) {
    Error error{static_cast<Code>(code), "words", Source::caller, Retry::no};
    ApiReply reply = reply_error(error);
    proto::ApiError gateways = proto::to_api_error(error);
    gateways.message = "words";
    EXPECT_EQ(reply.status, gateways.status) << code;
    EXPECT_EQ(reply.body, proto::error_body(gateways)) << code;
  }
  Error away{Code::unavailable, "munged is away", Source::peer, Retry::yes};
  EXPECT_EQ(reply_error(away).status, 503) << "it is not Berth that is away";
  Error inside{Code::internal, "database or disk is full", Source::system, Retry::no};
  EXPECT_NE(reply_error(inside).body.find("disk is full"), std::string::npos);
}

// What is wrong with `value` by a schema of the document; "" when nothing is.
std::string misfit(const Json& schemas, const Json& schema, const Json& value) {
  if (schema.value("nullable", false) && value.is_null()) return "";
  if (schema.contains("$ref")) {
    std::string name = schema["$ref"].get<std::string>();
    return misfit(schemas, schemas.at(name.substr(name.rfind('/') + 1)), value);
  }
  if (schema.contains("allOf")) return misfit(schemas, schema["allOf"][0], value);
  if (schema.contains("oneOf")) {
    std::string all;
    for (const Json& one : schema["oneOf"]) {
      std::string wrong = misfit(schemas, one, value);
      if (wrong.empty()) return "";
      all += "[" + wrong + "]";
    }
    return all;
  }
  if (!schema.contains("type")) return "";
  std::string type = schema["type"];
  if (type == "string") return value.is_string() ? "" : "no string: " + dump_json(value);
  if (type == "integer") return value.is_number_integer() ? "" : "no integer: " + dump_json(value);
  if (type == "boolean") return value.is_boolean() ? "" : "no boolean: " + dump_json(value);
  if (type == "array") {
    if (!value.is_array()) return "no array: " + dump_json(value);
    for (const Json& item : value)
      if (std::string wrong = misfit(schemas, schema["items"], item); !wrong.empty()) return wrong;
    return "";
  }
  if (!value.is_object()) return "no object: " + dump_json(value);
  if (schema.contains("required"))
    for (const Json& name : schema["required"])
      if (!value.contains(name.get<std::string>())) return "missing: " + name.get<std::string>();
  for (const auto& [name, member] : value.items()) {
    if (!schema["properties"].contains(name)) return "not in the schema: " + name;
    std::string wrong = misfit(schemas, schema["properties"][name], member);
    if (!wrong.empty()) return name + ": " + wrong;
  }
  return "";
}

// Calls every route with what it needs, and holds request and answer against the document.
class ApiDocumentTest : public ApiTest {
 protected:
  ApiDocumentTest() { document_ = document(call("GET", "/berth/v1/openapi.json")); }

  // `route` is the pattern, `names` what stands for its {..}.
  Json ask(const std::string& method, std::string route, const std::vector<std::string>& names,
           int status, const Json& body = nullptr, const std::string& query = "",
           const std::string& key = "") {
    const Json& schemas = document_["components"]["schemas"];
    std::string lower = method, path = route;
    for (char& c : lower) c = static_cast<char>(c | 0x20);
    for (const std::string& name : names) {
      size_t open = path.find('{');
      path.replace(open, path.find('}') - open + 1, name);
    }
    const Json& operation = document_["paths"].at(route).at(lower);
    if (!body.is_null()) {
      const Json& schema = operation.at("requestBody")["content"]["application/json"]["schema"];
      EXPECT_EQ(misfit(schemas, schema, body), "") << method << route;
    }
    ApiReply reply = call(method, path + query, body, key);
    EXPECT_EQ(reply.status, status) << method << route << reply.body;
    std::string listed = std::to_string(reply.status);
    if (!operation["responses"].contains(listed)) listed = "default";
    EXPECT_EQ(listed == "default", status >= 400) << method << route << status;
    EXPECT_EQ(
        misfit(schemas, operation["responses"][listed]["content"]["application/json"]["schema"],
               document(reply)),
        "")
        << method << route << "\n"
        << reply.body;
    seen_.insert(method + " " + route + " " + std::to_string(status));
    return document(reply);
  }

  Json document_;
  std::set<std::string> seen_;
};

TEST_F(ApiDocumentTest, HoldsForEveryRouteEveryStatusAndEveryBody) {
  const std::string services = "/berth/v1/services", one = services + "/{name}";
  const std::string keys = "/berth/v1/keys", grants = "/berth/v1/grants";
  const std::string leases = "/berth/v1/leases";
  Json declare = {{"v", 1}, {"spec", spec("q")}};
  ask("PUT", one, {"q"}, 200, declare, "?plan=1");
  ask("PUT", one, {"q"}, 201, declare);
  ask("PUT", one, {"q"}, 200, declare);
  ask("PUT", one, {"other"}, 400, declare);
  store::Change change;
  ReplicaRecord replica;
  replica.key = "berth-0123456789abcdef";
  replica.service = "q";
  replica.job.id = 7;
  replica.started_at = replica.ends_at = kNow;
  change.put_replicas.push_back(replica);
  replica.key = "berth-fedcba9876543210";
  replica.state = ReplicaState::ended;
  replica.end_cause = EndCause::crashed;
  replica.signal = 9;
  replica.exit_code = 1;
  replica.ended_at = kNow;
  change.put_replicas.push_back(replica);
  change.put_scripts["berth-0123456789abcdef"] = "#!/bin/bash\n";
  ASSERT_TRUE(state_.commit(change));
  ask("GET", services, {}, 200);
  EXPECT_EQ(ask("GET", one, {"q"}, 200)["replicas"].size(), 2u);
  ask("GET", one, {"none"}, 404);
  ask("POST", one + "/actions", {"q"}, 200, {{"action", "scale"}, {"replicas", 2}});
  ask("POST", one + "/actions", {"q"}, 400, {{"action", "dance"}});
  ask("GET", one + "/explain", {"q"}, 200);
  ask("GET", one + "/script", {"q"}, 200, nullptr, "?replica=berth-0123456789abcdef");
  ask("GET", one + "/script", {"q"}, 404, nullptr, "?replica=none");
  ask("GET", one + "/events", {"q"}, 200, nullptr, "?limit=3");
  ask("GET", one + "/logs", {"q"}, 200, nullptr, "?offset=0&limit=10");
  std::string id = ask("POST", keys, {}, 201, {{"name", "k"}, {"user", "bob"}})["id"];
  ask("POST", keys, {}, 400, {{"name", ""}});
  ask("GET", keys, {}, 200);
  ask("DELETE", keys + "/{id}", {id}, 200);
  ask("DELETE", keys + "/{id}", {"none"}, 404);
  ask("POST", grants, {}, 201, {{"v", 1}, {"name", "m"}, {"holder", "bob"}});
  ask("POST", grants, {}, 409, {{"v", 1}, {"name", "m"}, {"holder", "eve"}});
  ask("GET", grants, {}, 200);
  ask("DELETE", grants + "/{name}", {"m"}, 200);
  proto::RegisterRequest request;
  request.service = "tiny";
  request.address = "127.0.0.1:4000";
  request.secret = std::string(40, 's');
  request.renew = std::string(40, 'r');
  std::string lease = ask("POST", leases, {}, 201, proto::to_json(request))["lease_id"];
  proto::HeartbeatRequest beat;
  beat.state = LeaseState::ready;
  ask("POST", leases + "/{id}/heartbeat", {lease}, 200, proto::to_json(beat), "", request.renew);
  ask("POST", leases + "/{id}/heartbeat", {lease}, 401, proto::to_json(beat), "", "wrong");
  ask("GET", leases, {}, 200);
  ask("GET", services, {}, 200);
  Json self = ask("GET", one, {"bob%2Ftiny"}, 200);
  EXPECT_EQ(self["self_registered"], true);
  ask("GET", one + "/explain", {"bob%2Ftiny"}, 200);
  EXPECT_NE(dump_json(ask("GET", one + "/logs", {"bob%2Ftiny"}, 409)).find("registered itself"),
            std::string::npos);
  ask("POST", leases + "/{id}/end", {lease}, 200, proto::to_json(proto::EndReport{}), "",
      request.renew);
  ask("GET", "/berth/v1/doctor", {}, 200);
  ask("GET", "/berth/v1/openapi.json", {}, 200);
  ask("DELETE", one, {"q"}, 202);

  for (const ApiRoute& route : api_routes()) {
    std::string name = std::string(route.method) + " " + std::string(route.pattern);
    for (const ApiAnswer& answer : route.answers)
      EXPECT_TRUE(seen_.count(name + " " + std::to_string(answer.status)))
          << "not tried: " << name << " " << answer.status;
    if (route.auth == ApiRoute::Auth::self) continue;
    std::string path(route.pattern);
    for (size_t open; (open = path.find('{')) != std::string::npos;)
      path.replace(open, path.find('}') - open + 1, "x");
    ApiReply refused = call(std::string(route.method), path, nullptr, "sk-berth-wrong");
    EXPECT_EQ(refused.status, 401) << name;
    EXPECT_EQ(document(refused)["error"]["code"], "invalid_api_key") << name;
  }
}

TEST(ApiPath, PercentDecoding) {
  EXPECT_EQ(percent_decode("a%2Fb"), "a/b");
  EXPECT_EQ(percent_decode("a%252Fb"), "a%2Fb") << "once, not twice";
  EXPECT_EQ(percent_decode("a+b"), "a+b");
  for (auto bad : {"%", "%2", "%zz"}) EXPECT_EQ(percent_decode(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace berth::controller
