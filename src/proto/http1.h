// HTTP/1.1 messages as bytes: a strict head scanner, body framing in both directions, and which
// fields pass a gateway. Pure functions over bytes, correct at any split, without copies.
//
// parse_request / parse_response read one head from the front of `bytes`. They give need_more, done
// or bad with a fault; on done the views of the head point into `bytes`. `seen` is how many bytes
// an earlier call has already looked at in vain, so that every byte is searched once.
//
// Refused, because two parsers could read it differently: Content-Length beside Transfer-Encoding;
// more than one of either; lengths that are not plain digits; transfer codings other than chunked
// (or any in HTTP/1.0); a bare CR or LF, NUL or other control byte; folded lines; blanks before a
// colon; a missing or second Host. One empty line before a request is skipped, as RFC 9112 asks.
//
// Bodies are read by BodyScanner (http1_body.h).
//
// Ownership: nothing. Threading: values. Cost: one pass over the head; about 1 ns a byte.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace berth::proto {

enum class HeadState : uint8_t { need_more, done, bad };

enum class HeadFault : uint8_t {
  none,
  malformed,        // 400
  bad_framing,      // 400: lengths or codings that contradict each other
  too_large,        // 431
  unknown_coding,   // 501: a transfer coding other than chunked
  unknown_version,  // 505
};

struct HeadLimits {
  size_t bytes = 64 * 1024;
  size_t fields = 256;
};

struct HeadResult {
  HeadState state = HeadState::need_more;
  HeadFault fault = HeadFault::none;
};

// What requests and responses share.
struct MessageHead {
  size_t size = 0;          // bytes of the head, with the empty line (and a skipped one before it)
  std::string_view fields;  // the field lines, each with its CRLF
  int64_t content_length = -1;
  bool chunked = false;
  bool http10 = false;
  bool keep_alive = true;  // the sender allows the connection to be used again
  std::string_view content_type;
  std::string_view content_encoding;

  // The first field of that name (any case); nullopt when there is none. Linear.
  std::optional<std::string_view> find(std::string_view name) const;
  // Appends the field lines that may pass a gateway: without the ones that belong to one hop
  // (Connection and every field it names, Keep-Alive, TE, Trailer, Upgrade, Proxy-*), without
  // framing (Content-Length, Transfer-Encoding), and without what the gateway itself owns. See
  // http1_fields.h for which those are.
  void append_passing(std::string& out) const;

  // For the scanner: where field lines are that do not pass.
  struct Cut {
    uint32_t begin;
    uint32_t end;
  };
  std::array<Cut, 24> cuts;
  uint8_t cut_count = 0;
  bool filter_by_name = false;  // more cuts than fit, or Connection names fields
  bool is_response = false;
};

struct RequestHead : MessageHead {
  std::string_view method;
  std::string_view target;  // in origin form: path and query ("*" for OPTIONS *)
  std::string_view host;
  std::string_view authorization;
  std::string_view api_key;  // X-Api-Key or Api-Key
  std::string_view origin;
  std::string_view request_id;
  bool expects_continue = false;
  bool expects_unknown = false;  // 417

  std::string_view path() const { return target.substr(0, target.find('?')); }
};

struct ResponseHead : MessageHead {
  int status = 0;
  std::string_view reason;
  std::string_view retry_after;
};

HeadResult parse_request(std::string_view bytes, size_t seen, RequestHead& out,
                         HeadLimits limits = {});
HeadResult parse_response(std::string_view bytes, size_t seen, ResponseHead& out,
                          HeadLimits limits = {});

// `lower`: in lower case.
bool equals_ignoring_case(std::string_view a, std::string_view lower);
}  // namespace berth::proto
