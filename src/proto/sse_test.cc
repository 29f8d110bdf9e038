#include "proto/sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace berth::proto {
namespace {

std::vector<std::string> split_events(std::string_view stream) {
  SseScan scan;
  std::vector<std::string> events;
  while (auto end = scan.next_event_end(stream)) {
    events.emplace_back(stream.substr(0, *end));
    stream.remove_prefix(*end);
  }
  return events;
}

TEST(SseScan, EventsEndAtBlankLinesOfEveryKind) {
  EXPECT_EQ(split_events("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\n: note\n\n"),
            (std::vector<std::string>{"data: a\n\n", "data: b\r\n\r\n", "data: c\r\r",
                                      "data: d\n\r\n", ": note\n\n"}));
  EXPECT_TRUE(split_events("data: unfinished\n").empty());
}

TEST(SseScan, SurvivesEverySplit) {
  const std::string stream =
      "\xef\xbb\xbf"
      "data: \xe4\xb8\xad\n\ndata:b\r\n\r\ndata: c\r\r: ping\n\nevent: x\ndata: d\ndata: e\n\n"
      "data: [DONE]\n\n";
  for (size_t i = 0; i <= stream.size(); ++i) {
    SseScan scan;
    scan.feed(std::string_view(stream).substr(0, i));
    scan.feed(std::string_view(stream).substr(i));
    EXPECT_EQ(scan.events(), 6u) << i;
    EXPECT_TRUE(scan.signs().done) << i;
    EXPECT_TRUE(scan.at_boundary()) << i;
  }
  SseScan bytes;
  for (char c : stream) bytes.feed({&c, 1});
  EXPECT_EQ(bytes.events(), 6u);
  EXPECT_TRUE(bytes.signs().done);
}

TEST(SseScan, AnEventEndingInCrIsThereBeforeTheLineFeed) {
  SseScan scan;
  EXPECT_EQ(scan.feed("data: a\r\n\r"), 1u);
  EXPECT_TRUE(scan.at_boundary());
  EXPECT_EQ(scan.feed("\n"), 0u);
  EXPECT_TRUE(scan.at_boundary());
  EXPECT_EQ(scan.feed("data: b\r\n\r\n"), 1u);
}

TEST(SseScan, KnowsTheSpellingsOfDone) {
  for (std::string_view text :
       {"data: [DONE]\n", "data:[DONE]\n", "data: [DONE]\r", "data:  [DONE] \r\n"}) {
    SseScan scan;
    scan.feed(text);
    EXPECT_TRUE(scan.signs().done) << text;
  }
  for (std::string_view text : {"data: \"[DONE]\"\n", "data: {\"content\":\"data: [DONE]\"}\n",
                                ": data: [DONE]\n", "data: [DONE]", "event: [DONE]\n",
                                "data: [DONE] but not quite, there is more text here\n"}) {
    SseScan scan;
    scan.feed(text);
    EXPECT_FALSE(scan.signs().done) << text;
  }
}

TEST(SseScan, SeesErrorsAndEndsOfOtherApis) {
  auto signs = [](std::string_view text) {
    SseScan scan;
    scan.feed(text);
    return scan.signs();
  };
  EXPECT_TRUE(signs("data: {\"error\":{\"message\":\"x\"}}\n\n").error);
  EXPECT_TRUE(signs("data: { \"error\" : \"x\"}\n\n").error);
  EXPECT_TRUE(signs("data: {\"object\":\"error\",\"message\":\"x\"}\n\n").error);
  EXPECT_TRUE(signs("event: error\ndata: {}\n\n").error);
  EXPECT_TRUE(signs("error: {\"message\":\"x\"}\n\n").error);
  EXPECT_FALSE(signs("data: {\"error\":null,\"choices\":[]}\n\n").error);
  EXPECT_FALSE(signs("data: {\"choices\":[{\"error\":1}]}\n\n").error);
  EXPECT_TRUE(signs("event: message_stop\n").finished);
  EXPECT_TRUE(signs("event: response.completed\r\n").finished);
  EXPECT_FALSE(signs("event: response.output_text.delta\n").finished);
}

TEST(SseEvent, IsOneDataLine) { EXPECT_EQ(sse_data_event("{}"), "data: {}\n\n"); }

}  // namespace
}  // namespace berth::proto
