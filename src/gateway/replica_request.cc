#include "gateway/replica_request.h"

#include "proto/http1_write.h"
#include "proto/multipart.h"
#include "proto/openai.h"

namespace berth::gateway {

void ReplicaRequest::begin_head(const route::Target& replica, size_t body_size) {
  std::string& h = upstream_.head;
  h.reserve(1024 + (body_size <= kInOne ? body_size : 0));
  h.append(method_).append(" ").append(target_).append(" HTTP/1.1\r\nHost: ");
  h.append(replica.address.starts_with("unix:") ? "localhost" : replica.address).append("\r\n");
  if (!replica.secret.empty())
    h.append("Authorization: Bearer ").append(replica.secret).append("\r\n");
  fields_begin_ = h.size();
}

void ReplicaRequest::take_fields(const proto::RequestHead& head) {
  head.append_passing(upstream_.head);
  fields_size_ = upstream_.head.size() - fields_begin_;
}

void ReplicaRequest::end_head(size_t body_size) {
  std::string& h = upstream_.head;
  h.append("X-Request-Id: ").append(id_);
  h.append("\r\nAccept-Encoding: identity\r\nContent-Length: ");
  proto::append_number(h, body_size);
  h.append("\r\n\r\n");
  head_size_ = h.size();
}

void ReplicaRequest::build_small(const route::Target& replica, const proto::RequestHead& head,
                                 std::string_view body) {
  begin_head(replica, body.size());
  take_fields(head);
  end_head(body.size());
  upstream_.head.append(body);
}

void ReplicaRequest::build(const route::Target& replica, const proto::RequestHead& head,
                           std::string body) {
  if (body.size() <= kInOne) return build_small(replica, head, body);
  begin_head(replica, body.size());
  take_fields(head);
  end_head(body.size());
  upstream_.body = std::move(body);
}

void ReplicaRequest::build_edited(const route::Target& replica, const proto::RequestHead& head,
                                  std::string_view body, const proto::SpliceList& edits) {
  const size_t size = edits.edited_size(body.size());
  begin_head(replica, size);
  take_fields(head);
  end_head(size);
  edits.apply_to(body, size <= kInOne ? upstream_.head : upstream_.body);
}

void ReplicaRequest::rebuild(const route::Target& replica) {
  const std::string old = std::move(upstream_.head), old_body = std::move(upstream_.body);
  upstream_.release();
  std::string_view fields = std::string_view(old).substr(fields_begin_, fields_size_);
  std::string_view body = old_body.empty() ? std::string_view(old).substr(head_size_) : old_body;
  proto::MessageHead view;
  view.fields = fields;
  const std::string_view type = view.find("content-type").value_or(std::string_view());
  std::string edited;
  if (proto::is_multipart(type)) {
    auto peek = proto::peek_multipart(type, body);
    if (peek.ok() && peek->model != replica.served_model)
      edited = proto::plan_multipart_edits(*peek, replica.served_model).apply(body);
  } else {
    auto peek = proto::peek_request(body);
    proto::RequestEdits edits;
    edits.model = replica.served_model;
    if (peek.ok() && peek->model != replica.served_model)
      edited = proto::plan_request_edits(*peek, edits).apply(body);
  }
  if (!edited.empty()) body = edited;
  begin_head(replica, body.size());
  upstream_.head.append(fields);
  end_head(body.size());
  if (body.size() <= kInOne) {
    upstream_.head.append(body);
  } else {
    upstream_.body = std::string(body);
  }
}

}  // namespace berth::gateway
