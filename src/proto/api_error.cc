#include "proto/api_error.h"

#include "proto/json_scan.h"

namespace berth::proto {
namespace {

struct StatusText {
  int status;
  std::string_view type;
  std::string_view code;
};

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr std::string_view kServer = "server_error";

StatusText status_of(const Error& error) {
  switch (error.code) {
    case Code::invalid_argument:
      return {400, kInvalid, "invalid_request"};
    case Code::unauthenticated:
      return {401, "authentication_error", "invalid_api_key"};
    case Code::permission_denied:
      return {403, "permission_error", "permission_denied"};
    case Code::not_found:
      return {404, kInvalid, "not_found"};
    case Code::conflict:
      return {409, kInvalid, "conflict"};
    case Code::too_large:
      return {413, kInvalid, "request_too_large"};
    case Code::exhausted:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case Code::unavailable:
      // The engine did not answer, or there is none to ask.
      return error.source == Source::engine || error.source == Source::peer
                 ? StatusText{502, kServer, "upstream_unavailable"}
                 : StatusText{503, kServer, "unavailable"};
    case Code::timeout:
      return {504, "timeout_error", "timeout"};
    case Code::unknown_outcome:
      return {500, kServer, "unknown_outcome"};
    case Code::cancelled:
      return {499, kInvalid, "client_closed_request"};
    case Code::internal:
      return {500, kServer, "internal_error"};
  }
  return {500, kServer, "internal_error"};
}

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 408:
    case 504:
      return "timeout_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? kServer : kInvalid;
  }
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
  out.append(",\"").append(name).append("\":");
  if (value.empty())
    out.append("null");
  else
    append_json_quoted(out, value);
}

}  // namespace

ApiError to_api_error(const Error& error) {
  const StatusText text = status_of(error);
  ApiError out{text.status, std::string(text.type), std::string(text.code), "", error.message};
  if (error.code == Code::internal ||
      (error.source == Source::system && error.code != Code::invalid_argument))
    out.message = "Berth could not handle this request; its log says why under the request id.";
  return out;
}

ApiError make_api_error(int status, std::string_view code, std::string_view message) {
  return {status, std::string(type_of(status)), std::string(code), "", std::string(message)};
}

std::string error_body(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  out.reserve(error.message.size() + 160);
  append_json_quoted(out, error.message);
  append_member(out, "type", error.type);
  append_member(out, "param", error.param);
  append_member(out, "code", error.code);
  out.append("}}");
  return out;
}

std::string error_event(const ApiError& error) {
  std::string out = "data: ";
  return out.append(error_body(error)).append("\n\n");
}

}  // namespace berth::proto
