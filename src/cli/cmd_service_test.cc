#include "cli/cmd_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_fake.h"

namespace berth::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kCreated[] =
    R"({"v":1,"name":"alice/m","action":"create","status":"starting","ready":0,)"
    R"("wanted_replicas":1})";

TEST(CmdService, ApplySendsWhatTheFileSays) {
  Terminal t;
  t.files["s.yaml"] = "name: m\nengine: vllm\nmodel: /m\nslurm: {account: gaia, mem: 96G}\n";
  t.api.expect("PUT", "/berth/v1/services/m").reply(201, kCreated);
  EXPECT_EQ(t.run({"apply", "-f", "s.yaml"}), exit_ok) << t.err;
  EXPECT_EQ(t.out, "alice/m: created, 1 replica wanted, starting\n");
  EXPECT_EQ(t.api.requests[0].body, R"({"spec":{"engine":"vllm","model":"/m","name":"m",)"
                                    R"("slurm":{"account":"gaia","mem":"96G"}},"v":1})");
}

TEST(CmdService, NothingIsSentWhenAnyFileIsWrong) {
  Terminal t;
  t.files["a.yaml"] = "name: a\nengine: vllm\nmodel: /m\n";
  t.files["b.yaml"] = "name: b\nengine: vlm\nmodle: /m\n";
  EXPECT_EQ(t.run({"apply", "-f", "a.yaml", "-f", "b.yaml", "-f", "c.yaml"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("b.yaml:2:9: engine must be one of"));
  EXPECT_THAT(t.err, HasSubstr("b.yaml:3:1: unknown member \"modle\""));
  EXPECT_THAT(t.err, HasSubstr("open c.yaml"));
  EXPECT_THAT(t.api.requests, IsEmpty());
}

TEST(CmdService, ApplyGoesOnAfterARefusalAndStopsWhenNothingIsKnown) {
  Terminal t;
  t.files["-"] =
      "- {name: a, engine: vllm, model: /m}\n- {name: b, engine: vllm, model: /m}\n"
      "- {name: c, engine: vllm, model: /m}\n";
  t.api.expect("PUT", "/berth/v1/services/a").reply(403, R"({"error":{"message":"not yours"}})");
  t.api.expect("PUT", "/berth/v1/services/b").fail(Code::unknown_outcome, "no answer");
  EXPECT_EQ(t.run({"apply", "-f", "-"}), exit_unknown);
  EXPECT_THAT(t.err, HasSubstr("apply a: not yours"));
  EXPECT_THAT(t.err, HasSubstr("apply b: no answer. It may or may not have been done"));
  EXPECT_EQ(t.api.requests.size(), 2u);
}

TEST(CmdService, JsonIsTheDocumentAsItCame) {
  Terminal t;
  t.files["s.yaml"] = "name: m\nengine: vllm\nmodel: /m\n";
  t.api.expect("PUT", "/berth/v1/services/m").reply(200, "{ \"v\": 1,  \"x\": [] }");
  EXPECT_EQ(t.run({"apply", "-f", "s.yaml", "--json"}), exit_ok);
  EXPECT_EQ(t.out, "{ \"v\": 1,  \"x\": [] }\n");
}

TEST(CmdService, PlanShowsChangesAndEffects) {
  Terminal t;
  t.files["s.yaml"] = "name: m\nengine: vllm\nmodel: /m\n";
  t.api.expect("PUT", "/berth/v1/services/m?plan=1")
      .reply(200, R"({"v":1,"plan":{"name":"alice/m","action":"update","changes":[)"
                  R"({"path":"replicas","from":1,"to":2},{"path":"qos","from":null,"to":"high"},)"
                  R"({"path":"setup","from":"a\nb","to":null},)"
                  R"({"path":"args","from":null,"to":["--x","a b",""]}],)"
                  R"("effects":["submit 1 job to partition h100"]}})");
  EXPECT_EQ(t.run({"plan", "-f", "s.yaml"}), exit_ok);
  EXPECT_EQ(t.out,
            "alice/m: update\n  ~ replicas: 1 -> 2\n  + qos: high\n  - setup: a b\n"
            "  + args: --x \"a b\" \"\"\n"
            "  would submit 1 job to partition h100\n");
}

TEST(CmdService, ALostPlanIsAFailureOnly) {
  Terminal t;
  t.files["s.yaml"] = "name: m\nengine: vllm\nmodel: /m\n";
  t.api.expect("PUT", "/berth/v1/services/m?plan=1").fail(Code::unknown_outcome, "lost");
  EXPECT_EQ(t.run({"plan", "-f", "s.yaml"}), exit_failed);
}

TEST(CmdService, DeployBuildsTheSameAsAFile) {
  Terminal t;
  t.files["setup.sh"] = "module load cuda\n";
  t.api.expect("PUT", "/berth/v1/services/m").reply(201, kCreated);
  EXPECT_EQ(t.run({"deploy",
                   "m",
                   "--engine",
                   "vllm",
                   "--model",
                   "/m",
                   "--gpus",
                   "h100:2",
                   "--mem",
                   "96G",
                   "--time",
                   "8:00:00",
                   "--env",
                   "A=x,y=z",
                   "--setup",
                   "setup.sh",
                   "--load-timeout",
                   "10m",
                   "--access-project",
                   "gaia",
                   "--project",
                   "vesta",
                   "--replicas",
                   "2",
                   "--",
                   "--max-model-len",
                   "65536"}),
            exit_ok)
      << t.err;
  EXPECT_EQ(t.api.requests[0].body,
            R"({"project":"vesta","spec":{"access":{"projects":["gaia"]},)"
            R"("args":["--max-model-len","65536"],)"
            R"("engine":"vllm","env":{"A":"x,y=z"},"load_timeout":"10m","model":"/m","name":"m",)"
            R"("replicas":"2","setup":"module load cuda\n",)"
            R"("slurm":{"gpus":"h100:2","mem":"96G","time":"8:00:00"}},"v":1})");
}

TEST(CmdService, DeployOfACommandAndItsMistakes) {
  Terminal t;
  t.api.expect("PUT", "/berth/v1/services/m?plan=1").reply(200, R"({"plan":{"action":"none"}})");
  EXPECT_EQ(t.run({"deploy", "m", "--plan", "--", "./serve", "--port", "{port}"}), exit_ok)
      << t.err;
  EXPECT_EQ(t.out, "m: nothing to change\n");
  EXPECT_EQ(t.api.requests[0].body,
            R"({"spec":{"command":["./serve","--port","{port}"],"engine":"command","name":"m"},)"
            R"("v":1})");
  EXPECT_EQ(t.run({"deploy", "m", "--engine", "vllm", "--mem", "lots"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("slurm.mem must be a size"));
  EXPECT_THAT(t.err, HasSubstr("member \"model\" is missing"));
  EXPECT_EQ(t.run({"deploy", "m", "--engine", "vllm", "--model", "/m", "--env", "A"}), exit_failed);
  EXPECT_THAT(t.err, HasSubstr("--env must be NAME=VALUE"));
}

TEST(CmdService, Actions) {
  Terminal t;
  const char* reply =
      R"({"v":1,"name":"alice/m","ready":1,"wanted_replicas":3,"status":"degraded",
          "replicas":[{"state":"ended"},{"state":"ready"}]})";
  for (const char* action : {"start", "stop", "restart"}) {
    t.api.expect("POST", "/berth/v1/services/alice%2Fm/actions").reply(200, reply);
    EXPECT_EQ(t.run({action, "alice/m"}), exit_ok);
    EXPECT_EQ(t.out,
              std::string("alice/m: asked to ") + action +
                  (action == std::string("stop") ? "; 1 job to end\n" : "; 1/3 ready now\n"));
    EXPECT_THAT(t.api.requests.back().body, HasSubstr(action));
  }
  t.api.expect("POST", "/berth/v1/services/m/actions").reply(200, reply);
  EXPECT_EQ(t.run({"scale", "m", "3"}), exit_ok);
  EXPECT_EQ(t.api.requests.back().body, R"({"action":"scale","replicas":3,"v":1})");
  EXPECT_EQ(t.run({"scale", "m", "1e3"}), exit_usage);
  EXPECT_EQ(t.run({"scale", "m", "-1"}), exit_usage);
  t.api.expect("DELETE", "/berth/v1/services/m").reply(202, reply);
  EXPECT_EQ(t.run({"rm", "m"}), exit_ok);
  EXPECT_EQ(t.out, "alice/m: asked to remove; gone when its job has ended\n");
  t.api.expect("DELETE", "/berth/v1/services/m").reply(202, R"({"name":"alice/m"})");
  t.api.expect("GET", "/berth/v1/services/m").reply(404, "{}");
  EXPECT_EQ(t.run({"rm", "m", "--wait"}), exit_ok);
  EXPECT_EQ(t.out, "alice/m: removed; it had no job\n");
  EXPECT_THAT(t.api.unexpected, IsEmpty());
}

TEST(CmdService, ApplyCanWait) {
  Terminal t;
  t.files["s.yaml"] = "name: m\nengine: vllm\nmodel: /m\n";
  t.api.expect("PUT", "/berth/v1/services/m").reply(201, kCreated);
  t.api.expect("GET", "/berth/v1/services/alice%2Fm").reply(200, kCreated);
  t.api.expect("GET", "/berth/v1/services/alice%2Fm")
      .reply(200, R"({"name":"alice/m","status":"ready","ready":1,"wanted_replicas":1})");
  EXPECT_EQ(t.run({"apply", "-f", "s.yaml", "--wait"}), exit_ok);
  EXPECT_EQ(t.err, "alice/m: starting, 0/1 ready\nalice/m: ready, 1/1 ready\n");
  EXPECT_EQ(t.slept, seconds(1));
}

}  // namespace
}  // namespace berth::cli
