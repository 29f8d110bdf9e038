#include "app/control_service.h"

#include <pwd.h>
#include <unistd.h>

namespace berth::app {
namespace {

std::string user_name(uint32_t uid) {
  char buffer[16384];
  passwd entry{}, *found = nullptr;
  if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found) return found->pw_name;
  return "uid-" + std::to_string(uid);
}

}  // namespace

http::Response to_response(controller::ApiReply reply) {
  http::Response response;
  response.status = reply.status;
  response.body = std::move(reply.body);
  response.content_type = std::move(reply.content_type);
  if (reply.status == 429 || reply.status == 503) response.fields = "Retry-After: 2\r\n";
  return response;
}

runtime::Task<void> ControlService::serve(http::Exchange& exchange) {
  controller::ApiRequest request;
  request.method = std::string(exchange.head().method);
  std::string_view target = exchange.head().target;
  size_t question = target.find('?');
  request.path = std::string(target.substr(0, question));
  if (question != std::string_view::npos) request.query = std::string(target.substr(question + 1));
  request.authorization = std::string(exchange.head().authorization);
  if (!request.path.starts_with("/berth/")) {
    controller::ApiReply elsewhere = controller::reply_error(
        not_found("this socket serves /berth/v1 only; for " + request.path +
                  " use the gateway's address (STATE/address) and a key: BERTH_URL=http://..., "
                  "BERTH_KEY=..."));
    http::Response response = to_response(std::move(elsewhere));
    co_await exchange.respond(std::move(response));
    co_return;
  }
  Status body = co_await exchange.receive_body(body_limit_);
  if (!body) {
    http::Response refused = to_response(controller::reply_error(body.error()));
    co_await exchange.respond(std::move(refused));
    co_return;
  }
  request.body = exchange.take_body();
  auto peer = exchange.client().peer_ids();
  if (peer && (peer->uid == 0 || peer->uid == ::geteuid()) && request.authorization.empty()) {
    request.peer.emplace();
    request.peer->user = user_name(peer->uid);
    request.peer->role = route::Caller::Role::operator_;
  }
  controller::ApiReply reply = co_await api_.handle(std::move(request));
  http::Response response = to_response(std::move(reply));
  co_await exchange.respond(std::move(response));
}

http::Response ControlService::error_response(int status, std::string_view message) {
  controller::ApiReply reply = controller::reply_error(invalid_argument(std::string(message)));
  reply.status = status;
  return to_response(std::move(reply));
}

}  // namespace berth::app
