#include "proto/control.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace berth::proto {
namespace {

RegisterRequest example() {
  RegisterRequest m;
  m.service = "qwen";
  m.job_id = 42;
  m.restarts = 1;
  m.node = "n1";
  m.address = "10.0.0.5:40123";
  m.secret = std::string(40, 's');
  m.renew = std::string(40, 'r');
  m.engine = EngineKind::vllm;
  m.access.users = {"bob"};
  m.stops_at = from_ms(1796066765000);
  m.began_ago = milliseconds(310);
  return m;
}

TEST(Control, RegisterRoundTrip) {
  RegisterRequest m = example();
  auto back = parse_register_request(dump_json(to_json(m)));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(dump_json(to_json(*back)), dump_json(to_json(m)));
  EXPECT_EQ(back->access.users, m.access.users);
  EXPECT_EQ(back->stops_at, m.stops_at);
  EXPECT_EQ(back->began_ago, milliseconds(310));
  EXPECT_FALSE(back->engine_ago);
}

TEST(Control, WhatIsPastCannotBeNegative) {
  Json j = to_json(example());
  j["began_ago_ms"] = -1;
  EXPECT_NE(parse_register_request(dump_json(j)).error().message.find("began_ago_ms"),
            std::string::npos);
}

TEST(Control, ErrorsNameTheMember) {
  Json j = to_json(example());
  j.erase("address");
  EXPECT_NE(parse_register_request(dump_json(j)).error().message.find("\"address\""),
            std::string::npos);
  j = to_json(example());
  j["secret"] = "short";
  EXPECT_NE(parse_register_request(dump_json(j)).error().message.find("\"secret\""),
            std::string::npos);
  j = to_json(example());
  j["secret"] = std::string(40, 's') + "\r\nX-Evil: 1";
  EXPECT_FALSE(parse_register_request(dump_json(j)).ok()) << "would split a header";
  j = to_json(example());
  j["v"] = 2;
  EXPECT_NE(parse_register_request(dump_json(j)).error().message.find("version"),
            std::string::npos);
}

TEST(Control, HeartbeatsAndEnds) {
  HeartbeatRequest h;
  h.state = LeaseState::ready;
  h.context_length = 4096;
  h.answered_ago = milliseconds(7);
  auto back = parse_heartbeat_request(dump_json(to_json(h)));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->state, LeaseState::ready);
  EXPECT_EQ(back->context_length, 4096);
  EXPECT_EQ(back->answered_ago, milliseconds(7));

  HeartbeatReply reply;
  reply.directive = Directive::drain;
  EXPECT_EQ(parse_heartbeat_reply(dump_json(to_json(reply)))->directive, Directive::drain);

  EndReport end;
  end.cause = EndCause::crashed;
  end.signal = 11;
  auto end_back = parse_end_report(dump_json(to_json(end)));
  ASSERT_TRUE(end_back.ok());
  EXPECT_EQ(end_back->cause, EndCause::crashed);
  EXPECT_EQ(end_back->signal, 11);
  EXPECT_FALSE(end_back->exit_code.has_value());
}

TEST(Control, NeverThrowsOnWrongTypes) {
  for (auto body :
       {"", "[]", "{}", "{\"v\":1}", "{\"v\":1,\"state\":7}", "null", "{\"v\":\"1\"}"}) {
    EXPECT_FALSE(parse_register_request(body).ok()) << body;
    EXPECT_FALSE(parse_heartbeat_request(body).ok()) << body;
    EXPECT_FALSE(parse_end_report(body).ok()) << body;
  }
}

}  // namespace
}  // namespace berth::proto
