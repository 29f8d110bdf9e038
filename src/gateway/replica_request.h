// ReplicaRequest: the bytes of one client's request as one replica gets them.
//
// Of the client's head only the fields that pass a gateway go on; Host, credential, request id,
// Accept-Encoding (identity) and Content-Length are the gateway's. The body is what the caller
// gives. A small one stands behind the head in one buffer, so that one send carries both.
// rebuild() makes the request for another replica out of the first one's bytes: same fields, same
// body but for the model's name; the client's own bytes need not be kept for it.
// Ownership: keeps references to method, target and id. Threading: a value of its session.
#pragma once

#include <string>
#include <string_view>

#include "http/relay.h"
#include "proto/http1.h"
#include "proto/splice.h"
#include "route/route_table.h"

namespace berth::gateway {

class ReplicaRequest {
 public:
  static constexpr size_t kInOne = 32 * 1024;

  ReplicaRequest(const std::string& method, const std::string& target, std::string_view id)
      : method_(method), target_(target), id_(id) {}

  // `body` is copied behind the head.
  void build_small(const route::Target& replica, const proto::RequestHead& head,
                   std::string_view body);
  void build(const route::Target& replica, const proto::RequestHead& head, std::string body);
  // `body` with the edits.
  void build_edited(const route::Target& replica, const proto::RequestHead& head,
                    std::string_view body, const proto::SpliceList& edits);
  // Only as long as no response has begun (upstream() still holds the request).
  void rebuild(const route::Target& replica);

  http::UpstreamRequest& upstream() { return upstream_; }

 private:
  void begin_head(const route::Target& replica, size_t body_size);
  void take_fields(const proto::RequestHead& head);
  void end_head(size_t body_size);

  const std::string& method_;
  const std::string& target_;
  std::string_view id_;
  http::UpstreamRequest upstream_;
  size_t fields_begin_ = 0;  // of the client's fields in upstream_.head
  size_t fields_size_ = 0;
  size_t head_size_ = 0;
};

}  // namespace berth::gateway
