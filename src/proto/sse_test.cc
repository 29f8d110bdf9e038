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

std::string edit(StreamEdits edits, std::string_view stream, std::vector<size_t> cuts = {}) {
  SseEdit editor(std::move(edits));
  std::string out;
  size_t from = 0;
  cuts.push_back(stream.size());
  for (size_t cut : cuts) {
    out += editor.feed(stream.substr(from, cut - from));
    from = cut;
  }
  return out += editor.held();
}

// The same result whole, at every single cut, and byte by byte.
std::string edit_at_every_split(const StreamEdits& edits, std::string_view stream) {
  const std::string whole = edit(edits, stream);
  std::vector<size_t> all;
  for (size_t i = 1; i < stream.size(); ++i) {
    EXPECT_EQ(edit(edits, stream, {i}), whole) << "cut at " << i;
    all.push_back(i);
  }
  EXPECT_EQ(edit(edits, stream, all), whole);
  return whole;
}

StreamEdits strip_all() { return {UsageStrip::all, ""}; }
StreamEdits rename(std::string model) { return {UsageStrip::none, std::move(model)}; }

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

constexpr std::string_view kToken =
    "data: {\"id\":\"c\",\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" "
    "\xf0\x9f\x98\x80"
    "\"},\"finish_reason\":null}]}\n\n";
constexpr std::string_view kUsage =
    "data: {\"id\":\"c\",\"model\":\"served\",\"choices\":[],\"usage\":{\"prompt_tokens\":40,"
    "\"completion_tokens\":10,\"total_tokens\":50}}\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

std::string cat(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (std::string_view part : parts) out += part;
  return out;
}

// B05: the injected usage chunk is not shown to who did not ask for it.
TEST(SseEdit, DropsTheInjectedUsageChunk) {
  const std::string stream = cat({kToken, ": ping\n\n", kToken, kUsage, kDone});
  EXPECT_EQ(edit_at_every_split(strip_all(), stream), cat({kToken, ": ping\n\n", kToken, kDone}));
}

TEST(SseEdit, WithoutEditsNothingChangesAndNothingIsCopied) {
  const std::string stream = cat({kToken, kUsage, kDone});
  SseEdit editor(StreamEdits{});
  std::string_view out = editor.feed(stream);
  EXPECT_EQ(out.data(), stream.data());
  EXPECT_EQ(out.size(), stream.size());
}

TEST(SseEdit, WholeEventsThatNeedNoEditAreNotCopied) {
  SseEdit editor(strip_all());
  const std::string stream = cat({kToken, kToken, kDone});
  EXPECT_EQ(editor.feed(stream).data(), stream.data());
  EXPECT_EQ(editor.edited_events(), 0u);
}

TEST(SseEdit, RemovesUsageMembersBesideChoices) {
  EXPECT_EQ(edit_at_every_split(strip_all(), "data: {\"choices\":[{\"x\":1}],\"usage\":null}\n\n"),
            "data: {\"choices\":[{\"x\":1}]}\n\n");
  EXPECT_EQ(edit_at_every_split(strip_all(), "data: {\"usage\" : null , \"choices\":[{}]}\n\n"),
            "data: {\"choices\":[{}]}\n\n");
  EXPECT_EQ(
      edit_at_every_split(
          strip_all(), "data:{\"a\":1, \"usage\":{\"prompt_tokens\":1}, \"choices\":[{}]}\r\n\r\n"),
      "data:{\"a\":1, \"choices\":[{}]}\r\n\r\n");
  // Twice in one object, and as the first of several.
  EXPECT_EQ(edit(strip_all(),
                 "data: {\"usage\":1,\"usage\":2,\"choices\":[0],\"usage\":3,\"usage\":4}\n\n"),
            "data: {\"choices\":[0]}\n\n");
  // Not one of chat's or completions' objects: left alone.
  const std::string other =
      "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n";
  EXPECT_EQ(edit(strip_all(), other), other);
}

TEST(SseEdit, KeepsTheFinalUsageForWhoAskedForIt) {
  const std::string with_usage =
      "data: {\"choices\":[{\"finish_reason\":null}],\"usage\":{\"completion_tokens\":3}}\n\n";
  const std::string without = "data: {\"choices\":[{\"finish_reason\":null}]}\n\n";
  // Some engines report with the finishing chunk and nowhere else.
  const std::string finishing =
      "data: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":4}}\n\n";
  EXPECT_EQ(edit_at_every_split({UsageStrip::continuous_only, ""},
                                cat({with_usage, finishing, kUsage, kDone})),
            cat({without, finishing, kUsage, kDone}));
}

