#include "proto/json_scan.h"

#include <simdjson.h>

#include <array>
#include <charconv>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace berth::proto {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What a byte after a backslash may be.
constexpr std::array<bool, 256> kEscapes = [] {
  std::array<bool, 256> table{};
  for (char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't', 'u'})
    table[static_cast<unsigned char>(c)] = true;
  return table;
}();

bool is_escape(char c) { return kEscapes[static_cast<unsigned char>(c)]; }

#if defined(__SSE2__)
// A bit for each of 16 bytes that is a quote, a backslash or a control character.
inline uint64_t special_bits(const char* p) {
  const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                             _mm_cmpeq_epi8(block, _mm_set1_epi8('\\')));
  const __m128i limit = _mm_set1_epi8(0x1f);
  hit = _mm_or_si128(hit, _mm_cmpeq_epi8(_mm_min_epu8(block, limit), block));
  return static_cast<uint16_t>(_mm_movemask_epi8(hit));
}
#endif

// The first byte at or after `p` that ends the plain run of a string: its closing quote, a control
// character, or an escape that is not of the simple two-byte kind. Simple escapes are passed over
// and noted in `escaped`.
inline const char* find_string_stop(const char* p, const char* end, bool& escaped) {
#if defined(__SSE2__)
  // Looks at the special bytes of one block. Null when none stops; `p` is then past the block.
  auto block = [&](uint64_t bits, unsigned width) -> const char* {
    const char* const next = p + width;
    const char* from = next;
    while (bits) {
      const auto i = static_cast<unsigned>(__builtin_ctzll(bits));
      const char* c = p + i;
      if (*c != '\\' || c[1] == 'u' || !is_escape(c[1])) return c;
      escaped = true;
      if (c + 1 == next) from = next + 1;  // the escaped byte is the next block's first
      bits &= i >= 62 ? 0 : ~uint64_t{0} << (i + 2);
    }
    p = from;
    return nullptr;
  };
  // Most strings are short: one small block first, then large ones with fewer branches. One byte
  // beyond a block is always there to be read.
  if (end - p > 16)
    if (const char* stop = block(special_bits(p), 16)) return stop;
  while (end - p > 64) {
    const uint64_t bits = special_bits(p) | special_bits(p + 16) << 16 |
                          special_bits(p + 32) << 32 | special_bits(p + 48) << 48;
    if (const char* stop = block(bits, 64)) return stop;
  }
  while (end - p > 16)
    if (const char* stop = block(special_bits(p), 16)) return stop;
#endif
  for (; p < end; ++p) {
    if (*p == '\\') {
      if (end - p < 2 || p[1] == 'u' || !is_escape(p[1])) return p;
      escaped = true;
      ++p;
    } else if (*p == '"' || static_cast<unsigned char>(*p) < 0x20) {
      return p;
    }
  }
  return end;
}

// Walks one value. Pointers rather than offsets: this is the hot loop of every request.
class Walker {
 public:
  Walker(std::string_view text, int max_depth)
      : begin_(text.data()), end_(text.data() + text.size()), max_depth_(max_depth) {}

  const char* space(const char* p) const {
    while (p < end_ && is_space(*p)) ++p;
    return p;
  }

  // `p` is after the opening quote; returns one past the closing one.
  const char* string(const char* p, bool& escaped) {
    for (;;) {
      p = find_string_stop(p, end_, escaped);
      if (p >= end_) return fail(end_, "the text ends inside a string");
      if (*p == '"') return p + 1;
      if (*p != '\\') return fail(p, "control character in a string");
      escaped = true;
      if (!(p = escape(p))) return nullptr;
    }
  }

