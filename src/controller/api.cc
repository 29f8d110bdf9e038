#include "controller/api.h"

#include <nlohmann/json.hpp>

#include "base/id.h"
#include "controller/admin.h"
#include "controller/api_context.h"
#include "proto/api_error.h"

namespace berth::controller {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    size_t at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

// The path's variable segments when it has the pattern's shape.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
  auto want = split(pattern, '/'), have = split(path, '/');
  if (want.size() != have.size()) return std::nullopt;
  std::vector<std::string> names;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!want[i].empty() && want[i][0] == '{') {
      auto name = percent_decode(have[i]);
      if (!name || name->empty()) return std::nullopt;
      names.push_back(std::move(*name));
    } else if (want[i] != have[i]) {
      return std::nullopt;
    }
  }
  return names;
}

Result<std::map<std::string, std::string>> parse_query(std::string_view text) {
  std::map<std::string, std::string> out;
  if (text.empty()) return out;
  for (std::string_view pair : split(text, '&')) {
    size_t eq = pair.find('=');
    auto name = percent_decode(pair.substr(0, eq));
    auto value = eq == std::string_view::npos ? std::optional<std::string>("")
                                              : percent_decode(pair.substr(eq + 1));
    if (!name || !value) return invalid_argument("the query has a bad percent escape");
    out[*name] = *value;
  }
  return out;
}

Result<route::Caller> authenticate(ApiContext& context, const ApiRequest& request) {
  if (request.peer) return *request.peer;
  constexpr std::string_view kBearer = "Bearer ";
  Error refused{Code::unauthenticated,
                "no valid API key: send \"Authorization: Bearer KEY\"; a key is made by `berth key "
                "create`",
                Source::caller, Retry::no};
  if (!request.authorization.starts_with(kBearer)) return refused;
  auto keys = context.keys();
  std::string digest = sha256_hex(std::string_view(request.authorization).substr(kBearer.size()));
  const auto* entry = keys->find(digest, context.clock());
  if (!entry) return refused;
  return entry->caller;
}

ApiReply reply_api_error(const proto::ApiError& error) {
  ApiReply reply;
  reply.status = error.status;
  reply.body = proto::error_body(error);
  return reply;
}

}  // namespace

