// The names of header fields that the gateway knows, told apart in any case.
//
// Pure; used by the head scanner (http1.h). Cost: a few comparisons of machine words a name.
#pragma once

#include <cstdint>
#include <string_view>

namespace berth::proto {

enum class FieldName : uint8_t {
  other,
  accept_encoding,
  access_control,  // every name that begins with "Access-Control-"
  api_key,         // Api-Key
  authorization,
  berth,  // every name that begins with "X-Berth-"
  connection,
  content_encoding,
  content_length,
  content_type,
  cookie,
  expect,
  host,
  keep_alive,
  origin,
  proxy,  // every name that begins with "Proxy-"
  retry_after,
  set_cookie,
  te,
  trailer,
  transfer_encoding,
  upgrade,
  x_api_key,
  x_request_id,
};

// `token` must consist of token characters (RFC 9110, section 5.6.2) and not be empty.
FieldName field_name(std::string_view token);

// Whether a field of a request, or of a response, ends at the gateway: it belongs to one hop, to
// framing, is a credential, or is what the gateway answers for or sets itself.
bool ends_at_gateway_in_request(FieldName name);
bool ends_at_gateway_in_response(FieldName name);

}  // namespace berth::proto
