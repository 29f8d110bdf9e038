#include "proto/multipart.h"

#include <fmt/format.h>

#include <optional>

#include "proto/http1.h"
#include "proto/json_scan.h"

namespace berth::proto {
namespace {

Error bad_form(std::string message) {
  Error error = invalid_argument(std::move(message));
  error.source = Source::caller;
  return error;
}

std::string_view trim_blanks(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// The parameter `name` of a header value such as `form-data; name="model"`, unquoted.
std::optional<std::string> parameter(std::string_view value, std::string_view name) {
  size_t at = value.find(';');
  while (at != std::string_view::npos && at < value.size()) {
    ++at;  // past the semicolon
    const size_t equals = value.find_first_of("=;", at);
    if (equals == std::string_view::npos) return std::nullopt;
    if (value[equals] == ';') {
      at = equals;
      continue;
    }
    const bool wanted = equals_ignoring_case(trim_blanks(value.substr(at, equals - at)), name);
    at = equals + 1;
    while (at < value.size() && (value[at] == ' ' || value[at] == '\t')) ++at;
    std::string text;
    if (at < value.size() && value[at] == '"') {
      for (++at; at < value.size() && value[at] != '"'; ++at) {
        if (value[at] == '\\' && at + 1 < value.size()) ++at;
        text.push_back(value[at]);
      }
      if (at == value.size()) return std::nullopt;  // the quote does not close
      at = value.find(';', at + 1);
    } else {
      const size_t stop = value.find(';', at);
      text = trim_blanks(value.substr(at, stop == std::string_view::npos ? stop : stop - at));
      at = stop;
    }
    if (wanted) return text;
  }
  return std::nullopt;
}

// The field name in a part's head; empty when it says none.
std::string form_field(std::string_view head) {
  while (!head.empty()) {
    const size_t stop = head.find("\r\n");
    const std::string_view line = head.substr(0, stop);
    head = stop == std::string_view::npos ? std::string_view() : head.substr(stop + 2);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    if (!equals_ignoring_case(trim_blanks(line.substr(0, colon)), "content-disposition")) continue;
    return parameter(line.substr(colon + 1), "name").value_or("");
  }
  return {};
}

Status take_field(std::string_view body, std::string_view name, Span value, MultipartPeek& peek) {
  const std::string_view text = value.of(body);
  if (name == "stream") {
    peek.stream = equals_ignoring_case(text, "true") || text == "1";
    return {};
  }
  if (name != "model") return {};
  if (peek.model_value.begin != 0) return bad_form("The form has two \"model\" fields; send one.");
  if (text.empty()) return bad_form("The form's \"model\" field is empty; name a model.");
  if (text.size() > 1024 || text.find_first_of("\r\n") != std::string_view::npos ||
      invalid_utf8_at(text))
    return bad_form("The form's \"model\" field is not a model's name.");
  peek.model = text;
  peek.model_value = value;
  return {};
}

}  // namespace

bool is_multipart(std::string_view content_type) {
  return equals_ignoring_case(trim_blanks(content_type.substr(0, content_type.find(';'))),
                              "multipart/form-data");
}

Result<MultipartPeek> peek_multipart(std::string_view content_type, std::string_view body) {
  std::optional<std::string> boundary = parameter(content_type, "boundary");
  if (!is_multipart(content_type) || !boundary || boundary->empty() || boundary->size() > 200)
    return bad_form("The Content-Type of a form should be multipart/form-data with a boundary.");
  const std::string delimiter = "\r\n--" + *boundary;
  // The first delimiter may stand at the very beginning, without the line break.
  size_t at;
  if (body.starts_with(std::string_view(delimiter).substr(2))) {
    at = delimiter.size() - 2;
  } else {
    at = body.find(delimiter);
    if (at == std::string_view::npos)
      return bad_form("The form does not contain the boundary that its Content-Type names.");
    at += delimiter.size();
  }
  MultipartPeek peek;
  for (;;) {
    if (body.substr(at).starts_with("--")) break;  // the closing delimiter
    while (at < body.size() && (body[at] == ' ' || body[at] == '\t')) ++at;
    if (!body.substr(at).starts_with("\r\n"))
      return bad_form(
          fmt::format("The form is broken at byte {}: a delimiter has no line end.", at));
    const size_t head = at + 2;
    // A part without any header begins with the blank line itself.
    const size_t blank = body.find("\r\n\r\n", at);
    if (blank == std::string_view::npos)
      return bad_form(fmt::format("The form's part at byte {} has no end of its head.", head));
    if (body.substr(at, blank - at).find(delimiter) != std::string_view::npos)
      return bad_form(fmt::format("The form's part at byte {} has no end of its head.", head));
    const size_t data = blank + 4;
    const size_t next = body.find(delimiter, data - 2);
    if (next == std::string_view::npos)
      return bad_form(fmt::format("The form's part at byte {} does not end.", head));
    if (next >= data) {
      const std::string_view lines =
          blank > head ? body.substr(head, blank - head) : std::string_view();
      const Span value{data, next - data};
      if (Status s = take_field(body, form_field(lines), value, peek); !s) return s.error();
    }
    at = next + delimiter.size();
  }
  if (peek.model_value.begin == 0) return bad_form("The form has no \"model\" field; name one.");
  return peek;
}

SpliceList plan_multipart_edits(const MultipartPeek& peek, std::string_view model) {
  SpliceList splices;
  if (model != peek.model) splices.add(peek.model_value, model);
  return splices;
}

}  // namespace berth::proto
