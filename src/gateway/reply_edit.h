// Rewriters of replies: what the gateway changes in an engine's answer, and nothing else.
//
// StreamRewriter: events of a stream; injected usage is stripped and the model's name restored.
// JsonRewriter: a whole JSON answer; the model's name restored. Answers over 16 MiB pass as they
// are. ErrorRewriter: an error answer of any engine becomes the one envelope clients understand;
// one that is already in that shape passes byte for byte, but for a code that is a number. Each
// reads usage beside, where it is given a scanner. Memory: one event, one answer, 64 KiB.
#pragma once

#include <string>
#include <string_view>

#include "http/relay.h"
#include "proto/sse_edit.h"
#include "proto/usage.h"

namespace berth::gateway {

class StreamRewriter final : public http::Rewriter {
 public:
  StreamRewriter(const proto::StreamEdits& edits, proto::UsageScan& usage)
      : edit_(edits), usage_(usage) {}
  void feed(std::string_view payload, std::string& out) override;
  void finish(std::string& out) override;

 private:
  proto::SseEdit edit_;
  proto::UsageScan& usage_;
};

class JsonRewriter final : public http::Rewriter {
 public:
  JsonRewriter(std::string_view model, proto::UsageScan& usage);
  void feed(std::string_view payload, std::string& out) override;
  void finish(std::string& out) override;

 private:
  static constexpr size_t kMost = 16 * 1024 * 1024;
  std::string model_;
  proto::UsageScan& usage_;
  std::string held_;
  bool passing_ = false;
};

class ErrorRewriter final : public http::Rewriter {
 public:
  explicit ErrorRewriter(int status) : status_(status) {}
  void feed(std::string_view payload, std::string& out) override;
  void finish(std::string& out) override;

 private:
  int status_;
  std::string held_;
};

// The envelope for an engine's error body; `body` itself when it already is one.
std::string normal_error(int status, std::string_view body);

}  // namespace berth::gateway
