// What the mock engine says and the load generator checks: one source for both.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace bench {

inline constexpr std::string_view kModel = "m1";  // what the engine calls its model

// A chat completion of about 1 KB, as who asked for `model` should see it.
inline std::string reply_body(std::string_view model) {
  std::string body =
      R"({"id":"chatcmpl-8f3a0c1b2d4e4f5a9b7c6d5e4f3a2b1c","object":"chat.completion",)"
      R"("created":1730000000,"model":")" +
      std::string(model) +
      R"(","choices":[{"index":0,"message":{"role":"assistant",)"
      R"("content":")";
  while (body.size() < 800) body += "The quick brown fox jumps over the lazy dog. ";
  return body + R"(","tool_calls":[]},"logprobs":null,"finish_reason":"stop"}],)"
                R"("usage":{"prompt_tokens":321,"total_tokens":521,"completion_tokens":200,)"
                R"("prompt_tokens_details":null},"prompt_logprobs":null})";
}

// One event of a stream, about 235 bytes, with the time it was sent (ns, 19 digits) and its number
// (6 digits) at fixed places.
struct EventTemplate {
  explicit EventTemplate(std::string_view model)
      : text(R"(data: {"id":"chatcmpl-8f3a0c1b2d4e4f5a9b7c6d5e4f3a2b1c",)"
             R"("object":"chat.completion.chunk","created":1730000000,"model":")" +
             std::string(model) +
             R"(","t":"0000000000000000000","choices":[{"index":0,)"
             R"("delta":{"content":" tok000000"},"logprobs":null,"finish_reason":null}]})"
             "\n\n") {}

  std::string text;
  size_t time_at = text.find("\"t\":") + 5;
  size_t number_at = text.find(" tok") + 4;
  static constexpr int kTimeDigits = 19;
  static constexpr int kNumberDigits = 6;
};

inline void write_digits(char* at, int digits, uint64_t value) {
  for (int i = digits - 1; i >= 0; --i, value /= 10) at[i] = static_cast<char>('0' + value % 10);
}

inline uint64_t read_digits(const char* at, int digits) {
  uint64_t value = 0;
  for (int i = 0; i < digits; ++i) value = value * 10 + static_cast<uint64_t>(at[i] - '0');
  return value;
}

}  // namespace bench
