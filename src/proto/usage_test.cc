#include "proto/usage.h"

#include <gtest/gtest.h>

#include <string>

namespace berth::proto {
namespace {

UsageScan scan(std::string_view text) {
  UsageScan scan;
  scan.feed(text);
  return scan;
}

void expect_same_at_every_split(std::string_view text) {
  const UsageScan whole = scan(text);
  for (size_t i = 0; i <= text.size(); ++i) {
    UsageScan two;
    two.feed(text.substr(0, i));
    two.feed(text.substr(i));
    EXPECT_EQ(two.usage(), whole.usage()) << "split at " << i;
    EXPECT_EQ(two.objects(), whole.objects()) << "split at " << i;
    EXPECT_EQ(two.finish_seen(), whole.finish_seen()) << "split at " << i;
  }
  UsageScan bytes;
  for (char c : text) bytes.feed({&c, 1});
  EXPECT_EQ(bytes.usage(), whole.usage());
  EXPECT_EQ(bytes.finish_seen(), whole.finish_seen());
}

constexpr std::string_view kChat =
    R"({"id":"x","model":"m","choices":[{"index":0,"message":{)"
    R"("content":"say \"usage\": {\"prompt_tokens\":9}"},)"
    R"("finish_reason":"stop"}],"usage":{"prompt_tokens":321,"total_tokens":521,)"
    R"("completion_tokens":200,)"
    R"("prompt_tokens_details":{"cached_tokens":300}},"prompt_logprobs":null})";

TEST(UsageScan, ReadsAChatReply) {
  UsageScan s = scan(kChat);
  EXPECT_EQ(s.usage(), (Usage{321, 200, 521, 300}));
  EXPECT_EQ(s.objects(), 1u);  // the quoted one in the text is none
  EXPECT_TRUE(s.finish_seen());
  EXPECT_EQ(s.source(UsageScan::Ending::complete), UsageSource::reported);
  EXPECT_EQ(s.source(UsageScan::Ending::cut), UsageSource::last_cumulative);
  expect_same_at_every_split(kChat);
}

// B03: usage is right when every byte comes alone, with text beyond ASCII around it.
TEST(UsageScan, ReadsAStreamOfContinuousUsage) {
  const std::string stream =
      "data: "
      "{\"choices\":[{\"delta\":{\"content\":\"\xe4\xb8\xad\xf0\x9f\x98\x80\"},\"finish_reason\":"
      "null}],"
      "\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":1,\"total_tokens\":41}}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"e\xcc\x81\"},\"finish_reason\":\"length\"}],"
      "\"usage\": {\"prompt_tokens\":40,\"completion_tokens\":10,\"total_tokens\":50}}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":10,"
      "\"total_tokens\":50,\"prompt_tokens_details\":null}}\n\ndata: [DONE]\n\n";
  UsageScan s = scan(stream);
  EXPECT_EQ(s.usage(), (Usage{40, 10, 50, 0}));  // cumulative: never added up
  EXPECT_EQ(s.objects(), 3u);
  expect_same_at_every_split(stream);
}

TEST(UsageScan, CutStreamKeepsTheLastCumulativeValue) {
  UsageScan s = scan(
      "data: {\"choices\":[{\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":7,"
      "\"completion_tokens\":3,\"total_tokens\":10}}\n\ndata: {\"choices\":[{\"fini");
  EXPECT_EQ(s.usage().completion_tokens, 3u);
  EXPECT_FALSE(s.finish_seen());
  EXPECT_EQ(s.source(UsageScan::Ending::cut), UsageSource::last_cumulative);
}

TEST(UsageScan, ReadsAnthropicMessages) {
  const std::string stream =
      "event: message_start\ndata: "
      "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"stop_reason\":null,"
      "\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":5,\"cache_read_input_"
      "tokens\":70,"
      "\"output_tokens\":1}}}\n\n"
      "event: message_delta\ndata: "
      "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},"
      "\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: "
      "{\"type\":\"message_stop\"}\n\n";
  UsageScan s = scan(stream);
  EXPECT_EQ(s.usage(), (Usage{100, 15, 115, 70}));
  EXPECT_TRUE(s.finish_seen());
  expect_same_at_every_split(stream);
}

