#include "controller/leases.h"

#include <gtest/gtest.h>

#include "store/memory_store.h"

namespace berth::controller {
namespace {

constexpr Instant kBegin = from_ms(1'000'000);

proto::RegisterRequest request(std::string service) {
  proto::RegisterRequest r;
  r.service = std::move(service);
  r.job_id = 42;
  r.address = "10.0.0.5:40123";
  r.secret = std::string(40, 's');
  r.renew = std::string(40, 'r');
  return r;
}

Claim munge_claim(std::string user, std::string job_user, std::string account) {
  Claim c;
  c.kind = proto::CredentialKind::munge;
  c.user = std::move(user);
  sched::JobIdentity job;
  job.ref.id = 42;
  job.user = std::move(job_user);
  job.account = std::move(account);
  job.state = JobState::running;
  job.nodes = {"n1"};
  c.job = job;
  c.node_addresses = {"10.0.0.5"};
  return c;
}

class LeasesTest : public ::testing::Test {
 protected:
  void start() {
    ASSERT_TRUE(store_.commit(given_).ok());
    auto loaded = State::load(store_);
    ASSERT_TRUE(loaded.ok());
    state_.emplace(std::move(loaded).value());
    leases_.emplace(*state_, LeasePolicy{}, "site secret");
  }
  const LeaseRecord& only() { return state_->snapshot().leases.begin()->second; }

  store::Change given_;  // what is in the store before
  store::MemoryStore store_;
  std::optional<State> state_;
  std::optional<Leases> leases_;
};

TEST_F(LeasesTest, SelfRegisteredIsCalledOwnerSlashName) {
  start();
  auto reply = leases_->admit(request("qwen"), munge_claim("bob", "bob", "research"), kBegin);
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->public_name, "bob/qwen");
  EXPECT_EQ(only().project, "research");
  EXPECT_EQ(only().state, LeaseState::loading);
}

TEST_F(LeasesTest, ABareNameNeedsAGrant) {
  given_.put_grants.push_back({"qwen", "project:research", "ops", kBegin});
  start();
  EXPECT_EQ(
      leases_->admit(request("qwen"), munge_claim("bob", "bob", "research"), kBegin)->public_name,
      "qwen");
  EXPECT_EQ(
      leases_->admit(request("qwen"), munge_claim("eve", "eve", "other"), kBegin)->public_name,
      "eve/qwen");
  EXPECT_EQ(
      leases_->admit(request("bob/qwen"), munge_claim("eve", "eve", "other"), kBegin)->public_name,
      "eve/bob/qwen")
      << "nobody gets into another's space";
}

TEST_F(LeasesTest, SomebodyElsesJobIsRefused) {
  start();
  auto r = leases_->admit(request("qwen"), munge_claim("bob", "alice", "research"), kBegin);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Code::permission_denied);
  EXPECT_NE(r.error().message.find("belongs to alice"), std::string::npos);
}

TEST_F(LeasesTest, ADeadOrMissingJobIsRefused) {
  start();
  Claim c = munge_claim("bob", "bob", "research");
  c.job->state = JobState::completed;
  EXPECT_EQ(leases_->admit(request("q"), c, kBegin).error().code, Code::permission_denied);
  c.job.reset();
  EXPECT_EQ(leases_->admit(request("q"), c, kBegin).error().code, Code::permission_denied);
}

TEST_F(LeasesTest, AnAddressOffTheJobsNodesIsRefused) {  // A23
  start();
  auto r = request("q");
  r.address = "10.0.0.6:40123";
  auto refused = leases_->admit(r, munge_claim("bob", "bob", "research"), kBegin);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("not one of the nodes"), std::string::npos);
  r.address = "somewhere";
  EXPECT_EQ(leases_->admit(r, munge_claim("bob", "bob", "research"), kBegin).error().code,
            Code::invalid_argument);
  r.address = "[fd00::5]:40123";
  Claim v6 = munge_claim("bob", "bob", "research");
  v6.node_addresses = {"fd00:0:0:0:0:0:0:5"};
  EXPECT_TRUE(leases_->admit(r, v6, kBegin).ok()) << "the same address in another spelling";
}

