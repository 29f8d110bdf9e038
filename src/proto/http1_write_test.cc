#include "proto/http1_write.h"

#include <gtest/gtest.h>

namespace berth::proto {
namespace {

TEST(Http1Write, StatusLines) {
  std::string out;
  append_status_line(out, 404);
  append_status_line(out, 200, "Fine");
  append_status_line(out, 299);
  EXPECT_EQ(out, "HTTP/1.1 404 Not Found\r\nHTTP/1.1 200 Fine\r\nHTTP/1.1 299 Status\r\n");
  EXPECT_EQ(reason_phrase(431), "Request Header Fields Too Large");
}

TEST(Http1Write, NumbersAndChunkSizes) {
  std::string out;
  append_number(out, 0);
  append_number(out, UINT64_MAX);
  EXPECT_EQ(out, "018446744073709551615");
  out.clear();
  append_chunk_size(out, 0x1a4);
  EXPECT_EQ(out, "1a4\r\n");
}

}  // namespace
}  // namespace berth::proto
