#include "controller/api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/id.h"
#include "controller/api_context.h"
#include "controller/routes.h"
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
  Status cancel(const JobRef&, sched::CancelMode) override { return {}; }
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
    context_.gateway_findings = [] { return std::vector<sched::Finding>{}; };
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
  EXPECT_EQ(
      call("POST", "/berth/v1/leases/" + id + "/heartbeat", proto::to_json(beat), "wrong").status,
      401);
  EXPECT_EQ(
      call("POST", "/berth/v1/leases/" + id + "/heartbeat", proto::to_json(beat), request.renew)
          .status,
      200);
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

TEST(ApiStatus, OneTable) {  // B27
  EXPECT_EQ(http_status(Code::invalid_argument), 400);
  EXPECT_EQ(http_status(Code::unauthenticated), 401);
  EXPECT_EQ(http_status(Code::permission_denied), 403);
  EXPECT_EQ(http_status(Code::not_found), 404);
  EXPECT_EQ(http_status(Code::conflict), 409);
  EXPECT_EQ(http_status(Code::too_large), 413);
  EXPECT_EQ(http_status(Code::exhausted), 429);
  EXPECT_EQ(http_status(Code::unavailable), 503);
  EXPECT_EQ(http_status(Code::timeout), 504);
  EXPECT_EQ(http_status(Code::internal), 500);
}

TEST(ApiPath, PercentDecoding) {
  EXPECT_EQ(percent_decode("a%2Fb"), "a/b");
  EXPECT_EQ(percent_decode("a%252Fb"), "a%2Fb") << "once, not twice";
  EXPECT_EQ(percent_decode("a+b"), "a+b");
  for (auto bad : {"%", "%2", "%zz"}) EXPECT_EQ(percent_decode(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace berth::controller
