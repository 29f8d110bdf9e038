#include "proto/http1.h"

#include <charconv>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace berth::proto {

namespace {

constexpr std::array<bool, 256> make_token_table() {
  std::array<bool, 256> t{};
  for (int c = '0'; c <= '9'; c++) t[c] = true;
  for (int c = 'a'; c <= 'z'; c++) t[c] = true;
  for (int c = 'A'; c <= 'Z'; c++) t[c] = true;
  for (char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    t[static_cast<unsigned char>(c)] = true;
  return t;
}
constexpr auto kToken = make_token_table();

bool is_token(std::string_view s) {
  if (s.empty()) return false;
  bool ok = true;
  for (char c : s) ok &= kToken[static_cast<unsigned char>(c)];
  return ok;
}

// Whether a head of `lines` lines (each known to end with CRLF) holds a control byte other than HT
// within a line: looked at once for the whole head. A CR that ends no line makes one too many.
bool has_control(std::string_view head, size_t lines) {
  const char* p = head.data();
  size_t n = head.size(), returns = 0;
#if defined(__SSE2__)
  const __m128i limit = _mm_set1_epi8(0x1f), tab = _mm_set1_epi8('\t'), del = _mm_set1_epi8(0x7f),
                cr = _mm_set1_epi8('\r'), lf = _mm_set1_epi8('\n');
  for (; n >= 16; p += 16, n -= 16) {
    __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    __m128i is_cr = _mm_cmpeq_epi8(x, cr);
    __m128i fine = _mm_or_si128(_mm_or_si128(is_cr, _mm_cmpeq_epi8(x, lf)), _mm_cmpeq_epi8(x, tab));
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, limit), x);  // x <= 0x1f
    __m128i bad = _mm_or_si128(_mm_andnot_si128(fine, low), _mm_cmpeq_epi8(x, del));
    if (_mm_movemask_epi8(bad)) return true;
    for (int bits = _mm_movemask_epi8(is_cr); bits; bits &= bits - 1) returns++;
  }
#endif
  for (; n; p++, n--) {
    auto c = static_cast<unsigned char>(*p);
    if (c == '\r') returns++;
    if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f) return true;
  }
  return returns != lines;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

bool starts_ignoring_case(std::string_view s, std::string_view lower) {
  return s.size() >= lower.size() && equals_ignoring_case(s.substr(0, lower.size()), lower);
}

// Calls f(element) for each element of a comma-separated list.
template <class F>
void each_element(std::string_view list, F&& f) {
  while (!list.empty()) {
    size_t comma = list.find(',');
    std::string_view one = trim(list.substr(0, comma));
    if (!one.empty()) f(one);
    if (comma == list.npos) return;
    list.remove_prefix(comma + 1);
  }
}

// Fields of both directions that belong to one hop or to framing.
bool is_hop_field(std::string_view name) {
  switch (name.size()) {
    case 2:
      return equals_ignoring_case(name, "te");
    case 7:
      return equals_ignoring_case(name, "upgrade") || equals_ignoring_case(name, "trailer");
    case 10:
      return equals_ignoring_case(name, "connection") || equals_ignoring_case(name, "keep-alive");
    case 14:
      return equals_ignoring_case(name, "content-length");
    case 17:
      return equals_ignoring_case(name, "transfer-encoding");
    default:
      return false;
  }
}

// Besides: credentials of the client, what the gateway answers for, and what it sets anew.
bool request_field_stays(std::string_view name) {
  if (is_hop_field(name)) return true;
  switch (name.size()) {
    case 4:
      return equals_ignoring_case(name, "host");
    case 6:
      return equals_ignoring_case(name, "cookie") || equals_ignoring_case(name, "expect") ||
             equals_ignoring_case(name, "origin");
    case 7:
      return equals_ignoring_case(name, "api-key");
    case 9:
      return equals_ignoring_case(name, "x-api-key");
    case 12:
      if (equals_ignoring_case(name, "x-request-id")) return true;
      break;
    case 13:
      if (equals_ignoring_case(name, "authorization")) return true;
      break;
    case 15:
      return equals_ignoring_case(name, "accept-encoding");
    default:
      break;
  }
  char first = static_cast<char>(name[0] | 0x20);
  return (first == 'p' && starts_ignoring_case(name, "proxy-")) ||
         (first == 'x' && starts_ignoring_case(name, "x-berth-"));
}

bool response_field_stays(std::string_view name) {
  if (is_hop_field(name)) return true;
  if (name.size() == 10 && equals_ignoring_case(name, "set-cookie")) return true;
  if (name.size() == 12 && equals_ignoring_case(name, "x-request-id")) return true;
  char first = static_cast<char>(name[0] | 0x20);
  return (first == 'p' && starts_ignoring_case(name, "proxy-")) ||
         (first == 'a' && starts_ignoring_case(name, "access-control-"));
}

