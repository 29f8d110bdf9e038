#include "controller/declare.h"

#include <gtest/gtest.h>

#include "store/memory_store.h"

namespace berth::controller {
namespace {

constexpr Instant kDeclaredAt = from_ms(1'000'000);

class DeclareTest : public ::testing::Test {
 protected:
  DeclareTest() {
    alice_.user = "alice";
    alice_.project = "gaia";
    operator_.user = "ops";
    operator_.role = route::Caller::Role::operator_;
    spec_.name = "qwen";
    spec_.engine = EngineKind::vllm;
    spec_.model = "/models/qwen";
    load();
  }
  void load() {
    auto state = State::load(store_);
    ASSERT_TRUE(state.ok());
    state_.emplace(std::move(state).value());
  }
  Result<Declaration> apply(const route::Caller& caller, const ServiceSpec& spec,
                            std::string project = "") {
    return declare(*state_, caller, project, spec, LoopbackPolicy::refused, kDeclaredAt);
  }
  void put(const ServiceRecord& record) {
    store::Change change;
    change.put_services.push_back(record);
    ASSERT_TRUE(state_->commit(change).ok());
  }

  store::MemoryStore store_;
  std::optional<State> state_;
  route::Caller alice_, operator_;
  ServiceSpec spec_;
};

TEST_F(DeclareTest, UsersGetTheirOwnSpaceAndOperatorsTheBareName) {
  EXPECT_EQ(apply(alice_, spec_)->record.public_name, "alice/qwen");
  EXPECT_EQ(apply(operator_, spec_)->record.public_name, "qwen");
  store::Change grant;
  grant.put_grants.push_back({"qwen", "project:gaia", "ops", kDeclaredAt});
  ASSERT_TRUE(state_->commit(grant).ok());
  EXPECT_EQ(apply(alice_, spec_)->record.public_name, "qwen");
  spec_.name = "alice/qwen";
  EXPECT_EQ(apply(alice_, spec_)->record.public_name, "alice/qwen");
}

TEST_F(DeclareTest, ThePayerIsOnesOwnProject) {
  EXPECT_EQ(apply(alice_, spec_)->record.project, "gaia");
  spec_.resources.account = "other";
  auto refused = apply(alice_, spec_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::permission_denied);
  EXPECT_EQ(apply(operator_, spec_)->record.project, "other");
}

TEST_F(DeclareTest, SayingTheSameTwiceChangesNothing) {
  auto first = apply(alice_, spec_);
  EXPECT_EQ(first->action, Declaration::Action::create);
  put(first->record);
  auto second = apply(alice_, spec_);
  EXPECT_EQ(second->action, Declaration::Action::none);
  EXPECT_EQ(second->record, first->record);
}

TEST_F(DeclareTest, OnlyWhatRunsRaisesTheGeneration) {
  put(apply(alice_, spec_)->record);
  spec_.replicas = 3;
  auto scaled = apply(alice_, spec_);
  EXPECT_EQ(scaled->action, Declaration::Action::update);
  EXPECT_EQ(scaled->record.generation, 1u);
  EXPECT_EQ(scaled->effects,
            std::vector<std::string>{
                "submit 2 jobs to the default partition: account gaia, 1 processor, the "
                "partition's memory, for the partition's default time"});
  put(scaled->record);
  spec_.args = {"--max-model-len", "4096"};
  auto changed = apply(alice_, spec_);
  EXPECT_EQ(changed->record.generation, 2u);
  ASSERT_EQ(changed->changes.size(), 1u);
  EXPECT_EQ(changed->changes[0].path, "args");
}

TEST_F(DeclareTest, APlanSaysWhatAJobAsksFor) {
  spec_.resources.partition = "h100";
  spec_.resources.gpus = 2;
  spec_.resources.gpu_type = "h100";
  spec_.resources.cpus_per_task = 16;
  spec_.resources.mem_mib = 96 * 1024;
  spec_.resources.time_limit = hours(8);
  auto made = apply(alice_, spec_);
  EXPECT_EQ(made->effects,
            std::vector<std::string>{"submit 1 job to partition h100: account gaia, 2 h100 GPUs, "
                                     "16 processors, 96G memory, for 8h"});
  for (const FieldChange& change : made->changes) EXPECT_NE(change.path, "");
}

TEST_F(DeclareTest, OthersServicesAreNotTouched) {
  put(apply(operator_, spec_)->record);
  store::Change grant;
  grant.put_grants.push_back({"qwen", "alice", "ops", kDeclaredAt});
  ASSERT_TRUE(state_->commit(grant).ok());
  EXPECT_EQ(apply(alice_, spec_).error().code, Code::permission_denied);
}

TEST_F(DeclareTest, ASelfRegisteredNameIsTaken) {
  LeaseRecord lease;
  lease.id = "l";
  lease.public_name = "alice/qwen";
  lease.owner = "alice";
  store::Change change;
  change.put_leases.push_back(lease);
  ASSERT_TRUE(state_->commit(change).ok());
  EXPECT_EQ(apply(alice_, spec_).error().code, Code::conflict);
}

TEST_F(DeclareTest, LoopbackNeedsTheSitesLeave) {
  spec_.isolation = Isolation::loopback;
  EXPECT_EQ(apply(alice_, spec_).error().code, Code::permission_denied);
  EXPECT_TRUE(declare(*state_, alice_, "", spec_, LoopbackPolicy::allowed, kDeclaredAt).ok());
}

}  // namespace
}  // namespace berth::controller
