// MUNGE credentials: who is the user on another machine of the cluster, without a password.
//
// libmunge is opened at run time (libmunge.so.2), so that the binary also runs where there is
// none. A credential carries the caller's uid and gid as munged saw them, and a payload.
//
// Inputs: the socket of munged; empty means libmunge's default, /run/munge/munge.socket.2.
// Guarantees: decode() returns a payload only for a credential that is whole, in time, and seen
// for the first time on this machine. Non-guarantees: replay on another machine is not noticed;
// bind the credential to what it vouches for (Berth's payload is a digest of the request's body).
// Ownership: value. Threading: any thread, several at once. Errors: `unavailable` without library
// or daemon, `unauthenticated` for a credential that does not hold; nothing of a credential is in
// a message. Cost: one round trip to the local munged, under 1 ms when it is well; it blocks, so
// call it from the blocking pool.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::identity {

struct MungeCredential {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string payload;
};

class Munge {
 public:
  // Opens the library; does not talk to munged yet.
  static Result<Munge> open(std::string socket_path = "");

  Result<std::string> encode(std::string_view payload) const;
  Result<MungeCredential> decode(std::string_view credential) const;

 private:
  explicit Munge(std::string socket_path) : socket_path_(std::move(socket_path)) {}
  std::string socket_path_;
};

}  // namespace berth::identity
