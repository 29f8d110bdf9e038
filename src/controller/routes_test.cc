#include "controller/routes.h"

#include <gtest/gtest.h>

namespace berth::controller {
namespace {

LeaseRecord make_lease(std::string id, std::string name, LeaseState state) {
  LeaseRecord l;
  l.id = std::move(id);
  l.public_name = std::move(name);
  l.owner = "bob";
  l.project = "research";
  l.address = "10.0.0.5:4000";
  l.state = state;
  return l;
}

TEST(Routes, SelfRegisteredLeasesOfOneNameAreOneRoute) {
  store::Snapshot s;
  s.leases["a"] = make_lease("a", "bob/q", LeaseState::loading);
  s.leases["b"] = make_lease("b", "bob/q", LeaseState::ready);
  s.leases["c"] = make_lease("c", "bob/r", LeaseState::loading);
  s.leases["e"] = make_lease("e", "bob/s", LeaseState::draining);
  s.leases["d"] = make_lease("d", "declared", LeaseState::ready);
  s.leases["d"].replica_key = "berth-1";
  LoadTable loads;
  auto routes = self_registered_routes(s, loads);
  ASSERT_EQ(routes.size(), 2u) << "bob/s leaves the catalogue as soon as it drains";
  EXPECT_EQ(routes[0].public_name, "bob/q");
  EXPECT_EQ(routes[0].status, ServiceStatus::ready);
  ASSERT_EQ(routes[0].targets.size(), 1u) << "only the ready one takes requests";
  EXPECT_EQ(routes[0].targets[0].lease_id, "b");
  EXPECT_EQ(routes[1].status, ServiceStatus::starting);
  EXPECT_TRUE(routes[1].targets.empty());
}

TEST(Routes, LoadSurvivesANewSnapshot) {
  store::Snapshot s;
  s.leases["b"] = make_lease("b", "bob/q", LeaseState::ready);
  LoadTable loads;
  auto first = self_registered_routes(s, loads);
  first[0].targets[0].load->outstanding = 3;
  loads.keep_only(s.leases);
  EXPECT_EQ(self_registered_routes(s, loads)[0].targets[0].load->outstanding, 3);
  s.leases.clear();
  loads.keep_only(s.leases);
  EXPECT_EQ(loads.size(), 0u);
  EXPECT_EQ(first[0].targets[0].load->outstanding, 3) << "whoever is in flight still holds it";
}

TEST(Routes, RevokedKeysAreLeftOut) {
  store::Snapshot s;
  KeyRecord k;
  k.id = "k_1";
  k.digest = "d1";
  k.user = "bob";
  k.role = KeyRecord::Role::operator_;
  s.keys["k_1"] = k;
  k.id = "k_2";
  k.digest = "d2";
  k.revoked_at = from_ms(5);
  s.keys["k_2"] = k;
  auto table = key_table(s);
  ASSERT_NE(table->find("d1", from_ms(10)), nullptr);
  EXPECT_EQ(table->find("d1", from_ms(10))->caller.role, route::Caller::Role::operator_);
  EXPECT_EQ(table->find("d2", from_ms(10)), nullptr);
}

}  // namespace
}  // namespace berth::controller
