// Token usage of a reply, read beside the bytes as they are relayed.
//
// UsageScan looks for the keys "usage", "finish_reason" and "stop_reason" in the de-chunked
// payload, JSON or Server-Sent Events, in pieces of any size. Inside a JSON string quotes are
// escaped, so the bytes "usage" followed by a colon are always a real key: the search is exact.
//
// Understands chat and text completions, embeddings, rerank (prompt_tokens, completion_tokens,
// total_tokens, prompt_tokens_details.cached_tokens), the responses API (input_tokens,
// output_tokens, input_tokens_details) and Anthropic messages (message_start and message_delta;
// cache_read_input_tokens and cache_creation_input_tokens count as prompt).
//
// Values are cumulative, never increments: of several usage objects the highest value of each
// field counts, so that nothing a caller makes an engine echo can lower it.
// Ownership: keeps no views. Threading: one stream, one thread. Errors: none; what is no usage
// object is ignored. Cost: about 50 ns for an event of 235 bytes without usage; a usage object
// costs about 0.1 us; objects over 4 KiB are ignored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth::proto {

struct Usage {
  uint64_t prompt_tokens = 0;  // all of the prompt, cached or not
  uint64_t completion_tokens = 0;
  uint64_t total_tokens = 0;
  uint64_t cached_tokens = 0;  // the part of the prompt that came from a cache

  bool operator==(const Usage&) const = default;
};

// Where a Usage comes from.
enum class UsageSource : uint8_t {
  none,             // the engine reported nothing
  reported,         // the reply ended as it should and this is its last word
  last_cumulative,  // the reply was cut; this was true at the last event that said so
};

std::string_view to_string(UsageSource source);

// Reads one usage object, `{...}`. False when it has none of the known fields.
bool parse_usage(std::string_view object, Usage& out);

class UsageScan {
 public:
  void feed(std::string_view payload);
  void reset() { *this = UsageScan(); }

  // The highest values so far; total is at least prompt + completion.
  Usage usage() const;
  bool seen() const { return objects_ > 0; }
  uint32_t objects() const { return objects_; }
  // A non-null finish_reason or stop_reason went by.
  bool finish_seen() const { return finish_seen_; }

  // What usage() is worth, given whether the reply ended as its protocol says.
  enum class Ending : uint8_t { complete, cut };
  UsageSource source(Ending ending) const;

 private:
  enum class State : uint8_t { search, key, colon, value, object };
  enum class Key : uint8_t { usage, finish };

  const char* search(const char* p, const char* end);
  const char* continue_key(const char* p, const char* end);
  const char* capture(const char* p, const char* end);
  const char* take_whole(const char* p, const char* end);
  void take(std::string_view object);
  void merge(const Usage& found);

  State state_ = State::search;
  Key key_ = Key::usage;
  bool in_string_ = false;  // while capturing
  bool escaped_ = false;
  uint16_t depth_ = 0;
  uint8_t partial_size_ = 0;
  bool finish_seen_ = false;
  std::array<char, 16> partial_{};  // the beginning of a key that was cut
  uint32_t objects_ = 0;
  std::string object_;  // an object that was cut; empty otherwise
  Usage usage_;
};

}  // namespace berth::proto
