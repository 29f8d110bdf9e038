// Address: where a socket listens or connects, in text "1.2.3.4:80", "[::1]:80" or "unix:/path".
//
// Addresses are numeric. Names are resolved by resolve() (resolve.h), on the blocking pool.
// Environment variables (http_proxy and its kin) are never looked at.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::runtime {

class Address {
 public:
  // Refuses what is not one of the three forms, and UNIX paths over 107 bytes.
  static Result<Address> parse(std::string_view text);
  static Address from_sockaddr(const sockaddr* addr, socklen_t size);
  static Address loopback(uint16_t port);

  int family() const { return storage_.base.sa_family; }
  const sockaddr* get() const { return &storage_.base; }
  socklen_t size() const { return size_; }
  bool is_unix() const { return family() == AF_UNIX; }
  std::string unix_path() const;
  uint16_t port() const;  // 0 for UNIX sockets
  // Without the port: "1.2.3.4", "::1"; empty for UNIX sockets.
  std::string host() const;
  std::string to_string() const;

 private:
  union Storage {
    sockaddr base;
    sockaddr_storage any;
    sockaddr_un un;
  };
  Storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace berth::runtime
