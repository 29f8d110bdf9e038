#include "route/route_table.h"

#include <gtest/gtest.h>

namespace berth::route {
namespace {

Route make_route(std::string name, std::string owner, std::string project) {
  Route r;
  r.public_name = std::move(name);
  r.owner = std::move(owner);
  r.project = std::move(project);
  return r;
}

Caller make_caller(std::string user, std::string project) {
  Caller c;
  c.user = std::move(user);
  c.project = std::move(project);
  return c;
}

TEST(RouteTable, NobodyPosesAsABareName) {
  RouteTable table({make_route("qwen", "ops", "site"), make_route("bob/qwen", "bob", "research")});
  Caller bob = make_caller("bob", "research");
  // The bare name exists, so it is meant, even though bob has one of the same name.
  EXPECT_EQ(table.find("qwen", bob), nullptr) << "bob may not use it";
  EXPECT_EQ(table.find("bob/qwen", bob)->owner, "bob");
}

TEST(RouteTable, OwnNamesNeedNoPrefix) {
  RouteTable table({make_route("bob/tiny", "bob", "research")});
  EXPECT_EQ(table.find("tiny", make_caller("bob", "x"))->public_name, "bob/tiny");
  EXPECT_EQ(table.find("tiny", make_caller("alice", "research")), nullptr);
  EXPECT_NE(table.find("bob/tiny", make_caller("alice", "research")), nullptr) << "pays for it";
  EXPECT_EQ(table.find("bob/tiny", make_caller("carol", "other")), nullptr);
}

TEST(RouteTable, AccessLists) {
  Route r = make_route("m", "ops", "site");
  r.access.groups = {"lab"};
  Caller c = make_caller("carol", "other");
  EXPECT_FALSE(may_use(r, c));
  c.groups = {"lab"};
  EXPECT_TRUE(may_use(r, c));
  EXPECT_FALSE(may_use(r, Caller{})) << "an empty caller matches no list";
  r.access.scope = AccessSpec::Scope::everybody;
  EXPECT_TRUE(may_use(r, Caller{}));
}

TEST(Pick, FewestOutstandingThenRotates) {
  Route r = make_route("m", "o", "p");
  for (auto id : {"a", "b", "c"}) {
    Target t;
    t.lease_id = id;
    t.load = std::make_shared<ReplicaLoad>();
    r.targets.push_back(t);
  }
  EXPECT_EQ(pick(r, 0, {})->lease_id, "a");
  EXPECT_EQ(pick(r, 1, {})->lease_id, "b");
  r.targets[1].load->outstanding = 2;
  r.targets[0].load->outstanding = 1;
  EXPECT_EQ(pick(r, 1, {})->lease_id, "c");
  EXPECT_EQ(pick(r, 1, {"c"})->lease_id, "a");
  EXPECT_EQ(pick(r, 0, {"a", "b", "c"}), nullptr);
}

TEST(KeyTable, ExpiredIsUnknown) {
  KeyTable::Entry e;
  e.expires_at = from_ms(1000);
  KeyTable table({{"d1", e}});
  EXPECT_NE(table.find("d1", from_ms(999)), nullptr);
  EXPECT_EQ(table.find("d1", from_ms(1000)), nullptr);
  EXPECT_EQ(table.find("d2", from_ms(0)), nullptr);
}

}  // namespace
}  // namespace berth::route