TEST(UsageScan, ReadsTheResponsesApi) {
  const std::string stream =
      "event: response.created\ndata: {\"response\":{\"usage\":null}}\n\n"
      "event: response.completed\ndata: "
      "{\"type\":\"response.completed\",\"response\":{\"id\":\"r\","
      "\"usage\":{\"input_tokens\":36,\"input_tokens_details\":{\"cached_tokens\":12},"
      "\"output_tokens\":87,\"output_tokens_details\":{\"reasoning_tokens\":3},\"total_tokens\":"
      "123}}}\n\n";
  EXPECT_EQ(scan(stream).usage(), (Usage{36, 87, 123, 12}));
  expect_same_at_every_split(stream);
}

TEST(UsageScan, ReadsEmbeddingsAndRerank) {
  EXPECT_EQ(
      scan(R"({"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}})").usage(),
      (Usage{8, 0, 8, 0}));
  EXPECT_EQ(scan(R"({"results":[],"usage":{"total_tokens":56}})").usage(), (Usage{56, 0, 56, 0}));
}

TEST(UsageScan, IgnoresWhatIsNoUsage) {
  for (std::string_view text :
       {R"({"usage":null})", R"({"usage":"x"})", R"({"a":"usage","b":1})", R"({"usage":{"x":1}})",
        R"({"usage":{}})", R"({"usage":{"type":"duration","seconds":3}})",
        R"({"usage":{"prompt_tokens":-4}})", R"({"usage":{"prompt_tokens":1.5}})",
        R"(["usage",{"prompt_tokens":5}])", R"({"usage":{"prompt_tokens":5)"}) {
    EXPECT_FALSE(scan(text).seen()) << text;
    EXPECT_EQ(scan(text).source(UsageScan::Ending::complete), UsageSource::none);
  }
}

// What a caller makes the engine echo cannot lower what was reported.
TEST(UsageScan, LaterSmallerValuesDoNotCount) {
  UsageScan s =
      scan(R"({"usage":{"prompt_tokens":50,"completion_tokens":9},)"
           R"("tools":[{"properties":{"usage":{"prompt_tokens":0,"completion_tokens":0}}}]})");
  EXPECT_EQ(s.usage(), (Usage{50, 9, 59, 0}));
}

TEST(UsageScan, HugeObjectsAndDeepNestingAreSkippedAndTheSearchGoesOn) {
  const std::string good = R"({"usage":{"prompt_tokens":3,"completion_tokens":4}})";
  const std::string huge = R"({"usage":{"x":")" + std::string(10000, 'a');
  UsageScan s;
  for (size_t i = 0; i < huge.size(); i += 100) s.feed(std::string_view(huge).substr(i, 100));
  s.feed("\"}}" + good);
  EXPECT_EQ(s.usage(), (Usage{3, 4, 7, 0}));
  UsageScan deep;
  deep.feed(R"({"usage":)" + std::string(1000, '{') + good);
  EXPECT_EQ(deep.usage(), (Usage{3, 4, 7, 0}));
}

TEST(UsageScan, NumbersThatDoNotFitDoNotWrap) {
  UsageScan s = scan(R"({"usage":{"prompt_tokens":18446744073709551615,)"
                     R"("completion_tokens":18446744073709551615}})");
  EXPECT_EQ(s.usage().total_tokens, UINT64_MAX);
}

TEST(UsageScan, FinishNeedsAString) {
  EXPECT_FALSE(scan(R"({"finish_reason":null,"stop_reason": null})").finish_seen());
  EXPECT_TRUE(scan(R"({"finish_reason" : "stop"})").finish_seen());
  EXPECT_FALSE(scan(R"({"content":"\"finish_reason\":\"stop\""})").finish_seen());
}

}  // namespace
}  // namespace berth::proto
