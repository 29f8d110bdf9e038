// Request bodies, forms, paths and error texts. Input: [what][choice][text...].
//
// JSON: what simdjson accepts is accepted, and what is accepted simdjson refuses for numbers and
// surrogates only; the model is the one simdjson reads; after the edits a second peek reads what
// was asked for and every other member is byte for byte the same.
// Forms: after the edit a second peek reads the new model, and the rest is the same bytes.
#include <simdjson.h>

#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "fuzz_input.h"
#include "proto/api_error.h"
#include "proto/json_scan.h"
#include "proto/model_names.h"
#include "proto/multipart.h"
#include "proto/openai.h"

namespace {

using berth::Result;
using berth::fuzz::FuzzInput;
using namespace berth::proto;

bool only_a_number_or_surrogate(simdjson::error_code error) {
  return error == simdjson::NUMBER_ERROR || error == simdjson::NUMBER_OUT_OF_RANGE ||
         error == simdjson::STRING_ERROR;
}

void check_grammar(std::string_view body) {
  JsonFault fault;
  std::optional<JsonValue> value = scan_json_value(body, 0, fault);
  const bool ours =
      !invalid_utf8_at(body) && value && skip_json_space(body, value->span.end()) == body.size();
  const simdjson::padded_string padded(body);
  simdjson::dom::parser parser;
  (void)parser.allocate(body.size() + 64, kJsonMaxDepth);
  simdjson::dom::element element;
  const simdjson::error_code error = parser.parse(padded).get(element);
  if (error == simdjson::DEPTH_ERROR) return;
  if (ours)
    FUZZ_CHECK(error == simdjson::SUCCESS || only_a_number_or_surrogate(error));
  else
    FUZZ_CHECK(error != simdjson::SUCCESS);
}

std::string other_members(std::string_view body) {
  std::string out;
  JsonMembers members(body);
  for (JsonMember m; members.next(m);)
    if (!m.is("model") && !m.is("stream_options"))
      out.append(m.key).append("=").append(m.value.of(body)).append("\n");
  return out;
}

std::string other_options(std::string_view body, Span options) {
  std::string out;
  if (options.empty() || body[options.begin] != '{') return out;
  JsonMembers members(body, options.begin);
  for (JsonMember m; members.next(m);)
    if (!m.is("include_usage") && !m.is("continuous_usage_stats"))
      out.append(m.key).append("=").append(m.value.of(body)).append("\n");
  return out;
}

void check_body(std::string_view body, uint8_t choice) {
  check_grammar(body);
  Result<RequestPeek> peek = peek_request(body);
  if (!peek.ok()) {
    FUZZ_CHECK(!peek.error().message.empty());
    return;
  }
  RequestEdits edits;
  edits.usage = static_cast<UsageInjection>(choice % 3);
  if (choice & 4) edits.model = choice & 8 ? "a/\"b\"\n" : "served";
  const SpliceList splices = plan_request_edits(*peek, edits);
  const std::string after = splices.apply(body);
  FUZZ_CHECK(splices.edited_size(body.size()) == after.size());
  std::string joined;
  for (std::string_view piece : splices.pieces(body)) joined += piece;
  FUZZ_CHECK(joined == after);

  Result<RequestPeek> again = peek_request(after);
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again->model == edits.model.value_or(peek->model));
  FUZZ_CHECK(again->stream == peek->stream && again->n == peek->n);
  FUZZ_CHECK(again->max_tokens == peek->max_tokens);
  if (edits.usage != UsageInjection::none) FUZZ_CHECK(again->include_usage == Asked::yes);
  if (edits.usage == UsageInjection::include_and_continuous)
    FUZZ_CHECK(again->continuous_usage == Asked::yes);
  FUZZ_CHECK(other_members(after) == other_members(body));
  FUZZ_CHECK(other_options(after, again->stream_options) ==
             other_options(body, peek->stream_options));
  FUZZ_CHECK(plan_request_edits(*again, edits).empty());
  if (splices.empty()) FUZZ_CHECK(after == body);
}

void check_form(std::string_view body) {
  constexpr std::string_view kType = "multipart/form-data; boundary=bnd";
  Result<MultipartPeek> peek = peek_multipart(kType, body);
  if (!peek.ok()) return;
  FUZZ_CHECK(peek->model_value.of(body) == peek->model);
  const std::string after = plan_multipart_edits(*peek, "org/new-model").apply(body);
  Result<MultipartPeek> again = peek_multipart(kType, after);
  FUZZ_CHECK(again.ok() && again->model == "org/new-model" && again->stream == peek->stream);
  FUZZ_CHECK(plan_multipart_edits(*again, peek->model).apply(after) == body);
}

void check_texts(std::string_view text) {
  const ApiError error{400, "t", std::string(text.substr(0, 20)), "", std::string(text)};
  const nlohmann::json body = nlohmann::json::parse(error_body(error));
  FUZZ_CHECK(body["error"].size() == 4);
  if (!invalid_utf8_at(text)) {
    FUZZ_CHECK(body["error"]["message"] == std::string(text));
    std::string quoted = json_quote(text);
    FUZZ_CHECK(json_unescape(std::string_view(quoted).substr(1, quoted.size() - 2)) == text);
  }
  const std::string event = error_event(error);
  FUZZ_CHECK(event.find_first_of("\r\n") == event.size() - 2);
  if (std::optional<std::string> id = model_id_from_path(text)) FUZZ_CHECK(!invalid_utf8_at(*id));
  std::vector<std::string> names = {"qwen3-coder-30b", "org/other", std::string(text)};
  const std::vector<std::string> near = berth::nearest(text, names, 3);
  if (!text.empty()) FUZZ_CHECK(!near.empty() && near.size() <= 3);
  for (std::string_view type : {text, std::string_view("multipart/form-data; boundary=bnd")})
    (void)peek_multipart(type, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzInput input(bytes, size);
  const uint8_t what = input.byte();
  const uint8_t choice = input.byte();
  switch (what % 4) {
    case 0:
    case 1:
      check_body(input.rest(), choice);
      break;
    case 2:
      check_form(input.rest());
      break;
    case 3:
      check_texts(input.rest());
      break;
  }
  return 0;
}
