#include "config/service_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace berth::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string problems_of(const std::string& text) {
  auto services = parse_service_file(text, "s.yaml");
  return services ? "" : services.error().message;
}

ServiceSpec parse_one(const std::string& text) {
  auto services = parse_service_file(text, "s.yaml");
  EXPECT_TRUE(services) << services.error().message;
  if (!services || services->size() != 1) return {};
  return (*services)[0].spec;
}

// A service that is right; tests add one line to it.
const std::string kGood = "name: m\nengine: vllm\nmodel: /m\n";

constexpr char kIssueExample[] = R"(
name: qwen3-coder-30b
engine: vllm                      # or sglang, llama-server, tei, command
model: /models/Qwen3-Coder-30B-A3B-Instruct
args: [--max-model-len, "65536"]
setup: |                          # runs in the job before the engine: modules, venv, conda
  module load cuda
env: {HF_HUB_OFFLINE: "1"}
slurm: {partition: h100, account: gaia, gpus: 1, cpus-per-task: 16, mem: 96G, time: 8:00:00}
replicas: 1
access: {project: gaia}           # or users, groups, public
)";

TEST(ServiceFile, ReadsAWholeService) {
  ServiceSpec s = parse_one(kIssueExample);
  EXPECT_EQ(s.name, "qwen3-coder-30b");
  EXPECT_EQ(s.engine, EngineKind::vllm);
  EXPECT_EQ(s.model, "/models/Qwen3-Coder-30B-A3B-Instruct");
  EXPECT_THAT(s.args, ElementsAre("--max-model-len", "65536"));
  EXPECT_EQ(s.setup, "module load cuda\n");
  EXPECT_THAT(s.env, ElementsAre(Pair("HF_HUB_OFFLINE", "1")));
  EXPECT_EQ(s.resources.partition, "h100");
  EXPECT_EQ(s.resources.account, "gaia");
  EXPECT_EQ(s.resources.gpus, 1);
  EXPECT_EQ(s.resources.cpus_per_task, 16);
  EXPECT_EQ(s.resources.mem_mib, 96 * 1024);
  EXPECT_EQ(s.resources.time_limit, hours(8));
  EXPECT_THAT(s.access.projects, ElementsAre("gaia"));
  EXPECT_EQ(s.access.scope, AccessSpec::Scope::listed);
  EXPECT_EQ(s.load_timeout, minutes(30));
}

TEST(ServiceFile, TextArrivesExactlyAsWritten) {  // C21, and YAML's own traps
  ServiceSpec s = parse_one(kGood +
                            "args: [--n, 1e3, 010, no, 8:00:00, null, ~, 1.10, \"\", 'a b']\n"
                            "env:\n  CUDA_LIST: 0,1\n  T: two words\n  E:\n  E2: \"\"\n"
                            "  Q: a'b\"c\n  ML: \"l1\\nl2\"\n  NORWAY: no\n  N: null\n  F: 1e3\n");
  EXPECT_THAT(s.args,
              ElementsAre("--n", "1e3", "010", "no", "8:00:00", "null", "~", "1.10", "", "a b"));
  EXPECT_THAT(s.env,
              ElementsAre(Pair("CUDA_LIST", "0,1"), Pair("E", ""), Pair("E2", ""), Pair("F", "1e3"),
                          Pair("ML", "l1\nl2"), Pair("N", "null"), Pair("NORWAY", "no"),
                          Pair("Q", "a'b\"c"), Pair("T", "two words")));
}

TEST(ServiceFile, SetupFromAWebForm) {  // C19
  ServiceSpec s =
      parse_one(kGood + "setup: \"\\uFEFF\\r\\nmodule load cuda\\r\\n#SBATCH -p x\\r\"\n");
  EXPECT_EQ(s.setup, "\nmodule load cuda\n#SBATCH -p x\n");
  s = parse_one(
      "\xEF\xBB\xBF"
      "\r\nname: m\r\nengine: vllm\r\nmodel: /m\r\nsetup: |\r\n  a\r\n  b\r\n");
  EXPECT_EQ(s.model, "/m");
  EXPECT_EQ(s.setup, "a\nb\n");
}

