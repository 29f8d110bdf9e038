// Errors as clients of an OpenAI-style API read them.
//
// One table maps berth::Error to a status and the fields of the error object; all bodies have the
// shape {"error":{"message","type","param","code"}} with param and code strings or null.
// Pure text, any bytes in; the body is always valid JSON in valid UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::proto {

struct ApiError {
  int status = 500;
  std::string type;   // "invalid_request_error", ...
  std::string code;   // "model_not_found", ...; empty is null
  std::string param;  // empty is null
  std::string message;
};

// The one mapping. Details of what failed inside (Source::system, internal) are not shown to
// clients: they belong in the log.
ApiError to_api_error(const Error& error);

// For a status alone (404 for a route, 405, ...).
ApiError make_api_error(int status, std::string_view code, std::string_view message);

std::string error_body(const ApiError& error);

// The same as an event of a stream that has already begun: "data: {...}\n\n".
std::string error_event(const ApiError& error);

}  // namespace berth::proto
