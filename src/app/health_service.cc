#include "app/health_service.h"

namespace berth::app {
namespace {

http::Response plain(int status, std::string text) {
  http::Response response;
  response.status = status;
  response.body = std::move(text);
  response.content_type = "text/plain; charset=utf-8";
  return response;
}

}  // namespace

runtime::Task<void> HealthService::serve(http::Exchange& exchange) {
  std::string path(exchange.head().path());
  bool get = exchange.head().method == "GET" || exchange.head().method == "HEAD";
  http::Response response;
  if (!get) {
    response = plain(405, "only GET is allowed here\n");
  } else if (path == "/health/live") {
    response = plain(200, "alive\n");
  } else if (path == "/health/ready" || path == "/health") {
    bool ready = ready_() == Ready::yes;
    response = plain(ready ? 200 : 503, ready ? "ready\n" : "draining\n");
  } else if (path == "/metrics") {
    response = plain(200, metrics_());
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  } else {
    response = plain(404, "there is /health/live, /health/ready and /metrics\n");
  }
  co_await exchange.respond(std::move(response));
}

http::Response HealthService::error_response(int status, std::string_view message) {
  return plain(status, std::string(message) + "\n");
}

}  // namespace berth::app