bool connection_names(std::string_view fields, std::string_view name) {
  bool found = false;
  while (!fields.empty()) {
    size_t end = fields.find('\n');
    std::string_view line = fields.substr(0, end - 1);
    fields.remove_prefix(end + 1);
    size_t colon = line.find(':');
    if (!equals_ignoring_case(line.substr(0, colon), "connection")) continue;
    each_element(line.substr(colon + 1), [&](std::string_view one) {
      if (one.size() != name.size()) return;
      bool same = true;
      for (size_t i = 0; i < one.size(); i++) {
        char a = one[i], b = name[i];
        if (a >= 'A' && a <= 'Z') a = static_cast<char>(a | 0x20);
        if (b >= 'A' && b <= 'Z') b = static_cast<char>(b | 0x20);
        same &= a == b;
      }
      found |= same;
    });
  }
  return found;
}

// One field line as the scanner sees it.
struct Field {
  std::string_view name;
  std::string_view value;
};

class HeadScanner {
 public:
  HeadScanner(std::string_view bytes, size_t seen, HeadLimits limits)
      : bytes_(bytes), seen_(seen), limits_(limits) {}

  HeadResult result(HeadState state, HeadFault fault = HeadFault::none) { return {state, fault}; }

  // Whether it is worth parsing: not when the bytes after `seen` hold no end of a head.
  bool worth_parsing() const {
    if (seen_ == 0) return true;
    for (size_t at = seen_; at < bytes_.size();) {
      auto lf = static_cast<const char*>(memchr(bytes_.data() + at, '\n', bytes_.size() - at));
      if (!lf) return false;
      size_t i = static_cast<size_t>(lf - bytes_.data());
      if (i == 0 || bytes_[i - 1] != '\r') return true;  // to be refused
      if (i < 2 || bytes_[i - 2] == '\n') return true;
      at = i + 1;
    }
    return false;
  }

  // The next line without CRLF. False: no whole line is there (or state says bad).
  bool line(std::string_view& out, bool& bad) {
    const char* p = bytes_.data() + at_;
    size_t n = bytes_.size() - at_;
    auto lf = static_cast<const char*>(memchr(p, '\n', n));
    if (!lf) return false;
    auto size = static_cast<size_t>(lf - p);
    if (size == 0 || p[size - 1] != '\r') {
      bad = true;
      return false;
    }
    out = {p, size - 1};
    at_ += size + 1;
    lines_++;
    return true;
  }

  // Of the lines read so far.
  bool controls_inside() const { return has_control(bytes_.substr(start_, at_ - start_), lines_); }

  size_t at() const { return at_; }
  void skip(size_t n) { start_ = at_ += n; }
  std::string_view bytes() const { return bytes_; }
  const HeadLimits& limits() const { return limits_; }
  HeadResult incomplete(bool bad) {
    if (bad || (lines_ > 0 && controls_inside()))
      return result(HeadState::bad, HeadFault::malformed);
    if (bytes_.size() >= limits_.bytes) return result(HeadState::bad, HeadFault::too_large);
    return result(HeadState::need_more);
  }

 private:
  std::string_view bytes_;
  size_t seen_;
  HeadLimits limits_;
  size_t at_ = 0;
  size_t start_ = 0;
  size_t lines_ = 0;
};

bool split_field(std::string_view line, Field& out) {
  size_t colon = line.find(':');
  if (colon == line.npos) return false;
  out.name = line.substr(0, colon);
  if (!is_token(out.name)) return false;  // also a folded line, or a blank before the colon
  out.value = trim(line.substr(colon + 1));
  return true;
}

HeadFault take_content_length(MessageHead& head, std::string_view value) {
  if (head.content_length >= 0 || value.empty() || value.size() > 18) return HeadFault::bad_framing;
  int64_t n = 0;
  for (char c : value) {
    if (c < '0' || c > '9') return HeadFault::bad_framing;
    n = n * 10 + (c - '0');
  }
  head.content_length = n;
  return HeadFault::none;
}

HeadFault take_transfer_encoding(MessageHead& head, std::string_view value) {
  if (head.chunked) return HeadFault::bad_framing;
  if (!equals_ignoring_case(value, "chunked")) return HeadFault::unknown_coding;
  head.chunked = true;
  return HeadFault::none;
}

void take_connection(MessageHead& head, std::string_view value, bool& close, bool& keep) {
  each_element(value, [&](std::string_view one) {
    if (equals_ignoring_case(one, "close")) {
      close = true;
    } else if (equals_ignoring_case(one, "keep-alive")) {
      keep = true;
    } else {
      head.filter_by_name = true;
    }
  });
}

