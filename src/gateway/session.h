// Session: one request, from its head to its line in the access log.
//
// The steps read top to bottom: identify, admit, read the body, find the model, relay to
// replica after replica until one answers, account. Whatever it holds (the place in a replica's
// load) is released by destructors, so every way out is the same way (law 1).
//
// Retries: another replica is tried when this one could not be reached, was full (429, 503), was a
// gateway that failed (502, 504), or closed a fresh connection without a byte; never after the
// client has seen a byte, and never for other statuses (law 4).
// Ownership: lives in the coroutine frame of Shard::serve(). Threading: the shard's.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/inference_route.h"
#include "gateway/replica_request.h"
#include "gateway/reply_edit.h"
#include "gateway/shard.h"
#include "proto/openai.h"
#include "proto/usage.h"

namespace berth::gateway {

class Session final : private http::RelayObserver {
 public:
  Session(Shard& shard, http::Exchange& exchange);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // In this order, so that a relayed stream keeps few frames alive: answer(); when that admitted
  // the request, relay_to_replicas(); when that failed(), refuse_failed(); then account().
  runtime::Task<void> answer();
  bool admitted() const { return admitted_; }
  runtime::Task<void> relay_to_replicas();
  bool failed() const { return failure_ != nullptr; }
  runtime::Task<void> refuse_failed();
  void account();

 private:
  std::string_view id() const { return {id_.data(), id_.size()}; }
  using Refusal = std::optional<proto::ApiError>;

  // Steps; a Refusal is the answer.
  Refusal authenticate();
  Refusal read_request();
  Refusal find_route();
  runtime::Task<void> serve_models();
  runtime::Task<void> admit();
  runtime::Task<void> serve_control();
  runtime::Task<void> preflight();

  bool try_another(const http::RelayResult& result) const;
  proto::ApiError upstream_error(const http::RelayResult& result) const;
  proto::ApiError busy_error() const;

  runtime::Task<void> refuse(proto::ApiError error);
  runtime::Task<void> respond(http::Response response);
  void append_common_fields(std::string& fields) const;
  void note_result(const route::Target& target, const http::RelayResult& result);

  // RelayObserver
  Plan on_head(const proto::ResponseHead& head, std::string& fields) override;
  void on_payload(std::string_view payload) override;
  std::string break_event(http::RelayEnd why) override;

  Shard& shard_;
  http::Exchange& exchange_;
  std::shared_ptr<const Shard::View> view_;
  const std::array<char, 32> id_;
  std::string method_;
  std::string target_;  // path and query as sent
  std::string cors_;    // field lines, or empty
  PathMatch match_;
  const route::KeyTable::Entry* key_ = nullptr;
  const route::Route* route_ = nullptr;
  std::string model_;  // as the client wrote it

  ReplicaRequest request_;
  size_t body_size_ = 0;                    // as the client sent it
  const route::Target* replica_ = nullptr;  // being tried
  int retry_after_s_ = 0;                   // of the last replica that was full
  bool admitted_ = false;
  std::unique_ptr<proto::ApiError> failure_;  // of the last replica, to be answered
  bool stream_ = false;
  bool usage_injected_ = false;
  bool counts_usage_ = false;
  bool routine_ = false;        // no line in the access log
  bool streams_reply_ = false;  // an event stream is on its way to the client
  proto::UsageScan usage_;
  std::unique_ptr<http::Rewriter> rewriter_;

  int attempts_ = 0;
  int status_ = 0;
  uint64_t bytes_out_ = 0;
  runtime::MonoTime first_payload_at_{};
  std::string_view end_;
  std::string error_code_;
  std::string_view replica_id_;  // of a target in view_
};

}  // namespace berth::gateway
