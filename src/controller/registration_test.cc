#include "controller/registration.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/id.h"
#include "runtime/loop.h"

namespace berth::controller {
namespace {

// Knows one job; says so or is down.
class OneJobScheduler : public sched::Scheduler {
 public:
  std::string name() const override { return "one-job"; }
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
  Result<std::optional<sched::JobIdentity>> identify(uint64_t id) override {
    if (down) return unavailable("slurmctld does not answer", Source::scheduler);
    if (id != 42) return std::optional<sched::JobIdentity>{};
    sched::JobIdentity job;
    job.ref.id = 42;
    job.user = "alice";
    job.account = "gaia";
    job.state = JobState::running;
    job.addresses = {address};
    job.nodes = {node};
    return std::optional<sched::JobIdentity>(job);
  }
  std::vector<sched::Finding> diagnose() override { return {}; }

  std::string address = "127.0.0.5", node = "7";
  bool down = false;
};

class RegistrationTest : public ::testing::Test {
 protected:
  RegistrationTest() {
    route::KeyTable::Entry entry;
    entry.caller.user = "bob";
    entry.caller.project = "research";
    keys_ = std::make_shared<const route::KeyTable>(
        std::unordered_map<std::string, route::KeyTable::Entry>{{sha256_hex("sk-1"), entry}});
  }

  Result<Claim> verify(std::string authorization, uint64_t job_id) {
    proto::RegisterRequest request;
    request.job_id = job_id;
    RegistrationPorts ports{scheduler_,
                            pool_,
                            [] { return from_ms(1000); },
                            [this] { return keys_; },
                            [this](const std::string&) { return proof_; },
                            node_names_};
    return loop_.run_until(
        verify_registration(ports, std::move(authorization), "the body", std::move(request)));
  }

  runtime::Loop loop_;
  runtime::BlockingPool pool_{1};
  OneJobScheduler scheduler_;
  std::shared_ptr<const route::KeyTable> keys_;
  std::vector<std::string> node_names_;
  Result<MungeProof> proof_ = MungeProof{geteuid(), sha256_hex("the body")};
};

TEST_F(RegistrationTest, MungeNamesTheUserAndBindsTheBody) {
  auto claim = verify("Munge MUNGE:abc:", 42);
  ASSERT_TRUE(claim.ok()) << claim.error().message;
  EXPECT_EQ(claim->kind, proto::CredentialKind::munge);
  EXPECT_FALSE(claim->user.empty());
  EXPECT_EQ(claim->job->account, "gaia");
  EXPECT_EQ(claim->node_addresses, std::vector<std::string>{"127.0.0.5"});
  proof_ = MungeProof{geteuid(), sha256_hex("another body")};
  EXPECT_EQ(verify("Munge MUNGE:abc:", 42).error().code, Code::unauthenticated);
  proof_ = Error{Code::unauthenticated, "replayed", Source::caller, Retry::no};
  EXPECT_EQ(verify("Munge MUNGE:abc:", 42).error().message, "replayed");
}

// A23: a node's address on another network, by the operators' word and not by the agent's.
TEST_F(RegistrationTest, OperatorsNamesOfANodeAreItsAddressesToo) {
  using Addresses = std::vector<std::string>;
  scheduler_.address = "10.1.0.7";
  node_names_ = {"10.20.0.{node}", "no-such-name-{node}.invalid", "without"};
  EXPECT_EQ(verify("Munge MUNGE:abc:", 42)->node_addresses, (Addresses{"10.1.0.7", "10.20.0.7"}));
  node_names_ = {"127.0.1.{node}", "::ffff:127.0.0.{node}"};
  EXPECT_EQ(verify("Munge MUNGE:abc:", 42)->node_addresses, Addresses{"10.1.0.7"})
      << "a name that leads the gateway to itself is nobody's";
  scheduler_.address = "127.0.0.5";
  EXPECT_EQ(verify("Munge MUNGE:abc:", 42)->node_addresses[1], "127.0.1.7") << "one machine";
}

TEST_F(RegistrationTest, KeysAndTokens) {
  auto by_key = verify("Bearer sk-1", 0);
  ASSERT_TRUE(by_key.ok());
  EXPECT_EQ(by_key->user, "bob");
  EXPECT_FALSE(by_key->job.has_value());
  EXPECT_EQ(verify("Bearer sk-2", 0).error().code, Code::unauthenticated);
  auto join = verify("Join abc", 42);
  ASSERT_TRUE(join.ok());
  EXPECT_EQ(join->join_token, "abc");
  EXPECT_EQ(join->user, "alice");
  EXPECT_EQ(verify("", 42).error().code, Code::unauthenticated);
}

TEST_F(RegistrationTest, UnknownJobsAndASilentScheduler) {
  EXPECT_FALSE(verify("Bearer sk-1", 7)->job.has_value());
  scheduler_.down = true;
  auto later = verify("Bearer sk-1", 42);
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().retry, Retry::yes) << "the agent must try again, not give up";
}

}  // namespace
}  // namespace berth::controller
