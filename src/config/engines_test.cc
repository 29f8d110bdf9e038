#include "config/engines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace berth::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Endpoint uds() {
  Endpoint e;
  e.path = "/tmp/b-x/e.sock";
  e.scratch_dir = "/tmp/b-x";
  return e;
}

Endpoint tcp() {
  Endpoint e;
  e.transport = Transport::tcp;
  e.port = 18001;
  e.scratch_dir = "/tmp/b-x";
  return e;
}

ServiceSpec service(EngineKind kind) {
  ServiceSpec s;
  s.name = "qwen3-coder-30b";
  s.engine = kind;
  s.model = "/models/Qwen3 Coder";
  return s;
}

ServiceSpec user_command(std::vector<std::string> argv) {
  ServiceSpec s;
  s.name = "mine";
  s.engine = EngineKind::command;
  s.command = std::move(argv);
  return s;
}

std::string text_of(const EngineLaunch& launch) {
  std::string out = fmt::format("preset: {}\ntransport: {}\n", to_string(launch.preset->kind),
                                launch.transport == Transport::tcp ? "tcp" : "unix socket");
  for (const std::string& arg : launch.argv) out += fmt::format("arg: {}\n", arg);
  for (const auto& [name, value] : launch.env) out += fmt::format("env: {}={}\n", name, value);
  for (const std::string& id : launch.model_ids) out += fmt::format("model id: {}\n", id);
  return out;
}

