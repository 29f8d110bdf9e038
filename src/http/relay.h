// Relay: one exchange between a client and an upstream, bytes through, with a tap beside them.
//
// Verbatim: the response's bytes go to the client as they came (chunk framing included); the
// observer sees the payload. Rewrite: a Rewriter gets the payload and says what goes out instead,
// framed anew; nothing it emits waits for later input. Both are started by the observer when it has
// seen the response's head.
//
// Guarantees
// - The client's leaving ends every wait on the upstream at once and closes the upstream
//   connection (law 2). What counts as leaving: the client stream's HalfClose setting.
// - A pooled connection that died with no byte of response is tried once more on a fresh one;
//   nothing else is retried here (law 4). Whoever calls may retry when RelayResult::head_sent is
//   false.
// - The upstream is not read while the client takes nothing: memory per stream is bounded by one
//   read (64 KiB), and only while the client stalls. The request is freed at the first response
//   byte.
// - Each wait has its own limit, named in the result.
// - When the upstream breaks after the head went out: an event stream gets the observer's one error
//   event and a proper end of its framing, without [DONE]; any other response is cut by a reset, so
//   that the client cannot take it for whole.
// Non-guarantees: no choice of replica, no admission, no logging. 1xx answers are dropped; 101 is a
// bad response.
// Ownership: the caller owns everything named in RelayTask and keeps it until run() has ended.
// Threading: the loop's thread. Cost: two allocations a request, none an event; per event one read,
// one write and about 100 ns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/dialer.h"
#include "http/pool.h"
#include "proto/http1_body.h"
#include "runtime/loop.h"
#include "runtime/socket.h"

namespace berth::http {

struct RelayTimeouts {
  Duration connect = seconds(5);
  Duration head = seconds(600);         // from the request's last byte to the response's head
  Duration first_event = seconds(600);  // from the head to the first payload
  Duration between_events = seconds(300);
  Duration write_stall = seconds(60);  // either peer takes nothing
};

enum class RelayEnd : uint8_t {
  whole,     // the response went through to its end
  declined,  // the observer did not want this response
  client_left,
  client_stalled,  // took nothing for write_stall
  connect_failed,
  connect_timeout,
  upstream_closed,   // before the first byte of its response
  upstream_stalled,  // did not take the request
  bad_response,      // not HTTP/1.1, or a head over the limit
  head_timeout,
  first_event_timeout,
  between_events_timeout,
  broken,  // after the first byte, before the end
};
// "first_event_timeout", as in logs and error codes.
std::string_view to_string(RelayEnd end);

// Turns payload into other payload. Keeps at most what it documents between calls.
class Rewriter {
 public:
  virtual ~Rewriter() = default;
  virtual void feed(std::string_view payload, std::string& out) = 0;
  // The payload has ended properly; what is still kept goes out.
  virtual void finish(std::string& out) = 0;
};

class RelayObserver {
 public:
  virtual ~RelayObserver() = default;

  struct Plan {
    enum class Do : uint8_t { verbatim, rewrite, decline } what = Do::verbatim;
    Rewriter* rewriter = nullptr;   // of rewrite
    std::string_view content_type;  // of rewrite: instead of the upstream's; empty: as it was
  };
  // The final response's head is there (its views die with this call); nothing was sent to the
  // client. `fields` takes further field lines for the client.
  virtual Plan on_head(const proto::ResponseHead& head, std::string& fields) = 0;
  // Verbatim only: payload that is about to be sent.
  virtual void on_payload(std::string_view payload) = 0;
  // An event stream breaks: the event that says so, "data: {...}\n\n"; empty: none.
  virtual std::string break_event(RelayEnd why) = 0;
};

// What goes to the upstream: `head` then `body`. Freed when the response begins.
struct UpstreamRequest {
  std::string head;  // or head and body in one
  std::string body;
  proto::BodyScanner::Answering answering = proto::BodyScanner::Answering::other;
  void release() {  // swap: assigning an empty string would keep the memory
    std::string().swap(head);
    std::string().swap(body);
  }
};

struct RelayTask {
  runtime::Stream& client;
  bool client_http10;  // no chunks; the end is the connection's
  bool client_closes;  // the answer says Connection: close
  UpstreamPool& pool;
  const std::string& address;
  Duration idle_limit;  // of the upstream connection, when it goes back to the pool
  UpstreamRequest& request;
  const RelayTimeouts& timeouts;
  RelayObserver& observer;
  Dialer* dialer = nullptr;  // makes fresh connections; nullptr: by address
};

struct RelayResult {
  RelayEnd end = RelayEnd::connect_failed;
  int status = 0;              // of the response; 0: none came
  bool head_sent = false;      // the client has seen something of the response
  bool client_open = false;    // the client's connection can serve another request
  bool retried_stale = false;  // a pooled connection was dead, a fresh one was used
  int error = 0;               // errno, where a system call failed
  std::string message;         // of connect_failed
  uint64_t bytes_to_client = 0;
  uint64_t payload_bytes = 0;   // from the upstream
  runtime::MonoTime sent_at{};  // the request was sent whole
  runtime::MonoTime head_at{};
  runtime::MonoTime first_payload_at{};
  runtime::MonoTime ended_at{};
};

class Relay {
 public:
  explicit Relay(const RelayTask& task);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Once.
  runtime::Task<RelayResult> run();

 private:
  struct Out {
    std::string_view first;
    std::string_view second;
    bool empty() const { return first.empty() && second.empty(); }
  };
  enum class Mode : uint8_t { verbatim, rewrite, unframe };
  enum class HeadStep : uint8_t { need_more, ready, failed };

  runtime::Task<Result<runtime::StreamPtr>> dial(runtime::Wait wait);
  runtime::Task<UpstreamPtr> connect_fresh();
  runtime::Task<void> attempt(UpstreamPtr upstream);
  HeadStep take_head(std::string_view& bytes);
  HeadStep adopt_head(const proto::ResponseHead& head);
  void compose_head(const proto::ResponseHead& head, std::string_view extra,
                    std::string_view content_type);
  void feed(std::string_view bytes, Out& out);
  void close_rewritten();
  bool upstream_ended(const runtime::ReadResult& got, Out& out);
  RelayEnd timeout_name() const;
  void arm_read_limit();
  void note_write_failure(const runtime::WriteResult& w);
  runtime::Task<void> break_off();
  runtime::Task<void> send_request(Upstream& upstream);
  void finish(UpstreamPtr upstream);

  const RelayTask& task_;
  runtime::Loop& loop_;
  runtime::Deadline deadline_;
  proto::BodyScanner scanner_;
  RelayResult result_;
  Rewriter* rewriter_ = nullptr;
  std::string part_;  // of a head that came in pieces
  size_t part_seen_ = 0;
  Mode mode_ = Mode::verbatim;
  bool has_head_ = false;
  bool failed_ = false;
  bool any_byte_ = false;  // of a response, on this connection
  bool upstream_keeps_ = false;
  bool extra_bytes_ = false;  // behind the response: the connection is not reused
  bool event_stream_ = false;
  bool until_close_ = false;     // what the client gets ends with its connection
  char last_[2] = {'\n', '\n'};  // of the payload sent
};

}  // namespace berth::http
