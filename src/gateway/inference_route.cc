#include "gateway/inference_route.h"

#include <array>

namespace berth::gateway {

namespace {

constexpr std::array<InferenceRoute, 22> kRoutes = {{
    {"/v1/chat/completions", BodyForm::json, true, false},
    {"/v1/completions", BodyForm::json, true, false},
    {"/v1/embeddings", BodyForm::json, false, false},
    {"/v1/responses", BodyForm::json, false, false},
    {"/v1/messages", BodyForm::json, false, false},
    {"/v1/messages/count_tokens", BodyForm::json, false, false},
    {"/v1/rerank", BodyForm::json, false, false},
    {"/v2/rerank", BodyForm::json, false, false},
    {"/rerank", BodyForm::json, false, false},
    {"/v1/score", BodyForm::json, false, false},
    {"/score", BodyForm::json, false, false},
    {"/classify", BodyForm::json, false, false},
    {"/v1/classify", BodyForm::json, false, false},
    {"/pooling", BodyForm::json, false, false},
    {"/v1/moderations", BodyForm::json, false, false},
    {"/v1/images/generations", BodyForm::json, false, false},
    {"/tokenize", BodyForm::json, false, false},
    {"/detokenize", BodyForm::json, false, false},
    {"/v1/audio/speech", BodyForm::json, false, true},
    {"/v1/audio/transcriptions", BodyForm::json_or_form, false, true},
    {"/v1/audio/translations", BodyForm::json_or_form, false, true},
    {"/v1/images/edits", BodyForm::json_or_form, false, false},
}};

}  // namespace

PathMatch match_path(std::string_view path) {
  PathMatch out;
  for (const InferenceRoute& r : kRoutes) {
    if (r.path == path) {
      out.kind = PathKind::inference;
      out.route = &r;
      return out;
    }
  }
  constexpr std::string_view kItem = "/v1/models/";
  if (path == "/v1/models") {
    out.kind = PathKind::model_list;
  } else if (path.starts_with(kItem)) {
    out.kind = PathKind::model_item;
    out.rest = path.substr(kItem.size());
  } else if (path.starts_with("/berth/v1/") || path == "/berth/v1") {
    out.kind = PathKind::control;
  }
  return out;
}

std::string_view allowed_method(PathKind kind) {
  switch (kind) {
    case PathKind::inference:
      return "POST";
    case PathKind::model_list:
    case PathKind::model_item:
      return "GET";
    default:
      return {};
  }
}

}  // namespace berth::gateway
