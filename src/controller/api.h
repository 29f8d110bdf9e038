// Berth's own API under /berth/v1/: the control side of the gateway's listener.
//
// A request comes from a shard (forwarded with its bearer token), or from the daemon's UNIX
// socket (where root and the daemon's own user are operators). handle() authenticates, finds the
// route, runs it and gives the whole answer. Errors are the same OpenAI-style body everywhere.
//
// Mutations are durable before the answer says 2xx.
// Ownership: ApiContext outlives the Api. Threading: the control thread only; what blocks
// (scheduler, munge, log files) runs on the context's pool.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "route/route_table.h"
#include "runtime/task.h"

namespace berth::controller {

struct ApiContext;

struct ApiRequest {
  std::string method;
  std::string path;           // as sent, without the query, still percent-encoded
  std::string query;          // after '?', still encoded
  std::string authorization;  // the header's value
  std::string body;
  // Set by the UNIX socket's listener from peer credentials.
  std::optional<route::Caller> peer;
};

struct ApiReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  bool routine = false;  // comes all the time and went well: not worth a line in a log
};

// What a route's function sees.
struct ApiCall {
  const ApiRequest& request;
  route::Caller caller;            // empty for routes that authenticate themselves (leases)
  std::vector<std::string> names;  // the path's variable segments, decoded
  std::map<std::string, std::string> query;
};

// One way in which a route answers when nothing went wrong.
struct ApiAnswer {
  int status;
  std::string_view schema;  // of its document, by the name in api_schema.h
};

struct ApiRoute {
  enum class Auth { key, operator_key, self };
  std::string_view method;
  std::string_view pattern;  // "/berth/v1/services/{name}"
  Auth auth;
  runtime::Task<ApiReply> (*run)(ApiContext& context, const ApiCall& call);
  std::string_view summary;  // one line, for the OpenAPI document
  std::vector<ApiAnswer> answers;
  std::string_view body;  // schema of the request's document; "": none
  std::vector<std::string_view> query;
};

// Every route, in the order of the document.
const std::vector<ApiRoute>& api_routes();

class Api {
 public:
  explicit Api(ApiContext& context) : context_(context) {}
  runtime::Task<ApiReply> handle(ApiRequest request);

 private:
  ApiContext& context_;
};

// Shared by the noun files.
ApiReply reply_json(const Json& document, int status = 200);
// The gateway's table of errors (proto/api_error.h), with what failed inside said: who asks here
// has a key, and operators need the words.
ApiReply reply_error(const Error& error);
// nullopt on bad escapes. '+' is not a space.
std::optional<std::string> percent_decode(std::string_view text);

}  // namespace berth::controller