// Fields that both kinds read. True: dealt with.
bool common_field(MessageHead& head, const Field& f, bool& close, bool& keep, HeadFault& fault) {
  switch (f.name.size()) {
    case 10:
      if (!equals_ignoring_case(f.name, "connection")) return false;
      take_connection(head, f.value, close, keep);
      return true;
    case 12:
      if (!equals_ignoring_case(f.name, "content-type")) return false;
      head.content_type = f.value;
      return true;
    case 14:
      if (!equals_ignoring_case(f.name, "content-length")) return false;
      fault = take_content_length(head, f.value);
      return true;
    case 16:
      if (!equals_ignoring_case(f.name, "content-encoding")) return false;
      head.content_encoding = f.value;
      return true;
    case 17:
      if (!equals_ignoring_case(f.name, "transfer-encoding")) return false;
      fault = take_transfer_encoding(head, f.value);
      return true;
    default:
      return false;
  }
}

HeadFault request_field(RequestHead& head, const Field& f, bool& seen_host) {
  switch (f.name.size()) {
    case 4:
      if (equals_ignoring_case(f.name, "host")) {
        if (seen_host) return HeadFault::malformed;
        seen_host = true;
        head.host = f.value;
      }
      break;
    case 6:
      if (equals_ignoring_case(f.name, "expect")) {
        bool known = equals_ignoring_case(f.value, "100-continue");
        (known ? head.expects_continue : head.expects_unknown) = true;
      } else if (equals_ignoring_case(f.name, "origin")) {
        head.origin = f.value;
      }
      break;
    case 7:
      if (equals_ignoring_case(f.name, "api-key")) head.api_key = f.value;
      break;
    case 9:
      if (equals_ignoring_case(f.name, "x-api-key")) head.api_key = f.value;
      break;
    case 12:
      if (equals_ignoring_case(f.name, "x-request-id")) head.request_id = f.value;
      break;
    case 13:
      if (equals_ignoring_case(f.name, "authorization")) {
        if (!head.authorization.empty()) return HeadFault::malformed;
        head.authorization = f.value;
      }
      break;
    default:
      break;
  }
  return HeadFault::none;
}

void add_cut(MessageHead& head, size_t begin, size_t end) {
  if (head.cut_count > 0 && head.cuts[head.cut_count - 1].end == begin) {
    head.cuts[head.cut_count - 1].end = static_cast<uint32_t>(end);
  } else if (head.cut_count < head.cuts.size()) {
    head.cuts[head.cut_count++] = {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  } else {
    head.filter_by_name = true;
  }
}

bool read_version(std::string_view text, MessageHead& head, HeadFault& fault) {
  fault = HeadFault::malformed;
  if (text.size() != 8 || !text.starts_with("HTTP/") || text[6] != '.') return false;
  fault = HeadFault::unknown_version;
  if (text == "HTTP/1.0") head.http10 = true;
  return text == "HTTP/1.1" || head.http10;
}

HeadFault read_request_line(std::string_view line, RequestHead& head) {
  size_t first = line.find(' ');
  size_t last = line.rfind(' ');
  if (first == line.npos || first == last) return HeadFault::malformed;
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  if (!is_token(head.method) || head.target.empty()) return HeadFault::malformed;
  for (char c : head.target) {
    if (c <= ' ' || c > '~') return HeadFault::malformed;
  }
  if (head.target[0] != '/' && head.target != "*") {  // absolute form, as sent to proxies
    size_t scheme = head.target.find("://");
    if (scheme == head.target.npos) return HeadFault::malformed;
    size_t path = head.target.find('/', scheme + 3);
    head.target = path == head.target.npos ? std::string_view("/") : head.target.substr(path);
  }
  HeadFault fault = HeadFault::none;
  return read_version(line.substr(last + 1), head, fault) ? HeadFault::none : fault;
}

HeadFault read_status_line(std::string_view line, ResponseHead& head) {
  HeadFault fault = HeadFault::none;
  if (line.size() < 12 || line[8] != ' ') return HeadFault::malformed;
  if (!read_version(line.substr(0, 8), head, fault)) return fault;
  for (size_t i = 9; i < 12; i++) {
    if (line[i] < '0' || line[i] > '9') return HeadFault::malformed;
    head.status = head.status * 10 + (line[i] - '0');
  }
  if (line.size() > 12 && line[12] != ' ') return HeadFault::malformed;
  if (head.status < 100) return HeadFault::malformed;
  if (line.size() > 13) head.reason = line.substr(13);
  return HeadFault::none;
}

// Reads the field lines up to the empty line. `each` may refuse a field; `stays` says which lines
// do not pass a gateway.
template <class Each>
HeadResult read_fields(HeadScanner& scan, MessageHead& head, bool (*stays)(std::string_view),
                       Each&& each) {
  bool bad = false, close = false, keep = false;
  size_t begin = scan.at(), count = 0;
  for (;;) {
    size_t line_begin = scan.at();
    std::string_view line;
    if (!scan.line(line, bad)) return scan.incomplete(bad);
    if (line.empty()) break;
    Field f;
    if (!split_field(line, f)) return scan.result(HeadState::bad, HeadFault::malformed);
    if (++count > scan.limits().fields) return scan.result(HeadState::bad, HeadFault::too_large);
    HeadFault fault = HeadFault::none;
    if (!common_field(head, f, close, keep, fault)) fault = each(f);
    if (fault != HeadFault::none) return scan.result(HeadState::bad, fault);
    if (stays(f.name)) add_cut(head, line_begin - begin, scan.at() - begin);
  }
  if (scan.controls_inside()) return scan.result(HeadState::bad, HeadFault::malformed);
  if (scan.at() > scan.limits().bytes) return scan.result(HeadState::bad, HeadFault::too_large);
  head.size = scan.at();
  head.fields = scan.bytes().substr(begin, scan.at() - 2 - begin);
  head.keep_alive = head.http10 ? keep && !close : !close;
  if (head.chunked && (head.content_length >= 0 || head.http10))
    return scan.result(HeadState::bad, HeadFault::bad_framing);
  return scan.result(HeadState::done);
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    char c = a[i];
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    if (c != lower[i]) return false;
  }
  return true;
}

