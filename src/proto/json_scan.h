// A strict, allocation-free scanner of JSON text, for finding members and their byte spans.
//
// It builds nothing: it walks the text once, checks RFC 8259 grammar (structure, escapes, control
// characters, numbers) up to a depth limit, and hands out spans so that edits can be spliced into
// the original bytes. Why not simdjson on-demand: docs/adr/0004-own-json-scanner.md.
//
// Inputs: any bytes; offsets are bytes from the start of the text.
// Guarantees: what it accepts is valid JSON, apart from UTF-8, which is checked separately
// (invalid_utf8_at). Lone surrogate escapes such as "\ud83d" are accepted, as RFC 8259 does, and
// told.
// Non-guarantees: it does not look for duplicate keys and does not convert numbers.
// Ownership: views into the caller's text. Threading: values. Errors: JsonFault, with offset.
// Cost: about 0.1 ns per byte of plain text and 20 ns per member; no heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/splice.h"

namespace berth::proto {

inline constexpr int kJsonMaxDepth = 256;

enum class JsonKind : uint8_t { object, array, string, number, boolean, null };

std::string_view to_string(JsonKind kind);

struct JsonFault {
  size_t offset = 0;
  const char* what = nullptr;  // "expected a colon"; nullptr: no fault
};

// The text between the quotes with escapes resolved. A lone surrogate becomes U+FFFD.
std::string json_unescape(std::string_view raw);

struct JsonMember {
  std::string_view key;  // as written, without the quotes
  bool key_escaped = false;
  size_t key_begin = 0;  // offset of the opening quote
  JsonKind kind = JsonKind::null;
  Span value;  // with quotes or brackets

  // True when the key reads `name` after unescaping.
  bool is(std::string_view name) const {
    return key_escaped ? json_unescape(key) == name : key == name;
  }
};

// The members of one object, in order of appearance.
//
//   JsonMembers members(text);
//   for (JsonMember m; members.next(m);) ...
//   if (members.fault().what) ...
class JsonMembers {
 public:
  // The object starts at `at` after optional white space. Anything else is a fault.
  explicit JsonMembers(std::string_view text, size_t at = 0);

  // The next member; false after the last one, or at a fault.
  bool next(JsonMember& member);

  const JsonFault& fault() const { return fault_; }
  bool complete() const { return done_ && fault_.what == nullptr; }
  size_t open() const { return open_; }  // offset of the opening brace
  size_t end() const { return at_; }     // once complete: one past the closing brace
  // Where the first escape of half a character stands ("\ud83d" without its other half) in the
  // members so far, at any depth. RFC 8259 allows it; encoders of UTF-8 fail on it.
  std::optional<size_t> lone_surrogate() const { return lone_surrogate_; }

 private:
  bool fail(size_t offset, const char* what);

  std::string_view text_;
  size_t at_ = 0;
  size_t open_ = 0;
  bool first_ = true;
  bool done_ = false;
  std::optional<size_t> lone_surrogate_;
  JsonFault fault_;
};

// One past the value that starts at `at` after optional white space; its span and kind.
// nullopt with `fault` set when it is not a valid value or is nested deeper than `max_depth`.
struct JsonValue {
  JsonKind kind = JsonKind::null;
  Span span;
};
std::optional<JsonValue> scan_json_value(std::string_view text, size_t at, JsonFault& fault,
                                         int max_depth = kJsonMaxDepth);

// The first offset at or after `at` that is not white space.
size_t skip_json_space(std::string_view text, size_t at);

// `text` as a JSON string with quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);
void append_json_quoted(std::string& out, std::string_view text);

// Whether `text` stands in a JSON string as it is. False for some texts that do, such as UTF-8.
bool is_json_plain(std::string_view text);

// A number written as a plain non-negative integer that fits; nullopt for anything else.
std::optional<uint64_t> json_uint(std::string_view number);

// The offset of the first byte that does not belong to valid UTF-8; nullopt when all is valid.
std::optional<size_t> invalid_utf8_at(std::string_view text);

}  // namespace berth::proto
