#include "proto/openai.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/json_scan.h"

namespace berth::proto {
namespace {

RequestPeek peek(std::string_view body) {
  Result<RequestPeek> result = peek_request(body);
  EXPECT_TRUE(result.ok()) << body << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? *result : RequestPeek{};
}

std::string refusal(std::string_view body) {
  Result<RequestPeek> result = peek_request(body);
  EXPECT_FALSE(result.ok()) << body;
  if (result.ok()) return "";
  EXPECT_EQ(result.error().code, Code::invalid_argument);
  EXPECT_EQ(result.error().source, Source::caller);
  return result.error().message;
}

std::string edited(std::string_view body, const RequestEdits& edits) {
  return plan_request_edits(peek(body), edits).apply(body);
}

constexpr RequestEdits kInclude{std::nullopt, UsageInjection::include};
constexpr RequestEdits kBoth{std::nullopt, UsageInjection::include_and_continuous};

TEST(PeekRequest, ReadsTheMembersOfAChat) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"the \"model\":\"x\" and {\"stream\":true}"}],)"
      R"("model":"org\/m","stream":true,"stream_options":{"include_usage":false,"x":1},)"
      R"("max_tokens":7,"n":2,"user":"ann","tools":[{"model":"inner","n":9}]})";
  RequestPeek p = peek(body);
  EXPECT_EQ(p.model, "org/m");
  EXPECT_EQ(p.model_value.of(body), R"("org\/m")");
  EXPECT_TRUE(p.stream);
  EXPECT_EQ(p.include_usage, Asked::no);
  EXPECT_EQ(p.include_usage_value.of(body), "false");
  EXPECT_EQ(p.continuous_usage, Asked::absent);
  EXPECT_EQ(p.stream_options.of(body), R"({"include_usage":false,"x":1})");
  EXPECT_EQ(p.max_tokens, 7u);
  EXPECT_EQ(p.n, 2u);
  EXPECT_EQ(p.user_value.of(body), R"("ann")");
}

TEST(PeekRequest, DefaultsAndNulls) {
  RequestPeek p = peek(R"({"model":"m","stream":null,"max_tokens":null,"n":null,"user":null})");
  EXPECT_FALSE(p.stream);
  EXPECT_EQ(p.max_tokens, std::nullopt);
  EXPECT_EQ(p.n, 1u);
  EXPECT_TRUE(p.user_value.empty());
  EXPECT_TRUE(p.stream_options.empty());
  EXPECT_EQ(peek(R"({"model":"m","max_tokens":5,"max_completion_tokens":9})").max_tokens, 9u);
  EXPECT_EQ(peek(R"({"model":"m","max_output_tokens":3})").max_tokens, 3u);
  EXPECT_EQ(peek(R"({"model":"m","max_tokens":1.5})").max_tokens, std::nullopt);
  EXPECT_EQ(peek(" \r\n\t{\"model\":\"m\"}\n").object_open, 4u);
}

TEST(PeekRequest, RefusesBodiesThatAreNoObjectWithAModel) {
  EXPECT_EQ(refusal(""), "The request body is empty; it should be a JSON object with a \"model\".");
  EXPECT_EQ(refusal("[1]"), "The request body should be a JSON object, not an array.");
  EXPECT_EQ(refusal("\"model\""), "The request body should be a JSON object, not a string.");
  EXPECT_EQ(refusal("nope"), "The request body is not valid JSON: expected a value at byte 0.");
  EXPECT_EQ(refusal("{}"), "The request body has no \"model\"; name one.");
  EXPECT_EQ(refusal(R"({"model":""})"), "\"model\" is empty; name one.");
  EXPECT_EQ(refusal(R"({"model":7})"),
            "\"model\" should be a string, not a number (at byte 9 of the request body).");
  EXPECT_EQ(refusal(R"({"model":"m"} x)"),
            "The request body is not valid JSON: more text after the object at byte 14.");
  EXPECT_EQ(refusal(R"({"model":"m","messages":[}})"),
            "The request body is not valid JSON: expected a value at byte 25.");
  EXPECT_NE(refusal(R"({"model":"m","x":)" + std::string(1000, '[')).find("nested too deeply"),
            std::string::npos);
  refusal(R"({"model":"m","stream":"true"})");
  refusal(R"({"model":"m","stream_options":true})");
  refusal(R"({"model":"m","stream_options":{"include_usage":1}})");
}