// B19: the reply's model is the name that was asked for.
TEST(SseEdit, RestoresTheModelsName) {
  const std::string out = edit_at_every_split(rename("hf.co/org/M:Q4 \"x\""), kToken);
  EXPECT_NE(out.find(R"("model":"hf.co/org/M:Q4 \"x\"","choices")"), std::string::npos) << out;
  EXPECT_EQ(edit(rename("served"), kToken), kToken);
}

TEST(SseEdit, RestoresTheModelWhereOtherApisPutIt) {
  EXPECT_EQ(edit(rename("a"),
                 "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"
                 "{\"model\":\"b\",\"usage\":{}}}\n\n"),
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"
            "{\"model\":\"a\",\"usage\":{}}}\n\n");
  EXPECT_EQ(
      edit(rename("a"), "data: {\"response\":{\"model\":\"b\",\"tools\":[{\"model\":\"c\"}]}}\n\n"),
      "data: {\"response\":{\"model\":\"a\",\"tools\":[{\"model\":\"c\"}]}}\n\n");
  const std::string deeper =
      "data: {\"metadata\":{\"model\":\"b\"},\"text\":\"\\\"model\\\":\\\"b\\\"\"}\n\n";
  EXPECT_EQ(edit(rename("a"), deeper), deeper);
}

TEST(SseEdit, LeavesWhatIsNoJsonObjectAlone) {
  for (std::string_view text :
       {"data: not json \"model\":\"b\"\n\n", "data: {\"model\":\"b\"\n\n",
        "data: {\"model\":\"b\"} x\n\n", "data: [\"model\"]\n\n", "data\n\n", "data:\n\n",
        ": \"model\":\"b\"\n\n", "\n\n\n", "id: 3\n\n", "retry: 10\r\r", "data: [DONE]\n\n"})
    EXPECT_EQ(edit_at_every_split(rename("a"), text), text);
}

TEST(SseEdit, EditsDataOverSeveralLines) {
  EXPECT_EQ(edit_at_every_split(rename("a"),
                                "event: x\r\ndata: {\"model\":\r\nid: 7\r\ndata:\"b\"}\r\n\r\n"),
            "event: x\r\ndata: {\"model\":\r\ndata: \"a\"}\r\nid: 7\r\n\r\n");
  EXPECT_EQ(edit(strip_all(), "data: {\"choices\":[],\ndata: \"usage\":{}}\n\ndata: x\n\n"),
            "data: x\n\n");
  const std::string untouched = "data: {\"n\":\ndata:1}\n\n";
  EXPECT_EQ(edit(rename("a"), untouched), untouched);
}

TEST(SseEdit, HandlesAByteOrderMarkAndCrOnlyLines) {
  EXPECT_EQ(edit_at_every_split(rename("a"),
                                "\xef\xbb\xbf"
                                "data: {\"model\":\"b\"}\r\rdata: {\"model\":\"b\"}\r\r"),
            "\xef\xbb\xbf"
            "data: {\"model\":\"a\"}\r\rdata: {\"model\":\"a\"}\r\r");
}

// A dropped event that ended with CR takes the LF after it along.
TEST(SseEdit, NoStrayLineFeedAfterADroppedEvent) {
  const std::string stream = "data: {\"choices\":[],\"usage\":{}}\r\n\r\ndata: x\r\n\r\n";
  EXPECT_EQ(edit_at_every_split(strip_all(), stream), "data: x\r\n\r\n");
}

TEST(SseEdit, EachEventComesOutWithItsLastByte) {
  SseEdit editor(rename("a"));
  const std::string in = "data: {\"model\":\"b\"}\r\n\r\n";
  std::string out;
  for (size_t i = 0; i < in.size(); ++i) {
    out += editor.feed(std::string_view(in).substr(i, 1));
    if (i + 2 < in.size()) {
      EXPECT_TRUE(out.empty()) << i;
    } else if (i + 2 == in.size()) {
      EXPECT_EQ(out, "data: {\"model\":\"a\"}\r\n\r");
    }
  }
  EXPECT_EQ(out, "data: {\"model\":\"a\"}\r\n\r\n");
}

TEST(SseEdit, AnOversizedEventPassesAndIsCounted) {
  SseEdit editor(rename("a"), 64);
  const std::string big = "data: {\"model\":\"b\",\"x\":\"" + std::string(200, 'y') + "\"}\n\n";
  const std::string small = "data: {\"model\":\"b\"}\n\n";
  std::string out;
  size_t most_held = 0;
  const std::string stream = big + small;
  for (size_t i = 0; i < stream.size(); i += 10) {
    out += editor.feed(std::string_view(stream).substr(i, 10));
    most_held = std::max(most_held, editor.held().size());
  }
  EXPECT_EQ(out, big + "data: {\"model\":\"a\"}\n\n");
  EXPECT_EQ(editor.oversized_events(), 1u);
  EXPECT_EQ(editor.edited_events(), 1u);
  EXPECT_LE(most_held, 64u);
  // In one piece too: the bound does not depend on how the bytes arrive.
  SseEdit whole(rename("a"), 64);
  EXPECT_EQ(whole.feed(stream), out);
  EXPECT_EQ(whole.oversized_events(), 1u);
}

TEST(SseEdit, WhatIsHeldAtTheEndIsTheIncompleteEvent) {
  SseEdit editor(rename("a"));
  EXPECT_EQ(editor.feed("data: x\n\ndata: {\"mod"), "data: x\n\n");
  EXPECT_EQ(editor.held(), "data: {\"mod");
}

TEST(SseEvent, IsOneDataLine) { EXPECT_EQ(sse_data_event("{}"), "data: {}\n\n"); }

}  // namespace
}  // namespace berth::proto
