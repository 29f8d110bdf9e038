// UpstreamFake: a scripted HTTP peer for tests, on the loop under test.
//
// Each connection runs a script, a coroutine that says exactly which bytes go out when, where it
// pauses (until the test raises a flag), and how it ends (FIN or RST). What came in is kept raw.
// Waits of tests are bounded: until() gives up, and aborts the test program, after ten seconds.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proto/http1_body.h"
#include "runtime/loop.h"
#include "runtime/socket.h"

namespace berth::http {

using runtime::ReadResult;

// Polls `condition` once a loop iteration or so.
template <class Condition>
runtime::Task<void> until(runtime::Loop& loop, const char* what, Condition condition) {
  runtime::Deadline limit(loop);
  limit.set_after(seconds(10));
  while (!condition()) {
    if (limit.expired()) fprintf(stderr, "waited in vain for: %s\n", what);
    CHECK(!limit.expired());
    co_await runtime::sleep_for(loop, Duration(1));
  }
}

class UpstreamFake;

struct FakeConnection {
  UpstreamFake& fake;
  size_t index;  // of all connections of this fake, from 0
  runtime::StreamPtr stream;
  std::string raw;      // everything received
  size_t consumed = 0;  // of raw, by next_request()
  bool peer_closed = false;

  // Until a whole request is there; false when the peer closed instead.
  runtime::Task<bool> next_request();
  runtime::Task<void> send(std::string bytes);
  runtime::Task<void> until_flag(std::string flag);
  // Until the peer's FIN or RST; sets peer_closed.
  runtime::Task<void> until_peer_closes();
  void close() { stream.reset(); }
  void reset() {
    stream->abort_on_close();
    stream.reset();
  }
};

class UpstreamFake {
 public:
  using Script = runtime::Task<void> (*)(FakeConnection&);

  UpstreamFake(runtime::Loop& loop, Script script) : loop(loop), script_(script), scope_(loop) {
    auto opened = runtime::Listener::open(loop, runtime::Address::loopback(0));
    CHECK(opened.ok());
    listener_ = std::move(opened).value();
    scope_.spawn(serve(*this));
  }
  ~UpstreamFake() { listener_->close(); }

  std::string address() const { return listener_->address().to_string(); }
  void raise(const std::string& flag) { flags.insert(flag); }
  void stop_listening() { listener_->close(); }
  // What all connections received, one after the other.
  std::string raw() const {
    std::string out;
    for (const auto& c : connections) out += c->raw;
    return out;
  }

  runtime::Loop& loop;
  std::vector<std::unique_ptr<FakeConnection>> connections;
  std::set<std::string> flags;
  size_t requests = 0;

 private:
  static runtime::Task<void> run(UpstreamFake& fake, FakeConnection& c) {
    co_await fake.script_(c);
    c.stream.reset();
  }
  static runtime::Task<void> serve(UpstreamFake& fake) {
    for (;;) {
      auto accepted = co_await fake.listener_->accept();
      if (!accepted.ok()) co_return;
      std::unique_ptr<FakeConnection> c(
          new FakeConnection{fake, fake.connections.size(), std::move(accepted).value(), "", 0});
      c->stream->set_half_close(runtime::HalfClose::is_allowed);
      fake.connections.push_back(std::move(c));
      fake.scope_.spawn(run(fake, *fake.connections.back()));
    }
  }
  Script script_;
  std::unique_ptr<runtime::Listener> listener_;
  runtime::TaskScope scope_;
};

inline runtime::Task<bool> FakeConnection::next_request() {
  for (;;) {
    std::string_view rest = std::string_view(raw).substr(consumed);
    proto::RequestHead head;
    auto r = proto::parse_request(rest, 0, head);
    CHECK(r.state != proto::HeadState::bad);
    if (r.state == proto::HeadState::done) {
      proto::BodyScanner scanner;
      scanner.start_request(head);
      size_t used = scanner.feed(rest.substr(head.size), [](std::string_view) {});
      if (scanner.done()) {
        consumed += head.size + used;
        fake.requests++;
        co_return true;
      }
    }
    ReadResult got = co_await stream->read();
    if (!got.ok()) {
      peer_closed = true;
      co_return false;
    }
    raw.append(got.view.bytes());
  }
}

inline runtime::Task<void> FakeConnection::send(std::string bytes) {
  co_await stream->write_stable(bytes);
}

inline runtime::Task<void> FakeConnection::until_flag(std::string flag) {
  auto raised = [this, &flag] { return fake.flags.count(flag) > 0; };
  co_await until(fake.loop, flag.c_str(), raised);
}

inline runtime::Task<void> FakeConnection::until_peer_closes() {
  for (;;) {
    ReadResult got = co_await stream->read();
    if (!got.ok()) break;
    raw.append(got.view.bytes());
  }
  peer_closed = true;
}

// One client connection of a test.
struct FakeClient {
  runtime::StreamPtr stream;
  std::string got;  // received, not consumed
  bool ended = false;
  bool reset_seen = false;

  static runtime::Task<FakeClient> connect(runtime::Loop& loop, std::string address) {
    auto parsed = runtime::Address::parse(address);
    CHECK(parsed.ok());
    auto connected = co_await runtime::connect(loop, *parsed);
    CHECK(connected.ok());
    FakeClient out;
    out.stream = std::move(connected).value();
    out.stream->set_half_close(runtime::HalfClose::is_allowed);
    co_return std::move(out);
  }
  runtime::Task<void> send(std::string bytes) { co_await stream->write_stable(bytes); }
  // Reads once; false at the end.
  runtime::Task<bool> read_some() {
    runtime::Deadline limit(stream->loop());
    limit.set_after(seconds(10));
    runtime::Wait wait{nullptr, &limit};
    ReadResult r = co_await stream->read(wait);
    CHECK(r.end != runtime::ReadEnd::timed_out);
    if (!r.ok()) {
      ended = true;
      reset_seen = r.end == runtime::ReadEnd::failed;
      co_return false;
    }
    got.append(r.view.bytes());
    co_return true;
  }
  runtime::Task<void> read_until(std::string text) {
    while (got.find(text) == got.npos && !ended) co_await read_some();
  }
  runtime::Task<void> read_to_end() {
    while (!ended) co_await read_some();
  }
  // One whole final response off the front of `got`: its raw bytes. `body` gets the payload.
  // Empty when the connection ended before its end.
  runtime::Task<std::string> response(std::string* body = nullptr) {
    for (;;) {
      proto::ResponseHead head;
      auto r = proto::parse_response(got, 0, head);
      CHECK(r.state != proto::HeadState::bad);
      if (r.state == proto::HeadState::done) {
        proto::BodyScanner scanner;
        scanner.start_response(head, proto::BodyScanner::Answering::other);
        std::string payload;
        size_t used = scanner.feed(std::string_view(got).substr(head.size),
                                   [&](std::string_view p) { payload.append(p); });
        const bool by_end = scanner.kind() == proto::BodyScanner::Kind::until_close && ended;
        if (scanner.done() || by_end) {
          std::string out = got.substr(0, head.size + used);
          got.erase(0, out.size());
          if (body) *body = std::move(payload);
          co_return out;
        }
      }
      if (ended) co_return std::string();
      co_await read_some();
    }
  }
};

}  // namespace berth::http
