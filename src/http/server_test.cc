#include "http/server.h"

#include "http/upstream_fake.h"
#include "proto/http1_write.h"

namespace berth::http {
namespace {

using runtime::Address;

// Answers with what it got; /stream streams; /nothing forgets to answer.
class EchoService : public Service {
 public:
  Task<void> serve(Exchange& x) override {
    served++;
    std::string path(x.head().path());
    if (path == "/nothing") co_return;
    if (path == "/refuse") {
      co_await x.respond(error_response(401, "no"));
      co_return;
    }
    if (path == "/stream") {
      co_await x.start(200, "text/plain");
      for (int i = 0; i < 3; i++) co_await x.send("part" + std::to_string(i) + ";");
      co_await x.finish();
      co_return;
    }
    std::string seen;
    if (!x.body_is_here()) {
      Status s = co_await x.receive_body(limit);
      if (!s.ok()) {
        last_error = s.error().code;
        int status = s.error().code == Code::too_large ? 413 : 400;
        if (s.error().code != Code::cancelled)
          co_await x.respond(error_response(status, s.error().message));
        co_return;
      }
    }
    Response r;
    r.body = std::string(x.head().method) + " " + path + " " + x.take_body();
    co_await x.respond(std::move(r));
  }
  Response error_response(int status, std::string_view message) override {
    Response r;
    r.status = status;
    r.body = "error: " + std::string(message);
    return r;
  }
  uint64_t limit = 100'000;
  int served = 0;
  Code last_error = Code::internal;
};

struct ServerRig {
  explicit ServerRig(ServerOptions options = {}) : server(loop, service, options) {
    auto listener = std::move(Listener::open(loop, Address::loopback(0))).value();
    address = listener->address().to_string();
    server.listen(std::move(listener));
  }
  Loop loop;
  EchoService service;
  Server server;
  std::string address;
};

std::string post(std::string path, std::string body, std::string fields = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

Task<std::string> talk(ServerRig& rig, std::string bytes) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send(bytes);
  co_await c.read_to_end();
  co_return c.got;
}

TEST(Server, AnswersPipelinedRequestsInOrderAndCloses) {
  ServerRig rig;
  std::string got = rig.loop.run_until(
      talk(rig, post("/a", "one") + post("/b", "two") + "GET /c HTTP/1.0\r\n\r\n"));
  EXPECT_NE(got.find("POST /a one"), got.npos);
  EXPECT_LT(got.find("POST /a one"), got.find("POST /b two"));
  EXPECT_LT(got.find("POST /b two"), got.find("GET /c "));
  EXPECT_EQ(rig.service.served, 3);
}

Task<void> split_talk(ServerRig& rig, std::string bytes, std::string want) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  for (size_t cut = 1; cut < bytes.size(); cut++) {
    co_await c.send(bytes.substr(0, cut));
    co_await runtime::sleep_for(rig.loop, Duration(1));
    co_await c.send(bytes.substr(cut));
    std::string body;
    co_await c.response(&body);
    EXPECT_EQ(body, want) << cut;
  }
}

TEST(Server, TakesARequestSplitAtAnyByte) {
  ServerRig rig;
  rig.loop.run_until(split_talk(rig, post("/a", "hello"), "POST /a hello"));
  rig.loop.run_until(split_talk(rig,
                                "POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "5\r\nhello\r\n3;x=y\r\nxyz\r\n0\r\nT: v\r\n\r\n",
                                "POST /b helloxyz"));
}

Task<std::string> big_body(ServerRig& rig, size_t size, bool chunked) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  std::string body(size, 'b');
  if (chunked) {
    co_await c.send("POST /big HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    std::string chunk;
    proto::append_chunk_size(chunk, size);
    co_await c.send(chunk + body + "\r\n0\r\n\r\n");
  } else {
    co_await c.send(post("/big", body));
  }
  co_return co_await c.response();
}

TEST(Server, BodyLimitIsExact) {
  ServerRig rig;
  for (bool chunked : {false, true}) {
    std::string fits = rig.loop.run_until(big_body(rig, 100'000, chunked));
    EXPECT_TRUE(fits.starts_with("HTTP/1.1 200")) << chunked << fits.substr(0, 100);
    std::string over = rig.loop.run_until(big_body(rig, 100'001, chunked));
    EXPECT_TRUE(over.starts_with("HTTP/1.1 413")) << chunked << over.substr(0, 100);
    EXPECT_NE(over.find("Connection: close"), over.npos);
  }
}

// B29: by Content-Length, 413 before the body is read.
Task<std::string> declared_too_large(ServerRig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send("POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n");
  co_return co_await c.response();
}

TEST(Server, TooLargeIsSaidBeforeTheBody) {
  ServerRig rig;
  EXPECT_TRUE(rig.loop.run_until(declared_too_large(rig)).starts_with("HTTP/1.1 413"));
}

Task<void> expectations(ServerRig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  // B13: accepted, so 100 comes before the body does
  co_await c.send(
      "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  co_await c.read_until("\r\n\r\n");
  EXPECT_EQ(c.got, "HTTP/1.1 100 Continue\r\n\r\n");
  c.got.clear();
  co_await c.send("body");
  std::string body;
  co_await c.response(&body);
  EXPECT_EQ(body, "POST /a body");
  // B13: refused, so no 100
  co_await c.send(
      "POST /refuse HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  std::string refused = co_await c.response();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 401")) << refused;
  co_await c.read_to_end();
  EXPECT_EQ(c.got, "");
  // B13: unknown
  FakeClient d = co_await FakeClient::connect(rig.loop, rig.address);
  co_await d.send("POST /a HTTP/1.1\r\nHost: h\r\nExpect: cake\r\nContent-Length: 4\r\n\r\n");
  std::string unknown = co_await d.response();
  EXPECT_TRUE(unknown.starts_with("HTTP/1.1 417")) << unknown;
}

TEST(Server, Expectations) {
  ServerRig rig;
  rig.loop.run_until(expectations(rig));
}

TEST(Server, RefusesWhatIsNotHttp) {
  ServerRig rig;
  auto status = [&](const std::string& bytes) {
    return rig.loop.run_until(talk(rig, bytes)).substr(9, 3);
  };
  EXPECT_EQ(status("nonsense\r\n\r\n"), "400");
  EXPECT_EQ(status("GET / HTTP/3.0\r\nHost: h\r\n\r\n"), "505");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(70'000, 'x')), "431");
  EXPECT_EQ(status(post("/", "x", "Transfer-Encoding: chunked\r\n")), "400");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n"), "501");
  EXPECT_EQ(rig.service.served, 0);
}

TEST(Server, HeadsAndIdlenessHaveLimits) {
  ServerOptions o;
  o.head_deadline = Duration(40);
  o.idle_limit = Duration(40);
  ServerRig rig(o);
  EXPECT_EQ(rig.loop.run_until(talk(rig, "")), "");
  EXPECT_EQ(rig.loop.run_until(talk(rig, "GET / HT")).substr(9, 3), "408");
}

Task<void> streams(ServerRig& rig) {
  FakeClient c = co_await FakeClient::connect(rig.loop, rig.address);
  co_await c.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  std::string body;
  co_await c.response(&body);
  EXPECT_EQ(body, "part0;part1;part2;");
  co_await c.send("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
  std::string forgotten = co_await c.response();
  EXPECT_TRUE(forgotten.starts_with("HTTP/1.1 500"));
  co_await c.send("HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  co_await c.read_to_end();
  EXPECT_NE(c.got.find("Content-Length: 8\r\n"), c.got.npos) << c.got;
  EXPECT_TRUE(c.got.ends_with("\r\n\r\n"));
}

TEST(Server, StreamsAndCoversForgetfulServices) {
  ServerRig rig;
  rig.loop.run_until(streams(rig));
}

Task<void> drain_case(ServerRig& rig) {
  FakeClient idle = co_await FakeClient::connect(rig.loop, rig.address);
  FakeClient busy = co_await FakeClient::connect(rig.loop, rig.address);
  co_await busy.send("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n");
  auto in_flight = [&] { return rig.server.in_flight() == 1; };
  co_await until(rig.loop, "a request in flight", in_flight);
  runtime::TaskScope scope(rig.loop);
  scope.spawn(rig.server.drain(seconds(5)));
  co_await idle.read_to_end();
  EXPECT_EQ(idle.got, "");
  co_await busy.send("body");
  std::string answer = co_await busy.response();
  EXPECT_NE(answer.find("POST /slow body"), answer.npos);
  EXPECT_NE(answer.find("Connection: close"), answer.npos);
  co_await scope.join();
  EXPECT_EQ(rig.server.connections(), 0u);
  auto refused = co_await runtime::connect(rig.loop, *Address::parse(rig.address));
  EXPECT_FALSE(refused.ok());
}

TEST(Server, DrainFinishesWhatIsInFlight) {
  ServerRig rig;
  rig.loop.run_until(drain_case(rig));
}

Task<void> drain_late(ServerRig& rig) {
  FakeClient busy = co_await FakeClient::connect(rig.loop, rig.address);
  co_await busy.send("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n");
  auto in_flight = [&] { return rig.server.in_flight() == 1; };
  co_await until(rig.loop, "a request in flight", in_flight);
  co_await rig.server.drain(Duration(30));
  EXPECT_EQ(rig.server.connections(), 0u);
}

TEST(Server, DrainCutsWhatOutlivesTheGrace) {
  ServerRig rig;
  rig.loop.run_until(drain_late(rig));
  EXPECT_EQ(rig.service.last_error, Code::cancelled);
}

}  // namespace
}  // namespace berth::http