// Two spellings of one key are two answers to one question: engines differ in which they take.
TEST(PeekRequest, RefusesDuplicatesOfWhatItActsOn) {
  EXPECT_EQ(refusal(R"({"model":"a","model":"b"})"),
            "\"model\" appears twice in the request body (again at byte 13).");
  EXPECT_EQ(refusal(R"({"mod\u0065l":"a","model":"b"})"),
            "\"model\" appears twice in the request body (again at byte 18).");
  refusal(R"({"model":"a","stream":true,"stream":false})");
  refusal(R"({"model":"a","stream_options":{"include_usage":true,"include\u005fusage":false}})");
  EXPECT_EQ(peek(R"({"mod\u0065l":"a","x":1,"x":2})").model, "a");
}

// B25
TEST(PeekRequest, InvalidUtf8IsRefusedWithItsPlaceAndHalfCharactersToo) {
  EXPECT_EQ(refusal("{\"model\":\"m\",\"x\":\"a\xff\"}"),
            "The request body is not valid UTF-8: byte 0xFF at byte 19.");
  EXPECT_EQ(refusal("{\"model\":\"m\",\"x\":\"\xc0\x80\"}"),
            "The request body is not valid UTF-8: byte 0xC0 at byte 18.");
  const std::string half =
      "half a character at byte 18: a surrogate escape without its other half.";
  for (const char* text : {R"({"model":"m","x":"\ud83d"})", R"({"model":"m","x":"\ude00\ud83d"})",
                           R"({"model":"m","x":"\ud83d\ud83d\ude00"})",
                           R"({"model":"m","x":"\uD83Dude00"})", R"({"model":"m","x":"\ud83d\n"})"})
    EXPECT_EQ(refusal(text), "The request body has " + half) << text;
  EXPECT_NE(refusal(R"({"model":"m","x":[{"y":{"\udfff":1}}]})").find("at byte 25"),
            std::string::npos);
  peek("{\"model\":\"m\",\"x\":\"\\ud83d\\ude00 \xf0\x9f\x98\x80\"}");
  EXPECT_NE(refusal(R"({"model":"x\ud83d"})").find("half a character at byte 11"),
            std::string::npos);
}

// B23
TEST(PlanRequestEdits, EverythingItDoesNotOwnStaysByteForByte) {
  const std::string before =
      "{ "
      "\"seed\":18446744073709551615,\"user\":\"...\",\"logit_bias\":{\"50256\":-100},\r\n\t\"x_"
      "vendor\":"
      "{\"big\":165598928036513123123,\"f\":0.30000000000000004,\"e\":1E400,\"neg0\":-0.0},\"o\":{}"
      ",\"a\":[],"
      "\"z\":\"\\u0000\" , ";
  const std::string after = " , \"last\" :[1.0,  2e-0 ]}  ";
  EXPECT_EQ(
      edited(before + "\"model\" : \"alias\"" + after, {"served/\"x\"", UsageInjection::none}),
      before + "\"model\" : \"served/\\\"x\\\"\"" + after);
  const std::string same = before + "\"model\" : \"m\"" + after;
  EXPECT_TRUE(plan_request_edits(peek(same), {"m", UsageInjection::none}).empty());
}

// B05
TEST(PlanRequestEdits, AsksForUsageAndKeepsOtherOptions) {
  EXPECT_EQ(edited(R"({"model":"m"})", kInclude),
            R"({"stream_options":{"include_usage":true},"model":"m"})");
  EXPECT_EQ(edited(R"({"model":"m","stream_options":null})", kInclude),
            R"({"model":"m","stream_options":{"include_usage":true}})");
  EXPECT_EQ(edited(R"({"model":"m","stream_options":{}})", kInclude),
            R"({"model":"m","stream_options":{"include_usage":true}})");
  EXPECT_EQ(
      edited(R"({"model":"m","stream_options":{ }})", kBoth),
      R"({"model":"m","stream_options":{"include_usage":true,"continuous_usage_stats":true }})");
  EXPECT_EQ(edited(R"({"stream_options":{"x":1, "include_usage": false},"model":"m"})", kInclude),
            R"({"stream_options":{"x":1, "include_usage": true},"model":"m"})");
  EXPECT_EQ(edited(R"({"stream_options":{"include_usage":null,"y":[]},"model":"m"})", kBoth),
            R"({"stream_options":{"continuous_usage_stats":true,"include_usage":true,"y":[]},)"
            R"("model":"m"})");
  EXPECT_EQ(
      edited(R"({"stream_options":{"include_usage":true},"model":"m"})", kBoth),
      R"({"stream_options":{"continuous_usage_stats":true,"include_usage":true},"model":"m"})");
  const std::string done =
      R"({"stream_options":{"include_usage":true,"continuous_usage_stats":true},"model":"m"})";
  EXPECT_TRUE(plan_request_edits(peek(done), kBoth).empty());
  EXPECT_TRUE(peek(done).wants_usage());
}

