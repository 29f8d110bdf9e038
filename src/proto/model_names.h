// Names of models in lists, in paths and in messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::proto {

// One entry of GET /v1/models. Fields beyond OpenAI's follow what engines and clients use.
struct ModelEntry {
  std::string id;
  int64_t created_s = 0;  // seconds since 1970
  std::string owned_by;
  std::string state;            // "ready", "starting", ...; empty leaves it out
  uint64_t context_length = 0;  // tokens; 0 is unknown and left out; also as max_model_len
  std::string note;             // why it is not ready, for people; empty leaves it out
};

std::string model_body(const ModelEntry& entry);
std::string model_list_body(std::span<const ModelEntry> entries);

// The model id in the path after "/v1/models/": percent escapes are resolved once, slashes may be
// raw, a query is cut off. nullopt for broken escapes, control characters, bytes that are not
// UTF-8 and an empty name: no model is called that.
std::optional<std::string> model_id_from_path(std::string_view tail);

// "The model `x` does not exist or you may not use it. Did you mean `y` or `z`?"
std::string unknown_model_message(std::string_view wanted, std::span<const std::string> nearest);

}  // namespace berth::proto