TEST_F(LeasesTest, DeclaredReplicasNeedTheirTokenOrTheirJob) {
  ServiceRecord s;
  s.public_name = "qwen";
  s.owner = "alice";
  s.project = "gaia";
  given_.put_services.push_back(s);
  ReplicaRecord replica;
  replica.key = "berth-1";
  replica.service = "qwen";
  given_.put_replicas.push_back(replica);
  start();
  auto r = request("qwen");
  r.replica_key = "berth-1";

  Claim bob = munge_claim("bob", "bob", "research");
  bob.job->key = "berth-1";  // he called his job so
  EXPECT_EQ(leases_->admit(r, bob, kBegin).error().code, Code::permission_denied)
      << "the replica's own job is not known yet";
  store::Change submitted;
  replica.job.id = 41;
  submitted.put_replicas.push_back(replica);
  ASSERT_TRUE(state_->commit(submitted).ok());
  EXPECT_EQ(leases_->admit(r, bob, kBegin).error().code, Code::permission_denied)
      << "a job of the right name is not the right job";
  replica.job.id = 42;
  submitted.put_replicas = {replica};
  ASSERT_TRUE(state_->commit(submitted).ok());
  Claim own = munge_claim("svc", "svc", "gaia");
  own.job->key = "berth-1";
  EXPECT_TRUE(leases_->admit(r, own, kBegin).ok()) << "by its own job";
  bob.job->ref.id = 43;
  EXPECT_EQ(leases_->admit(r, bob, kBegin).error().code, Code::permission_denied);
  Claim join = munge_claim("svc", "svc", "gaia");
  join.kind = proto::CredentialKind::join;
  join.join_token = leases_->join_token("berth-2");
  join.job->key = "berth-1";
  EXPECT_EQ(leases_->admit(r, join, kBegin).error().code, Code::permission_denied);
  join.join_token = leases_->join_token("berth-1");
  auto ok = leases_->admit(r, join, kBegin);
  ASSERT_TRUE(ok.ok()) << ok.error().message;
  EXPECT_EQ(only().owner, "alice");
  EXPECT_EQ(only().project, "gaia");
  proto::EndReport end;
  end.cause = EndCause::crashed;
  ASSERT_TRUE(leases_->end(ok->lease_id, end, kBegin).ok());
  EXPECT_EQ(state_->replica("berth-1")->agent_end->cause, EndCause::crashed);
  join.job->key = "berth-2";
  EXPECT_EQ(leases_->admit(r, join, kBegin).error().code, Code::permission_denied)
      << "a token carried into another job";
  r.replica_key = "berth-9";
  EXPECT_EQ(leases_->admit(r, join, kBegin).error().code, Code::not_found);
  EXPECT_EQ(
      leases_->admit(request("qwen"), munge_claim("alice", "alice", "gaia"), kBegin)->public_name,
      "alice/qwen");
}

TEST_F(LeasesTest, RegisteringAgainReplaces) {
  start();
  auto first = leases_->admit(request("q"), munge_claim("bob", "bob", "r"), kBegin);
  auto second = leases_->admit(request("q"), munge_claim("bob", "bob", "r"), kBegin);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(state_->snapshot().leases.size(), 1u);
  EXPECT_EQ(leases_->authenticate(first->lease_id, std::string(40, 'r')).error().code,
            Code::not_found);
  EXPECT_TRUE(leases_->authenticate(second->lease_id, std::string(40, 'r')).ok());
  EXPECT_EQ(leases_->authenticate(second->lease_id, "wrong").error().code, Code::unauthenticated);
}

TEST_F(LeasesTest, ReadyNeedsTheDialBack) {
  start();
  auto reply = leases_->admit(request("q"), munge_claim("bob", "bob", "r"), kBegin);
  proto::HeartbeatRequest h;
  h.state = LeaseState::ready;
  h.served_model = "m";
  EXPECT_TRUE(leases_->needs_dial_back(only(), h));
  Leases::Reachability no{Leases::Reachability::Answer::unreachable,
                          "unreachable_address 10.0.0.5:40123"};
  ASSERT_TRUE(leases_->heartbeat(reply->lease_id, h, no, kBegin).ok());
  EXPECT_EQ(only().state, LeaseState::loading);
  EXPECT_EQ(only().detail, "unreachable_address 10.0.0.5:40123");
  Leases::Reachability yes{Leases::Reachability::Answer::reachable, ""};
  ASSERT_TRUE(leases_->heartbeat(reply->lease_id, h, yes, kBegin).ok());
  EXPECT_EQ(only().state, LeaseState::ready);
  EXPECT_FALSE(leases_->needs_dial_back(only(), h));
}

