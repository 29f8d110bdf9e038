// The allow-list: which paths of engines the gateway passes on, and how it treats each.
//
// Everything that is not listed stays closed, whatever an engine may offer (law: other routes of
// the engine stay closed). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace berth::gateway {

enum class PathKind : uint8_t {
  unknown,
  inference,   // POST, relayed to a replica
  model_list,  // GET /v1/models
  model_item,  // GET /v1/models/...
  control,     // /berth/v1/...: the controller answers
};

enum class BodyForm : uint8_t { json, json_or_form };

struct InferenceRoute {
  std::string_view path;
  BodyForm form = BodyForm::json;
  bool takes_stream_options = false;  // usage may be asked for in a stream
  bool is_audio = false;              // has a body limit of its own
};

struct PathMatch {
  PathKind kind = PathKind::unknown;
  const InferenceRoute* route = nullptr;  // of inference
  std::string_view rest;                  // of model_item: what stands behind "/v1/models/"
};

// `path` without query, as sent.
PathMatch match_path(std::string_view path);

// "POST", "GET"; empty: any.
std::string_view allowed_method(PathKind kind);

}  // namespace berth::gateway