// Compares with tests/golden/engines/NAME.txt; BERTH_UPDATE_GOLDEN=1 writes it anew.
void expect_golden(const std::string& name, const std::string& text) {
  std::string path = std::string(BERTH_SOURCE_DIR) + "/tests/golden/engines/" + name + ".txt";
  if (std::getenv("BERTH_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is missing; run with BERTH_UPDATE_GOLDEN=1 and read it";
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(text, want.str()) << "differs from " << path;
}

void expect_golden(const std::string& name, const ServiceSpec& spec, const Endpoint& endpoint) {
  auto launch = render(spec, endpoint);
  ASSERT_TRUE(launch) << launch.error().message;
  expect_golden(name, text_of(*launch));
}

TEST(Engines, GoldenVllm) {
  ServiceSpec s = service(EngineKind::vllm);
  expect_golden("vllm_uds", s, uds());
  s.resources.gpus = 4;
  s.args = {"--max-model-len", "65536", "--override-generation-config", R"({"top_k":{"port":1}})"};
  s.env = {{"HF_HUB_OFFLINE", "1"}, {"TMPDIR", "/scratch/me"}};
  expect_golden("vllm_tcp_4_gpus", s, tcp());
}

TEST(Engines, GoldenSglang) {
  ServiceSpec s = service(EngineKind::sglang);
  s.resources.gpus = 2;
  expect_golden("sglang_tcp_2_gpus", s, tcp());
}

TEST(Engines, GoldenLlamaServer) {
  ServiceSpec s = service(EngineKind::llama_server);
  s.resources.cpus_per_task = 4;
  s.served_model_name = "counter";
  expect_golden("llama_server_uds", s, uds());
  s.resources.gpus = 1;
  s.args = {"--threads", "2", "-ngl", "20", "--sse-ping-interval=9"};
  expect_golden("llama_server_tcp_own_flags", s, tcp());
}

TEST(Engines, GoldenTei) { expect_golden("tei_tcp", service(EngineKind::tei), tcp()); }

TEST(Engines, GoldenCommand) {
  expect_golden("command_port",
                user_command({"node", "server.mjs", "--listen", "{host}:{port}", "{{port}}"}),
                tcp());
  expect_golden("command_uds", user_command({"./serve", "--socket={uds}", "--name={name}"}), uds());
  expect_golden("command_vllm_appended",
                user_command({"apptainer", "exec", "--nv", "v.sif", "vllm", "serve", "/m/Q",
                              "--served-model-name", "qwen"}),
                uds());
}

TEST(Engines, ReadyLimitIsCloseBelowLoadTimeout) {  // A05
  ServiceSpec s = service(EngineKind::vllm);
  s.load_timeout = seconds(1800);
  auto limit = [&] {
    return std::stoi(render(s, uds()).value().env.at("VLLM_ENGINE_READY_TIMEOUT_S"));
  };
  EXPECT_GE(limit(), 1500);
  EXPECT_LT(limit(), 1800);
  s.load_timeout = seconds(18);
  EXPECT_GT(limit(), 15);
  EXPECT_LT(limit(), 18);
  s.load_timeout = seconds(6 * 3600);
  EXPECT_GE(limit(), 6 * 3600 - 300);
  s.env["VLLM_ENGINE_READY_TIMEOUT_S"] = "42";
  EXPECT_EQ(limit(), 42) << "the user's own value stays";
}

TEST(Engines, KeyGoesIntoTheEnvironmentOnly) {
  Endpoint e = tcp();
  e.engine_key = "sk-very-secret";
  for (EngineKind kind :
       {EngineKind::vllm, EngineKind::llama_server, EngineKind::tei, EngineKind::sglang}) {
    auto launch = render(service(kind), e).value();
    for (const std::string& arg : launch.argv) EXPECT_THAT(arg, Not(HasSubstr("secret")));
    std::string_view key_env = preset(kind).key_env;
    if (!key_env.empty()) {
      EXPECT_EQ(launch.env.at(std::string(key_env)), "sk-very-secret");
    }
  }
}

TEST(Engines, LongSocketPathIsRefused) {  // A19
  Endpoint e = uds();
  e.path = "/" + std::string(101, 'a') + ".sock";
  ASSERT_EQ(e.path.size(), 107u);
  EXPECT_TRUE(render(service(EngineKind::vllm), e));
  e.path = "/a" + std::string(101, 'a') + ".sock";
  auto bad = render(service(EngineKind::vllm), e);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("path too long (108 > 107)"));
}

TEST(Engines, ACommandMustLetBerthChooseThePort) {  // A01
  auto fixed = render(user_command({"vllm", "serve", "/m", "--port", "8000"}), tcp());
  ASSERT_FALSE(fixed);
  EXPECT_THAT(fixed.error().message, HasSubstr("--port 8000"));
  EXPECT_THAT(fixed.error().message, HasSubstr("{port}"));
  auto silent = render(user_command({"./serve"}), tcp());
  ASSERT_FALSE(silent);
  EXPECT_THAT(silent.error().message, HasSubstr("{port}"));
  EXPECT_FALSE(render(user_command({"./serve", "{uds}"}), tcp()));
  EXPECT_FALSE(render(user_command({"./serve", "{port}"}), uds()));
}

TEST(Engines, DetectsWhatACommandStarts) {
  EXPECT_EQ(detect_engine({"vllm", "serve", "m"}), EngineKind::vllm);
  EXPECT_EQ(detect_engine({"/opt/v/bin/vllm", "serve", "m"}), EngineKind::vllm);
  EXPECT_EQ(detect_engine({"vllm", "bench"}), EngineKind::command);
  EXPECT_EQ(detect_engine({"python", "-m", "vllm.entrypoints.openai.api_server"}),
            EngineKind::vllm);
  EXPECT_EQ(detect_engine({"python3", "-m", "sglang.launch_server"}), EngineKind::sglang);
  EXPECT_EQ(detect_engine({"./llama-server", "-m", "x.gguf"}), EngineKind::llama_server);
  EXPECT_EQ(detect_engine({"text-embeddings-router"}), EngineKind::tei);
  EXPECT_EQ(detect_engine({"bash", "-c", "vllm serve"}), EngineKind::command);
}

TEST(Engines, ChoosesTheTransport) {
  auto choose = [](ServiceSpec s, Isolation isolation) {
    s.isolation = isolation;
    return choose_transport(s);
  };
  ServiceSpec vllm = service(EngineKind::vllm), sglang = service(EngineKind::sglang);
  EXPECT_EQ(*choose(vllm, Isolation::automatic), Transport::unix_socket);
  EXPECT_EQ(*choose(vllm, Isolation::network_namespace), Transport::tcp);
  EXPECT_EQ(*choose(sglang, Isolation::automatic), Transport::tcp);
  EXPECT_FALSE(choose(sglang, Isolation::unix_socket));
  EXPECT_EQ(*choose(user_command({"x", "{uds}"}), Isolation::automatic), Transport::unix_socket);
  EXPECT_EQ(*choose(user_command({"x", "{port}"}), Isolation::automatic), Transport::tcp);
  EXPECT_EQ(*choose(user_command({"x", "{{uds}}", "{port}"}), Isolation::automatic),
            Transport::tcp);
  EXPECT_FALSE(choose(user_command({"x", "{uds}"}), Isolation::loopback));
  EXPECT_FALSE(choose(user_command({"x", "{port}", "{uds}"}), Isolation::automatic));
  EXPECT_FALSE(choose(user_command({"x", "{port}"}), Isolation::unix_socket));
  EXPECT_EQ(*choose(user_command({"vllm", "serve", "m"}), Isolation::automatic),
            Transport::unix_socket);
}

TEST(Engines, ReadsModelLists) {
  auto vllm = read_models(
      R"({"object":"list","data":[{"id":"qwen","max_model_len":65536},{"id":"lora"}]})", {"qwen"});
  ASSERT_TRUE(vllm);
  EXPECT_EQ(vllm->id, "qwen");
  EXPECT_EQ(vllm->context_length, 65536);
  auto llama = read_models(R"({"data":[{"id":"counter","meta":{"n_ctx":4096}}]})", {});
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->context_length, 4096);
  auto tei = read_models(R"({"model_id":"/m/bge","max_input_length":512})", {"bge", "/m/bge"});
  ASSERT_TRUE(tei);
  EXPECT_EQ(tei->context_length, 512);

  auto wrong = read_models(R"({"data":[{"id":"other"}]})", {"qwen"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::invalid_argument);
  EXPECT_THAT(wrong.error().message, HasSubstr("serves \"other\", not \"qwen\""));
  for (const char* empty : {R"({"data":[]})", "{}", "[]", R"({"data":{}})", R"({"data":[1,null]})"})
    EXPECT_EQ(read_models(empty, {}).error().code, Code::unavailable) << empty;
  EXPECT_FALSE(read_models("<html>", {}));
}

TEST(Engines, ProbeQuotesTheId) {
  ProbeRequest probe{"POST", "/v1/completions", R"({"model":{model},"max_tokens":1})"};
  EXPECT_EQ(probe_body(probe, "a\"b"), R"({"model":"a\"b","max_tokens":1})");
}

TEST(Engines, TheScriptsCommandLineRendersAsTheServiceDoes) {
  ServiceSpec declared;
  declared.name = "qwen";
  declared.engine = EngineKind::vllm;
  declared.model = "/models/Qwen";
  declared.args = {"--max-model-len", "65536"};
  declared.resources.gpus = 2;
  Endpoint endpoint;
  endpoint.path = "/tmp/b/engine.sock";
  auto direct = render(declared, endpoint);
  ASSERT_TRUE(direct.ok());
  ServiceSpec in_job;
  in_job.name = "qwen";
  in_job.engine = EngineKind::command;
  in_job.command = command_line(declared);
  auto by_agent = render(in_job, endpoint);
  ASSERT_TRUE(by_agent.ok());
  auto sorted = [](std::vector<std::string> v) {
    std::sort(v.begin(), v.end());
    return v;
  };
  EXPECT_EQ(sorted(by_agent->argv), sorted(direct->argv));
  EXPECT_EQ(by_agent->preset->kind, EngineKind::vllm);
  EXPECT_EQ(by_agent->model_ids, direct->model_ids);
}

}  // namespace
}  // namespace berth::config