  const char* value(const char* p, JsonKind* kind) {
    std::array<bool, kJsonMaxDepth> in_object;  // NOLINT: filled as depth grows
    int depth = 0;
    for (;;) {
      p = space(p);
      if (p == end_) return fail(p, "the text ends where a value should be");
      JsonKind here = JsonKind::null;
      bool opened = false;
      switch (*p) {
        case '"':
          here = JsonKind::string;
          p = string(p + 1, escaped_);
          break;
        case '{':
        case '[':
          here = *p == '{' ? JsonKind::object : JsonKind::array;
          if (depth >= max_depth_) return fail(p, "nested too deeply");
          in_object[static_cast<size_t>(depth++)] = *p == '{';
          opened = true;
          ++p;
          break;
        default:
          p = scalar(p, here);
      }
      if (!p) return nullptr;
      if (kind) *kind = here;
      kind = nullptr;  // the first value is the one asked for
      if (opened) {
        p = space(p);
        const bool object = in_object[static_cast<size_t>(depth - 1)];
        if (p < end_ && *p == (object ? '}' : ']')) {
          ++p;
          --depth;
        } else if (object) {
          if (!(p = key(p))) return nullptr;
          continue;
        } else {
          continue;
        }
      }
      bool another = false;
      while (depth > 0 && !another) {
        p = space(p);
        if (p == end_) return fail(p, "the text ends inside an object or array");
        const bool object = in_object[static_cast<size_t>(depth - 1)];
        if (*p == ',') {
          another = true;
          ++p;
          if (object && !(p = key(p))) return nullptr;
        } else if (*p == (object ? '}' : ']')) {
          ++p;
          --depth;
        } else {
          return fail(p, object ? "expected a comma or a closing brace"
                                : "expected a comma or a closing bracket");
        }
      }
      if (!another) return p;
    }
  }

  JsonFault fault() const { return {static_cast<size_t>(at_ - begin_), what_}; }
  // The first escape that stands for half a character; null when there is none.
  const char* lone_surrogate() const { return lone_surrogate_; }

 private:
  const char* fail(const char* p, const char* what) {
    at_ = p;
    what_ = what;
    return nullptr;
  }

  // A key and its colon.
  const char* key(const char* p) {
    p = space(p);
    if (p == end_ || *p != '"') return fail(p, "expected a key in quotes");
    if (!(p = string(p + 1, escaped_))) return nullptr;
    p = space(p);
    if (p == end_ || *p != ':') return fail(p, "expected a colon");
    return p + 1;
  }

  // The code unit of the "\uXXXX" at `p`; -1 when there is none.
  int32_t unit_at(const char* p) const {
    if (end_ - p < 6 || p[0] != '\\' || p[1] != 'u') return -1;
    int32_t unit = 0;
    for (int i = 2; i < 6; ++i) {
      const int digit = hex_value(p[i]);
      if (digit < 0) return -1;
      unit = unit * 16 + digit;
    }
    return unit;
  }

  // `p` is at the backslash of an escape that is not simple.
  const char* escape(const char* p) {
    if (end_ - p < 2) return fail(end_, "the text ends inside a string");
    if (p[1] != 'u') return fail(p, "unknown escape in a string");
    const int32_t unit = unit_at(p);
    if (unit < 0) return fail(p, "broken \\u escape");
    if (unit < 0xd800 || unit >= 0xe000) return p + 6;
    if (unit < 0xdc00) {
      const int32_t low = unit_at(p + 6);
      if (low >= 0xdc00 && low < 0xe000) return p + 12;
    }
    if (!lone_surrogate_) lone_surrogate_ = p;
    return p + 6;
  }

  const char* scalar(const char* p, JsonKind& kind) {
    auto literal = [&](std::string_view word) {
      return static_cast<size_t>(end_ - p) >= word.size() &&
                     std::memcmp(p, word.data(), word.size()) == 0
                 ? p + word.size()
                 : fail(p, "expected a value");
    };
    switch (*p) {
      case 't':
        kind = JsonKind::boolean;
        return literal("true");
      case 'f':
        kind = JsonKind::boolean;
        return literal("false");
      case 'n':
        kind = JsonKind::null;
        return literal("null");
      default:
        kind = JsonKind::number;
        return number(p);
    }
  }

  const char* digits(const char* p) const {
    while (p < end_ && is_digit(*p)) ++p;
    return p;
  }

