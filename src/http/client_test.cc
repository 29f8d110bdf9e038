#include "http/client.h"

#include "http/upstream_fake.h"

namespace berth::http {
namespace {

using runtime::Loop;
using runtime::Task;

ClientRequest request_to(const UpstreamFake& fake, std::string method) {
  ClientRequest r;
  r.address = *runtime::Address::parse(fake.address());
  r.method = std::move(method);
  r.target = "/x?secret=1";
  r.fields = "X-One: 1\r\n";
  r.deadline = seconds(5);
  return r;
}

Task<void> answer(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nX-Two: two\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n");
  co_await runtime::sleep_for(c.fake.loop, Duration(5));
  co_await c.send("3\r\ndef\r\n0\r\n\r\n");
  co_await c.until_peer_closes();
}

TEST(Client, Fetches) {
  Loop loop;
  UpstreamFake fake(loop, answer);
  ClientRequest r = request_to(fake, "POST");
  r.body = "payload";
  auto got = loop.run_until(fetch(loop, r));
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->status, 201);
  EXPECT_EQ(got->body, "abcdef");
  EXPECT_EQ(got->field("x-two"), "two");
  EXPECT_EQ(got->field("absent"), "");
  std::string raw = fake.raw();
  EXPECT_TRUE(raw.starts_with("POST /x?secret=1 HTTP/1.1\r\nHost: 127.0.0.1:")) << raw;
  EXPECT_NE(raw.find("X-One: 1\r\nContent-Length: 7\r\n\r\npayload"), raw.npos) << raw;
}

Task<std::string> pieces(Loop& loop, ClientRequest r) {
  auto opened = co_await open_exchange(loop, r);
  CHECK(opened.ok());
  std::string out;
  for (;;) {
    auto piece = co_await (*opened)->next();
    CHECK(piece.ok());
    if (piece->empty()) break;
    out += "[" + *piece + "]";
  }
  co_return out;
}

TEST(Client, StreamsAsItComes) {
  Loop loop;
  UpstreamFake fake(loop, answer);
  EXPECT_EQ(loop.run_until(pieces(loop, request_to(fake, "GET"))), "[abc][def]");
}

Task<void> cut(FakeConnection& c) {
  co_await c.next_request();
  co_await c.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
}
Task<void> hang(FakeConnection& c) {
  co_await c.next_request();
  co_await c.until_peer_closes();
}
Task<void> drop(FakeConnection& c) { co_await c.next_request(); }

Code code_of(UpstreamFake::Script script, std::string method) {
  Loop loop;
  UpstreamFake fake(loop, script);
  ClientRequest r = request_to(fake, std::move(method));
  r.deadline = Duration(60);
  auto got = loop.run_until(fetch(loop, r));
  EXPECT_FALSE(got.ok());
  // Queries may hold secrets.
  EXPECT_EQ(got.error().message.find("secret"), std::string::npos);
  return got.error().code;
}

TEST(Client, TellsWhetherItMayHaveHappened) {
  EXPECT_EQ(code_of(hang, "GET"), Code::timeout);
  EXPECT_EQ(code_of(hang, "POST"), Code::unknown_outcome);
  EXPECT_EQ(code_of(drop, "GET"), Code::unavailable);
  EXPECT_EQ(code_of(drop, "DELETE"), Code::unknown_outcome);
  EXPECT_EQ(code_of(cut, "GET"), Code::unavailable);
}

TEST(Client, NobodyThereMeansNothingWasDone) {
  Loop loop;
  UpstreamFake fake(loop, hang);
  ClientRequest r = request_to(fake, "POST");
  fake.stop_listening();
  auto got = loop.run_until(fetch(loop, r));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Code::unavailable);
}

// A03: no proxy of the environment is used.
TEST(Client, IgnoresProxyVariables) {
  Loop loop;
  UpstreamFake proxy(loop, hang), fake(loop, answer);
  for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"})
    setenv(name, ("http://" + proxy.address()).c_str(), 1);
  auto got = loop.run_until(fetch(loop, request_to(fake, "GET")));
  for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"}) unsetenv(name);
  EXPECT_TRUE(got.ok());
  EXPECT_EQ(proxy.connections.size(), 0u);
}

}  // namespace
}  // namespace berth::http
