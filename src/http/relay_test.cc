#include "http/relay.h"

#include "http/server.h"
#include "http/upstream_fake.h"
#include "proto/http1_write.h"

namespace berth::http {
namespace {

using runtime::Loop;
using runtime::Task;
using std::chrono::milliseconds;

// Upper case, with an empty output for input of "-" alone; says "end" at the end.
class Shout : public Rewriter {
 public:
  void feed(std::string_view payload, std::string& out) override {
    if (payload == "-") return;
    for (char c : payload) out.push_back(static_cast<char>(toupper(c)));
  }
  void finish(std::string& out) override { out += "end"; }
};

// Relays every request to one address.
class RelayService : public Service, public RelayObserver {
 public:
  explicit RelayService(Loop& loop) : pool(loop) {}

  Task<void> serve(Exchange& x) override {
    if (!x.body_is_here()) {
      Status s = co_await x.receive_body(1 << 20);
      if (!s.ok()) co_return;
    }
    UpstreamRequest request;
    request.head.append(x.head().method).append(" ").append(x.head().target);
    request.head.append(" HTTP/1.1\r\nHost: upstream\r\n");
    x.head().append_passing(request.head);
    request.head += "Content-Length: " + std::to_string(x.body().size()) + "\r\n\r\n";
    request.body = x.take_body();
    x.release_request();
    RelayTask task{x.client(), x.is_http10(), x.closes(), pool, address,
                   idle_limit, request,       timeouts,   *this};
    Relay relay(task);
    result = co_await relay.run();
    results++;
    if (result.head_sent) {
      x.relayed(result.client_open ? Exchange::After::keep_open : Exchange::After::close);
    } else if (result.end != RelayEnd::client_left) {
      co_await x.respond(error_response(502, to_string(result.end)));
    }
  }
  Response error_response(int status, std::string_view message) override {
    Response r;
    r.status = status;
    r.body = std::string(message);
    return r;
  }
  Plan on_head(const proto::ResponseHead& head, std::string& fields) override {
    fields += "X-Added: 1\r\n";
    Plan plan;
    plan.what = head.status == 503 ? Plan::Do::decline : what;
    plan.rewriter = &shout;
    return plan;
  }
  void on_payload(std::string_view payload) override { tapped.append(payload); }
  std::string break_event(RelayEnd why) override {
    return "data: {\"error\":\"" + std::string(to_string(why)) + "\"}\n\n";
  }

  UpstreamPool pool;
  std::string address;
  Duration idle_limit = seconds(4);
  RelayTimeouts timeouts;
  Plan::Do what = Plan::Do::verbatim;
  Shout shout;
  std::string tapped;
  RelayResult result;
  int results = 0;
};

struct Rig {
  explicit Rig(UpstreamFake::Script script, HalfClose half_close = HalfClose::is_leaving)
      : upstream(loop, script), service(loop), server(loop, service, options(half_close)) {
    service.address = upstream.address();
    auto listener = std::move(Listener::open(loop, runtime::Address::loopback(0))).value();
    address = listener->address().to_string();
    server.listen(std::move(listener));
  }
  static ServerOptions options(HalfClose mode) {
    ServerOptions o;
    o.half_close = mode;
    return o;
  }
  Loop loop;
  UpstreamFake upstream;
  RelayService service;
  Server server;
  std::string address;
};

const std::string kPost = "POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
const std::string kSseHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(std::string_view payload) {
  std::string out;
  proto::append_chunk_size(out, payload.size());
  return out.append(payload).append("\r\n");
}

Task<void> answer_hello(FakeConnection& c) {
  for (;;) {
    bool more = co_await c.next_request();
    if (!more) co_return;
    co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  }
}

Task<void> many_on_one(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost + kPost + kPost);
  for (int i = 0; i < 3; i++) {
    std::string raw = co_await c.response();
    EXPECT_EQ(raw, "HTTP/1.1 200 OK\r\nX-Added: 1\r\nContent-Length: 5\r\n\r\nhello");
  }
  EXPECT_EQ(rig.upstream.connections.size(), 1u);
  EXPECT_EQ(rig.service.tapped, "hellohellohello");
  EXPECT_EQ(rig.service.result.end, RelayEnd::whole);
  EXPECT_EQ(rig.service.pool.idle(), 1u);
}

TEST(Relay, ReusesItsUpstreamConnection) {
  Rig rig(answer_hello);
  rig.loop.run_until(many_on_one(rig));
}

const std::string kEvents =
    "data: {\"c\":\"\u4f60\u597d \U0001F600 e\u0301\"}\n\n: ping\n\ndata: [DONE]\n\n";

// B03: every byte in a segment of its own.
Task<void> byte_by_byte(FakeConnection& c) {
  co_await c.next_request();
  std::string all =
      kSseHead + chunk(kEvents.substr(0, 30)) + chunk(kEvents.substr(30)) + "0\r\n\r\n";
  for (char b : all) {
    co_await c.send(std::string(1, b));
    co_await runtime::sleep_for(c.fake.loop, Duration(0));
  }
  co_await c.until_peer_closes();
}

Task<void> expect_events(Rig& rig, std::string want) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  std::string body;
  co_await c.response(&body);
  EXPECT_EQ(body, want);
}

