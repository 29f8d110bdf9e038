// The parts of an OpenAI-style request and reply that a gateway reads and edits.
//
// peek_request reads a JSON body once, takes the few members it needs and remembers where they
// stand; plan_request_edits turns what the gateway wants changed into splices, so that all other
// bytes reach the engine as the client wrote them: order, numbers, unknown members, white space.
//
// Inputs: whole bodies, up to the caller's own limit (64 MiB costs no more than its own bytes).
// Guarantees: an accepted body is one JSON object in valid UTF-8 with exactly one "model", a
// string. Members that the gateway acts on are refused when they appear twice, because engines
// differ in which one they take; escaped spellings of a key ("mod\u0065l") count as that key.
// Non-guarantees: members it does not know are checked for grammar only.
// Ownership: RequestPeek owns its strings; spans refer to the caller's body.
// Threading: pure functions. Errors: Code::invalid_argument with the position (400).
// Cost: about 0.5 us for a body of 1.5 KB.
//
// Neighbours: multipart.h (forms), api_error.h (error bodies), model_names.h (lists, paths).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "proto/splice.h"

namespace berth::proto {

// What a boolean member said; null counts as absent.
enum class Asked : uint8_t { absent, no, yes };

struct RequestPeek {
  std::string model;  // escapes resolved
  Span model_value;   // with quotes
  bool stream = false;

  Span stream_options;  // the value; empty when the member is absent
  bool stream_options_null = false;
  bool stream_options_empty = false;  // "{}": no comma after an inserted member
  Asked include_usage = Asked::absent;
  Span include_usage_value;  // empty when the member is absent
  Asked continuous_usage = Asked::absent;
  Span continuous_usage_value;

  // max_completion_tokens, else max_output_tokens, else max_tokens; only plain integers.
  std::optional<uint64_t> max_tokens;
  uint64_t n = 1;
  Span user_value;  // with quotes; empty when absent or no string

  size_t object_open = 0;  // offset of the body's opening brace

  bool wants_usage() const { return include_usage == Asked::yes; }
};

Result<RequestPeek> peek_request(std::string_view body);

enum class UsageInjection : uint8_t { none, include, include_and_continuous };

struct RequestEdits {
  std::optional<std::string> model;  // the name the engine serves it under
  UsageInjection usage = UsageInjection::none;
};

// What of an engine's usage must not reach the client.
enum class UsageStrip : uint8_t {
  none,             // the client asked for what the engine sends
  continuous_only,  // it asked for the final usage only: remove usage beside unfinished choices
  all,              // it asked for none: also drop the chunk with empty choices and usage
};

// What is due on the reply to `peek` when `injected` was added to it.
UsageStrip usage_to_strip(const RequestPeek& peek, UsageInjection injected);

// The splices that make `body` (the one that was peeked at) say what `edits` want. Members that
// already say it are left alone.
SpliceList plan_request_edits(const RequestPeek& peek, const RequestEdits& edits);

// What an edited reply, or one event of a stream, needs.
struct ReplyEdits {
  std::string_view quoted_model;     // JSON string with quotes; empty leaves the engine's
  bool drop_usage_chunk = false;     // an object with empty "choices" and a "usage" object
  bool remove_usage_member = false;  // "usage" of objects with choices, null or not
};
enum class ReplyFate : uint8_t { keep, edit, drop };

// Judges one JSON object of a reply; for `edit`, adds splices relative to `json`. The model is
// restored at the top, in "response" (responses API) and in "message" (Anthropic). Keys written
// with escapes, which no engine does, are not these keys. An invalid or unexpected text is kept.
ReplyFate plan_reply_edits(std::string_view json, const ReplyEdits& edits, SpliceList& splices);

}  // namespace berth::proto
