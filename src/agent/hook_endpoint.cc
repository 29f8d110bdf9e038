#include "agent/hook_endpoint.h"

#include <dirent.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "runtime/address.h"

namespace berth::agent {
namespace {

std::optional<uint16_t> take_port(std::string_view& text) {
  unsigned n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < 1 || n > 65535) return std::nullopt;
  text.remove_prefix(end - text.data());
  return static_cast<uint16_t>(n);
}

std::string with_port(const std::string& host, uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

// The port bound, or 0 with errno.
uint16_t try_bind(const runtime::Address& address) {
  int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  uint16_t port = 0;
  if (bind(fd, address.get(), address.size()) == 0 && listen(fd, 1) == 0) {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0)
      port = runtime::Address::from_sockaddr(reinterpret_cast<sockaddr*>(&bound), size).port();
  }
  int error = errno;
  close(fd);
  errno = error;
  return port;
}

struct Listening {
  uid_t uid = 0;
  std::string inode;
};

// The listeners on a port in /proc/net/tcp or tcp6.
void find_listeners(const char* table, uint16_t port, std::vector<Listening>& out) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream in(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    in >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
        inode;
    size_t colon = local.rfind(':');
    if (state != "0A" || colon == std::string::npos) continue;
    if (std::stoul(local.substr(colon + 1), nullptr, 16) != port) continue;
    out.push_back({static_cast<uid_t>(std::stoul(uid)), inode});
  }
}

bool holds(pid_t pid, const std::string& inode) {
  std::string folder = fmt::format("/proc/{}/fd", pid);
  DIR* dir = opendir(folder.c_str());
  if (!dir) return false;
  std::string wanted = "socket:[" + inode + "]";
  bool found = false;
  while (dirent* entry = readdir(dir)) {
    char target[64];
    ssize_t n = readlink((folder + "/" + entry->d_name).c_str(), target, sizeof target);
    if (n > 0 && std::string_view(target, n) == wanted) found = true;
  }
  closedir(dir);
  return found;
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  if (text.empty()) return PortRange{};
  std::string_view rest = text;
  PortRange range;
  auto first = take_port(rest);
  auto last = first;
  if (first && !rest.empty() && rest[0] == '-') {
    rest.remove_prefix(1);
    last = take_port(rest);
  }
  if (!first || !last || !rest.empty() || *last < *first)
    return invalid_argument(fmt::format(
        "port range \"{}\" must be two ports such as 20000-20100, the lower one first", text));
  range.first = *first;
  range.last = *last;
  return range;
}

Result<uint16_t> choose_port(const std::string& host, PortRange range) {
  auto any = runtime::Address::parse(with_port(host, 0));
  if (!any) return std::move(any).error().wrap("choosing a port");
  if (range.any()) {
    if (uint16_t port = try_bind(*any)) return port;
    return system_error(fmt::format("choosing a free port on {}", host), errno);
  }
  unsigned count = range.last - range.first + 1u;
  unsigned start = static_cast<unsigned>(getpid()) % count;
  int error = 0;
  for (unsigned i = 0; i < count; ++i) {
    auto port = static_cast<uint16_t>(range.first + (start + i) % count);
    auto address = runtime::Address::parse(with_port(host, port));
    if (!address) return std::move(address).error();
    if (try_bind(*address) != 0) return port;
    error = errno;
    // A host that is not ours will not become ours with the next port.
    if (error != EADDRINUSE && error != EACCES)
      return system_error(fmt::format("choosing a port on {}", host), error);
  }
  Error failure = system_error(
      fmt::format("no free port on {} in the range {}-{}", host, range.first, range.last), error);
  failure.message += "; give a wider range";
  return failure;
}

std::optional<ListenerOwner> listener_of(uint16_t port, const std::vector<pid_t>& tree) {
  std::vector<Listening> listeners;
  find_listeners("/proc/net/tcp", port, listeners);
  find_listeners("/proc/net/tcp6", port, listeners);
  std::optional<ListenerOwner> owner;
  for (const Listening& l : listeners) {
    if (!owner) owner = ListenerOwner{l.uid, false};
    for (pid_t pid : tree)
      if (holds(pid, l.inode)) return ListenerOwner{l.uid, true};
  }
  return owner;
}

}  // namespace berth::agent
