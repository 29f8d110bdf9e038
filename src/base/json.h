// JSON for the control plane: nlohmann's document, never used per request of a client.
//
// Headers that only pass documents around include this one; it declares, it does not define.
// Code that builds or reads documents includes <nlohmann/json.hpp> itself, in its .cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth {

using Json = nlohmann::json;

// Parses a document of at most `max_depth` levels. The message names the byte where it broke.
Result<Json> parse_json(std::string_view text, int max_depth = 64);

// Compact text; invalid UTF-8 becomes U+FFFD rather than an exception.
std::string dump_json(const Json& document);
// The same, indented for people.
std::string dump_json_pretty(const Json& document);

}  // namespace berth