TEST(PlanRequestEdits, ModelAndOptionsTogether) {
  EXPECT_EQ(edited(R"({"model":"a","stream":true})", {"b", UsageInjection::include}),
            R"({"stream_options":{"include_usage":true},"model":"b","stream":true})");
}

// Every kind of options object: after the edit a second peek reads what was asked for.
TEST(PlanRequestEdits, ASecondPeekReadsTheNewValues) {
  for (std::string_view options :
       {"", R"(,"stream_options":null)", R"(,"stream_options":{})",
        R"(,"stream_options":{"a":{"b":[]}})", R"(,"stream_options":{"include_usage":false})",
        R"(,"stream_options":{"continuous_usage_stats":false})",
        R"(,"stream_options":{"continuous_usage_stats":null,"include_usage":null})"}) {
    const std::string body = R"({"model":"a")" + std::string(options) + R"(,"tail":1.50})";
    RequestPeek p = peek(edited(body, {"b", UsageInjection::include_and_continuous}));
    EXPECT_EQ(p.model, "b");
    EXPECT_EQ(p.include_usage, Asked::yes);
    EXPECT_EQ(p.continuous_usage, Asked::yes);
    EXPECT_EQ(peek(edited(body, kInclude)).include_usage, Asked::yes);
  }
}

TEST(UsageToStrip, IsWhatTheClientDidNotAskFor) {
  const RequestPeek none = peek(R"({"model":"m","stream_options":{"include_usage":false}})");
  const RequestPeek final = peek(R"({"model":"m","stream_options":{"include_usage":true}})");
  const RequestPeek both = peek(
      R"({"model":"m","stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  constexpr auto kInject = UsageInjection::include;
  constexpr auto kInjectBoth = UsageInjection::include_and_continuous;
  EXPECT_EQ(usage_to_strip(none, UsageInjection::none), UsageStrip::none);
  EXPECT_EQ(usage_to_strip(none, kInject), UsageStrip::all);
  EXPECT_EQ(usage_to_strip(none, kInjectBoth), UsageStrip::all);
  EXPECT_EQ(usage_to_strip(final, kInject), UsageStrip::none);
  EXPECT_EQ(usage_to_strip(final, kInjectBoth), UsageStrip::continuous_only);
  EXPECT_EQ(usage_to_strip(both, kInjectBoth), UsageStrip::none);
}

TEST(PeekRequest, BigBodies) {
  const std::string body = R"({"image":")" + std::string(9 << 20, 'A') + R"(","model":"m"})";
  EXPECT_EQ(peek(body).model_value.of(body), "\"m\"");
}

// B19: a whole reply, as an engine with another name gives it.
TEST(PlanReplyEdits, RestoresTheModelOfAWholeReply) {
  const std::string reply =
      R"({"id":"x","object":"list","data":[{"model":"inner"}],"model": "served",)"
      R"("usage":{"total_tokens":1}})";
  ReplyEdits edits;
  const std::string quoted = json_quote("hf.co/org/My-Model:Q4_K_M");
  edits.quoted_model = quoted;
  SpliceList splices;
  EXPECT_EQ(plan_reply_edits(reply, edits, splices), ReplyFate::edit);
  EXPECT_EQ(splices.apply(reply),
            R"({"id":"x","object":"list","data":[{"model":"inner"}],"model": )"
            R"("hf.co/org/My-Model:Q4_K_M",)"
            R"("usage":{"total_tokens":1}})");
  splices.clear();
  EXPECT_EQ(plan_reply_edits("[1]", edits, splices), ReplyFate::keep);
  EXPECT_TRUE(splices.empty());
}

}  // namespace
}  // namespace berth::proto
