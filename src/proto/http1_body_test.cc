#include "proto/http1_body.h"

#include <gtest/gtest.h>

namespace berth::proto {
namespace {

BodyScanner chunked_response() {
  ResponseHead h;
  h.status = 200;
  h.chunked = true;
  BodyScanner s;
  s.start_response(h, BodyScanner::Answering::other);
  return s;
}

const std::string kChunked =
    "5\r\nhello\r\n1A;name=\"v\"\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: x\r\n\r\n";
const std::string kPayload = "helloabcdefghijklmnopqrstuvwxyz";

TEST(BodyScanner, ChunksAtEverySplit) {
  for (size_t a = 0; a <= kChunked.size(); a++) {
    for (size_t b = a; b <= kChunked.size(); b += 7) {
      BodyScanner s = chunked_response();
      std::string out;
      size_t used = 0;
      std::string all = kChunked + "NEXT";
      std::string_view v = all;
      for (std::string_view part : {v.substr(0, a), v.substr(a, b - a), v.substr(b)})
        used += s.feed(part, [&](std::string_view p) { out.append(p); });
      EXPECT_EQ(out, kPayload);
      EXPECT_EQ(used, kChunked.size());
      EXPECT_TRUE(s.done());
    }
  }
}

TEST(BodyScanner, RefusesBadChunks) {
  for (const char* bad :
       {"\r\n", "x\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n", "5\nhello\r\n", "5\r\nhello0\r\n",
        "5\r\nhello\n0\r\n\r\n", "0x5\r\n", "-1\r\n", "1234567890abcdef0\r\n", "5;a\nhello",
        "5\r\rx", "0\r\nA: b\n\r\n", "0\r\n\rX"}) {
    BodyScanner s = chunked_response();
    s.feed(bad, [](std::string_view) {});
    EXPECT_TRUE(s.bad()) << bad;
  }
}

TEST(BodyScanner, LengthsAndBodilessAnswers) {
  ResponseHead h;
  h.status = 200;
  h.content_length = 4;
  BodyScanner s;
  s.start_response(h, BodyScanner::Answering::other);
  std::string out;
  EXPECT_EQ(s.feed("bodyNEXT", [&](std::string_view p) { out.append(p); }), 4u);
  EXPECT_EQ(out, "body");
  EXPECT_TRUE(s.done());
  s.start_response(h, BodyScanner::Answering::head);
  EXPECT_TRUE(s.done());
  for (int status : {100, 204, 304}) {
    h.status = status;
    s.start_response(h, BodyScanner::Answering::other);
    EXPECT_TRUE(s.done()) << status;
  }
  ResponseHead open;
  open.status = 200;
  s.start_response(open, BodyScanner::Answering::other);
  EXPECT_EQ(s.kind(), BodyScanner::Kind::until_close);
  EXPECT_FALSE(s.done());
}

TEST(BodyScanner, ABrokenStreamCanBeClosedProperly) {
  const std::string text = "data: {\"error\":1}\n\n";
  size_t possible = 0;
  for (size_t cut = 0; cut < kChunked.size(); cut++) {
    BodyScanner s = chunked_response();
    std::string got;
    s.feed(std::string_view(kChunked).substr(0, cut), [&](std::string_view p) { got.append(p); });
    auto closing = s.closing_bytes(text);
    if (!closing) continue;
    possible++;
    // What the client sees: the bytes so far, then the closing ones.
    BodyScanner client = chunked_response();
    std::string seen;
    std::string raw = kChunked.substr(0, cut) + *closing;
    size_t used = client.feed(raw, [&](std::string_view p) { seen.append(p); });
    EXPECT_TRUE(client.done()) << cut;
    EXPECT_EQ(used, raw.size());
    EXPECT_EQ(seen.substr(0, got.size()), got);
    std::string tail = seen.substr(got.size());
    EXPECT_EQ(tail.substr(0, text.size()), text);
    EXPECT_EQ(tail.find_first_not_of('\n', text.size()), std::string::npos);
  }
  EXPECT_GT(possible, 30u);
}

}  // namespace
}  // namespace berth::proto
