// Who is on the other side of a UNIX socket, by SO_PEERCRED: the kernel's word.
//
// The ids are those the peer had when it connected (or called listen). Seen from another user
// namespace they are mapped. Errors: `unavailable` when the fd is no connected UNIX socket.
// Cost: one system call (user_name: one look in the system's user database, which may be LDAP and
// may block).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace berth::identity {

struct PeerCred {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

Result<PeerCred> peer_cred(int fd);

// nullopt: no such user.
std::optional<std::string> user_name(uid_t uid);
std::optional<uid_t> user_id(const std::string& name);

}  // namespace berth::identity
