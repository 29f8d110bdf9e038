#include "proto/api_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace berth::proto {
namespace {

Error error(Code code, Source source = Source::berth) {
  Error e;
  e.code = code;
  e.message = "what was tried";
  e.source = source;
  return e;
}

// B27: each case has the one shape that SDKs read, and the status they map to their classes.
TEST(ApiError, EveryCodeHasAStatusAndTheOneShape) {
  struct Row {
    Error error;
    int status;
    const char* type;
    const char* code;
  };
  const Row rows[] = {
      {error(Code::invalid_argument), 400, "invalid_request_error", "invalid_request"},
      {error(Code::unauthenticated), 401, "authentication_error", "invalid_api_key"},
      {error(Code::permission_denied), 403, "permission_error", "permission_denied"},
      {error(Code::not_found), 404, "invalid_request_error", "not_found"},
      {error(Code::conflict), 409, "invalid_request_error", "conflict"},
      {error(Code::too_large), 413, "invalid_request_error", "request_too_large"},
      {error(Code::exhausted), 429, "rate_limit_error", "rate_limit_exceeded"},
      {error(Code::unavailable), 503, "server_error", "unavailable"},
      {error(Code::unavailable, Source::engine), 502, "server_error", "upstream_unavailable"},
      {error(Code::timeout), 504, "timeout_error", "timeout"},
      {error(Code::unknown_outcome), 500, "server_error", "unknown_outcome"},
      {error(Code::cancelled), 499, "invalid_request_error", "client_closed_request"},
      {error(Code::internal), 500, "server_error", "internal_error"},
  };
  for (const Row& row : rows) {
    ApiError api = to_api_error(row.error);
    EXPECT_EQ(api.status, row.status);
    nlohmann::json body = nlohmann::json::parse(error_body(api));
    ASSERT_EQ(body.size(), 1u);
    const nlohmann::json& e = body["error"];
    std::set<std::string> keys;
    for (auto& [key, value] : e.items()) keys.insert(key);
    EXPECT_EQ(keys, (std::set<std::string>{"message", "type", "param", "code"}));
    EXPECT_TRUE(e["message"].is_string());
    EXPECT_EQ(e["type"], row.type);
    EXPECT_EQ(e["code"], row.code);
    EXPECT_TRUE(e["param"].is_null());
  }
}

TEST(ApiError, InsideDetailsAreNotShown) {
  Error e = error(Code::internal);
  e.message = "sqlite: /var/lib/berth/state.db is locked";
  EXPECT_EQ(to_api_error(e).message.find("sqlite"), std::string::npos);
  EXPECT_EQ(to_api_error(error(Code::unavailable, Source::system)).message.find("tried"),
            std::string::npos);
}

TEST(ApiError, AnyMessageGivesValidJson) {
  ApiError api =
      make_api_error(404, "model_not_found", "quote \" back \\ line\n nul \x01 bad \xff end");
  api.param = "model";
  nlohmann::json body = nlohmann::json::parse(error_body(api));
  EXPECT_EQ(body["error"]["message"], "quote \" back \\ line\n nul \x01 bad \xef\xbf\xbd end");
  EXPECT_EQ(body["error"]["param"], "model");
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
}

TEST(ApiError, EventIsOneDataLine) {
  const std::string event = error_event(make_api_error(502, "upstream_disconnected", "two\nlines"));
  EXPECT_TRUE(event.starts_with("data: {\"error\":{"));
  EXPECT_TRUE(event.ends_with("}}\n\n"));
  EXPECT_EQ(event.find('\n'), event.size() - 2);
}

}  // namespace
}  // namespace berth::proto
