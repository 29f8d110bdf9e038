#include "identity/peer_cred.h"

#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <vector>

namespace berth::identity {
namespace {

// Calls getpwuid_r or getpwnam_r with a buffer that grows as needed.
template <class Ask>
std::optional<passwd> look_up(std::vector<char>& buffer, Ask ask) {
  buffer.resize(4096);
  for (;;) {
    passwd entry{};
    passwd* found = nullptr;
    int rc = ask(&entry, buffer.data(), buffer.size(), &found);
    if (rc == ERANGE && buffer.size() < (1u << 20)) {
      buffer.resize(buffer.size() * 2);
      continue;
    }
    if (rc == EINTR) continue;
    if (rc != 0 || !found) return std::nullopt;
    return entry;
  }
}

}  // namespace

Result<PeerCred> peer_cred(int fd) {
  sockaddr_un address{};
  socklen_t address_size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_size) != 0)
    return system_error("asking who is on the other side of a socket", errno);
  // On TCP sockets SO_PEERCRED succeeds, with ids that mean nothing.
  if (address.sun_family != AF_UNIX)
    return unavailable("the socket is no UNIX socket: its peer has no user id", Source::system);
  ucred cred{};
  socklen_t size = sizeof cred;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
    return system_error("asking who is on the other side of a socket", errno);
  if (cred.pid == 0 || cred.uid == static_cast<uid_t>(-1))
    return unavailable("the socket is not connected: it has no peer", Source::system);
  return PeerCred{cred.uid, cred.gid, cred.pid};
}

std::optional<std::string> user_name(uid_t uid) {
  std::vector<char> buffer;
  auto entry = look_up(buffer, [uid](passwd* e, char* b, size_t n, passwd** found) {
    return getpwuid_r(uid, e, b, n, found);
  });
  if (!entry) return std::nullopt;
  return std::string(entry->pw_name);
}

std::optional<uid_t> user_id(const std::string& name) {
  std::vector<char> buffer;
  auto entry = look_up(buffer, [&name](passwd* e, char* b, size_t n, passwd** found) {
    return getpwnam_r(name.c_str(), e, b, n, found);
  });
  if (!entry) return std::nullopt;
  return entry->pw_uid;
}

}  // namespace berth::identity
