#include "http/server.h"

#include "base/check.h"
#include "proto/http1_write.h"

namespace berth::http {

using proto::BodyScanner;
using proto::HeadFault;
using proto::HeadState;
using runtime::ReadEnd;
using runtime::ReadResult;
using runtime::Wait;
using runtime::WriteResult;

// One client connection between and during requests. Lives in run_connection()'s frame.
struct Server::Connection {
  Connection(Server& s, StreamPtr st) : server(s), stream(std::move(st)), deadline(s.loop_) {
    next = server.first_;
    if (next) next->prev = this;
    server.first_ = this;
    server.connections_++;
  }
  ~Connection() {
    (prev ? prev->next : server.first_) = next;
    if (next) next->prev = prev;
    server.connections_--;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Server& server;
  StreamPtr stream;
  Deadline deadline;
  std::string in;      // received, not consumed
  size_t in_seen = 0;  // of `in`, looked at in vain
  bool serving = false;
  Connection* prev = nullptr;
  Connection* next = nullptr;
};

struct Server::Door {
  std::unique_ptr<Listener> listener;
  std::shared_ptr<const runtime::TlsContext> tls;
};

Server::Server(Loop& loop, Service& service, ServerOptions options)
    : loop_(loop), service_(service), options_(options), tasks_(loop) {}

Server::~Server() {
  for (auto& door : doors_) door->listener->close();
  tasks_.destroy_all();
}

void Server::listen(std::unique_ptr<Listener> listener,
                    std::shared_ptr<const runtime::TlsContext> tls) {
  auto door = std::make_unique<Door>();
  door->listener = std::move(listener);
  door->tls = std::move(tls);
  doors_.push_back(std::move(door));
  tasks_.spawn(accept_loop(*doors_.back()));
}

void Server::set_tls(std::shared_ptr<const runtime::TlsContext> tls) {
  for (auto& door : doors_) {
    if (door->tls) door->tls = tls;
  }
}

Task<void> Server::accept_loop(Door& door) {
  for (;;) {
    while (connections_ >= options_.max_connections && !draining_)
      co_await runtime::sleep_for(loop_, Duration(20));
    auto accepted = co_await door.listener->accept();
    if (!accepted.ok()) {
      if (accepted.error().code == Code::cancelled) co_return;
      co_await runtime::sleep_for(loop_, Duration(20));
      continue;
    }
    tasks_.spawn(run_connection(std::move(accepted).value(), door.tls));
  }
}

Task<void> Server::drain(Duration grace) {
  draining_ = true;
  for (auto& door : doors_) {
    while (StreamPtr late = door->listener->try_accept())
      tasks_.spawn(run_connection(std::move(late), door->tls));
    door->listener->close();
  }
  // A connection that has not begun a request gets a moment to show one that is under way.
  for (Connection* c = first_; c; c = c->next) {
    if (!c->serving) c->deadline.set_after(Duration(1));
  }
  Deadline limit(loop_);
  limit.set_after(grace);
  while (connections_ > 0 && !limit.expired()) co_await runtime::sleep_for(loop_, Duration(10));
  for (Connection* c = first_; c; c = c->next) c->stream->cut();
  co_await tasks_.join();
}

Task<void> Server::run_connection(StreamPtr stream,
                                  std::shared_ptr<const runtime::TlsContext> tls) {
  Connection c(*this, std::move(stream));
  c.stream->set_half_close(options_.half_close);
  if (tls) {
    c.deadline.set_after(options_.head_deadline);
    Wait wait{nullptr, &c.deadline};
    Status status = co_await runtime::tls_accept(*c.stream, std::move(tls), wait);
    if (!status.ok()) co_return;
  }
  for (;;) {
    Exchange x(*this, c);
    bool has_request = co_await next_request(c, x);
    if (!has_request) break;
    c.serving = true;
    in_flight_++;
    c.deadline.clear();
    co_await service_.serve(x);
    in_flight_--;
    c.serving = false;
    if (!x.answered() && !c.stream->peer_gone())
      co_await x.respond(service_.error_response(500, "the request was not answered"));
    bool unread = x.body_state_ != Exchange::BodyState::here;
    if (unread) co_await linger(c);
    if (x.close_ || unread || draining_ || x.answer_ != Exchange::Answer::whole) break;
  }
}

// Reads the next head. False: the connection is done with (closed, timed out or refused).
Task<bool> Server::next_request(Connection& c, Exchange& x) {
  c.deadline.set_after(draining_ ? Duration(1) : options_.idle_limit);
  bool head_begun = false;
  for (;;) {
    if (!c.in.empty()) {
      c.in.reserve(c.in.size() + Loop::kBufferPadding);  // behind a body, for the JSON scanner
      auto r = proto::parse_request(c.in, c.in_seen, scratch_head_, options_.head);
      if (r.state == HeadState::done) {
        std::string message = std::move(c.in);
        c.in.clear();
        c.in_seen = 0;
        x.own_bytes_ = std::move(message);
        x.begin(x.own_bytes_, false);
        break;
      }
      if (r.state == HeadState::bad) {
        co_await refuse(c, r.fault);
        co_return false;
      }
      c.in_seen = c.in.size();
    }
    if (!c.in.empty() && !head_begun) {
      head_begun = true;
      c.deadline.set_after(options_.head_deadline);
    }
    Wait wait{nullptr, &c.deadline};
    ReadResult got = co_await c.stream->read(wait);
    if (got.end == ReadEnd::timed_out && head_begun)
      co_await refuse(c, 408, "the request head did not arrive in time");
    if (!got.ok()) co_return false;
    std::string_view bytes = got.view.bytes();
    if (!c.in.empty()) {
      c.in.append(bytes);
      continue;
    }
    auto r = proto::parse_request(bytes, 0, scratch_head_, options_.head);
    if (r.state == HeadState::done) {
      x.begin(bytes, true);
      break;
    }
    if (r.state == HeadState::bad) {
      co_await refuse(c, r.fault);
      co_return false;
    }
    c.in.assign(bytes);
    c.in_seen = bytes.size();
  }
  if (x.head().expects_unknown) {
    x.close_ = true;
    co_await x.respond(service_.error_response(417, "only Expect: 100-continue is understood"));
    if (x.body_state_ != Exchange::BodyState::here) co_await linger(c);
    co_return false;
  }
  co_return true;
}

Task<void> Server::refuse(Connection& c, HeadFault fault) {
  switch (fault) {
    case HeadFault::too_large:
      co_await refuse(c, 431, "the request head is larger than allowed");
      break;
    case HeadFault::unknown_coding:
      co_await refuse(c, 501, "a transfer coding other than chunked is not understood");
      break;
    case HeadFault::unknown_version:
      co_await refuse(c, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
      break;
    case HeadFault::bad_framing:
      co_await refuse(c, 400, "Content-Length or Transfer-Encoding is invalid or contradictory");
      break;
    default:
      co_await refuse(c, 400, "the request is not valid HTTP/1.1");
      break;
  }
}

Task<void> Server::refuse(Connection& c, int status, std::string_view message) {
  Response r = service_.error_response(status, message);
  std::string head;
  proto::append_status_line(head, r.status);
  if (!r.content_type.empty()) head.append("Content-Type: ").append(r.content_type).append("\r\n");
  head.append(r.fields).append("Content-Length: ");
  proto::append_number(head, r.body.size());
  head.append("\r\nConnection: close\r\n\r\n");
  WriteResult sent = co_await c.stream->write_stable(head, r.body, {}, options_.write_stall);
  if (sent) co_await linger(c);
}

// Closing with bytes unread would reset the connection and take the answer with it: say FIN, then
// read what the client still sends, for a while.
Task<void> Server::linger(Connection& c) {
  constexpr size_t kMost = 4 * 1024 * 1024;
  c.stream->shutdown_write();
  c.deadline.set_after(seconds(2));
  Wait wait{nullptr, &c.deadline};
  for (size_t dropped = 0; dropped < kMost;) {
    ReadResult got = co_await c.stream->read(wait);
    if (!got.ok()) co_return;
    dropped += got.view.size();
  }
}

// ---- Exchange -------------------------------------------------------------------------------

void Exchange::begin(std::string_view message, bool in_shared_buffer) {
  const proto::RequestHead& h = server_.scratch_head_;
  transient_ = in_shared_buffer;
  epoch_ = server_.loop_.epoch();
  started_ = server_.loop_.now();
  http10_ = h.http10;
  is_head_ = h.method == "HEAD";
  close_ = !h.keep_alive || h.http10;
  scanner_.start_request(h);
  std::string_view after = message.substr(h.size);
  if (scanner_.kind() == BodyScanner::Kind::chunked) {
    body_state_ = after.empty() ? BodyState::unread : BodyState::partly;
    body_view_ = after;
    return;
  }
  size_t length = scanner_.left();
  if (scanner_.done() || after.size() >= length) {
    body_state_ = BodyState::here;
    body_view_ = after.substr(0, length);
    if (after.size() > length) connection_.in.assign(after.substr(length));
  } else {
    body_state_ = after.empty() ? BodyState::unread : BodyState::partly;
    body_view_ = after;
  }
}

const proto::RequestHead& Exchange::head() const {
  if (own_head_) return *own_head_;
  CHECK(epoch_ == server_.loop_.epoch());
  return server_.scratch_head_;
}

std::string_view Exchange::body() const {
  CHECK(body_state_ == BodyState::here);
  CHECK(!transient_ || own_head_ || epoch_ == server_.loop_.epoch());
  return body_view_;
}

std::string Exchange::take_body() {
  if (!own_body_.empty()) {
    body_view_ = {};
    return std::move(own_body_);
  }
  return std::string(body());
}

void Exchange::release_request() {
  own_head_.reset();
  std::string().swap(own_bytes_);
  std::string().swap(own_body_);
  body_view_ = {};
}

// Before the first wait: what stands in the shared buffer, and the head that every connection of
// the server shares, become ours.
void Exchange::keep_head_and_body() {
  if (own_head_) return;
  if (transient_) {
    const proto::RequestHead& h = server_.scratch_head_;
    const char* begin = h.fields.data() + h.fields.size() + 2 - h.size;
    own_bytes_.assign(begin, h.size + body_view_.size());
  }
  auto head = std::make_unique<proto::RequestHead>();
  auto r = proto::parse_request(own_bytes_, 0, *head, server_.options_.head);
  CHECK(r.state == HeadState::done);
  body_view_ = std::string_view(own_bytes_).substr(head->size);
  own_head_ = std::move(head);
}

Status Exchange::eat_body(std::string_view bytes, uint64_t limit) {
  size_t used = scanner_.feed(bytes, [&](std::string_view payload) {
    if (own_body_.size() <= limit) own_body_.append(payload);
  });
  if (scanner_.bad()) return invalid_argument("the chunked request body is malformed");
  if (own_body_.size() > limit) {
    return Error{Code::too_large,
                 "the request body is larger than the limit of " + std::to_string(limit) + " bytes",
                 Source::caller};
  }
  if (used < bytes.size()) connection_.in.assign(bytes.substr(used));
  return Status();
}

Task<Status> Exchange::receive_body(uint64_t limit) {
  if (body_state_ == BodyState::here) {
    if (body_view_.size() <= limit) co_return Status();
    co_return Error{
        Code::too_large,
        "the request body is larger than the limit of " + std::to_string(limit) + " bytes",
        Source::caller};
  }
  bool had_none = body_state_ == BodyState::unread;
  body_state_ = BodyState::failed;
  const bool by_length = scanner_.kind() == BodyScanner::Kind::length;
  if (by_length && scanner_.left() > limit) {
    co_return Error{Code::too_large,
                    "the request body of " + std::to_string(scanner_.left()) +
                        " bytes is larger than the limit of " + std::to_string(limit),
                    Source::caller};
  }
  const bool wants_continue = head().expects_continue && had_none;
  keep_head_and_body();
  constexpr size_t kPadding = Loop::kBufferPadding;
  if (by_length) own_body_.reserve(scanner_.left() + kPadding);
  Status eaten = eat_body(body_view_, limit);
  if (!eaten.ok()) co_return eaten;
  own_bytes_.resize(own_head_->size);  // shrinks; the head's views stay
  connection_.deadline.set_after(server_.options_.body_stall);
  Wait wait{nullptr, &connection_.deadline};
  if (wants_continue) {
    WriteResult sent = co_await client().write_stable("HTTP/1.1 100 Continue\r\n\r\n", {}, wait);
    if (!sent) co_return Error{Code::cancelled, "the client left", Source::caller};
  }
  while (!scanner_.done()) {
    ReadResult got = co_await client().read(wait);
    if (got.end == ReadEnd::timed_out)
      co_return timed_out("the request body did not arrive in time", Source::caller);
    if (!got.ok())
      co_return Error{Code::cancelled, "the client left while it sent its body", Source::caller};
    eaten = eat_body(got.view.bytes(), limit);
    if (!eaten.ok()) co_return eaten;
    connection_.deadline.set_after(server_.options_.body_stall);
  }
  own_body_.reserve(own_body_.size() + kPadding);
  body_view_ = own_body_;
  body_state_ = BodyState::here;
  connection_.deadline.clear();
  co_return Status();
}

Stream& Exchange::client() { return *connection_.stream; }

bool Exchange::closes() const {
  return close_ || server_.draining_ || body_state_ != BodyState::here;
}

void Exchange::relayed(After after) {
  answer_ = Answer::whole;
  if (after == After::close) close_ = true;
}

Task<bool> Exchange::respond(Response response) {
  CHECK(answer_ == Answer::none);
  if (closes()) close_ = true;
  std::string& head = server_.scratch_;
  head.clear();
  proto::append_status_line(head, response.status);
  if (!response.content_type.empty())
    head.append("Content-Type: ").append(response.content_type).append("\r\n");
  head.append(response.fields);
  if (response.status != 204 && response.status >= 200) {
    head.append("Content-Length: ");
    proto::append_number(head, response.body.size());
    head.append("\r\n");
  }
  if (close_) head.append("Connection: close\r\n");
  head.append("\r\n");
  std::string_view body = is_head_ ? std::string_view() : std::string_view(response.body);
  answer_ = Answer::streaming;
  WriteResult sent = co_await client().write(head, body, {}, server_.options_.write_stall);
  if (sent) answer_ = Answer::whole;
  co_return static_cast<bool>(sent);
}

Task<bool> Exchange::start(int status, std::string content_type, std::string fields) {
  CHECK(answer_ == Answer::none);
  if (closes()) close_ = true;
  answer_ = Answer::streaming;
  std::string head;
  proto::append_status_line(head, status);
  head.append("Content-Type: ").append(content_type).append("\r\n").append(fields);
  if (!http10_) head.append("Transfer-Encoding: chunked\r\n");
  if (close_) head.append("Connection: close\r\n");
  head.append("\r\n");
  WriteResult sent = co_await client().write_stable(head, {}, {}, server_.options_.write_stall);
  co_return static_cast<bool>(sent);
}

Task<bool> Exchange::send(std::string bytes) {
  CHECK(answer_ == Answer::streaming);
  if (bytes.empty() || is_head_) co_return true;
  std::string head;
  if (!http10_) {
    proto::append_chunk_size(head, bytes.size());
    bytes.append("\r\n");
  }
  WriteResult sent = co_await client().write_stable(head, bytes, {}, server_.options_.write_stall);
  co_return static_cast<bool>(sent);
}

Task<bool> Exchange::finish() {
  CHECK(answer_ == Answer::streaming);
  std::string_view end = http10_ || is_head_ ? "" : "0\r\n\r\n";
  WriteResult sent = co_await client().write_stable(end, {}, {}, server_.options_.write_stall);
  if (sent) answer_ = Answer::whole;
  co_return static_cast<bool>(sent);
}

}  // namespace berth::http