  const char* number(const char* p) {
    const char* start = p;
    if (*p == '-') ++p;
    if (p == end_ || !is_digit(*p)) return fail(start, "expected a value");
    if (*p == '0')
      ++p;
    else
      p = digits(p);
    if (p < end_ && *p == '.') {
      const char* fraction = ++p;
      if ((p = digits(p)) == fraction) return fail(start, "broken number");
    }
    if (p < end_ && (*p == 'e' || *p == 'E')) {
      ++p;
      if (p < end_ && (*p == '+' || *p == '-')) ++p;
      const char* exponent = p;
      if ((p = digits(p)) == exponent) return fail(start, "broken number");
    }
    return p;
  }

  const char* begin_;
  const char* end_;
  int max_depth_;
  bool escaped_ = false;  // of strings nobody asks about
  const char* at_ = nullptr;
  const char* what_ = nullptr;
  const char* lone_surrogate_ = nullptr;
};

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xc0 | (c >> 6)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | (c >> 12)));
    out.push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out.push_back(static_cast<char>(0xf0 | (c >> 18)));
    out.push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

// Four hexadecimal digits at `at`, or -1.
int32_t hex4(std::string_view raw, size_t at) {
  if (at + 4 > raw.size()) return -1;
  int32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    int digit = hex_value(raw[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// The length of the valid UTF-8 sequence at the start of `text`; 0 when there is none.
size_t utf8_sequence(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;  // a continuation, or overlong
  if (first < 0xe0) return tail(1) ? 2 : 0;
  if (first < 0xf0) {
    if (!tail(1) || !tail(2)) return 0;
    if (first == 0xe0 && byte(1) < 0xa0) return 0;   // overlong
    if (first == 0xed && byte(1) >= 0xa0) return 0;  // surrogate
    return 3;
  }
  if (first > 0xf4 || !tail(1) || !tail(2) || !tail(3)) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;   // overlong
  if (first == 0xf4 && byte(1) >= 0x90) return 0;  // above U+10FFFF
  return 4;
}

}  // namespace

std::string_view to_string(JsonKind kind) {
  switch (kind) {
    case JsonKind::object:
      return "an object";
    case JsonKind::array:
      return "an array";
    case JsonKind::string:
      return "a string";
    case JsonKind::number:
      return "a number";
    case JsonKind::boolean:
      return "a boolean";
    case JsonKind::null:
      return "null";
  }
  return "?";
}

JsonMembers::JsonMembers(std::string_view text, size_t at) : text_(text) {
  at_ = open_ = skip_json_space(text, at);
  if (at_ >= text.size() || text[at_] != '{')
    fail(at_, "expected an object");
  else
    ++at_;
}

bool JsonMembers::fail(size_t offset, const char* what) {
  fault_ = {offset, what};
  done_ = true;
  return false;
}

bool JsonMembers::next(JsonMember& member) {
  if (done_) return false;
  Walker walk(text_, kJsonMaxDepth - 1);
  const char* base = text_.data();
  const char* end = base + text_.size();
  auto offset = [base](const char* p) { return static_cast<size_t>(p - base); };

  const char* p = walk.space(base + at_);
  if (p == end) return fail(offset(p), "the text ends inside an object or array");
  if (*p == '}') {
    at_ = offset(p) + 1;
    done_ = true;
    return false;
  }
  if (!first_) {
    if (*p != ',') return fail(offset(p), "expected a comma or a closing brace");
    p = walk.space(p + 1);
  }
  first_ = false;
  if (p == end || *p != '"') return fail(offset(p), "expected a key in quotes");
  member.key_begin = offset(p);
  member.key_escaped = false;
  const char* key_end = walk.string(p + 1, member.key_escaped);
  if (!key_end) return fail(walk.fault().offset, walk.fault().what);
  member.key = std::string_view(p + 1, static_cast<size_t>(key_end - p - 2));
  p = walk.space(key_end);
  if (p == end || *p != ':') return fail(offset(p), "expected a colon");
  p = walk.space(p + 1);
  const char* value_end = walk.value(p, &member.kind);
  if (!value_end) return fail(walk.fault().offset, walk.fault().what);
  member.value = {offset(p), static_cast<size_t>(value_end - p)};
  at_ = offset(value_end);
  if (walk.lone_surrogate() && !lone_surrogate_) lone_surrogate_ = offset(walk.lone_surrogate());
  return true;
}

std::optional<JsonValue> scan_json_value(std::string_view text, size_t at, JsonFault& fault,
                                         int max_depth) {
  Walker walk(text, max_depth < kJsonMaxDepth ? max_depth : kJsonMaxDepth);
  const char* start = walk.space(text.data() + (at < text.size() ? at : text.size()));
  JsonValue value;
  const char* end = walk.value(start, &value.kind);
  if (!end) {
    fault = walk.fault();
    return std::nullopt;
  }
  value.span = {static_cast<size_t>(start - text.data()), static_cast<size_t>(end - start)};
  return value;
}

size_t skip_json_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

std::string json_unescape(std::string_view raw) {
  if (raw.find('\\') == raw.npos) return std::string(raw);
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out.push_back(raw[i]);
      continue;
    }
    switch (char c = raw[++i]) {
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'u': {
        int32_t unit = hex4(raw, i + 1);
        if (unit < 0) {
          append_utf8(out, 0xfffd);
          break;
        }
        i += 4;
        uint32_t code = static_cast<uint32_t>(unit);
        if (code >= 0xd800 && code < 0xdc00 && raw.substr(i + 1, 2) == "\\u") {
          int32_t low = hex4(raw, i + 3);
          if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (static_cast<uint32_t>(low) - 0xdc00);
            i += 6;
          }
        }
        append_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
        break;
      }
      default:
        out.push_back(c);
    }
  }
  return out;
}