TEST(ServiceFile, SlurmFieldsCannotCarryMore) {  // C19
  for (const char* bad :
       {"\"a b\"", "\"a\\nb\"", "-p", "\"a'b\"", "\"$(id)\"", "a;b", "\"a\\\\b\""})
    EXPECT_THAT(problems_of(kGood + "slurm: {partition: " + bad + "}\n"),
                HasSubstr("slurm.partition must be one word"))
        << bad;
  EXPECT_THAT(problems_of(kGood + "slurm: {partition: }\n"), HasSubstr("must not be empty"));
  EXPECT_EQ(
      parse_one(kGood + "slurm: {constraint: \"[rack1|rack2]&gpu*2\"}\n").resources.constraint,
      "[rack1|rack2]&gpu*2");
  EXPECT_EQ(parse_one(kGood + "slurm: {partition: \"a,b\"}\n").resources.partition, "a,b");
}

TEST(ServiceFile, ReportsEverythingAtOnce) {
  std::string text = problems_of(
      "name: bad name\nengine: vlm\nmodell: x\nslurm: {partiton: a, mem: 96 GB, time: soon, "
      "gpus: 1e1}\nreplicas: 010\nenv: {1A: x, BERTH_KEY: y}\nreplicas: 2\naccess: everyone\n"
      "load_timeout: 5 minutes\n");
  for (const char* want :
       {"s.yaml:1:7: service name \"bad name\"",
        "s.yaml:2:9: engine must be one of vllm, sglang, llama-server, tei, command, not \"vlm\"; "
        "did you mean \"vllm\"?",
        "s.yaml:3:1: unknown member \"modell\" of the service; did you mean \"model\"?",
        "s.yaml:4:9: unknown member \"partiton\" of slurm; did you mean \"partition\"?",
        "s.yaml:4:27: slurm.mem must be a size such as 96G",
        "s.yaml:4:40: slurm.time must be a time such as",
        "s.yaml:4:52: slurm.gpus must be a whole decimal number, not \"1e1\"",
        "s.yaml:5:11: replicas must not begin with 0", "s.yaml:6:7: env: \"1A\" is no name",
        "s.yaml:6:14: env: names beginning with BERTH_", "s.yaml:7:1: \"replicas\" is given twice",
        "s.yaml:8:9: access must have members", "s.yaml:9:15: load_timeout must be a time"})
    EXPECT_THAT(text, HasSubstr(want));
}

TEST(ServiceFile, MissingMembers) {
  EXPECT_THAT(problems_of("{}\n"),
              AllOf(HasSubstr("member \"name\" is missing"), HasSubstr("\"engine\" is missing")));
  EXPECT_THAT(problems_of("name: m\nengine: tei\n"), HasSubstr("\"model\" is missing"));
  EXPECT_THAT(problems_of("name: m\nengine: command\n"), HasSubstr("\"command\" is missing"));
  EXPECT_THAT(problems_of(""), HasSubstr("no service in it"));
  EXPECT_THAT(problems_of("just text\n"), HasSubstr("a service must have members"));
}

TEST(ServiceFile, Commands) {
  EXPECT_EQ(parse_one("name: m\ncommand: [./serve, --port, \"{port}\"]\n").engine,
            EngineKind::command)
      << "a command alone is enough";
  EXPECT_THAT(problems_of("name: m\nengine: command\ncommand: ./serve --port {port}\n"),
              HasSubstr("command must be a list"));
  EXPECT_THAT(problems_of(kGood + "command: [x]\n"),
              HasSubstr("command belongs to engine: command"));
  EXPECT_THAT(problems_of("name: m\nengine: command\ncommand: [./serve]\n"),
              AllOf(HasSubstr("s.yaml:3:10:"), HasSubstr("use {port}")));
  EXPECT_THAT(problems_of("name: m\nengine: command\ncommand: []\n"), HasSubstr("name a program"));
  EXPECT_THAT(problems_of(kGood + "args: --max-model-len 65536\n"),
              HasSubstr("args must be a list"));
  EXPECT_THAT(problems_of(kGood + "args: [--port, 8000]\n"), HasSubstr("--port 8000"));  // A01
}

TEST(ServiceFile, IsolationGoesWithTheEngine) {
  EXPECT_THAT(problems_of("name: m\nengine: sglang\nmodel: /m\nisolation: unix-socket\n"),
              HasSubstr("s.yaml:4:12: isolation: unix-socket needs an engine"));
  EXPECT_THAT(problems_of(kGood + "isolation: unix_socket\n"),
              HasSubstr("did you mean \"unix-socket\"?"));
  EXPECT_EQ(parse_one(kGood + "isolation: network-namespace\n").isolation,
            Isolation::network_namespace);
}

TEST(ServiceFile, LimitsThatContradict) {
  EXPECT_THAT(problems_of(kGood + "slurm: {time: 20m}\nload_timeout: 30m\n"),
              HasSubstr("load_timeout (30m00s) must be shorter than slurm.time (20m00s)"));
  EXPECT_EQ(problems_of(kGood + "slurm: {time: 20m}\n"), "") << "the default does not count";
}

