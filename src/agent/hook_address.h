// Which address the gateway is told to dial.
//
// `hostname` is never asked: on many nodes /etc/hosts maps it to 127.0.1.1 (A23). The policy says
// where the address comes from (AgentOptions::address_policy); a loopback address is registered
// only when Berth itself was reached over loopback, so that both are on one machine.
// choose_address() is pure; the others look at the machine. Errors name the policy and what was
// found. Threading: any; resolving a NodeAddr may block.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/address.h"

namespace berth::agent {

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric, without scope
  bool is_loopback = false;
};

std::vector<InterfaceAddress> interface_addresses();

// The local address from which packets to `remote` leave; nullopt: no route.
std::optional<std::string> source_address_to(const runtime::Address& remote);

struct AddressFacts {
  std::vector<InterfaceAddress> interfaces;
  std::vector<std::string> node_addresses;  // NodeAddr, resolved to numeric forms; may be empty
  std::string node_address_text;            // NodeAddr as Slurm has it
  bool berth_is_local = false;              // Berth was reached over loopback or a UNIX socket
  std::optional<std::string> source;        // see source_address_to
};

struct ChosenAddress {
  std::string registered;  // numeric, what the gateway dials
  std::string bind;        // where the front listens: the same, or any when it is not this node's
};

Result<ChosenAddress> choose_address(std::string_view policy, const AddressFacts& facts);

bool is_loopback_address(std::string_view address);
// Whether `address` is inside "10.0.0.0/8" or "fd00::/8"; nullopt: that is no network.
std::optional<bool> in_network(std::string_view address, std::string_view network);
// "1.2.3.4:80", "[::1]:80".
std::string join_host_port(const std::string& host, uint16_t port);

}  // namespace berth::agent
