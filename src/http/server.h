// An HTTP/1.1 server on one loop: connections in, requests to a Service, answers out.
//
// The server reads and checks heads, keeps connections alive, takes pipelined requests one after
// the other, bounds heads, bodies and every wait, and drains. A Service is a coroutine that answers
// an Exchange in one of three ways: respond() with a whole Response; start(), send() and finish()
// to stream one; or take the client's stream and relay onto it (relay.h), then say so by relayed().
//
// Guarantees: serve() is called before the body is read, so that a refusal costs nothing; 100
// Continue is sent only by receive_body(), that is, when the request was accepted. A request whose
// body was not read is answered, then the connection is closed without losing the answer.
// A service that returns without answering gets a 500 sent for it.
// Non-guarantees: no routing, no content coding, no HTTP/2.
// Ownership: the server owns its connections; it must outlive drain(), and the service the server.
// Threading: the loop's thread. Errors: what is wrong with a request before serve() is answered
// with Service::error_response(), which is the only place that knows how errors look. Cost: one
// read and one write a request; no timer or epoll system calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "proto/http1_body.h"
#include "runtime/loop.h"
#include "runtime/socket.h"
#include "runtime/tls.h"

namespace berth::http {

using runtime::Deadline;
using runtime::HalfClose;
using runtime::Listener;
using runtime::Loop;
using runtime::MonoTime;
using runtime::Stream;
using runtime::StreamPtr;
using runtime::Task;

struct Response {
  int status = 200;
  std::string fields;  // further field lines, each "Name: value\r\n"; no framing, no Connection
  std::string body;
  std::string content_type = "application/json";  // empty: none
};

class Exchange;

class Service {
 public:
  virtual ~Service() = default;
  virtual Task<void> serve(Exchange& exchange) = 0;
  // The answer to a request that never reached serve(), or that serve() failed to answer.
  // `message`: what is wrong, one sentence.
  virtual Response error_response(int status, std::string_view message) = 0;
};

struct ServerOptions {
  proto::HeadLimits head;
  Duration head_deadline = seconds(30);  // from a head's first byte to its end
  Duration body_stall = seconds(60);     // between two pieces of a body
  Duration idle_limit = seconds(75);     // between requests
  Duration write_stall = seconds(60);    // a client that takes nothing for so long has left
  HalfClose half_close = HalfClose::is_leaving;
  size_t max_connections = 100'000;  // further ones wait in the backlog
};

class Server {
 public:
  Server(Loop& loop, Service& service, ServerOptions options = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Accepts on it until drain(). With a TLS context every connection is under TLS.
  void listen(std::unique_ptr<Listener> listener,
              std::shared_ptr<const runtime::TlsContext> tls = {});
  // For new connections; open ones keep the old one.
  void set_tls(std::shared_ptr<const runtime::TlsContext> tls);

  // Stops accepting, closes idle connections, tells clients in flight to close, waits for them up
  // to `grace`, then cuts the rest.
  Task<void> drain(Duration grace);

  size_t connections() const { return connections_; }
  size_t in_flight() const { return in_flight_; }
  bool draining() const { return draining_; }
  Loop& loop() { return loop_; }

 private:
  friend class Exchange;
  struct Connection;
  struct Door;

  Task<void> accept_loop(Door& door);
  Task<void> run_connection(StreamPtr stream, std::shared_ptr<const runtime::TlsContext> tls);
  Task<bool> next_request(Connection& c, Exchange& x);
  Task<void> refuse(Connection& c, proto::HeadFault fault);
  Task<void> refuse(Connection& c, int status, std::string_view message);
  Task<void> linger(Connection& c);

  Loop& loop_;
  Service& service_;
  ServerOptions options_;
  std::vector<std::unique_ptr<Door>> doors_;
  Connection* first_ = nullptr;
  size_t connections_ = 0;
  size_t in_flight_ = 0;
  bool draining_ = false;
  proto::RequestHead scratch_head_;  // of the request being looked at; see Exchange::head()
  std::string scratch_;              // response heads under construction
  runtime::TaskScope tasks_;
};

// One request and its answer.
class Exchange {
 public:
  Exchange(Server& server, Server::Connection& connection)
      : server_(server), connection_(connection) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // The request's head. Valid until the next co_await; again after receive_body(), and then until
  // release_request(). Other use aborts.
  const proto::RequestHead& head() const;

  // Whether the whole body is in memory (also when there is none).
  bool body_is_here() const { return body_state_ == BodyState::here; }
  // Waits for the whole body, at most `limit` bytes. Errors: too_large (said before anything is
  // read when the length is declared), invalid_argument (bad chunks), timeout, cancelled (the
  // client left). After an error the connection will be closed behind the answer.
  Task<Status> receive_body(uint64_t limit);
  // The body; at least 64 readable bytes stand behind it. Lifetime as of head().
  std::string_view body() const;
  // Moves the body out (or copies it, when it is still in the shared buffer).
  std::string take_body();
  // Frees head and body.
  void release_request();

  // A whole answer. False: the client is gone.
  Task<bool> respond(Response response);
  // A streamed one; chunked, or until close for HTTP/1.0. `fields` as in Response.
  Task<bool> start(int status, std::string content_type, std::string fields = {});
  Task<bool> send(std::string bytes);
  Task<bool> finish();
  // The answer was written onto client() by somebody else.
  enum class After { keep_open, close };
  void relayed(After after);

  Stream& client();
  Loop& loop() { return server_.loop_; }
  // When the head was complete.
  MonoTime started() const { return started_; }
  bool is_http10() const { return http10_; }
  bool answered() const { return answer_ != Answer::none; }
  // Whether the answer has to say Connection: close.
  bool closes() const;
  Duration write_stall() const { return server_.options_.write_stall; }

 private:
  friend class Server;
  enum class BodyState : uint8_t { here, partly, unread, failed };
  enum class Answer : uint8_t { none, streaming, whole };

  void begin(std::string_view message, bool in_shared_buffer);
  void keep_head_and_body();
  Status eat_body(std::string_view bytes, uint64_t limit);

  Server& server_;
  Server::Connection& connection_;
  uint64_t epoch_ = 0;
  bool transient_ = false;  // head and body stand in the loop's shared buffer
  bool http10_ = false;
  bool is_head_ = false;
  bool close_ = false;
  BodyState body_state_ = BodyState::here;
  Answer answer_ = Answer::none;
  MonoTime started_{};
  std::unique_ptr<proto::RequestHead> own_head_;
  std::string own_bytes_;  // what own_head_ points into
  std::string_view body_view_;
  std::string own_body_;
  proto::BodyScanner scanner_;
};

}  // namespace berth::http
