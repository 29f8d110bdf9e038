#include "base/json.h"

#include <nlohmann/json.hpp>

namespace berth {

Result<Json> parse_json(std::string_view text, int max_depth) {
  bool too_deep = false;
  try {
    Json document =
        Json::parse(text.begin(), text.end(), [&](int depth, Json::parse_event_t, Json&) {
          if (depth > max_depth) too_deep = true;
          return !too_deep;
        });
    if (too_deep)
      return invalid_argument("the JSON document is nested deeper than " +
                              std::to_string(max_depth) + " levels");
    return document;
  } catch (const Json::parse_error& e) {
    return invalid_argument("not JSON at byte " + std::to_string(e.byte) + ": " + e.what());
  } catch (const Json::exception& e) {
    return invalid_argument(std::string("not JSON: ") + e.what());
  }
}

std::string dump_json(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string dump_json_pretty(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace berth
