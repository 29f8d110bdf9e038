#include "config/service_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace berth::config {
namespace {

using ::testing::HasSubstr;

ServiceSpec full_spec() {
  ServiceSpec s;
  s.name = "hf.co/org/My-Model:Q4_K_M";
  s.engine = EngineKind::vllm;
  s.model = "/models/a b";
  s.args = {"--x", "1e3", "", "no", "{\"a\":1}"};
  s.served_model_name = "my model";
  s.setup = "module load cuda\n\necho 'x'\n";
  s.env = {{"A", "x,y"}, {"E", ""}, {"ML", "l1\nl2"}, {"Q", "a'b\"c"}};
  s.resources.partition = "h100";
  s.resources.account = "gaia";
  s.resources.qos = "normal";
  s.resources.reservation = "r";
  s.resources.constraint = "[a|b]";
  s.resources.gpu_type = "h100";
  s.resources.gpus = 4;
  s.resources.cpus_per_task = 16;
  s.resources.mem_mib = 96 * 1024 + 1;
  s.resources.time_limit = hours(8);
  s.resources.exclude_nodes = {"n1", "n2"};
  s.replicas = 0;
  s.access = {AccessSpec::Scope::everybody, {"p"}, {"u"}, {"g"}};
  s.isolation = Isolation::network_namespace;
  s.load_timeout = seconds(1999);
  s.drain_grace = milliseconds(1500);
  s.log_dir = "/logs";
  s.max_start_attempts = 9;
  return s;
}

TEST(ServiceDocument, RoundTrip) {
  for (const ServiceSpec& spec : {full_spec(), [] {
                                    ServiceSpec s;
                                    s.name = "m";
                                    s.command = {"x", "{uds}"};
                                    s.resources.mem_mib = 0;
                                    return s;
                                  }()}) {
    auto document = parse_json(dump_json(to_json(spec)));
    ASSERT_TRUE(document);
    auto back = parse_service_document(*document);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, spec) << dump_json_pretty(*document);
  }
}

TEST(ServiceDocument, HoldsOnlyWhatWasWritten) {
  auto services = parse_service_file(
      "name: m\nengine: vllm\nmodel: /m\nload_timeout: 30m\nslurm: {mem: 96G, time: 8:00:00}\n",
      "f");
  ASSERT_TRUE(services) << services.error().message;
  Json document = to_json((*services)[0]);
  EXPECT_EQ(dump_json(document), R"({"engine":"vllm","load_timeout":"30m","model":"/m","name":"m",)"
                                 R"("slurm":{"mem":"96G","time":"8h"}})");
  ServiceDefaults site{hours(2), seconds(9), 3};
  auto spec = parse_service_document(document, site);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->load_timeout, minutes(30)) << "written, so it stays";
  EXPECT_EQ(spec->drain_grace, seconds(9)) << "not written: the site's";
  EXPECT_EQ(spec->max_start_attempts, 3);
}

TEST(ServiceDocument, NumbersMayBeNumbers) {
  auto spec = parse_service_document(Json{{"name", "m"},
                                          {"engine", "vllm"},
                                          {"model", "/m"},
                                          {"replicas", 2},
                                          {"args", {"--n", 5, 1.5, true}},
                                          {"access", {{"public", true}}}});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->replicas, 2);
  EXPECT_THAT(spec->args, ::testing::ElementsAre("--n", "5", "1.5", "true"));
  EXPECT_EQ(spec->access.scope, AccessSpec::Scope::everybody);
}

TEST(ServiceDocument, ChecksAsAFileIsChecked) {
  auto bad = parse_service_document(Json{{"name", "m"},
                                         {"engine", "vllm"},
                                         {"modle", "/m"},
                                         {"replicas", -1},
                                         {"env", {{"A", std::string("x\0y", 3)}}},
                                         {"slurm", {{"partition", "a b"}}}});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::invalid_argument);
  for (const char* want : {"spec: unknown member \"modle\"", "spec: replicas must be between",
                           "spec: env.A must not hold a NUL", "spec: slurm.partition must be one",
                           "spec: member \"model\" is missing"})
    EXPECT_THAT(bad.error().message, HasSubstr(want));
  EXPECT_FALSE(parse_service_document(Json::array()));
  EXPECT_FALSE(parse_service_document(Json(nullptr)));
}

TEST(ServiceDocument, Durations) {
  EXPECT_EQ(duration_text(hours(8)), "8h");
  EXPECT_EQ(duration_text(minutes(90)), "90m");
  EXPECT_EQ(duration_text(seconds(90)), "90s");
  EXPECT_EQ(duration_text(milliseconds(1500)), "1500ms");
  EXPECT_EQ(duration_text(seconds(0)), "0s");
  for (int64_t ms : {0, 1, 999, 1000, 60000, 61000, 3600000, 86400000})
    EXPECT_EQ(parse_duration(duration_text(Duration(ms))), Duration(ms));
}

}  // namespace
}  // namespace berth::config
