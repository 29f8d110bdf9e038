// What every store does, whatever it is made of.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "store/memory_store.h"
#include "store/sqlite_store.h"

namespace berth::store {
namespace {

// Makes and, where it has a disk, reopens a store.
class Harness {
 public:
  virtual ~Harness() = default;
  virtual Store& store() = 0;
  virtual void reopen() = 0;
};

class MemoryHarness : public Harness {
 public:
  Store& store() override { return store_; }
  void reopen() override {}

 private:
  MemoryStore store_;
};

class SqliteHarness : public Harness {
 public:
  SqliteHarness() {
    char name[] = "/tmp/berth-contract-XXXXXX";
    dir_ = mkdtemp(name);
    reopen();
  }
  ~SqliteHarness() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  Store& store() override { return *store_; }
  void reopen() override {
    store_.reset();
    store_ = SqliteStore::open(dir_).value();
  }

 private:
  std::string dir_;
  std::unique_ptr<SqliteStore> store_;
};

using Make = std::function<std::unique_ptr<Harness>()>;

class StoreContract : public testing::TestWithParam<std::pair<const char*, Make>> {
 protected:
  void SetUp() override { harness_ = GetParam().second(); }
  Store& store() { return harness_->store(); }
  // As it is on disk.
  Snapshot reloaded() {
    harness_->reopen();
    return store().load().value();
  }
  std::unique_ptr<Harness> harness_;
};

ServiceRecord service(const std::string& name, uint64_t generation = 1) {
  ServiceRecord s;
  s.public_name = name;
  s.owner = "alice";
  s.generation = generation;
  s.spec.args = {"--x", "y z"};
  return s;
}

ReplicaRecord replica(const std::string& key, ReplicaState state, int64_t intended_ms) {
  ReplicaRecord r;
  r.key = key;
  r.service = "alice/m";
  r.state = state;
  r.intended_at = from_ms(intended_ms);
  return r;
}

KeyRecord key(const std::string& id, const std::string& digest) {
  KeyRecord k;
  k.id = id;
  k.digest = digest;
  return k;
}

TEST_P(StoreContract, StartsEmpty) {
  Snapshot s = store().load().value();
  EXPECT_TRUE(s.services.empty() && s.replicas.empty() && s.leases.empty() && s.keys.empty() &&
              s.grants.empty());
  EXPECT_TRUE(store().events("", 10)->empty());
  EXPECT_TRUE(store().commit({}).ok());
}

TEST_P(StoreContract, KeepsReplacesAndRemovesEverything) {
  LeaseRecord lease;
  lease.id = "l1";
  lease.detail = "first";
  Change change;
  change.put_services = {service("alice/m"), service("alice/n")};
  change.put_replicas = {replica("k1", ReplicaState::ready, 1)};
  change.put_leases = {lease};
  change.put_keys = {key("k_1", "d1")};
  change.put_grants = {{"m", "alice", "root", from_ms(5)}};
  change.put_scripts = {{"k1", "#!/bin/sh\n"}};
  ASSERT_TRUE(store().commit(change).ok());
  Snapshot s = reloaded();
  EXPECT_EQ(s.services.at("alice/m"), change.put_services[0]);
  EXPECT_EQ(s.replicas.at("k1"), change.put_replicas[0]);
  EXPECT_EQ(s.leases.at("l1"), lease);
  EXPECT_EQ(s.keys.at("k_1"), change.put_keys[0]);
  EXPECT_EQ(s.grants.at("m"), change.put_grants[0]);
  EXPECT_EQ(store().script("k1").value(), "#!/bin/sh\n");
  EXPECT_EQ(store().script("k2").value(), std::nullopt);

  Change next;
  lease.detail = "second";
  next.put_leases = {lease};
  next.put_replicas = {replica("k1", ReplicaState::draining, 1)};
  next.put_services = {service("alice/m", 2)};
  next.remove_services = {"alice/n"};
  next.remove_grants = {"m"};
  ASSERT_TRUE(store().commit(next).ok());
  s = reloaded();
  EXPECT_EQ(s.leases.at("l1").detail, "second");
  EXPECT_EQ(s.replicas.at("k1").state, ReplicaState::draining);
  EXPECT_EQ(s.services.at("alice/m").generation, 2u);
  EXPECT_EQ(s.services.size(), 1u);
  EXPECT_TRUE(s.grants.empty());

  Change last;
  last.remove_leases = {"l1", "never there"};
  last.remove_replicas = {"k1"};
  ASSERT_TRUE(store().commit(last).ok());
  s = reloaded();
  EXPECT_TRUE(s.leases.empty());
  EXPECT_TRUE(s.replicas.empty());
  EXPECT_EQ(store().script("k1").value(), std::nullopt);
}

TEST_P(StoreContract, AnOlderGenerationIsAConflictAndNothingIsHalfWritten) {
  Change change;
  change.put_services = {service("alice/m", 3)};
  ASSERT_TRUE(store().commit(change).ok());
  Change stale;
  stale.put_services = {service("alice/new"), service("alice/m", 2)};
  stale.put_replicas = {replica("k1", ReplicaState::submitted, 1)};
  stale.events.resize(1);
  Status refused = store().commit(stale);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::conflict);
  Snapshot s = reloaded();
  EXPECT_EQ(s.services.size(), 1u);
  EXPECT_EQ(s.services.at("alice/m").generation, 3u);
  EXPECT_TRUE(s.replicas.empty());
  EXPECT_TRUE(store().events("", 10)->empty());
}

TEST_P(StoreContract, TwoKeysWithOneDigestAreAConflict) {
  Change change;
  change.put_keys = {key("k_1", "same")};
  ASSERT_TRUE(store().commit(change).ok());
  ASSERT_TRUE(store().commit(change).ok());  // the same key again is a replacement
  Change second;
  second.put_keys = {key("k_2", "same")};
  Status refused = store().commit(second);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::conflict);
  EXPECT_EQ(reloaded().keys.size(), 1u);
}

