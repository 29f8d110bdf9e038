#include "runtime/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include <charconv>
#include <cstddef>

namespace berth::runtime {

namespace {

Error bad_address(std::string_view text, std::string_view why) {
  return invalid_argument("address \"" + std::string(text) + "\" " + std::string(why) +
                          "; use HOST:PORT with a numeric host, [IPV6]:PORT or unix:/PATH");
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  Address out;
  if (text.starts_with("unix:")) {
    std::string_view path = text.substr(5);
    auto& un = out.storage_.un;
    if (path.empty()) return bad_address(text, "has no path");
    if (path.find('\0') != path.npos) return bad_address(text, "holds a NUL byte");
    if (path.size() >= sizeof un.sun_path) {
      return invalid_argument("path too long (" + std::to_string(path.size()) +
                              " > 107 bytes) for a UNIX socket: " + std::string(path));
    }
    un.sun_family = AF_UNIX;
    memcpy(un.sun_path, path.data(), path.size());
    out.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    return out;
  }
  size_t colon = text.rfind(':');
  if (colon == text.npos) return bad_address(text, "has no port");
  std::string_view port_text = text.substr(colon + 1);
  uint16_t port = 0;
  auto [end, ec] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (ec != std::errc() || end != port_text.data() + port_text.size() || port_text.empty())
    return bad_address(text, "has no valid port");
  std::string host(text.substr(0, colon));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(out.storage_.any);
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    if (inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &in6.sin6_addr) != 1)
      return bad_address(text, "is not a numeric IPv6 address");
    out.size_ = sizeof in6;
    return out;
  }
  auto& in4 = reinterpret_cast<sockaddr_in&>(out.storage_.any);
  in4.sin_family = AF_INET;
  in4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &in4.sin_addr) != 1)
    return bad_address(text, "is not a numeric address");
  out.size_ = sizeof in4;
  return out;
}

Address Address::from_sockaddr(const sockaddr* addr, socklen_t size) {
  Address out;
  if (size > sizeof out.storage_) size = sizeof out.storage_;
  memcpy(&out.storage_, addr, size);
  out.size_ = size;
  return out;
}

Address Address::loopback(uint16_t port) {
  Address out;
  auto& in4 = reinterpret_cast<sockaddr_in&>(out.storage_.any);
  in4.sin_family = AF_INET;
  in4.sin_port = htons(port);
  in4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.size_ = sizeof in4;
  return out;
}

std::string Address::unix_path() const {
  if (!is_unix() || size_ <= offsetof(sockaddr_un, sun_path)) return {};
  size_t n = size_ - offsetof(sockaddr_un, sun_path);
  return {storage_.un.sun_path, strnlen(storage_.un.sun_path, n)};
}

uint16_t Address::port() const {
  if (family() == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in&>(storage_.any).sin_port);
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(storage_.any).sin6_port);
  return 0;
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage_.any).sin_addr, text,
              sizeof text);
  } else if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(storage_.any).sin6_addr, text,
              sizeof text);
  }
  return text;
}

std::string Address::to_string() const {
  if (is_unix()) return "unix:" + unix_path();
  if (family() == AF_INET6) return "[" + host() + "]:" + std::to_string(port());
  return host() + ":" + std::to_string(port());
}

}  // namespace berth::runtime
