#include "proto/http1_fields.h"

#include <cstring>

namespace berth::proto {

namespace {

// Whether the token at `p` begins with `lower`. Setting bit 0x20 lowers letters, and no other
// character of a token becomes a letter, a digit or a hyphen by it.
template <size_t N>
bool begins(const char* p, const char (&lower)[N]) {
  constexpr size_t n = N - 1;
  if constexpr (n >= 8) {
    uint64_t different = 0;
    auto compare = [&](size_t at) {
      uint64_t a, b;
      memcpy(&a, p + at, 8);
      memcpy(&b, lower + at, 8);
      different |= (a | 0x2020202020202020u) ^ b;
    };
    for (size_t at = 0; at + 8 < n; at += 8) compare(at);
    compare(n - 8);
    return different == 0;
  } else {
    for (size_t i = 0; i < n; i++) {
      if ((p[i] | 0x20) != lower[i]) return false;
    }
    return true;
  }
}

}  // namespace

FieldName field_name(std::string_view token) {
  using enum FieldName;
  const char* p = token.data();
  switch (token.size()) {
    case 2:
      if (begins(p, "te")) return te;
      break;
    case 4:
      if (begins(p, "host")) return host;
      break;
    case 6:
      if (begins(p, "cookie")) return cookie;
      if (begins(p, "expect")) return expect;
      if (begins(p, "origin")) return origin;
      break;
    case 7:
      if (begins(p, "api-key")) return api_key;
      if (begins(p, "trailer")) return trailer;
      if (begins(p, "upgrade")) return upgrade;
      break;
    case 9:
      if (begins(p, "x-api-key")) return x_api_key;
      break;
    case 10:
      if (begins(p, "connection")) return connection;
      if (begins(p, "keep-alive")) return keep_alive;
      if (begins(p, "set-cookie")) return set_cookie;
      break;
    case 11:
      if (begins(p, "retry-after")) return retry_after;
      break;
    case 12:
      if (begins(p, "content-type")) return content_type;
      if (begins(p, "x-request-id")) return x_request_id;
      break;
    case 13:
      if (begins(p, "authorization")) return authorization;
      break;
    case 14:
      if (begins(p, "content-length")) return content_length;
      break;
    case 15:
      if (begins(p, "accept-encoding")) return accept_encoding;
      break;
    case 16:
      if (begins(p, "content-encoding")) return content_encoding;
      break;
    case 17:
      if (begins(p, "transfer-encoding")) return transfer_encoding;
      break;
    default:
      break;
  }
  switch (p[0] | 0x20) {
    case 'a':
      return token.size() >= 15 && begins(p, "access-control-") ? access_control : other;
    case 'p':
      return token.size() >= 6 && begins(p, "proxy-") ? proxy : other;
    case 'x':
      return token.size() >= 8 && begins(p, "x-berth-") ? berth : other;
    default:
      return other;
  }
}

namespace {

bool belongs_to_hop(FieldName name) {
  using enum FieldName;
  switch (name) {
    case connection:
    case content_length:
    case keep_alive:
    case proxy:
    case te:
    case trailer:
    case transfer_encoding:
    case upgrade:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool ends_at_gateway_in_request(FieldName name) {
  using enum FieldName;
  switch (name) {
    case accept_encoding:
    case api_key:
    case authorization:
    case berth:
    case cookie:
    case expect:
    case host:
    case origin:
    case x_api_key:
    case x_request_id:
      return true;
    default:
      return belongs_to_hop(name);
  }
}

bool ends_at_gateway_in_response(FieldName name) {
  using enum FieldName;
  return name == access_control || name == set_cookie || name == x_request_id ||
         belongs_to_hop(name);
}

}  // namespace berth::proto