TEST(Relay, BytesOneByOneStayTheSame) {
  Rig rig(byte_by_byte);
  rig.loop.run_until(expect_events(rig, kEvents));
  EXPECT_EQ(rig.service.tapped, kEvents);
}

Task<void> event_by_event(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk("one"));
  co_await c.until_flag("one seen");
  co_await c.send(chunk("-") + chunk("two"));
  co_await c.until_flag("two seen");
  co_await c.send("0\r\n\r\n");
  co_await c.until_peer_closes();
}

Task<void> sees_each_at_once(Rig& rig, std::string one, std::string two, std::string end) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  co_await c.read_until(one);
  rig.upstream.raise("one seen");
  co_await c.read_until(two);
  rig.upstream.raise("two seen");
  std::string body;
  co_await c.response(&body);
  EXPECT_EQ(body, end);
}

TEST(Relay, NoEventWaitsForTheNext) {
  {
    Rig rig(event_by_event);
    rig.loop.run_until(sees_each_at_once(rig, "one", "two", "one-two"));
  }
  Rig rig(event_by_event);
  rig.service.what = RelayObserver::Plan::Do::rewrite;
  rig.loop.run_until(sees_each_at_once(rig, "ONE", "TWO", "ONETWOend"));
  EXPECT_EQ(rig.service.pool.idle(), 1u);
}

Task<void> endless(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk("data: 1\n\n") + chunk("data: 2\n\n") + chunk("data: 3\n\n"));
  co_await c.until_peer_closes();
}
Task<void> silent(FakeConnection& c) {
  co_await c.next_request();
  co_await c.until_peer_closes();
}

enum class Leaving { fin, rst };
Task<void> leave(Rig& rig, Leaving how, bool after_events) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  if (after_events) {
    co_await c.read_until("data: 3");
  } else {
    auto arrived = [&] { return rig.upstream.requests == 1; };
    co_await until(rig.loop, "the request upstream", arrived);
  }
  if (how == Leaving::rst) c.stream->abort_on_close();
  auto begin = std::chrono::steady_clock::now();
  c.stream.reset();
  auto closed = [&] { return rig.upstream.connections[0]->peer_closed; };
  co_await until(rig.loop, "the upstream connection to close", closed);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(500));
  auto over = [&] { return rig.service.results == 1 && rig.server.in_flight() == 0; };
  co_await until(rig.loop, "the exchange to end", over);
  EXPECT_EQ(rig.service.result.end, RelayEnd::client_left);
  EXPECT_EQ(rig.service.pool.idle(), 0u);
}

// B01: FIN and RST, streaming and silent.
TEST(Relay, AClientThatLeavesClosesTheUpstream) {
  for (Leaving how : {Leaving::fin, Leaving::rst}) {
    Rig streaming(endless);
    streaming.loop.run_until(leave(streaming, how, true));
    Rig quiet(silent);
    quiet.loop.run_until(leave(quiet, how, false));
  }
}

Task<void> answer_on_flag(FakeConnection& c) {
  co_await c.next_request();
  co_await c.until_flag("go");
  co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  co_await c.until_peer_closes();
}
Task<void> half_close(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  c.stream->shutdown_write();
  auto arrived = [&] { return rig.upstream.requests == 1; };
  co_await until(rig.loop, "the request upstream", arrived);
  rig.upstream.raise("go");
  std::string body;
  co_await c.response(&body);
  EXPECT_EQ(body, "ok");
}

TEST(Relay, AHalfCloseIsServedWhereAllowed) {
  Rig rig(answer_on_flag, HalfClose::is_allowed);
  rig.loop.run_until(half_close(rig));
}

Task<void> two_chunks_then_rst(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk("data: 1\n\n") + chunk("data: 2\n\n"));
  co_await c.until_flag("seen");
  c.reset();
}
Task<void> two_chunks_then_fin(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk("data: 1\n\n") + chunk("data: 2\n\n"));
  co_await c.until_flag("seen");
}
Task<void> cut_in_a_chunk(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk("data: 1\n\n") + "20\r\ndata: 2");
  co_await c.until_flag("seen");
}

