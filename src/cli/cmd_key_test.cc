#include "cli/cmd_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

TEST(CmdKey, CreatePrintsTheKeyAlone) {
  Terminal t;
  t.api.expect("POST", "/berth/v1/keys").reply(201, R"({"v":1,"id":"k_1","key":"sk-berth-X"})");
  EXPECT_EQ(t.run({"key", "create", "laptop", "--user", "bob", "--role", "operator", "--expires",
                   "1d", "--group", "ml"}),
            exit_ok);
  EXPECT_EQ(t.out, "sk-berth-X\n");
  EXPECT_THAT(t.err, HasSubstr("key k_1 (laptop) is made"));
  EXPECT_THAT(t.err, ::testing::Not(HasSubstr("sk-")));
  EXPECT_EQ(t.api.requests[0].body,
            R"({"expires_at":"2027-01-16T08:00:00.000Z","groups":["ml"],"name":"laptop",)"
            R"("role":"operator","user":"bob","v":1})");
  EXPECT_EQ(t.run({"key", "create", "x", "--expires", "never"}), exit_usage);
  EXPECT_EQ(t.run({"key", "create", "x", "--role", "king"}), exit_usage);
}

TEST(CmdKey, ALostAnswerIsNotKnown) {
  Terminal t;
  t.api.expect("POST", "/berth/v1/keys").fail(Code::unknown_outcome, "closed");
  EXPECT_EQ(t.run({"key", "create", "laptop"}), exit_unknown);
  EXPECT_EQ(t.out, "");
}

TEST(CmdKey, ListAndRevoke) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/keys")
      .reply(200, R"({"v":1,"keys":[{"id":"k_1","name":"laptop","user":"bob","project":"gaia",
        "role":"user","created_at":"2027-01-01T00:00:00.000Z","expires_at":null,"revoked_at":null},
       {"id":"k_2","name":"old","user":"bob","project":"","role":"operator",
        "created_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-06-01T00:00:00.000Z",
        "revoked_at":null}]})");
  EXPECT_EQ(t.run({"key", "list"}), exit_ok);
  EXPECT_EQ(t.out,
            "ID   NAME    USER  PROJECT  ROLE      CREATED     EXPIRES     STATE\n"
            "k_1  laptop  bob   gaia     user      2027-01-01  never       valid\n"
            "k_2  old     bob            operator  2026-01-01  2026-06-01  expired\n");
  t.api.expect("DELETE", "/berth/v1/keys/k_1").reply(200, "{}");
  EXPECT_EQ(t.run({"key", "revoke", "k_1"}), exit_ok);
  EXPECT_EQ(t.out, "k_1: revoked\n");
}

TEST(CmdKey, Grants) {
  Terminal t;
  t.api.expect("POST", "/berth/v1/grants").reply(201, "{}");
  EXPECT_EQ(t.run({"grant", "add", "qwen", "project:gaia"}), exit_ok);
  EXPECT_EQ(t.api.requests[0].body, R"({"holder":"project:gaia","name":"qwen","v":1})");
  t.api.expect("GET", "/berth/v1/grants")
      .reply(200, R"({"grants":[{"name":"qwen","holder":"alice","granted_by":"root",
        "created_at":"2027-01-01T00:00:00.000Z"}]})");
  EXPECT_EQ(t.run({"grant", "list"}), exit_ok);
  EXPECT_THAT(t.out, HasSubstr("qwen  alice   root        2027-01-01"));
  t.api.expect("DELETE", "/berth/v1/grants/a%2Fb").reply(200, "{}");
  EXPECT_EQ(t.run({"grant", "rm", "a/b"}), exit_ok);
}

}  // namespace
}  // namespace berth::cli