namespace {

// How many bytes at the start of `text` stand in a JSON string as they are.
size_t plain_run(std::string_view text) {
  auto plain = [](char c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';  // char is signed: no byte above 0x7f
  };
  size_t n = 0;
#if defined(__SSE2__)
  // As signed numbers, all bytes above 0x7f are below a space.
  const __m128i space = _mm_set1_epi8(0x20), del = _mm_set1_epi8(0x7f);
  const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
  for (; text.size() - n >= 16; n += 16) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + n));
    __m128i hit = _mm_or_si128(_mm_cmplt_epi8(x, space), _mm_cmpeq_epi8(x, del));
    hit = _mm_or_si128(hit, _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)));
    if (int mask = _mm_movemask_epi8(hit))
      return n + static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(mask)));
  }
#endif
  while (n < text.size() && plain(text[n])) ++n;
  return n;
}

void append_escaped(std::string& out, unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      out += "\\u00";
      out.push_back(kHex[c >> 4]);
      out.push_back(kHex[c & 15]);
  }
}

}  // namespace

bool is_json_plain(std::string_view text) { return plain_run(text) == text.size(); }

void append_json_quoted(std::string& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    const size_t run = plain_run(text);
    out.append(text.substr(0, run));
    text.remove_prefix(run);
    if (text.empty()) break;
    const auto c = static_cast<unsigned char>(text[0]);
    size_t length = 1;
    if (c < 0x80) {
      append_escaped(out, c);
    } else if (const size_t valid = utf8_sequence(text); valid > 0) {
      out.append(text.substr(0, valid));
      length = valid;
    } else {
      append_utf8(out, 0xfffd);
    }
    text.remove_prefix(length);
  }
  out.push_back('"');
}

std::string json_quote(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_quoted(out, text);
  return out;
}

std::optional<uint64_t> json_uint(std::string_view number) {
  uint64_t value = 0;
  auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (ec != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return value;
}

std::optional<size_t> invalid_utf8_at(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  for (size_t i = 0; i < text.size();) {
    size_t length = utf8_sequence(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

}  // namespace berth::proto