Task<void> broken(Rig& rig, std::string want) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  co_await c.read_until("data: 2");
  rig.upstream.raise("seen");
  std::string body;
  std::string raw = co_await c.response(&body);
  EXPECT_TRUE(body.starts_with(want)) << body;
  EXPECT_EQ(body.find_first_not_of('\n', want.size()), body.npos);
  EXPECT_EQ(raw.find("[DONE]"), raw.npos);
  co_await c.read_to_end();
  EXPECT_FALSE(c.reset_seen);
  EXPECT_EQ(rig.service.result.end, RelayEnd::broken);
}

// B07
TEST(Relay, ABrokenEventStreamEndsWithOneErrorEvent) {
  const std::string error = "data: {\"error\":\"broken\"}\n\n";
  {
    Rig rig(two_chunks_then_rst);
    rig.loop.run_until(broken(rig, "data: 1\n\ndata: 2\n\n" + error));
  }
  {
    Rig rig(two_chunks_then_fin);
    rig.loop.run_until(broken(rig, "data: 1\n\ndata: 2\n\n" + error));
  }
  Rig rig(cut_in_a_chunk);
  rig.loop.run_until(broken(rig, "data: 1\n\ndata: 2\n\n" + error));
}

Task<void> cut_body(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npartial");
  co_await c.until_flag("seen");
}
Task<void> truncated(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  co_await c.read_until("partial");
  rig.upstream.raise("seen");
  co_await c.read_to_end();
  EXPECT_TRUE(c.reset_seen);
}

TEST(Relay, AnyOtherBrokenResponseIsCutByAReset) {
  Rig rig(cut_body);
  rig.loop.run_until(truncated(rig));
}

// Serves one request a connection, then closes when told, with the next request under way.
Task<void> closes_when_reused(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst");
  bool again = co_await c.next_request();
  if (again) c.reset();  // the reused connection dies with no byte of response
}
Task<void> stale(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  for (int i = 0; i < 3; i++) {
    co_await c.send(kPost);
    std::string body;
    co_await c.response(&body);
    EXPECT_EQ(body, "first");
    EXPECT_EQ(rig.service.result.retried_stale, i > 0);
  }
  EXPECT_EQ(rig.upstream.connections.size(), 3u);
}

// B11
TEST(Relay, AStaleConnectionIsRetriedOnceOnAFreshOne) {
  Rig rig(closes_when_reused);
  rig.loop.run_until(stale(rig));
}

Task<void> dies_at_once(FakeConnection& c) {
  co_await c.next_request();
  c.reset();
}
Task<std::string> status_of(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  std::string body;
  std::string raw = co_await c.response(&body);
  co_return raw.substr(9, 3) + " " + body;
}

TEST(Relay, AFreshConnectionThatDiesIsNotRetried) {
  Rig rig(dies_at_once);
  EXPECT_EQ(rig.loop.run_until(status_of(rig)), "502 upstream_closed");
  EXPECT_EQ(rig.upstream.requests, 1u);
}

TEST(Relay, NobodyListensThere) {
  Rig rig(dies_at_once);
  rig.upstream.stop_listening();
  EXPECT_EQ(rig.loop.run_until(status_of(rig)), "502 connect_failed");
}

Task<void> talks_nonsense(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send("SSH-2.0-OpenSSH\r\n\r\n");
  co_await c.until_peer_closes();
}

TEST(Relay, ABadResponseIsNotPassedOn) {
  Rig rig(talks_nonsense);
  EXPECT_EQ(rig.loop.run_until(status_of(rig)), "502 bad_response");
}

Task<void> busy(FakeConnection& c) {
  for (;;) {
    bool more = co_await c.next_request();
    if (!more) co_return;
    co_await c.send("HTTP/1.1 503 Full\r\nContent-Length: 4\r\n\r\nfull");
  }
}

TEST(Relay, ADeclinedResponseLeavesTheConnectionUsable) {
  Rig rig(busy);
  EXPECT_EQ(rig.loop.run_until(status_of(rig)), "502 declined");
  EXPECT_EQ(rig.service.result.status, 503);
  EXPECT_EQ(rig.loop.run_until(status_of(rig)), "502 declined");
  EXPECT_EQ(rig.upstream.connections.size(), 1u);
}

Task<void> interim_and_split(FakeConnection& c) {
  co_await c.next_request();
  std::string all =
      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  for (char b : all) {
    co_await c.send(std::string(1, b));
    co_await runtime::sleep_for(c.fake.loop, Duration(0));
  }
  co_await c.until_peer_closes();
}

