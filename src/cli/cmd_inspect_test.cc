#include "cli/cmd_inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kServices[] = R"({"v":1,"services":[
 {"name":"alice/qwen","owner":"alice","project":"gaia","status":"degraded","status_text":"1 of 2",
  "ready":1,"wanted_replicas":2,"generation":3,"spec":{"engine":"vllm","model":"/m"},
  "self_registered":false,"leases":[],"replicas":[
   {"key":"berth-1","job_id":41,"cluster":"","state":"ended","end_cause":"crashed",
    "end_detail":"exit 1","ended_at":"2027-01-15T07:59:00.000Z"},
   {"key":"berth-2","job_id":42,"cluster":"","state":"ready","node":"gpu7","time_left_s":8040,
    "reason":""},
   {"key":"berth-3","job_id":43,"cluster":"lab","state":"pending","node":"","reason":"Resources",
    "time_left_s":null,"estimated_start":"2027-01-15T08:12:00.000Z"}]},
 {"name":"bge-m3","status":"stopped","status_text":"stopped by bob","ready":0,"wanted_replicas":0,
  "replicas":[],"leases":[],"self_registered":false},
 {"name":"bob/mine","status":"ready","ready":1,"wanted_replicas":1,"replicas":[],
  "self_registered":true,"leases":[{"id":"l","state":"ready","job_id":77,
   "node":"gpu9","time_left_s":125}]}]})";

// 1,800,000,000 s after 1970 is 2027-01-15T08:00:00Z.

TEST(CmdInspect, PsTable) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services").reply(200, kServices);
  EXPECT_EQ(t.run({"ps"}), exit_ok);
  EXPECT_EQ(t.out,
            "NAME        STATUS    READY  JOBID   STATE    LEFT   NODE (REASON)\n"
            "alice/qwen  degraded  1/2    42      ready    2h14m  gpu7\n"
            "                             43@lab  pending  -      (Resources)\n"
            "bge-m3      stopped   0/0    -       -        -      stopped by bob\n"
            "bob/mine    ready     1/1    77      ready    2m05s  gpu9\n");
}

TEST(CmdInspect, PsAllNamesJsonAndNone) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services").reply(200, kServices);
  EXPECT_EQ(t.run({"ps", "--all"}), exit_ok);
  EXPECT_THAT(t.out, HasSubstr("41      ended    -      (crashed)"));
  t.api.expect("GET", "/berth/v1/services").reply(200, kServices);
  EXPECT_EQ(t.run({"ps", "--names"}), exit_ok);
  EXPECT_EQ(t.out, "alice/qwen\nbge-m3\nbob/mine\n");
  t.api.expect("GET", "/berth/v1/services").reply(200, kServices);
  EXPECT_EQ(t.run({"ps", "--json"}), exit_ok);
  EXPECT_EQ(t.out, std::string(kServices) + "\n");
  t.api.expect("GET", "/berth/v1/services").reply(200, R"({"v":1,"services":[]})");
  EXPECT_EQ(t.run({"ps"}), exit_ok);
  EXPECT_EQ(t.out, "");
  EXPECT_THAT(t.err, HasSubstr("no services"));
}

TEST(CmdInspect, ColoursOnATerminalOnly) {
  Terminal t;
  t.context.out_is_terminal = true;
  t.api.expect("GET", "/berth/v1/services").reply(200, kServices);
  t.run({"ps"});
  EXPECT_THAT(t.out, HasSubstr("\x1b[32mready\x1b[0m"));
  t.context.environment["NO_COLOR"] = "1";
  t.api.expect("GET", "/berth/v1/services").reply(200, kServices);
  t.run({"ps"});
  EXPECT_THAT(t.out, ::testing::Not(HasSubstr("\x1b")));
}

TEST(CmdInspect, PsOfOne) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/qwen")
      .reply(200, R"({"name":"alice/qwen","owner":"alice","project":"gaia","status":"starting",
        "status_text":"waiting for Slurm","ready":0,"wanted_replicas":1,"generation":2,
        "spec":{"engine":"vllm","model":"/m"},"replicas":[]})");
  EXPECT_EQ(t.run({"ps", "qwen"}), exit_ok);
  EXPECT_THAT(t.out, HasSubstr("engine vllm, model /m\nowner alice, project gaia, generation 2\n"
                               "waiting for Slurm\n"));
}

