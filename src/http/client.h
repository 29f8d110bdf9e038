// A small HTTP/1.1 client on the loop, for the agent, the controller and the command line.
//
//   ClientRequest r;
//   r.address = address; r.method = "POST"; r.target = "/x"; r.body = "{}"; r.deadline =
//   seconds(5); auto answer = co_await fetch(loop, r);          // Result<ClientResponse>
//
// or, for a body that comes bit by bit:
//
//   auto opened = co_await open_exchange(loop, r);  // Result<unique_ptr<ClientExchange>>
//   while (auto piece = co_await (*opened)->next()) // Result<string>; empty: the end
//
// Guarantees: one connection per exchange, closed afterwards; no proxies, no environment, no
// redirects followed, no retries. Strict framing: a body that was cut is an error, not a short
// body. Errors: unavailable (no connection: nothing was sent), timeout (of a GET or HEAD), and
// unknown_outcome when a request that may change something was sent and no answer came.
// Threading: the loop's thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/dialer.h"
#include "proto/http1_body.h"
#include "runtime/address.h"
#include "runtime/loop.h"
#include "runtime/socket.h"
#include "runtime/tls.h"

namespace berth::http {

struct ClientRequest {
  runtime::Address address;
  Dialer* dialer = nullptr;  // makes the connection; nullptr: by address
  std::string method = "GET";
  std::string target = "/";
  std::string host;    // of the Host field and TLS; empty: from the address
  std::string fields;  // further field lines, each "Name: value\r\n"
  std::string body;
  std::shared_ptr<const runtime::TlsContext> tls;  // empty: plain
  Duration connect_timeout = seconds(5);
  Duration deadline = seconds(30);      // to the end of the response (fetch) or of its head (open)
  Duration between_reads = seconds(0);  // of next(); zero: no limit
  size_t max_body = 64 * 1024 * 1024;   // of fetch
};

struct ClientResponse {
  int status = 0;
  std::string fields;  // the field lines, each with its CRLF
  std::string body;
  // The first field of that name (any case); empty when there is none.
  std::string_view field(std::string_view name) const;
};

class ClientExchange {
 public:
  int status() const { return response_.status; }
  const ClientResponse& response() const { return response_; }  // without body
  // The next piece of the body; an empty string at its end.
  runtime::Task<Result<std::string>> next();
  // A limit for all further reads.
  void limit_until(runtime::MonoTime when) { deadline_.set(when); }

 private:
  friend runtime::Task<Result<std::unique_ptr<ClientExchange>>> open_exchange(
      runtime::Loop& loop, ClientRequest request);
  explicit ClientExchange(runtime::Loop& loop) : deadline_(loop) {}
  runtime::Task<Status> send(const ClientRequest& request);
  runtime::Task<Status> read_head(const ClientRequest& request);
  Error lost(const ClientRequest& request, const runtime::ReadResult& got) const;

  runtime::StreamPtr stream_;
  runtime::Deadline deadline_;
  Duration between_reads_{};
  std::string peer_;
  ClientResponse response_;
  proto::BodyScanner scanner_;
  std::string pending_;  // payload that came with the head
};

// Returns when the response's head is there.
runtime::Task<Result<std::unique_ptr<ClientExchange>>> open_exchange(runtime::Loop& loop,
                                                                     ClientRequest request);
runtime::Task<Result<ClientResponse>> fetch(runtime::Loop& loop, ClientRequest request);

}  // namespace berth::http