TEST(Relay, DropsInterimAnswers) {
  Rig rig(interim_and_split);
  EXPECT_EQ(rig.loop.run_until(status_of(rig)), "200 ok");
}

Task<void> until_close_body(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send("HTTP/1.1 200 OK\r\n\r\nopen ");
  co_await runtime::sleep_for(c.fake.loop, Duration(10));
  co_await c.send("end");
}

TEST(Relay, BodiesThatEndWithTheConnection) {
  {
    Rig rig(until_close_body);
    EXPECT_EQ(rig.loop.run_until(status_of(rig)), "200 open end");
  }
  Rig rig(until_close_body);
  rig.service.what = RelayObserver::Plan::Do::rewrite;
  EXPECT_EQ(rig.loop.run_until(status_of(rig)), "200 OPEN ENDend");
}

Task<void> chunked_hello(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead + chunk("hello ") + chunk("world") + "0\r\n\r\n");
  co_await c.until_peer_closes();
}
Task<std::string> old_client(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send("POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
  co_await c.read_to_end();
  co_return c.got.substr(c.got.find("\r\n\r\n") + 4);
}

TEST(Relay, AnHttp10ClientGetsNoChunks) {
  Rig rig(chunked_hello);
  EXPECT_EQ(rig.loop.run_until(old_client(rig)), "hello world");
}

// B17: each wait has its own limit and its own name.
Task<void> head_then_wait(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(kSseHead);
  co_await c.until_flag("first");
  co_await c.send(chunk("data: 1\n\n"));
  co_await c.until_peer_closes();
}
Task<std::string> stream_body(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  std::string body;
  co_await c.response(&body);
  co_return body;
}
Task<void> raise_later(Rig& rig, Duration wait) {
  co_await runtime::sleep_for(rig.loop, wait);
  rig.upstream.raise("first");
}
Task<std::string> late_first(Rig& rig) {
  runtime::TaskScope scope(rig.loop);
  scope.spawn(raise_later(rig, milliseconds(120)));
  std::string body = co_await stream_body(rig);
  co_await scope.join();
  co_return body;
}

TEST(Relay, TimeoutsAreSeparateAndNamed) {
  {
    Rig rig(silent);
    rig.service.timeouts.head = milliseconds(30);
    EXPECT_EQ(rig.loop.run_until(status_of(rig)), "502 head_timeout");
  }
  {
    Rig rig(head_then_wait);
    rig.service.timeouts.first_event = milliseconds(30);
    EXPECT_EQ(rig.loop.run_until(stream_body(rig)),
              "data: {\"error\":\"first_event_timeout\"}\n\n");
  }
  // A first event that is late for every limit but its own comes through.
  Rig rig(head_then_wait);
  rig.service.timeouts.head = milliseconds(60);
  rig.service.timeouts.between_events = milliseconds(60);
  rig.service.timeouts.first_event = seconds(5);
  EXPECT_EQ(rig.loop.run_until(late_first(rig)),
            "data: 1\n\ndata: {\"error\":\"between_events_timeout\"}\n\n");
}

Task<void> flood(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n");
  std::string piece(1'000'000, 'z');
  for (int i = 0; i < 50; i++) {
    co_await c.send(piece);
    c.fake.raise(std::to_string(i));
  }
  co_await c.until_peer_closes();
}
Task<void> slow_reader(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  auto begun = [&] { return rig.upstream.flags.count("0") > 0; };
  co_await until(rig.loop, "the flood", begun);
  co_await runtime::sleep_for(rig.loop, milliseconds(50));
  // The kernel's buffers take some megabytes; the rest waits at the upstream.
  EXPECT_EQ(rig.upstream.flags.count("30"), 0u);
  while (!c.ended && c.got.size() < 50'000'000) co_await c.read_some();
  EXPECT_EQ(c.got.size() - (c.got.find("\r\n\r\n") + 4), 50'000'000u);
}

TEST(Relay, ASlowClientHoldsTheUpstreamBack) {
  Rig rig(flood);
  rig.loop.run_until(slow_reader(rig));
}

Task<void> never_reads(Rig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(kPost);
  auto over = [&] { return rig.service.results == 1; };
  co_await until(rig.loop, "the stall limit", over);
  EXPECT_EQ(rig.service.result.end, RelayEnd::client_stalled);
}

TEST(Relay, AClientThatTakesNothingIsLeft) {
  Rig rig(flood);
  rig.service.timeouts.write_stall = milliseconds(50);
  rig.loop.run_until(never_reads(rig));
}

}  // namespace
}  // namespace berth::http