const std::vector<ApiRoute>& api_routes() {
  using enum ApiRoute::Auth;
  static const std::vector<ApiRoute> routes = {
      {"GET",
       "/berth/v1/services",
       key,
       list_services,
       "What the caller may see, with state",
       {{200, "Services"}}},
      {"GET",
       "/berth/v1/services/{name}",
       key,
       get_service,
       "One service with its replicas",
       {{200, "Service"}}},
      {"PUT",
       "/berth/v1/services/{name}",
       key,
       put_service,
       "Declare a service; ?plan=1 says what would happen and does nothing",
       {{200, "Service"}, {201, "Service"}, {200, "Planned"}},
       "Declare",
       {"plan"}},
      {"DELETE",
       "/berth/v1/services/{name}",
       key,
       delete_service,
       "Stop all replicas, then forget the service",
       {{202, "Service"}}},
      {"POST",
       "/berth/v1/services/{name}/actions",
       key,
       act_on_service,
       "start, stop, restart or scale",
       {{200, "Service"}},
       "Action"},
      {"GET",
       "/berth/v1/services/{name}/explain",
       key,
       explain_service,
       "Why it is as it is",
       {{200, "Explanation"}}},
      {"GET",
       "/berth/v1/services/{name}/script",
       key,
       service_script,
       "The batch script of a replica (default: the newest)",
       {{200, "Script"}},
       "",
       {"replica"}},
      {"GET",
       "/berth/v1/services/{name}/events",
       key,
       service_events,
       "The newest events",
       {{200, "Events"}},
       "",
       {"limit"}},
      {"GET",
       "/berth/v1/services/{name}/logs",
       key,
       service_logs,
       "A piece of a replica's output (default: of the newest)",
       {{200, "Log"}},
       "",
       {"replica", "offset", "limit"}},
      {"GET",
       "/berth/v1/keys",
       key,
       list_keys,
       "The caller's keys; an operator sees all",
       {{200, "Keys"}}},
      {"POST",
       "/berth/v1/keys",
       key,
       create_key,
       "Make a key; its text is in this answer only",
       {{201, "MadeKey"}},
       "NewKey"},
      {"DELETE", "/berth/v1/keys/{id}", key, revoke_key, "Revoke a key at once", {{200, "Key"}}},
      {"GET",
       "/berth/v1/grants",
       key,
       list_grants,
       "Who may use which bare name",
       {{200, "Grants"}}},
      {"POST",
       "/berth/v1/grants",
       operator_key,
       create_grant,
       "Let somebody use a bare name",
       {{201, "Grant"}},
       "NewGrant"},
      {"DELETE",
       "/berth/v1/grants/{name}",
       operator_key,
       remove_grant,
       "Take a bare name back",
       {{200, "RemovedGrant"}}},
      {"GET",
       "/berth/v1/leases",
       key,
       list_leases,
       "Registered replicas the caller may see",
       {{200, "Leases"}}},
      {"GET", "/berth/v1/doctor", key, doctor, "What is wrong on this site", {{200, "Findings"}}},
      {"GET",
       "/berth/v1/openapi.json",
       key,
       openapi,
       "This API as an OpenAPI document",
       {{200, "OpenApi"}}},
      {"POST",
       "/berth/v1/leases",
       self,
       register_lease,
       "An agent registers its replica",
       {{201, "Registered"}},
       "Register"},
      {"POST",
       "/berth/v1/leases/{id}/heartbeat",
       self,
       heartbeat,
       "An agent renews its lease",
       {{200, "Beaten"}},
       "Heartbeat"},
      {"POST",
       "/berth/v1/leases/{id}/end",
       self,
       end_lease,
       "An agent deregisters",
       {{200, "Ended"}},
       "End"},
  };
  return routes;
}

runtime::Task<ApiReply> Api::handle(ApiRequest request) {
  bool path_known = false;
  for (const ApiRoute& route : api_routes()) {
    auto names = match(route.pattern, request.path);
    if (!names) continue;
    path_known = true;
    if (route.method != request.method) continue;
    auto query = parse_query(request.query);
    if (!query) co_return reply_error(query.error());
    ApiCall call{request, {}, std::move(*names), std::move(*query)};
    if (route.auth != ApiRoute::Auth::self) {
      auto caller = authenticate(context_, request);
      if (!caller) co_return reply_error(caller.error());
      call.caller = std::move(*caller);
      if (route.auth == ApiRoute::Auth::operator_key &&
          call.caller.role != route::Caller::Role::operator_)
        co_return reply_error(Error{Code::permission_denied, "only an operator may do this",
                                    Source::caller, Retry::no});
    }
    co_return co_await route.run(context_, call);
  }
  if (path_known)
    co_return reply_api_error(
        proto::make_api_error(405, "method_not_allowed",
                              "method " + request.method + " is not allowed on " + request.path));
  co_return reply_api_error(proto::make_api_error(
      404, "route_not_found",
      "no such route: " + request.path + "; the API is described at /berth/v1/openapi.json"));
}

ApiReply reply_json(const Json& document, int status) {
  ApiReply reply;
  reply.status = status;
  reply.body = dump_json(document);
  return reply;
}

ApiReply reply_error(const Error& error) {
  Error here = error;
  // Whatever is away, it is away from Berth: 502 would say that Berth is.
  if (here.code == Code::unavailable) here.source = Source::berth;
  proto::ApiError out = proto::to_api_error(here);
  out.message = error.message;
  return reply_api_error(out);
}

std::optional<std::string> percent_decode(std::string_view text) {
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    int high = digit(text[i + 1]), low = digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

}  // namespace berth::controller
