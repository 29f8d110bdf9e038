#include "proto/sse_edit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace berth::proto {
namespace {

std::string edit(StreamEdits edits, std::string_view stream, std::vector<size_t> cuts = {}) {
  SseEdit editor(std::move(edits));
  std::string out;
  size_t from = 0;
  cuts.push_back(stream.size());
  for (size_t cut : cuts) {
    editor.feed(stream.substr(from, cut - from), out);
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

TEST(SseEdit, WithoutEditsNothingChanges) {
  const std::string stream = cat({kToken, kUsage, kDone});
  EXPECT_EQ(edit_at_every_split(StreamEdits{}, stream), stream);
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
    editor.feed(std::string_view(in).substr(i, 1), out);
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
    editor.feed(std::string_view(stream).substr(i, 10), out);
    most_held = std::max(most_held, editor.held().size());
  }
  EXPECT_EQ(out, big + "data: {\"model\":\"a\"}\n\n");
  EXPECT_EQ(editor.oversized_events(), 1u);
  EXPECT_EQ(editor.edited_events(), 1u);
  EXPECT_LE(most_held, 64u);
  // In one piece too: the bound does not depend on how the bytes arrive.
  SseEdit whole(rename("a"), 64);
  std::string out_of_whole;
  whole.feed(stream, out_of_whole);
  EXPECT_EQ(out_of_whole, out);
  EXPECT_EQ(whole.oversized_events(), 1u);
}

TEST(SseEdit, WhatIsHeldAtTheEndIsTheIncompleteEvent) {
  SseEdit editor(rename("a"));
  std::string out;
  editor.feed("data: x\n\ndata: {\"mod", out);
  EXPECT_EQ(out, "data: x\n\n");
  EXPECT_EQ(editor.held(), "data: {\"mod");
}

// Events that begin with the same bytes take a shorter way, which must not be seen: each of these
// comes after such events and has to be edited as if it stood alone.
TEST(SseEdit, WhatCameBeforeDoesNotChangeTheEdit) {
  const std::string same = "data: {\"id\":\"c\",\"model\":\"b\"";
  const std::string_view tails[] = {
      ",\"choices\":[{}]}\n\n",
      ",\"choices\":[{}]}\r\n\r\n",
      ",\"choices\":[{}]}\r\r",
      ",\"choices\":[{}]} \n\n",
      ",\"choices\":[{}]\n\n",
      ",\"choices\":[],\"usage\":{}}\n\n",
      ",\"choices\":[{}],\"usage\":null}\n\n",
      ",\"model\":\"z\"}\n\n",
      ",\"x\":{\"model\":\"z\"}}\n\n",
      ",\"response\":{\"model\":\"z\"}}\n\n",
      ",\"text\":\"\\\"model\\\":1\"}\n\n",
      "}\n\n",
      "}\nid: 7\n\n",
      ",\ndata: \"choices\":[{}]}\n\n",
      "c\",\"choices\":[{}]}\n\n",
      "",
  };
  const StreamEdits edits{UsageStrip::all, "a"};
  const std::string first = same + ",\"choices\":[{}]}\n\n";
  for (std::string_view tail : tails) {
    for (const std::string& last :
         {same + std::string(tail), "id: 1\n" + same + std::string(tail)}) {
      EXPECT_EQ(edit_at_every_split(edits, first + first + last),
                edit(edits, first) + edit(edits, first) + edit(edits, last))
          << last;
    }
  }
}

TEST(SseEdit, ManyEventsWithDifferentBeginnings) {
  std::string in, out;
  for (int i = 0; i < 40; i++) {
    const std::string id = std::to_string(i < 20 ? i : 20);
    in += "data: {\"id\":" + id + ",\"model\":\"b\",\"n\":1}\n\n";
    out += "data: {\"id\":" + id + ",\"model\":\"a\",\"n\":1}\n\n";
  }
  EXPECT_EQ(edit(rename("a"), in), out);
}

}  // namespace
}  // namespace berth::proto
