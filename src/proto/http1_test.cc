#include "proto/http1.h"

#include <gtest/gtest.h>

namespace berth::proto {
namespace {

const std::string kRequest =
    "POST /v1/chat/completions?x=1 HTTP/1.1\r\n"
    "Host: gate.example:8000\r\n"
    "Authorization: Bearer sk-user-key\r\n"
    "Content-Type: application/json\r\n"
    "User-Agent: test/1\r\n"
    "Cookie: a=b\r\n"
    "Content-Length: 17\r\n"
    "Accept-Encoding: gzip, br, zstd\r\n"
    "X-Stainless-Lang: python\r\n"
    "\r\n";

RequestHead parse_good(const std::string& text) {
  RequestHead head;
  HeadResult r = parse_request(text, 0, head);
  EXPECT_EQ(r.state, HeadState::done) << text;
  EXPECT_EQ(head.size, text.size());
  return head;
}

TEST(Http1Request, ReadsWhatTheGatewayNeeds) {
  RequestHead h = parse_good(kRequest);
  EXPECT_EQ(h.method, "POST");
  EXPECT_EQ(h.target, "/v1/chat/completions?x=1");
  EXPECT_EQ(h.path(), "/v1/chat/completions");
  EXPECT_EQ(h.host, "gate.example:8000");
  EXPECT_EQ(h.authorization, "Bearer sk-user-key");
  EXPECT_EQ(h.content_type, "application/json");
  EXPECT_EQ(h.content_length, 17);
  EXPECT_TRUE(h.keep_alive);
  EXPECT_EQ(h.find("User-agent"), "test/1");
  EXPECT_EQ(h.find("absent"), std::nullopt);
}

TEST(Http1Request, SameAtEverySplit) {
  for (size_t cut = 0; cut < kRequest.size(); cut++) {
    RequestHead h;
    EXPECT_EQ(parse_request(std::string_view(kRequest).substr(0, cut), 0, h).state,
              HeadState::need_more);
    EXPECT_EQ(parse_request(kRequest, cut, h).state, HeadState::done) << cut;
    EXPECT_EQ(h.target, "/v1/chat/completions?x=1");
  }
  // One byte after the other, each looked at once.
  RequestHead h;
  for (size_t n = 1; n < kRequest.size(); n++)
    ASSERT_EQ(parse_request(std::string_view(kRequest).substr(0, n), n - 1, h).state,
              HeadState::need_more);
  EXPECT_EQ(parse_request(kRequest, kRequest.size() - 1, h).state, HeadState::done);
}

TEST(Http1Request, LeavesTheNextMessageAlone) {
  std::string two = kRequest + "GET / HT";
  RequestHead h;
  EXPECT_EQ(parse_request(two, 0, h).state, HeadState::done);
  EXPECT_EQ(h.size, kRequest.size());
}

HeadFault fault_of(const std::string& text) {
  RequestHead h;
  HeadResult r = parse_request(text, 0, h);
  if (r.state == HeadState::need_more) return HeadFault::none;
  // However it is cut, it is never taken for good.
  for (size_t cut = 1; cut < text.size(); cut++) {
    RequestHead again;
    HeadResult first = parse_request(std::string_view(text).substr(0, cut), 0, again);
    EXPECT_NE(first.state, HeadState::done) << text;
    if (first.state == HeadState::need_more) {
      EXPECT_EQ(parse_request(text, cut, again).state, r.state) << text << " cut " << cut;
    }
  }
  return r.state == HeadState::bad ? r.fault : HeadFault::none;
}

TEST(Http1Request, RefusesWhatCouldBeReadTwoWays) {
  const std::string line = "POST / HTTP/1.1\r\nHost: h\r\n";
  struct Case {
    std::string text;
    HeadFault fault;
  };
  const Case cases[] = {
      {line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", HeadFault::bad_framing},
      {line + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: 5, 5\r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: +5\r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: -5\r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: 0x5\r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: \r\n\r\n", HeadFault::bad_framing},
      {line + "Content-Length: 99999999999999999999\r\n\r\n", HeadFault::bad_framing},
      {line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
       HeadFault::bad_framing},
      {line + "Transfer-Encoding: gzip, chunked\r\n\r\n", HeadFault::unknown_coding},
      {line + "Transfer-Encoding: chunked, identity\r\n\r\n", HeadFault::unknown_coding},
      {line + "Transfer-Encoding: xchunked\r\n\r\n", HeadFault::unknown_coding},
      {line + "Transfer-Encoding : chunked\r\n\r\n", HeadFault::malformed},
      {line + "Transfer-Encoding\t: chunked\r\n\r\n", HeadFault::malformed},
      {line + "A: b\r\n folded\r\n\r\n", HeadFault::malformed},
      {line + "A: b\r\n\tfolded\r\n\r\n", HeadFault::malformed},
      {line + "A: b\nB: c\r\n\r\n", HeadFault::malformed},
      {line + "A: b\rB: c\r\n\r\n", HeadFault::malformed},
      {line + "A: b\r\n\n", HeadFault::malformed},
      {line + std::string("A: b\0c\r\n\r\n", 10), HeadFault::malformed},
      {line + "A: b\x7f\r\n\r\n", HeadFault::malformed},
      {line + "A: a long value with a control byte \x01 behind sixteen\r\n\r\n",
       HeadFault::malformed},
      {line + "no colon\r\n\r\n", HeadFault::malformed},
      {line + ": no name\r\n\r\n", HeadFault::malformed},
      {line + "Na me: x\r\n\r\n", HeadFault::malformed},
      {line + "Host: second\r\n\r\n", HeadFault::malformed},
      {"POST / HTTP/1.1\r\n\r\n", HeadFault::malformed},
      {"POST / HTTP/1.1\nHost: h\n\n", HeadFault::malformed},
      {"POST /a b HTTP/1.1\r\nHost: h\r\n\r\n", HeadFault::malformed},
      {"POST  HTTP/1.1\r\nHost: h\r\n\r\n", HeadFault::malformed},
      {"P(ST / HTTP/1.1\r\nHost: h\r\n\r\n", HeadFault::malformed},
      {"POST / HTTP/1.1x\r\nHost: h\r\n\r\n", HeadFault::malformed},
      {"POST / HTTP/2.0\r\nHost: h\r\n\r\n", HeadFault::unknown_version},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HeadFault::bad_framing},
      {"GET host.example HTTP/1.1\r\nHost: h\r\n\r\n", HeadFault::malformed},
  };
  for (const Case& c : cases) EXPECT_EQ(fault_of(c.text), c.fault) << c.text;
}

TEST(Http1Request, LimitsBytesAndFields) {
  // B29: over 64 KiB of head is 431, and is known before the end of the head is.
  std::string endless = "GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(70'000, 'x');
  RequestHead h;
  EXPECT_EQ(parse_request(endless, 0, h).fault, HeadFault::too_large);
  EXPECT_EQ(parse_request(endless, 65'000, h).fault, HeadFault::too_large);
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 300; i++) many += "A: b\r\n";
  EXPECT_EQ(parse_request(many + "\r\n", 0, h).fault, HeadFault::too_large);
}

TEST(Http1Request, ConnectionAndExpectations) {
  const std::string line = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_FALSE(parse_good(line + "Connection: Close\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse_good("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
  EXPECT_FALSE(parse_good("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse_good(line + "Expect: 100-Continue\r\n\r\n").expects_continue);
  EXPECT_TRUE(parse_good(line + "Expect: 200-maybe\r\n\r\n").expects_unknown);
  EXPECT_EQ(parse_good("GET http://h/a?b HTTP/1.1\r\nHost: h\r\n\r\n").target, "/a?b");
  EXPECT_EQ(parse_good("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n").target, "/");
  EXPECT_EQ(parse_good("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n").target, "/");
}

std::string passing(const std::string& fields) {
  std::string out;
  parse_good("POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n").append_passing(out);
  return out;
}

TEST(Http1Request, PassesOnlyEndToEndFields) {
  std::string out;
  parse_good(kRequest).append_passing(out);
  // B09, B15
  EXPECT_EQ(out,
            "Content-Type: application/json\r\nUser-Agent: test/1\r\n"
            "X-Stainless-Lang: python\r\n");
  EXPECT_EQ(passing("Connection: x-one, Keep-Alive\r\nX-One: 1\r\nconnection: X-TWO\r\nx-two: 2\r\n"
                    "X-Three: 3\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: h2c\r\n"
                    "Proxy-Authorization: a\r\nproxy-connection: b\r\nExpect: 100-continue\r\n"
                    "X-Api-Key: sk\r\nApi-Key: sk\r\nX-Request-Id: 1\r\nX-Berth-Secret: 1\r\n"
                    "Origin: http://o\r\n"),
            "X-Three: 3\r\n");
  std::string many, kept;
  for (int i = 0; i < 60; i++) {
    many += "Cookie: a\r\nX-K: v\r\n";
    kept += "X-K: v\r\n";
  }
  EXPECT_EQ(passing(many), kept);
}

TEST(Http1Response, ReadsAndFilters) {
  const std::string text =
      "HTTP/1.1 503 Model Loading\r\nContent-Type: text/event-stream\r\nRetry-After: 3\r\n"
      "Transfer-Encoding: chunked\r\nConnection: close\r\nAccess-Control-Allow-Origin: *\r\n"
      "Set-Cookie: s=1\r\nX-Request-Id: engine\r\nServer: uvicorn\r\n\r\nbody";
  ResponseHead h;
  ASSERT_EQ(parse_response(text, 0, h).state, HeadState::done);
  EXPECT_EQ(h.status, 503);
  EXPECT_EQ(h.reason, "Model Loading");
  EXPECT_EQ(h.retry_after, "3");
  EXPECT_TRUE(h.chunked);
  EXPECT_FALSE(h.keep_alive);
  std::string out;
  h.append_passing(out);
  EXPECT_EQ(out, "Content-Type: text/event-stream\r\nRetry-After: 3\r\nServer: uvicorn\r\n");
  for (const char* bad :
       {"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 099 X\r\n\r\n", "HTTP/1.1 2000 X\r\n\r\n",
        "HTTX/1.1 200 OK\r\n\r\n", "HTTP/1.1200 OK\r\n\r\n"})
    EXPECT_EQ(parse_response(bad, 0, h).state, HeadState::bad) << bad;
  EXPECT_EQ(parse_response("HTTP/1.1 200\r\n\r\n", 0, h).state, HeadState::done);
}

}  // namespace
}  // namespace berth::proto