HeadResult parse_request(std::string_view bytes, size_t seen, RequestHead& out, HeadLimits limits) {
  HeadScanner scan(bytes, seen, limits);
  if (!scan.worth_parsing()) return scan.incomplete(false);
  out = RequestHead();
  if (bytes.starts_with("\r\n")) scan.skip(2);
  bool bad = false;
  std::string_view line;
  if (!scan.line(line, bad)) return scan.incomplete(bad);
  HeadFault fault = read_request_line(line, out);
  if (fault != HeadFault::none) return scan.result(HeadState::bad, fault);
  bool seen_host = false;
  HeadResult r = read_fields(scan, out, request_field_stays,
                             [&](const Field& f) { return request_field(out, f, seen_host); });
  if (r.state == HeadState::done && !seen_host && !out.http10)
    return scan.result(HeadState::bad, HeadFault::malformed);
  return r;
}

HeadResult parse_response(std::string_view bytes, size_t seen, ResponseHead& out,
                          HeadLimits limits) {
  HeadScanner scan(bytes, seen, limits);
  if (!scan.worth_parsing()) return scan.incomplete(false);
  out = ResponseHead();
  out.is_response = true;
  bool bad = false;
  std::string_view line;
  if (!scan.line(line, bad)) return scan.incomplete(bad);
  HeadFault fault = read_status_line(line, out);
  if (fault != HeadFault::none) return scan.result(HeadState::bad, fault);
  return read_fields(scan, out, response_field_stays, [&](const Field& f) {
    if (f.name.size() == 11 && equals_ignoring_case(f.name, "retry-after"))
      out.retry_after = f.value;
    return HeadFault::none;
  });
}

std::optional<std::string_view> MessageHead::find(std::string_view name) const {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  std::string_view rest = fields;
  while (!rest.empty()) {
    size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end - 1);
    rest.remove_prefix(end + 1);
    size_t colon = line.find(':');
    if (equals_ignoring_case(line.substr(0, colon), lower)) return trim(line.substr(colon + 1));
  }
  return std::nullopt;
}

void MessageHead::append_passing(std::string& out) const {
  if (!filter_by_name) {
    size_t at = 0;
    for (size_t i = 0; i < cut_count; i++) {
      out.append(fields.substr(at, cuts[i].begin - at));
      at = cuts[i].end;
    }
    out.append(fields.substr(at));
    return;
  }
  auto* stays = is_response ? response_field_stays : request_field_stays;
  std::string_view rest = fields;
  while (!rest.empty()) {
    size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    std::string_view name = line.substr(0, line.find(':'));
    if (!stays(name) && !connection_names(fields, name)) out.append(line);
  }
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

void append_number(std::string& out, uint64_t n) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, n).ptr;
  out.append(text, end);
}

void append_status_line(std::string& out, int status, std::string_view reason) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<uint64_t>(status));
  out.append(" ").append(reason.empty() ? reason_phrase(status) : reason).append("\r\n");
}

void append_chunk_size(std::string& out, size_t bytes) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, bytes, 16).ptr;
  out.append(text, end).append("\r\n");
}

}  // namespace berth::proto
