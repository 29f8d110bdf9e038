#include "cli/cmd_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;

std::string service(const std::string& status) {
  return R"({"v":1,"name":"m","ready":0,"wanted_replicas":1,"status":")" + status +
         R"(","status_text":"because"})";
}

TEST(CmdWait, UntilReady) {
  Terminal t;
  for (const char* status : {"starting", "starting", "ready"})
    t.api.expect("GET", "/berth/v1/services/m").reply(200, service(status));
  EXPECT_EQ(t.run({"wait", "m"}), exit_ok);
  EXPECT_EQ(t.err, "m: starting, 0/1 ready (because)\nm: ready, 0/1 ready\n");
  EXPECT_EQ(t.slept, seconds(2));
}

TEST(CmdWait, TimePassingIsNoNews) {
  Terminal t;
  for (const char* more : {"Resources, since 1s, estimated start in 1m00s",
                           "Resources, since 2s, estimated start in 59s", "Priority, since 3s"})
    t.api.expect("GET", "/berth/v1/services/m")
        .reply(200, std::string(R"({"name":"m","status":"waiting","status_text":"waiting: )") +
                        more + "\"}");
  t.api.expect("GET", "/berth/v1/services/m").reply(200, service("ready"));
  EXPECT_EQ(t.run({"wait", "m"}), exit_ok);
  EXPECT_EQ(t.err,
            "m: waiting, 0/0 ready (Resources, since 1s, estimated start in 1m00s)\n"
            "m: waiting, 0/0 ready (Priority, since 3s)\nm: ready, 0/1 ready\n");
}

TEST(CmdWait, FailedAndStoppedAreHopeless) {
  for (const char* status : {"failed", "stopped"}) {
    Terminal t;
    t.api.expect("GET", "/berth/v1/services/m").reply(200, service(status));
    EXPECT_EQ(t.run({"wait", "m"}), exit_failed) << status;
    EXPECT_THAT(t.err, HasSubstr("see `berth explain m`"));
  }
}

TEST(CmdWait, ForStopped) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/m").reply(200, service("ready"));
  t.api.expect("GET", "/berth/v1/services/m").reply(200, service("stopped"));
  EXPECT_EQ(t.run({"wait", "m", "--for", "stopped"}), exit_ok);
  t.api.expect("GET", "/berth/v1/services/m").reply(200, service("ready"));
  t.api.expect("GET", "/berth/v1/services/m").reply(404, "{}");
  EXPECT_EQ(t.run({"wait", "m", "--for=stopped"}), exit_ok) << "removed";
  t.api.expect("GET", "/berth/v1/services/m").reply(404, "{}");
  EXPECT_EQ(t.run({"wait", "m", "--for=stopped"}), exit_failed) << "a slip of the pen";
}

TEST(CmdWait, ForGone) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/m").reply(200, service("stopped"));
  t.api.expect("GET", "/berth/v1/services/m").reply(404, "{}");
  EXPECT_EQ(t.run({"wait", "m", "--for", "gone"}), exit_ok);
  t.api.expect("GET", "/berth/v1/services/m").reply(404, "{}");
  EXPECT_EQ(t.run({"wait", "m", "--for", "gone"}), exit_ok) << "as wished, whoever did it";
}

TEST(CmdWait, ARolloutIsOverWhenNoOlderReplicaServes) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/m")
      .reply(200, R"({"name":"m","ready":1,"wanted_replicas":1,"status":"ready",
        "status_text":"ready: 1/1","older_replicas":1})");
  t.api.expect("GET", "/berth/v1/services/m")
      .reply(200, R"({"name":"m","ready":1,"wanted_replicas":1,"status":"ready",
        "status_text":"ready: 1/1","older_replicas":0})");
  EXPECT_EQ(t.run({"wait", "m"}), exit_ok);
  EXPECT_EQ(t.err, "m: ready, 1/1 ready (1 of before still serve)\nm: ready, 1/1 ready\n");
}

TEST(CmdWait, Timeout) {
  Terminal t;
  for (int i = 0; i < 4; ++i)
    t.api.expect("GET", "/berth/v1/services/m").reply(200, service("starting"));
  EXPECT_EQ(t.run({"wait", "m", "--timeout", "2500ms"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("m is not ready after 2s"));
  EXPECT_EQ(t.slept, milliseconds(2500));
  EXPECT_EQ(t.run({"wait", "m", "--timeout", "soon"}), exit_usage);
}

TEST(CmdWait, OutlivesARestartOfBerth) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/m").reply(200, service("starting"));
  for (int i = 0; i < 20; ++i)
    t.api.expect("GET", "/berth/v1/services/m").fail(Code::unavailable, "refused");
  t.api.expect("GET", "/berth/v1/services/m").reply(503, "");
  t.api.expect("GET", "/berth/v1/services/m").reply(200, service("ready"));
  EXPECT_EQ(t.run({"wait", "m"}), exit_ok);
}

TEST(CmdWait, GivesUpOnASilentBerthAndOnCtrlC) {
  Terminal t;
  for (int i = 0; i < 40; ++i)
    t.api.expect("GET", "/berth/v1/services/m").fail(Code::unavailable, "refused");
  EXPECT_EQ(t.run({"wait", "m"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("wait m: refused"));
  EXPECT_EQ(t.slept, seconds(31));

  Terminal v;
  v.api.always().reply(502, "<html>");
  EXPECT_EQ(v.run({"wait", "m"}), exit_failed);
  EXPECT_THAT(v.err, HasSubstr("wait m: HTTP status 502"));

  Terminal u;
  u.interrupt_after = seconds(1);
  u.api.expect("GET", "/berth/v1/services/m").reply(200, service("starting"));
  EXPECT_EQ(u.run({"wait", "m"}), exit_failed);
  EXPECT_THAT(u.err, HasSubstr("interrupted"));
}

TEST(CmdWait, UnknownService) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/m").reply(404, R"({"error":{"message":"no service"}})");
  EXPECT_EQ(t.run({"wait", "m"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("wait m: no service"));
}

}  // namespace
}  // namespace berth::cli
