#include "agent/hook_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

namespace berth::agent {
namespace {

struct Bytes {
  std::array<unsigned char, 16> data{};
  size_t size = 0;  // 4, 16; 0: no address
};

Bytes parse_bytes(std::string_view text) {
  Bytes b;
  std::string copy(text);
  if (inet_pton(AF_INET, copy.c_str(), b.data.data()) == 1) b.size = 4;
  if (b.size == 0 && inet_pton(AF_INET6, copy.c_str(), b.data.data()) == 1) b.size = 16;
  return b;
}

std::string list(const std::vector<InterfaceAddress>& all) {
  std::vector<std::string> words;
  for (const InterfaceAddress& a : all) words.push_back(a.interface + " " + a.address);
  return fmt::format("{}", fmt::join(words, ", "));
}

Error no_address(std::string_view policy, const std::string& why) {
  return invalid_argument(fmt::format("address policy \"{}\": {}", policy, why));
}

Result<ChosenAddress> checked(std::string_view policy, const std::string& address,
                              const AddressFacts& facts) {
  if (is_loopback_address(address) && !facts.berth_is_local)
    return no_address(policy,
                      fmt::format("{} is a loopback address, which a gateway on another machine "
                                  "cannot dial; name a network (10.0.0.0/8) or an interface "
                                  "(interface:ib0) of this node, which has {}",
                                  address, list(facts.interfaces)));
  for (const InterfaceAddress& a : facts.interfaces)
    if (a.address == address || (a.is_loopback && is_loopback_address(address)))
      return ChosenAddress{address, address};
  // Behind address translation: reachable there, not ours to bind.
  bool six = address.find(':') != std::string::npos;
  return ChosenAddress{address, six ? "::" : "0.0.0.0"};
}

Result<ChosenAddress> by_node(std::string_view policy, const AddressFacts& facts) {
  if (facts.node_addresses.empty())
    return no_address(policy, facts.node_address_text.empty()
                                  ? "Slurm named no NodeAddr for this node"
                                  : fmt::format("NodeAddr {} of this node does not resolve",
                                                facts.node_address_text));
  // Of several, one that is not loopback, unless Berth is on this machine.
  const std::string* best = &facts.node_addresses.front();
  for (const std::string& a : facts.node_addresses)
    if (is_loopback_address(*best) && !is_loopback_address(a) && !facts.berth_is_local) best = &a;
  return checked(policy, *best, facts);
}

Result<ChosenAddress> automatic(const AddressFacts& facts) {
  if (!facts.node_addresses.empty())
    if (auto node = by_node("auto", facts)) return node;
  if (facts.berth_is_local) return ChosenAddress{"127.0.0.1", "127.0.0.1"};
  if (facts.source) return checked("auto", *facts.source, facts);
  return no_address("auto", "no route to Berth, and no NodeAddr from Slurm");
}

}  // namespace

bool is_loopback_address(std::string_view address) {
  Bytes b = parse_bytes(address);
  if (b.size == 4) return b.data[0] == 127;
  static constexpr std::array<unsigned char, 16> kSix{0, 0, 0, 0, 0, 0, 0, 0,
                                                      0, 0, 0, 0, 0, 0, 0, 1};
  return b.size == 16 && b.data == kSix;
}

std::optional<bool> in_network(std::string_view address, std::string_view network) {
  size_t slash = network.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  Bytes base = parse_bytes(network.substr(0, slash));
  std::string_view digits = network.substr(slash + 1);
  unsigned bits = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (base.size == 0 || error != std::errc() || end != digits.data() + digits.size() ||
      bits > base.size * 8)
    return std::nullopt;
  Bytes a = parse_bytes(address);
  if (a.size != base.size) return false;
  for (size_t i = 0; i < a.size && bits > 0; ++i) {
    unsigned take = bits < 8 ? bits : 8;
    unsigned char mask = static_cast<unsigned char>(0xff << (8 - take));
    if ((a.data[i] & mask) != (base.data[i] & mask)) return false;
    bits -= take;
  }
  return true;
}

std::string join_host_port(const std::string& host, uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> out;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return out;
  for (ifaddrs* i = first; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (i->ifa_addr->sa_family == AF_INET) {
      const auto* a = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
      inet_ntop(AF_INET, &a->sin_addr, text, sizeof text);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      const auto* a = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr)) continue;  // useless without its interface
      inet_ntop(AF_INET6, &a->sin6_addr, text, sizeof text);
    }
    if (*text) out.push_back({i->ifa_name, text, (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(first);
  return out;
}

std::optional<std::string> source_address_to(const runtime::Address& remote) {
  if (remote.is_unix()) return std::nullopt;
  // Connecting a UDP socket sends nothing; the kernel only looks up the route.
  int fd = socket(remote.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  std::optional<std::string> out;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (connect(fd, remote.get(), remote.size()) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0)
    out = runtime::Address::from_sockaddr(reinterpret_cast<sockaddr*>(&own), size).host();
  close(fd);
  return out;
}

Result<ChosenAddress> choose_address(std::string_view policy, const AddressFacts& facts) {
  if (policy.empty() || policy == "auto") return automatic(facts);
  if (policy == "slurm") return by_node(policy, facts);
  if (parse_bytes(policy).size > 0) return checked(policy, std::string(policy), facts);
  if (policy.starts_with("interface:")) {
    std::string_view name = policy.substr(10);
    const InterfaceAddress* found = nullptr;
    for (const InterfaceAddress& a : facts.interfaces) {
      bool better = !found || (found->address.find(':') != std::string::npos &&
                               a.address.find(':') == std::string::npos);  // IPv4 first
      if (a.interface == name && better) found = &a;
    }
    if (!found)
      return no_address(policy, fmt::format("no such interface with an address; this node has {}",
                                            list(facts.interfaces)));
    return checked(policy, found->address, facts);
  }
  if (in_network("0.0.0.0", policy)) {
    for (const InterfaceAddress& a : facts.interfaces)
      if (in_network(a.address, policy) == true) return checked(policy, a.address, facts);
    return no_address(policy, fmt::format("no address of this node is inside; it has {}",
                                          list(facts.interfaces)));
  }
  return no_address(policy,
                    "must be auto, slurm, an address, a network such as 10.0.0.0/8, or "
                    "interface:NAME");
}

}  // namespace berth::agent
