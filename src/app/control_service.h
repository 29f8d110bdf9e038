// The API on the daemon's own UNIX socket, STATE/berth.sock.
//
// Root and the daemon's own user are operators there, by the kernel's word (SO_PEERCRED); others
// need a key as they would over TCP. Runs on the control loop, where the Api lives.
#pragma once

#include "controller/api.h"
#include "http/server.h"

namespace berth::app {

class ControlService final : public http::Service {
 public:
  // `api` outlives the service. `body_limit` in bytes.
  ControlService(controller::Api& api, uint64_t body_limit) : api_(api), body_limit_(body_limit) {}

  runtime::Task<void> serve(http::Exchange& exchange) override;
  http::Response error_response(int status, std::string_view message) override;

 private:
  controller::Api& api_;
  uint64_t body_limit_;
};

// The reply of the API as an HTTP response.
http::Response to_response(controller::ApiReply reply);

}  // namespace berth::app
