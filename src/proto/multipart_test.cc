#include "proto/multipart.h"

#include <gtest/gtest.h>

#include <string>

namespace berth::proto {
namespace {

constexpr std::string_view kType = "multipart/form-data; boundary=----b0undary";

std::string part(std::string_view disposition, std::string_view value) {
  return "------b0undary\r\nContent-Disposition: form-data; " + std::string(disposition) +
         "\r\n\r\n" + std::string(value) + "\r\n";
}
const std::string kEnd = "------b0undary--\r\n";

std::string refusal(std::string_view type, std::string_view body) {
  Result<MultipartPeek> result = peek_multipart(type, body);
  EXPECT_FALSE(result.ok()) << body;
  return result.ok() ? "" : result.error().message;
}

// B21: a file full of bytes that look like delimiters, the model after it, unknown and repeated
// fields; only the model's bytes change.
TEST(PeekMultipart, ReplacesTheModelWhereverItStands) {
  std::string file;
  for (int i = 0; i < 70000; ++i) file.push_back(static_cast<char>(i * 7));
  file += "\r\n------b0undar\r\n\r\n--\r\n------b0undar-y name=\"model\"\r\n\r\n";
  const std::string before =
      part(
          "name=\"file\"; filename=\"\xd0\xb7\xd0\xb0\xd0\xbf\xd0\xb8\xd1\x81\xd1\x8c "
          "\\\"1\\\".wav\"",
          file) +
      part("name=\"x_vendor\"", "model") + part("name=\"timestamp_granularities[]\"", "word") +
      part("name=\"timestamp_granularities[]\"", "segment");
  const std::string after = part("name=\"stream\"", "true") + kEnd;
  const std::string body = before + part("name=\"model\"", "whisper") + after;

  Result<MultipartPeek> peek = peek_multipart(kType, body);
  ASSERT_TRUE(peek.ok()) << peek.error().message;
  EXPECT_EQ(peek->model, "whisper");
  EXPECT_TRUE(peek->stream);
  EXPECT_EQ(plan_multipart_edits(*peek, "openai/whisper-large-v3").apply(body),
            before + part("name=\"model\"", "openai/whisper-large-v3") + after);
  EXPECT_TRUE(plan_multipart_edits(*peek, "whisper").empty());
}

TEST(PeekMultipart, ReadsHeadersInAllTheirSpellings) {
  auto model = [](std::string_view type, std::string body) {
    Result<MultipartPeek> peek = peek_multipart(type, body);
    EXPECT_TRUE(peek.ok()) << (peek.ok() ? "" : peek.error().message);
    return peek.ok() ? peek->model : "";
  };
  EXPECT_EQ(model("Multipart/Form-Data; charset=utf-8; boundary=\"a b\"",
                  "--a b\r\ncontent-type: text/plain\r\nCONTENT-DISPOSITION: form-data ; Name = "
                  "model\r\n\r\nm\r\n--a b--"),
            "m");
  EXPECT_EQ(model("multipart/form-data;boundary=x",
                  "preamble\r\n--x  \r\nContent-Disposition: form-data; "
                  "name=\"model\"\r\n\r\nm\r\n--x--\r\nepilogue"),
            "m");
  EXPECT_EQ(model("multipart/form-data;boundary=x",
                  "--x\r\n\r\nno header\r\n--x\r\nContent-Disposition: form-data; "
                  "name=\"mod\\el\"\r\n\r\nm\r\n--x--"),
            "m");
}

TEST(PeekMultipart, RefusesBrokenForms) {
  const std::string model = part("name=\"model\"", "m");
  EXPECT_EQ(refusal(kType, part("name=\"file\"", "x") + kEnd),
            "The form has no \"model\" field; name one.");
  EXPECT_EQ(refusal(kType, model + model + kEnd), "The form has two \"model\" fields; send one.");
  EXPECT_EQ(refusal(kType, part("name=\"model\"", "") + kEnd),
            "The form's \"model\" field is empty; name a model.");
  EXPECT_EQ(refusal("multipart/form-data", model + kEnd),
            "The Content-Type of a form should be multipart/form-data with a boundary.");
  EXPECT_EQ(refusal("application/json; boundary=----b0undary", model + kEnd),
            "The Content-Type of a form should be multipart/form-data with a boundary.");
  EXPECT_EQ(refusal("multipart/form-data; boundary=other", model + kEnd),
            "The form does not contain the boundary that its Content-Type names.");
  EXPECT_NE(refusal(kType, model.substr(0, model.size() - 2)).find("does not end"),
            std::string::npos);
  EXPECT_NE(refusal(kType, model).find("does not end"), std::string::npos);
  EXPECT_NE(refusal(kType,
                    model + "------b0undary\r\nContent-Disposition: form-data; name=\"model\"\r\n" +
                        model + kEnd)
                .find("no end of its head"),
            std::string::npos);
  EXPECT_NE(refusal(kType, model + "------b0undaryX\r\n\r\nx\r\n" + kEnd).find("has no line end"),
            std::string::npos);
  refusal(kType, part("name=\"model\"", "a\nb") + kEnd);
  refusal(kType, part("name=\"model\"", "\xff") + kEnd);
  refusal(kType, "");
}

}  // namespace
}  // namespace berth::proto