TEST_F(LeasesTest, RecordsWhatAStartTook) {
  start();
  proto::RegisterRequest r = request("q");
  r.began_ago = milliseconds(400);
  r.engine_ago = milliseconds(100);
  auto reply = leases_->admit(r, munge_claim("bob", "bob", "r"), kBegin);
  proto::HeartbeatRequest h;
  h.state = LeaseState::ready;
  h.answered_ago = milliseconds(30);
  Leases::Reachability yes{Leases::Reachability::Answer::reachable, ""};
  Instant then = kBegin + seconds(5);
  ASSERT_TRUE(leases_->heartbeat(reply->lease_id, h, yes, then).ok());
  StartTimes expected{kBegin - milliseconds(400), kBegin - milliseconds(100),
                      then - milliseconds(30), then};
  EXPECT_EQ(only().start, expected);
  EXPECT_EQ(store_.events("", 1)->at(0).text,
            "to the engine 0.30 s, to its first right answer 5.07 s, to requests 0.03 s");
  h.answered_ago = seconds(3);  // the next heartbeat tells it again
  ASSERT_TRUE(leases_->heartbeat(reply->lease_id, h, yes, then + seconds(3)).ok());
  EXPECT_EQ(only().start, expected);
}

TEST_F(LeasesTest, DrainingNeverBecomesReadyAgain) {
  start();
  auto reply = leases_->admit(request("q"), munge_claim("bob", "bob", "r"), kBegin);
  ASSERT_TRUE(leases_->ask_drain(reply->lease_id, "scaled down to 1", kBegin).ok());
  proto::HeartbeatRequest h;
  h.state = LeaseState::ready;
  Leases::Reachability yes{Leases::Reachability::Answer::reachable, ""};
  auto answer = leases_->heartbeat(reply->lease_id, h, yes, kBegin);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->directive, proto::Directive::drain);
  EXPECT_EQ(answer->why, "scaled down to 1");
  EXPECT_EQ(only().state, LeaseState::draining);
}

TEST_F(LeasesTest, ExpiryAndResume) {
  start();
  auto reply = leases_->admit(request("q"), munge_claim("bob", "bob", "r"), kBegin);
  EXPECT_TRUE(leases_->expire(kBegin + milliseconds(9999)).empty());
  leases_->resume(kBegin +
                  seconds(60));  // Berth was down for a minute: that is not the agent's fault
  EXPECT_TRUE(leases_->expire(kBegin + seconds(69)).empty());
  auto expired = leases_->expire(kBegin + seconds(70));
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_TRUE(state_->snapshot().leases.empty());
  EXPECT_EQ(leases_->heartbeat(reply->lease_id, {}, {}, kBegin).error().code, Code::not_found);
  EXPECT_TRUE(leases_->end(reply->lease_id, {}, kBegin).ok()) << "said twice is no error";
}

TEST_F(LeasesTest, WithoutAJobOnlyWhereTheSiteHasNone) {
  start();
  Claim key;
  key.kind = proto::CredentialKind::key;
  key.user = "bob";
  key.key_project = "demo";
  auto r = request("q");
  r.job_id = 0;
  r.address = "127.0.0.1:4000";
  EXPECT_EQ(leases_->admit(r, key, kBegin).error().code, Code::permission_denied);
  LeasePolicy local;
  local.job_needed = LeasePolicy::JobNeeded::no;
  leases_.emplace(*state_, local, "site secret");
  EXPECT_TRUE(leases_->admit(r, key, kBegin).ok());
  r.address = "10.0.0.5:4000";
  EXPECT_EQ(leases_->admit(r, key, kBegin).error().code, Code::permission_denied);
}

}  // namespace
}  // namespace berth::controller
