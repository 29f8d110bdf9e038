// Health and metrics on a port and a thread of their own, so that a busy gateway still answers.
//
//   GET /health/live    200 as long as the process runs
//   GET /health/ready   200 while it takes new requests, 503 once it drains
//   GET /metrics        Prometheus text
// Unauthenticated: keep the address on loopback or a management network.
// Ownership: `metrics` and `ready` are called on the health thread and must be safe there.
#pragma once

#include <functional>
#include <string>

#include "http/server.h"

namespace berth::app {

class HealthService final : public http::Service {
 public:
  enum class Ready { yes, draining };

  HealthService(std::function<std::string()> metrics, std::function<Ready()> ready)
      : metrics_(std::move(metrics)), ready_(std::move(ready)) {}

  runtime::Task<void> serve(http::Exchange& exchange) override;
  http::Response error_response(int status, std::string_view message) override;

 private:
  std::function<std::string()> metrics_;
  std::function<Ready()> ready_;
};

}  // namespace berth::app
