#include "cli/call.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace berth::cli {

std::string percent_encode(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '-' || c == '_' || c == '.' || c == '~';
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string service_path(std::string_view name, std::string_view more) {
  return "/berth/v1/services/" + percent_encode(name) + std::string(more);
}

Json Answer::document() const {
  auto parsed = parse_json(body);
  return parsed && parsed->is_object() ? std::move(*parsed) : Json::object();
}

std::string error_message(int http_status, std::string_view body) {
  auto document = parse_json(body);
  if (document && document->is_object()) {
    auto error = document->find("error");
    if (error != document->end() && error->is_string()) return error->get<std::string>();
    if (error != document->end() && error->is_object()) {
      std::string text = text_of(*error, "message");
      if (!text.empty()) return text;
    }
  }
  std::string piece = harmless(body.substr(0, 200));
  return piece.empty() ? fmt::format("HTTP status {}", http_status)
                       : fmt::format("HTTP status {}: {}", http_status, piece);
}

int fail(Context& context, std::string_view message, int status) {
  context.err(fmt::format("berth: {}\n", message));
  return status;
}

namespace {

std::string may_have_happened(std::string_view what, std::string_view why) {
  return fmt::format(
      "{}: {}. It may or may not have been done: look with `berth ps`, then repeat if need be",
      what, why);
}

// The error's own code says that the outcome is not known.
bool says_unknown(std::string_view body) {
  auto document = parse_json(body);
  if (!document || !document->is_object()) return false;
  auto error = document->find("error");
  return error != document->end() && error->is_object() &&
         text_of(*error, "code") == "unknown_outcome";
}

std::string what_to_do(int http_status) {
  if (http_status == 401) return " (set BERTH_KEY, or `berth login`)";
  return "";
}

}  // namespace

Answer ask_quietly_for(int quiet_status, Context& context, std::string_view what,
                       const ApiRequest& request, Effect effect) {
  Answer answer;
  auto api = context.api();
  if (!api) {
    answer.status = fail(context, api.error().message);
    return answer;
  }
  auto reply = (*api)->call(request);
  if (!reply) {
    bool unknown = effect == Effect::changes && reply.error().code == Code::unknown_outcome;
    if (unknown)
      answer.status = fail(context, may_have_happened(what, reply.error().message), exit_unknown);
    else
      answer.status = fail(context, fmt::format("{}: {}", what, reply.error().message));
    return answer;
  }
  answer.http_status = reply->status;
  answer.body = std::move(reply->body);
  if (answer.http_status >= 200 && answer.http_status < 300) {
    answer.status = exit_ok;
    return answer;
  }
  answer.status = exit_failed;
  if (answer.http_status == quiet_status) return answer;
  std::string message = error_message(answer.http_status, answer.body);
  // A gateway between us and Berth that lost Berth's answer, or Berth that lost Slurm's.
  bool unknown =
      effect == Effect::changes &&
      (answer.http_status == 502 || answer.http_status == 504 || says_unknown(answer.body));
  if (unknown)
    answer.status = fail(context, may_have_happened(what, message), exit_unknown);
  else
    fail(context, fmt::format("{}: {}{}", what, message, what_to_do(answer.http_status)));
  return answer;
}

Answer ask(Context& context, std::string_view what, const ApiRequest& request, Effect effect) {
  return ask_quietly_for(0, context, what, request, effect);
}

Answer get(Context& context, std::string_view what, std::string path) {
  ApiRequest request;
  request.path = std::move(path);
  return ask(context, what, request, Effect::reads);
}

Answer change(Context& context, std::string_view what, std::string method, std::string path,
              const Json* document) {
  ApiRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  if (document) request.body = dump_json(*document);
  request.timeout = seconds(60);
  return ask(context, what, request, Effect::changes);
}

int print_document(Context& context, const Answer& answer) {
  context.out(answer.body);
  if (!answer.body.ends_with('\n')) context.out("\n");
  return answer.status;
}

std::string text_of(const Json& object, std::string_view member) {
  if (!object.is_object()) return "";
  auto it = object.find(member);
  return it != object.end() && it->is_string() ? harmless(it->get<std::string>()) : "";
}

int64_t number_of(const Json& object, std::string_view member, int64_t fallback) {
  if (!object.is_object()) return fallback;
  auto it = object.find(member);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : fallback;
}

std::string status_words(const Json& service) {
  std::string text = text_of(service, "status_text"), status = text_of(service, "status");
  if (text == status) return "";
  if (text.starts_with(status + ": ")) text.erase(0, status.size() + 2);
  return text;
}

const Json& list_of(const Json& object, std::string_view member) {
  static const Json none = Json::array();
  if (!object.is_object()) return none;
  auto it = object.find(member);
  return it != object.end() && it->is_array() ? *it : none;
}

}  // namespace berth::cli
