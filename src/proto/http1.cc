#include "proto/http1.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "proto/http1_fields.h"

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

const char* skip_token(const char* p, const char* end) {
  while (p < end && kToken[static_cast<unsigned char>(*p)]) p++;
  return p;
}

bool is_control(char c) {
  auto u = static_cast<unsigned char>(c);
  return (u < 0x20 && u != '\t') || u == 0x7f;
}

// The first byte at or after `p` that may not stand within a line: CR, LF and every other control
// byte but HT.
const char* find_control(const char* p, const char* end) {
#if defined(__SSE2__)
  const __m128i limit = _mm_set1_epi8(0x1f), tab = _mm_set1_epi8('\t'), del = _mm_set1_epi8(0x7f);
  for (; end - p >= 16; p += 16) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, limit), x);  // x <= 0x1f
    const __m128i hit =
        _mm_or_si128(_mm_andnot_si128(_mm_cmpeq_epi8(x, tab), low), _mm_cmpeq_epi8(x, del));
    if (int bits = _mm_movemask_epi8(hit)) return p + __builtin_ctz(static_cast<unsigned>(bits));
  }
#endif
  while (p < end && !is_control(*p)) p++;
  return p;
}

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trim(std::string_view s) {
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
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

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

// Takes the first line, with its CRLF, off `fields`; returns it.
std::string_view take_line(std::string_view& fields) {
  std::string_view line = fields.substr(0, fields.find('\n') + 1);
  fields.remove_prefix(line.size());
  return line;
}

bool connection_names(std::string_view fields, std::string_view name) {
  bool found = false;
  while (!fields.empty()) {
    std::string_view line = take_line(fields);
    line.remove_suffix(2);
    size_t colon = line.find(':');
    if (!equals_ignoring_case(line.substr(0, colon), "connection")) continue;
    each_element(line.substr(colon + 1), [&](std::string_view one) {
      if (one.size() != name.size()) return;
      bool same = true;
      for (size_t i = 0; i < one.size(); i++) same &= lower(one[i]) == lower(name[i]);
      found |= same;
    });
  }
  return found;
}

// ---- heads ----------------------------------------------------------------------------------

// How far a step came: on with the next, or a result for the caller of the scanner.
enum class Step : uint8_t { ok, need_more, malformed };

// Where the scanner stands in the bytes of one head.
class Cursor {
 public:
  Cursor(std::string_view bytes, HeadLimits limits)
      : begin_(bytes.data()), p_(begin_), end_(begin_ + bytes.size()), limits_(limits) {}

  // The first line, without its CRLF.
  Step first_line(std::string_view& out) {
    const char* stop = find_control(p_, end_);
    out = between(p_, stop);
    return end_line(stop);
  }

  // The next field; `out_name` empty: the line that ends the head was taken.
  Step field(std::string_view& out_name, std::string_view& out_value) {
    const char* colon = skip_token(p_, end_);
    if (colon == end_) return Step::need_more;
    if (colon == p_) {
      out_name = {};
      return *p_ == '\r' ? end_line(p_) : Step::malformed;
    }
    if (*colon != ':') return Step::malformed;  // also a folded line, or a blank before the colon
    out_name = between(p_, colon);
    const char* from = colon + 1;
    const char* const stop = find_control(from, end_);
    const char* to = stop;
    while (from < to && is_blank(*from)) from++;
    while (to > from && is_blank(to[-1])) to--;
    out_value = between(from, to);
    return end_line(stop);
  }

  HeadResult result_of(Step step) const {
    if (step == Step::malformed) return {HeadState::bad, HeadFault::malformed};
    return incomplete();
  }
  HeadResult incomplete() const {
    const bool too_large = static_cast<size_t>(end_ - begin_) >= limits_.bytes;
    return too_large ? HeadResult{HeadState::bad, HeadFault::too_large} : HeadResult{};
  }
  void skip(size_t n) { p_ += n; }
  const char* at() const { return p_; }
  size_t taken() const { return static_cast<size_t>(p_ - begin_); }
  const HeadLimits& limits() const { return limits_; }

 private:
  // `stop` is where a line ends; it must do so with CRLF.
  Step end_line(const char* stop) {
    if (stop == end_) return Step::need_more;
    if (*stop != '\r') return Step::malformed;
    if (stop + 1 == end_) return Step::need_more;
    if (stop[1] != '\n') return Step::malformed;
    p_ = stop + 2;
    return Step::ok;
  }

  const char* begin_;
  const char* p_;
  const char* end_;
  HeadLimits limits_;
};

// Whether it is worth parsing: not when the bytes after `seen` hold no end of a head.
bool worth_parsing(std::string_view bytes, size_t seen) {
  if (seen == 0) return true;
  for (size_t at = seen; at < bytes.size();) {
    size_t lf = bytes.find('\n', at);
    if (lf == bytes.npos) return false;
    if (lf == 0 || bytes[lf - 1] != '\r') return true;  // to be refused
    if (lf < 2 || bytes[lf - 2] == '\n') return true;
    at = lf + 1;
  }
  return false;
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

struct Persistence {
  bool close = false;
  bool keep = false;
};

void take_connection(MessageHead& head, std::string_view value, Persistence& said) {
  each_element(value, [&](std::string_view one) {
    if (equals_ignoring_case(one, "close")) {
      said.close = true;
    } else if (equals_ignoring_case(one, "keep-alive")) {
      said.keep = true;
    } else {
      head.filter_by_name = true;
    }
  });
}

// Fields that both kinds of message read.
HeadFault take_common(MessageHead& head, FieldName name, std::string_view value,
                      Persistence& said) {
  switch (name) {
    case FieldName::connection:
      take_connection(head, value, said);
      break;
    case FieldName::content_type:
      head.content_type = value;
      break;
    case FieldName::content_encoding:
      head.content_encoding = value;
      break;
    case FieldName::content_length:
      return take_content_length(head, value);
    case FieldName::transfer_encoding:
      return take_transfer_encoding(head, value);
    default:
      break;
  }
  return HeadFault::none;
}

HeadFault take_of_request(RequestHead& head, FieldName name, std::string_view value) {
  switch (name) {
    case FieldName::host:
      if (head.host.data()) return HeadFault::malformed;
      head.host = value;
      break;
    case FieldName::authorization:
      if (!head.authorization.empty()) return HeadFault::malformed;
      head.authorization = value;
      break;
    case FieldName::api_key:
    case FieldName::x_api_key:
      head.api_key = value;
      break;
    case FieldName::expect: {
      const bool known = equals_ignoring_case(value, "100-continue");
      (known ? head.expects_continue : head.expects_unknown) = true;
      break;
    }
    case FieldName::origin:
      head.origin = value;
      break;
    case FieldName::x_request_id:
      head.request_id = value;
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

HeadFault read_version(std::string_view text, MessageHead& head) {
  if (text == "HTTP/1.1") return HeadFault::none;
  if (text.size() != 8 || !text.starts_with("HTTP/") || text[6] != '.') return HeadFault::malformed;
  if (text != "HTTP/1.0") return HeadFault::unknown_version;
  head.http10 = true;
  return HeadFault::none;
}

HeadFault read_request_line(std::string_view line, RequestHead& head) {
  const char* const end = line.data() + line.size();
  const char* p = skip_token(line.data(), end);
  head.method = between(line.data(), p);
  if (head.method.empty() || p == end || *p != ' ') return HeadFault::malformed;
  const char* const target = ++p;
  while (p<end&& * p> ' ' && *p <= '~') p++;
  head.target = between(target, p);
  if (head.target.empty() || p == end || *p != ' ') return HeadFault::malformed;
  if (head.target[0] != '/' && head.target != "*") {  // absolute form, as sent to proxies
    size_t scheme = head.target.find("://");
    if (scheme == head.target.npos) return HeadFault::malformed;
    size_t path = head.target.find('/', scheme + 3);
    head.target = path == head.target.npos ? std::string_view("/") : head.target.substr(path);
  }
  return read_version(between(p + 1, end), head);
}

HeadFault read_status_line(std::string_view line, ResponseHead& head) {
  if (line.size() < 12 || line[8] != ' ') return HeadFault::malformed;
  HeadFault fault = read_version(line.substr(0, 8), head);
  if (fault != HeadFault::none) return fault;
  for (size_t i = 9; i < 12; i++) {
    if (line[i] < '0' || line[i] > '9') return HeadFault::malformed;
    head.status = head.status * 10 + (line[i] - '0');
  }
  if (line.size() > 12 && line[12] != ' ') return HeadFault::malformed;
  if (head.status < 100) return HeadFault::malformed;
  if (line.size() > 13) head.reason = line.substr(13);
  return HeadFault::none;
}

// Reads the field lines up to the empty line. `take` may refuse a field; `ends_here` says which
// do not pass a gateway.
template <class Take>
HeadResult read_fields(Cursor& cursor, MessageHead& head, bool (*ends_here)(FieldName),
                       Take&& take) {
  const char* const begin = cursor.at();
  Persistence said;
  for (size_t count = 0;; count++) {
    const char* line = cursor.at();
    std::string_view name, value;
    Step step = cursor.field(name, value);
    if (step != Step::ok) return cursor.result_of(step);
    if (name.empty()) {
      head.fields = between(begin, line);
      break;
    }
    if (count == cursor.limits().fields) return {HeadState::bad, HeadFault::too_large};
    const FieldName known = field_name(name);
    if (known == FieldName::other) continue;
    HeadFault fault = take_common(head, known, value, said);
    if (fault == HeadFault::none) fault = take(known, value);
    if (fault != HeadFault::none) return {HeadState::bad, fault};
    if (ends_here(known))
      add_cut(head, static_cast<size_t>(line - begin), static_cast<size_t>(cursor.at() - begin));
  }
  if (cursor.taken() > cursor.limits().bytes) return {HeadState::bad, HeadFault::too_large};
  head.size = cursor.taken();
  head.keep_alive = head.http10 ? said.keep && !said.close : !said.close;
  if (head.chunked && (head.content_length >= 0 || head.http10))
    return {HeadState::bad, HeadFault::bad_framing};
  return {HeadState::done, HeadFault::none};
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view lower_b) {
  if (a.size() != lower_b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    if (lower(a[i]) != lower_b[i]) return false;
  }
  return true;
}

HeadResult parse_request(std::string_view bytes, size_t seen, RequestHead& out, HeadLimits limits) {
  Cursor cursor(bytes, limits);
  if (!worth_parsing(bytes, seen)) return cursor.incomplete();
  out = RequestHead();
  if (bytes.starts_with("\r\n")) cursor.skip(2);
  std::string_view line;
  Step step = cursor.first_line(line);
  if (step != Step::ok) return cursor.result_of(step);
  HeadFault fault = read_request_line(line, out);
  if (fault != HeadFault::none) return {HeadState::bad, fault};
  HeadResult r = read_fields(
      cursor, out, ends_at_gateway_in_request,
      [&](FieldName name, std::string_view value) { return take_of_request(out, name, value); });
  if (r.state == HeadState::done && !out.host.data() && !out.http10)
    return {HeadState::bad, HeadFault::malformed};
  return r;
}

HeadResult parse_response(std::string_view bytes, size_t seen, ResponseHead& out,
                          HeadLimits limits) {
  Cursor cursor(bytes, limits);
  if (!worth_parsing(bytes, seen)) return cursor.incomplete();
  out = ResponseHead();
  out.is_response = true;
  std::string_view line;
  Step step = cursor.first_line(line);
  if (step != Step::ok) return cursor.result_of(step);
  HeadFault fault = read_status_line(line, out);
  if (fault != HeadFault::none) return {HeadState::bad, fault};
  return read_fields(cursor, out, ends_at_gateway_in_response,
                     [&](FieldName name, std::string_view value) {
                       if (name == FieldName::retry_after) out.retry_after = value;
                       return HeadFault::none;
                     });
}

std::optional<std::string_view> MessageHead::find(std::string_view name) const {
  std::string wanted(name);
  for (char& c : wanted) c = lower(c);
  for (std::string_view rest = fields; !rest.empty();) {
    std::string_view line = take_line(rest);
    line.remove_suffix(2);
    size_t colon = line.find(':');
    if (equals_ignoring_case(line.substr(0, colon), wanted)) return trim(line.substr(colon + 1));
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
  auto* ends_here = is_response ? ends_at_gateway_in_response : ends_at_gateway_in_request;
  for (std::string_view rest = fields; !rest.empty();) {
    std::string_view line = take_line(rest);
    std::string_view name = line.substr(0, line.find(':'));
    if (!ends_here(field_name(name)) && !connection_names(fields, name)) out.append(line);
  }
}

}  // namespace berth::proto