TEST_P(StoreContract, LoadsTheNewestOfTheEndedAndKeepsThemAll) {
  Change change;
  change.put_services = {service("alice/m")};
  for (int i = 0; i < 30; ++i)
    change.put_replicas.push_back(
        replica("k" + std::to_string(100 + i), ReplicaState::ended, 1000 + i));
  change.put_replicas.push_back(replica("alive", ReplicaState::ready, 1));
  ASSERT_TRUE(store().commit(change).ok());
  Snapshot s = reloaded();
  EXPECT_EQ(s.replicas.size(), kEndedInSnapshot + 1);
  EXPECT_TRUE(s.replicas.contains("alive"));
  EXPECT_TRUE(s.replicas.contains("k129"));
  EXPECT_FALSE(s.replicas.contains("k109"));
  std::vector<ReplicaRecord> history = store().history("alice/m", 5).value();
  ASSERT_EQ(history.size(), 5u);
  EXPECT_EQ(history[0].key, "k129");
  EXPECT_EQ(store().history("alice/m", 100)->size(), 31u);
  EXPECT_TRUE(store().history("alice/other", 100)->empty());

  Change removal;
  removal.remove_services = {"alice/m"};
  removal.remove_replicas = {"alive"};
  ASSERT_TRUE(store().commit(removal).ok());
  EXPECT_TRUE(reloaded().replicas.empty());
  EXPECT_EQ(store().history("alice/m", 100)->size(), 30u);
}

TEST_P(StoreContract, EventsComeNewestFirstByService) {
  Change change;
  for (int i = 0; i < 5; ++i) {
    EventRecord e;
    e.at = from_ms(i);
    e.service = i % 2 ? "alice/m" : "alice/n";
    e.replica_key = "k";
    e.kind = "ready";
    e.text = std::to_string(i);
    change.events.push_back(e);
  }
  ASSERT_TRUE(store().commit(change).ok());
  harness_->reopen();
  std::vector<EventRecord> all = store().events("", 3).value();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].text, "4");
  EXPECT_GT(all[0].id, all[1].id);
  EXPECT_EQ(all[0].at, from_ms(4));
  std::vector<EventRecord> of_m = store().events("alice/m", 10).value();
  ASSERT_EQ(of_m.size(), 2u);
  EXPECT_EQ(of_m[0].text, "3");
  EXPECT_EQ(of_m[1].kind, "ready");
}

TEST_P(StoreContract, IsReadDuringCommits) {
  constexpr int kCommits = 200;
  std::atomic<bool> over = false;
  std::atomic<int> reads = 0;
  std::thread reader([&] {
    size_t most = 0;
    do {
      auto seen = store().events("alice/m", 1000);
      ASSERT_TRUE(seen.ok()) << seen.error().message;
      EXPECT_GE(seen->size(), most);  // never less than before
      most = seen->size();
      ++reads;
    } while (!over);
  });
  for (int i = 0; i < kCommits; ++i) {
    Change change;
    EventRecord e;
    e.service = "alice/m";
    change.events.push_back(e);
    EXPECT_TRUE(store().commit(change).ok());
    EXPECT_EQ(store().events("alice/m", 1000)->size(), static_cast<size_t>(i) + 1);
  }
  over = true;
  reader.join();
  EXPECT_GT(reads, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    testing::Values(
        std::pair<const char*, Make>("memory", [] { return std::make_unique<MemoryHarness>(); }),
        std::pair<const char*, Make>("sqlite", [] { return std::make_unique<SqliteHarness>(); })),
    [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace berth::store
