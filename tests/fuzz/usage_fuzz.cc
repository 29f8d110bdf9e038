// Usage scanner. Input: [cut seed][payload...].
//
// Holds for any bytes: the result does not depend on how the payload is cut. For a payload that is
// one JSON document without escapes, the scanner finds the usage objects that a walk of the parsed
// document finds, and takes the same values from them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "fuzz_input.h"
#include "proto/usage.h"

namespace {

using berth::fuzz::cut;
using berth::fuzz::FuzzInput;
using namespace berth::proto;
using Json = nlohmann::json;

struct Walk {
  uint32_t objects = 0;
  uint64_t completion = 0;
  bool finish = false;

  void value(const Json& json) {
    if (json.is_array())
      for (const Json& item : json) value(item);
    if (!json.is_object()) return;
    for (auto& [key, item] : json.items()) {
      if ((key == "finish_reason" || key == "stop_reason") && item.is_string()) finish = true;
      if (key == "usage" && item.is_object())
        usage(item);
      else
        value(item);
    }
  }
  void usage(const Json& json) {
    bool known = false;
    uint64_t output = 0;
    for (auto& [key, item] : json.items()) {
      if (!item.is_number_unsigned()) continue;
      const bool completion_key = key == "completion_tokens" || key == "output_tokens";
      known |= completion_key || key == "prompt_tokens" || key == "input_tokens" ||
               key == "total_tokens" || key == "cache_read_input_tokens" ||
               key == "cache_creation_input_tokens";
      if (completion_key) output = item.get<uint64_t>();
    }
    if (!known) return;
    ++objects;
    // Both names in one object: the later one counts, and items() has another order.
    both |= json.contains("completion_tokens") && json.contains("output_tokens");
    completion = std::max(completion, output);
  }
  bool both = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzInput input(bytes, size);
  const uint8_t seed = input.byte();
  const std::string_view payload = input.rest();
  UsageScan whole, pieces;
  whole.feed(payload);
  for (std::string_view piece : cut(payload, seed)) pieces.feed(piece);
  FUZZ_CHECK(whole.usage() == pieces.usage());
  FUZZ_CHECK(whole.objects() == pieces.objects());
  FUZZ_CHECK(whole.finish_seen() == pieces.finish_seen());
  FUZZ_CHECK(whole.usage().cached_tokens <= whole.usage().prompt_tokens);

  // Escaped keys are not searched for, and nlohmann takes a NUL for the end of the text.
  constexpr std::string_view kUnfit("\\\0", 2);
  if (payload.size() > 2000 || payload.find_first_of(kUnfit) != std::string_view::npos) return 0;
  bool twice = false;
  std::vector<std::vector<std::string>> open;
  Json::parser_callback_t callback = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key) {
      for (const std::string& key : open.back()) twice |= key == parsed.get_ref<std::string&>();
      open.back().push_back(parsed.get<std::string>());
    }
    twice |= depth > 12;  // the scanner gives up on deep objects
    return true;
  };
  Json json = Json::parse(payload, callback, false);
  if (json.is_discarded() || twice) return 0;
  Walk walk;
  walk.value(json);
  FUZZ_CHECK(walk.objects == whole.objects());
  FUZZ_CHECK(walk.finish == whole.finish_seen());
  if (!walk.both) FUZZ_CHECK(walk.completion == whole.usage().completion_tokens);
  return 0;
}
