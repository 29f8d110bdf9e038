#include "controller/state.h"

#include <gtest/gtest.h>

#include "store/memory_store.h"

namespace berth::controller {
namespace {

ServiceRecord service(const std::string& name) {
  ServiceRecord s;
  s.owner = "alice";
  s.public_name = name;
  return s;
}

ReplicaRecord ended_replica(const std::string& key, const std::string& service, int64_t at_ms) {
  ReplicaRecord r;
  r.key = key;
  r.service = service;
  r.state = ReplicaState::ended;
  r.intended_at = from_ms(at_ms);
  return r;
}

TEST(State, ReadsWhatTheStoreHolds) {
  store::MemoryStore store;
  store::Change change;
  change.put_services = {service("alice/m")};
  ASSERT_TRUE(store.commit(change).ok());
  Result<State> state = State::load(store);
  ASSERT_TRUE(state.ok());
  ASSERT_NE(state->service("alice/m"), nullptr);
  EXPECT_EQ(state->service("alice/x"), nullptr);
}

TEST(State, AFailedCommitChangesNothing) {
  store::MemoryStore store;
  State state = State::load(store).value();
  uint64_t before = state.revision();
  store.fail_next(1, unavailable("disk full", Source::system));
  store::Change change;
  change.put_services = {service("alice/m")};
  Status failed = state.commit(change);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::unavailable);
  EXPECT_EQ(state.service("alice/m"), nullptr);
  EXPECT_EQ(state.revision(), before);
  ASSERT_TRUE(state.commit(change).ok());
  EXPECT_NE(state.service("alice/m"), nullptr);
  EXPECT_GT(state.revision(), before);
}

TEST(State, RenewalsStayInMemory) {
  store::MemoryStore store;
  State state = State::load(store).value();
  LeaseRecord lease;
  lease.id = "l1";
  lease.expires_at = from_ms(10'000);
  store::Change change;
  change.put_leases = {lease};
  ASSERT_TRUE(state.commit(change).ok());
  EXPECT_TRUE(state.renew_lease("l1", from_ms(9'000), from_ms(19'000)));
  EXPECT_FALSE(state.renew_lease("l2", from_ms(9'000), from_ms(19'000)));
  EXPECT_EQ(state.lease("l1")->expires_at, from_ms(19'000));
  EXPECT_EQ(store.load()->leases.at("l1").expires_at, from_ms(10'000));
}

TEST(State, ForgetsOldEndedReplicasTheWayAReloadDoes) {
  store::MemoryStore store;
  State state = State::load(store).value();
  store::Change change;
  change.put_services = {service("alice/m"), service("alice/n")};
  for (int i = 0; i < 30; ++i)
    change.put_replicas.push_back(ended_replica("k" + std::to_string(i), "alice/m", 1000 + i));
  ASSERT_TRUE(state.commit(change).ok());
  EXPECT_EQ(state.snapshot().replicas.size(), store::kEndedInSnapshot);
  EXPECT_EQ(state.replica("k9"), nullptr);
  EXPECT_NE(state.replica("k10"), nullptr);
  EXPECT_EQ(store.load()->replicas, state.snapshot().replicas);
  EXPECT_EQ(store.history("alice/m", 100)->size(), 30u);

  store::Change removal;
  removal.remove_services = {"alice/m"};
  ASSERT_TRUE(state.commit(removal).ok());
  EXPECT_TRUE(state.snapshot().replicas.empty());
  EXPECT_TRUE(store.load()->replicas.empty());
}

}  // namespace
}  // namespace berth::controller
