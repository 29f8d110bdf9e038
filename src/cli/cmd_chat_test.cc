#include "cli/cmd_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

std::string event(const std::string& text) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + text + "\"}}]}\n\n";
}

const std::string kStop = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kDone = "data: [DONE]\n\n";

void expect_name(Terminal& t) {
  t.api.expect("GET", "/berth/v1/services/m").reply(200, R"({"name":"alice/m"})");
}

TEST(CmdChat, StreamCutAnywhere) {
  std::string all = ": ping\r\n\r\n" + event(" 42 é") + event("\\n43") + kStop + kDone;
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    ChatStream s;
    std::string text = s.feed(std::string_view(all).substr(0, cut));
    text += s.feed(std::string_view(all).substr(cut));
    EXPECT_EQ(text, " 42 é\n43") << cut;
    EXPECT_TRUE(s.done()) << cut;
    EXPECT_EQ(s.finish_reason(), "stop");
  }
}

TEST(CmdChat, OnePromptOneAnswer) {
  Terminal t;
  expect_name(t);
  t.api.expect("POST", "/v1/chat/completions").streams({event("42"), event(" 43"), kStop, kDone});
  EXPECT_EQ(t.run({"chat", "m", "count from 41", "--max-tokens", "5", "--system", "s"}), exit_ok)
      << t.err;
  EXPECT_EQ(t.out, "42 43\n");
  EXPECT_EQ(t.api.requests[1].body,
            R"({"max_tokens":5,"messages":[{"content":"s","role":"system"},)"
            R"({"content":"count from 41","role":"user"}],"model":"alice/m","stream":true})");
}

TEST(CmdChat, ANameOfNoServiceIsUsedAsItIs) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/m").reply(404, "{}");
  t.api.expect("POST", "/v1/chat/completions")
      .reply(404, R"({"error":{"message":"The model `m` does not exist. Did you mean `n`?"}})");
  EXPECT_EQ(t.run({"chat", "m", "hi"}), exit_failed);
  EXPECT_EQ(t.err, "berth: chat: The model `m` does not exist. Did you mean `n`?\n");
}

TEST(CmdChat, ACutAnswerIsAFailure) {
  Terminal t;
  expect_name(t);
  t.api.expect("POST", "/v1/chat/completions").streams({event("half")});
  EXPECT_EQ(t.run({"chat", "m", "hi"}), exit_failed);
  EXPECT_EQ(t.out, "half\n");
  EXPECT_THAT(t.err, HasSubstr("broke off before its end"));

  expect_name(t);
  t.api.expect("POST", "/v1/chat/completions")
      .streams({event("half"), "data: {\"error\":{\"message\":\"engine died\"}}\n\n", event("no")});
  EXPECT_EQ(t.run({"chat", "m", "hi"}), exit_failed);
  EXPECT_EQ(t.out, "half\n");
  EXPECT_THAT(t.err, HasSubstr("broke off: engine died"));
}

TEST(CmdChat, PromptFromStandardInput) {
  Terminal t;
  t.files["-"] = "hi";
  expect_name(t);
  t.api.expect("POST", "/v1/chat/completions").streams({event("ho"), kStop, kDone});
  EXPECT_EQ(t.run({"chat", "m"}), exit_ok);
  EXPECT_EQ(t.out, "ho\n");
}

TEST(CmdChat, ConversationKeepsItsHistoryAndSurvivesCtrlC) {
  Terminal t;
  t.context.in_is_terminal = true;
  t.typed = {"one", "", "two", "three"};
  expect_name(t);
  t.api.expect("POST", "/v1/chat/completions").streams({event("1"), kStop, kDone});
  t.api.expect("POST", "/v1/chat/completions")
      .streams({event("2")})
      .fail(Code::cancelled, "interrupted");
  t.api.expect("POST", "/v1/chat/completions").streams({event("3"), kStop, kDone});
  EXPECT_EQ(t.run({"chat", "m"}), exit_ok);
  EXPECT_EQ(t.out, "> 1\n> > 2\n> 3\n> \n");
  EXPECT_THAT(t.api.requests.back().body,
              HasSubstr(R"([{"content":"one","role":"user"},{"content":"1","role":"assistant"},)"
                        R"({"content":"two","role":"user"},{"content":"2","role":"assistant"},)"
                        R"({"content":"three","role":"user"}])"));
}

TEST(CmdChat, AnswersCannotDriveTheTerminal) {
  Terminal t;
  expect_name(t);
  t.api.expect("POST", "/v1/chat/completions").streams({event("a\\u001b[2Jb"), kStop, kDone});
  EXPECT_EQ(t.run({"chat", "m", "hi"}), exit_ok);
  EXPECT_EQ(t.out, "a?[2Jb\n");
}

}  // namespace
}  // namespace berth::cli