TEST(ServiceFile, ATimeLimitNeedsAUnit) {
  for (const char* text : {"60", "\"60\"", "0"})
    EXPECT_THAT(problems_of(kGood + "slurm: {time: " + text + "}\n"),
                HasSubstr("minutes, as for sbatch, or"))
        << text;
  EXPECT_THAT(problems_of(kGood + "slurm: {time: 60}\n"),
              HasSubstr("slurm.time 60 may mean 60 minutes, as for sbatch, or 60 seconds, as "
                        "elsewhere here: write 60m or 60s"));
  for (const char* text : {"60m", "60s", "1:00:00", "60:00", "1-0", "1d"})
    EXPECT_EQ(problems_of(kGood + "slurm: {time: " + text + "}\n"), "") << text;
  EXPECT_THAT(problems_of("name: m\nengine: tei\nmodel: /m\nslurm: {gpus: 2}\n"),
              HasSubstr("tei uses one GPU"));
  EXPECT_THAT(problems_of(kGood + "slurm: {nodes: 2}\n"), HasSubstr("not supported yet"));
  EXPECT_THAT(problems_of(kGood + "log_dir: logs\n"), HasSubstr("absolute"));
  EXPECT_THAT(problems_of("name: m\nengine: vllm\nmodel: --evil\n"), HasSubstr("begin with"));
}

TEST(ServiceFile, GpusAndSpellings) {
  ServiceSpec s = parse_one(kGood +
                            "slurm: {gpus: \"h100:4\", cpus_per_task: 8, mem: 512}\n"
                            "load-timeout: 1h\n");
  EXPECT_EQ(s.resources.gpus, 4);
  EXPECT_EQ(s.resources.gpu_type, "h100");
  EXPECT_EQ(s.resources.cpus_per_task, 8);
  EXPECT_EQ(s.resources.mem_mib, 512);
  EXPECT_EQ(s.load_timeout, hours(1));
  EXPECT_THAT(problems_of(kGood + "load-timeout: 1h\nload_timeout: 2h\n"),
              HasSubstr("\"load_timeout\" is given twice"));
  EXPECT_THAT(problems_of(kGood + "slurm: {gpus: \"a:b:2\"}\n"), HasSubstr("type:number"));
}

TEST(ServiceFile, Access) {
  EXPECT_EQ(parse_one(kGood + "access: public\n").access.scope, AccessSpec::Scope::everybody);
  EXPECT_EQ(parse_one(kGood + "access: {public: true}\n").access.scope,
            AccessSpec::Scope::everybody);
  ServiceSpec s =
      parse_one(kGood + "access: {user: alice, users: [bob], groups: [g], projects: [p]}\n");
  EXPECT_THAT(s.access.users, ElementsAre("alice", "bob"));
  EXPECT_THAT(s.access.groups, ElementsAre("g"));
  EXPECT_THAT(problems_of(kGood + "access: {users: [\"a b\"]}\n"), HasSubstr("\"a b\""));
}

TEST(ServiceFile, SeveralServices) {
  std::string two = "- {name: a, engine: vllm, model: /m}\n- {name: b, engine: tei, model: /m}\n";
  auto list = parse_service_file(two + "---\nname: c\nengine: vllm\nmodel: /m\n", "s.yaml");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ((*list)[1].spec.name, "b");
  EXPECT_EQ((*list)[1].mark.line, 2);
  EXPECT_THAT(problems_of(two + "---\nname: b\nengine: vllm\nmodel: /m\n"),
              HasSubstr("service \"b\" is declared twice here"));
}

TEST(ServiceFile, ModelIdsWithSlashColonDot) {  // B19
  EXPECT_EQ(parse_one("name: hf.co/org/My-Model:Q4_K_M\nengine: vllm\nmodel: /m\n").name,
            "hf.co/org/My-Model:Q4_K_M");
  EXPECT_THAT(problems_of("name: \"a%2Fb\"\nengine: vllm\nmodel: /m\n"), HasSubstr("a%2Fb"));
  EXPECT_THAT(problems_of("name: mödel\nengine: vllm\nmodel: /m\n"), HasSubstr("service name"));
}

TEST(ServiceFile, ExamplesAreValid) {
  int seen = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(BERTH_SOURCE_DIR) + "/examples/services")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(problems_of(text.str()), "") << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 5) << "one for each engine";
}

}  // namespace
}  // namespace berth::config
