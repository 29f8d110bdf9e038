#include "agent/hook_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::agent {
namespace {

using ::testing::HasSubstr;

AddressFacts node() {
  AddressFacts f;
  f.interfaces = {{"lo", "127.0.0.1", true},
                  {"eth0", "192.168.7.4", false},
                  {"ib0", "10.11.0.4", false},
                  {"ib0", "fd00::4", false}};
  f.source = "192.168.7.4";
  return f;
}

std::string chosen(std::string_view policy, const AddressFacts& facts) {
  auto a = choose_address(policy, facts);
  return a ? a->registered + " on " + a->bind : "error: " + a.error().message;
}

// A23
TEST(AddressPolicy, TableOfPolicies) {
  AddressFacts slurm = node();
  slurm.node_address_text = "n4";
  slurm.node_addresses = {"10.11.0.4"};
  EXPECT_EQ(chosen("auto", slurm), "10.11.0.4 on 10.11.0.4");
  EXPECT_EQ(chosen("slurm", slurm), "10.11.0.4 on 10.11.0.4");
  EXPECT_EQ(chosen("auto", node()), "192.168.7.4 on 192.168.7.4");
  EXPECT_EQ(chosen("10.0.0.0/8", node()), "10.11.0.4 on 10.11.0.4");
  EXPECT_EQ(chosen("fd00::/8", node()), "fd00::4 on fd00::4");
  EXPECT_EQ(chosen("interface:ib0", node()), "10.11.0.4 on 10.11.0.4");
  EXPECT_EQ(chosen("172.16.0.9", node()), "172.16.0.9 on 0.0.0.0");
  EXPECT_EQ(chosen("fd00::9", node()), "fd00::9 on ::");
  EXPECT_THAT(chosen("slurm", node()), HasSubstr("Slurm named no NodeAddr"));
  EXPECT_THAT(chosen("172.16.0.0/12", node()), HasSubstr("no address of this node is inside"));
  EXPECT_THAT(chosen("interface:hsn0", node()), HasSubstr("ib0 10.11.0.4"));
  EXPECT_THAT(chosen("frobnicate", node()), HasSubstr("must be auto, slurm"));
  EXPECT_THAT(chosen("10.0.0.0/40", node()), HasSubstr("must be auto"));
}

// A23: NodeAddr that /etc/hosts maps to 127.0.1.1.
TEST(AddressPolicy, LoopbackOnlyWhenBerthIsOnThisMachine) {
  AddressFacts f = node();
  f.node_address_text = "n4";
  f.node_addresses = {"127.0.1.1"};
  EXPECT_EQ(chosen("auto", f), "192.168.7.4 on 192.168.7.4");
  EXPECT_THAT(chosen("slurm", f), HasSubstr("127.0.1.1 is a loopback address"));
  EXPECT_THAT(chosen("127.0.0.2", f), HasSubstr("loopback"));
  EXPECT_THAT(chosen("interface:lo", f), HasSubstr("loopback"));
  f.berth_is_local = true;
  EXPECT_EQ(chosen("slurm", f), "127.0.1.1 on 127.0.1.1");
  EXPECT_EQ(chosen("127.0.0.2", f), "127.0.0.2 on 127.0.0.2");
  f.node_addresses.clear();
  EXPECT_EQ(chosen("auto", f), "127.0.0.1 on 127.0.0.1");
}

TEST(AddressPolicy, NetworksAndLoopback) {
  EXPECT_EQ(in_network("10.1.2.3", "10.0.0.0/8"), true);
  EXPECT_EQ(in_network("11.1.2.3", "10.0.0.0/8"), false);
  EXPECT_EQ(in_network("10.127.0.1", "10.64.0.0/10"), true);
  EXPECT_EQ(in_network("10.128.0.1", "10.64.0.0/10"), false);
  EXPECT_EQ(in_network("1.2.3.4", "0.0.0.0/0"), true);
  EXPECT_EQ(in_network("::1", "10.0.0.0/8"), false);
  EXPECT_EQ(in_network("10.0.0.1", "10.0.0.0"), std::nullopt);
  EXPECT_EQ(in_network("10.0.0.1", "x/8"), std::nullopt);
  EXPECT_TRUE(is_loopback_address("127.3.2.1"));
  EXPECT_TRUE(is_loopback_address("::1"));
  EXPECT_FALSE(is_loopback_address("128.0.0.1"));
  EXPECT_FALSE(is_loopback_address("localhost"));
  EXPECT_EQ(join_host_port("::1", 80), "[::1]:80");
}

TEST(AddressPolicy, LooksAtThisMachine) {
  auto all = interface_addresses();
  EXPECT_THAT(all, ::testing::Contains(::testing::Field(&InterfaceAddress::is_loopback, true)));
  EXPECT_EQ(source_address_to(runtime::Address::loopback(9)), "127.0.0.1");
}

}  // namespace
}  // namespace berth::agent
