#include "gateway/reply_edit.h"

#include <gtest/gtest.h>

namespace berth::gateway {
namespace {

TEST(ReplyEdit, ErrorsOfAllEnginesGetOneShape) {
  const std::string right =
      R"({"error": {"message": "long", "type": "BadRequestError", "param": null, "code": "x"}})";
  EXPECT_EQ(normal_error(400, right), right);
  // vLLM: a number for a code, and else not a byte changes.
  EXPECT_EQ(
      normal_error(400, R"({"error": {"message": "long", "type": "B", "code": 400, "more": 1}})"),
      R"({"error": {"message": "long", "type": "B", "code": "400", "more": 1}})");
  // SGLang: flat.
  EXPECT_EQ(
      normal_error(400, R"({"object":"error","message":"bad","type":"BadRequest","code":400})"),
      R"({"error":{"message":"bad","type":"BadRequest","param":null,"code":"400"}})");
  // vLLM without a key: a string.
  EXPECT_EQ(normal_error(401, R"({"error":"Unauthorized"})"),
            R"({"error":{"message":"Unauthorized","type":"authentication_error","param":null,)"
            R"("code":"engine_error"}})");
  // TEI
  EXPECT_EQ(
      normal_error(429, R"({"error":"full","error_type":"overloaded"})"),
      R"({"error":{"message":"full","type":"overloaded","param":null,"code":"engine_error"}})");
  // Others: text, nothing, and what is no JSON after all.
  EXPECT_NE(normal_error(500, "<html>oops</html>").find("\"<html>oops</html>\""),
            std::string::npos);
  EXPECT_NE(normal_error(500, "").find("the engine answered with status 500"), std::string::npos);
  EXPECT_NE(normal_error(500, "{\"error\":{").find("\"code\":\"engine_error\""), std::string::npos);
}

TEST(ReplyEdit, AJsonAnswerGetsItsModelsNameBack) {
  proto::UsageScan usage;
  JsonRewriter r("hf.co/org/My-Model:Q4", usage);
  std::string out;
  r.feed(R"({"model":"/models/x.gguf","choices":[{"m)", out);
  r.feed(R"(":1}],"usage":{"prompt_tokens":4,"completion_tokens":2}})", out);
  EXPECT_EQ(out, "");
  r.finish(out);
  EXPECT_EQ(out, R"({"model":"hf.co/org/My-Model:Q4","choices":[{"m":1}],)"
                 R"("usage":{"prompt_tokens":4,"completion_tokens":2}})");
  EXPECT_EQ(usage.usage().prompt_tokens, 4u);
}

TEST(ReplyEdit, AStreamLosesWhatWasNotAskedFor) {
  proto::UsageScan usage;
  proto::StreamEdits edits;
  edits.usage = proto::UsageStrip::all;
  StreamRewriter r(edits, usage);
  std::string out;
  const std::string one = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
  r.feed(one, out);
  EXPECT_EQ(out, one);
  r.feed("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":10}}\n\n",
         out);
  r.feed("data: [DONE]\n\n", out);
  r.finish(out);
  EXPECT_EQ(out, one + "data: [DONE]\n\n");
  EXPECT_EQ(usage.usage().completion_tokens, 10u);
}

}  // namespace
}  // namespace berth::gateway