TEST(CmdInspect, Explain) {
  Terminal t;
  std::string document = kServices;
  document = R"({"v":1,"name":"alice/qwen","status":"degraded","status_text":"1 of 2 ready",
    "ready":1,"wanted_replicas":2,
    "explanation":["one job waits for GPUs","next: submit a job in 40s"],"replicas":[
    {"job_id":40,"state":"ended","node":"g1","end_cause":"crashed","end_detail":"signal 9\nolder",
     "ended_at":"2027-01-15T07:00:00Z"},
    {"job_id":41,"state":"ended","end_cause":"crashed","end_detail":"exit status 1\nTrace:\n boom",
     "ended_at":"2027-01-15T07:59:00Z"},
    {"job_id":42,"state":"ended","end_cause":"stopped","end_detail":"scaled","stopping":"scaled"},
    {"job_id":43,"state":"pending","reason":"Resources","estimated_start":"2027-01-15T08:12:00Z"},
    {"job_id":44,"state":"pending","reason":"None"},{"job_id":0,"state":"submitted"}],
    "events":[{"at":"2027-01-15T07:59:00.000Z","kind":"ended","text":"crashed\nTrace:"}]})";
  t.api.expect("GET", "/berth/v1/services/qwen/explain").reply(200, document);
  EXPECT_EQ(t.run({"explain", "qwen"}), exit_ok);
  EXPECT_EQ(t.out,
            "alice/qwen: degraded, 1/2 ready\none job waits for GPUs\nnext: submit a job in 40s\n"
            "  job 43: pending, reason Resources, estimated start in 12m00s\n"
            "  job 44: pending\n"
            "  no job yet: submitted\n"
            "  job 41: ended (crashed) 1m00s ago: exit status 1\n    Trace:\n     boom\n"
            "  job 40: ended on g1 (crashed) 1h00m ago: signal 9\n"
            "  job 42: ended (stopped): scaled\n"
            "events, newest first:\n  2027-01-15T07:59:00.000Z  ended  crashed\n");
}

TEST(CmdInspect, EventsWithTheNewestLast) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/qwen/events?limit=2").reply(200, R"({"v":1,"events":[
        {"id":9,"at":"2027-01-15T08:00:00.000Z","kind":"ended","text":"stopped: handed over",
         "replica":"berth-1"},
        {"id":8,"at":"2027-01-15T07:59:00.000Z","kind":"ready","text":"ready",
         "replica":"berth-2"}]})");
  EXPECT_EQ(t.run({"events", "qwen", "-n", "2"}), exit_ok);
  EXPECT_EQ(t.out,
            "2027-01-15T07:59:00.000Z  ready  berth-2\n"
            "2027-01-15T08:00:00.000Z  ended  berth-1  stopped: handed over\n");
  EXPECT_EQ(t.run({"events", "qwen", "--tail", "0"}), exit_usage);
}

TEST(CmdInspect, ExplainScript) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/qwen/script?replica=berth-2")
      .reply(200, R"({"v":1,"replica":"berth-2","script":"#!/bin/bash\nexec x\n"})");
  EXPECT_EQ(t.run({"explain", "qwen", "--script", "--replica", "berth-2"}), exit_ok);
  EXPECT_EQ(t.out, "#!/bin/bash\nexec x\n");
  t.api.expect("GET", "/berth/v1/services/qwen/script").reply(404, R"({"error":{"message":"no"}})");
  EXPECT_EQ(t.run({"explain", "qwen", "--script"}), exit_failed);
}

std::string piece(const std::string& text, int offset, int next, const char* ended) {
  return R"({"v":1,"replica":"berth-2","path":"/l","offset":)" + std::to_string(offset) +
         R"(,"next_offset":)" + std::to_string(next) + R"(,"text":")" + text + R"(","ended":)" +
         ended + "}";
}

TEST(CmdInspect, LogsToTheEnd) {
  Terminal t;
  t.api.expect("GET", "/berth/v1/services/q/logs?offset=0&limit=262144")
      .reply(200, piece("a\\nb\\n", 0, 4, "false"));
  t.api.expect("GET", "/berth/v1/services/q/logs?offset=4&limit=262144&replica=berth-2")
      .reply(200, piece("", 4, 4, "false"));
  EXPECT_EQ(t.run({"logs", "q"}), exit_ok);
  EXPECT_EQ(t.out, "a\nb\n");
  EXPECT_THAT(t.api.unexpected, IsEmpty());
}

TEST(CmdInspect, LogsFollowUntilTheJobHasEnded) {
  Terminal t;
  std::string path = "/berth/v1/services/q/logs?offset=";
  t.api.expect("GET", path + "0&limit=262144").reply(200, piece("a\\nb\\nc\\n", 0, 6, "false"));
  std::string more = "&limit=262144&replica=berth-2";
  t.api.expect("GET", path + "6" + more).reply(200, piece("", 6, 6, "false"));
  t.api.expect("GET", path + "6" + more).reply(200, piece("d\\n", 6, 8, "true"));
  t.api.expect("GET", path + "8" + more).reply(200, piece("", 8, 8, "true"));
  EXPECT_EQ(t.run({"logs", "q", "-f", "-n", "2"}), exit_ok);
  EXPECT_EQ(t.out, "b\nc\nd\n");
  EXPECT_EQ(t.slept, seconds(1));
  EXPECT_THAT(t.api.unexpected, IsEmpty());
}

TEST(CmdInspect, LogsStopAtCtrlC) {
  Terminal t;
  t.interrupt_after = seconds(1);
  t.api.expect("GET", "/berth/v1/services/q/logs?offset=0&limit=262144")
      .reply(200, piece("", 0, 0, "false"));
  EXPECT_EQ(t.run({"logs", "q", "--follow"}), exit_ok);
  EXPECT_EQ(t.run({"logs", "q", "--tail", "x"}), exit_usage);
}

}  // namespace
}  // namespace berth::cli
