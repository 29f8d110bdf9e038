// Where the engine and the front listen.
//
// A port is chosen by binding it, never computed from a job's id (A01): the kernel knows what is
// free, also beside jobs that know nothing of Berth. For an engine on a loopback port there is a
// gap between the choice and the engine's own bind; listener_of() tells afterwards whose listener
// it became.
// Errors name the range. Threading: any. Cost: a bind and a close a candidate.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::agent {

struct PortRange {
  uint16_t first = 0;  // 0: any free port
  uint16_t last = 0;

  bool any() const { return first == 0; }
};

// "" or "20000-20100" or "20000".
Result<PortRange> parse_port_range(std::string_view text);

// A TCP port of `host` that nobody has: the first free one of the range, counted from a start that
// differs between processes, so that two agents seldom try the same.
Result<uint16_t> choose_port(const std::string& host, PortRange range);

// The port inside a private network namespace, where every port is free.
inline constexpr uint16_t kNamespacePort = 8000;

// Whose listener is on a TCP port of this machine.
struct ListenerOwner {
  uid_t uid = 0;
  bool in_tree = false;  // one of the given processes holds it
};
std::optional<ListenerOwner> listener_of(uint16_t port, const std::vector<pid_t>& tree);

}  // namespace berth::agent
