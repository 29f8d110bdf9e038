#include "config/engine_presets.h"

namespace berth::config {
namespace {

constexpr std::string_view kCompletion =
    R"({"model":{model},"prompt":"1","max_tokens":1,"temperature":0,"stream":false})";
constexpr std::string_view kChat =
    R"({"model":{model},"messages":[{"role":"user","content":"1"}],"max_tokens":1})";
constexpr std::string_view kEmbedding = R"({"model":{model},"input":"1"})";
constexpr std::string_view kRerank = R"({"model":{model},"query":"1","documents":["1"]})";
constexpr std::string_view kTeiRerank = R"({"query":"1","texts":["1"]})";
constexpr std::string_view kTeiPredict = R"({"inputs":"1"})";

std::vector<ProbeRequest> openai_probes() {
  return {{"POST", "/v1/completions", kCompletion},
          {"POST", "/v1/chat/completions", kChat},
          {"POST", "/v1/embeddings", kEmbedding},
          {"POST", "/v1/rerank", kRerank}};
}

EnginePreset vllm() {
  EnginePreset p{};
  p.kind = EngineKind::vllm;
  p.source =
      "vllm/entrypoints/openai/cli_args.py, api_server.py, launcher.py, v1/engine/core.py, "
      "vllm/envs.py, docs/usage/security.md, docs/usage/metrics.md";
  p.version = "read at main 017e9f44 (2026-08-17); needs 0.18 or newer for --shutdown-timeout";
  p.knows_unix_socket = true;  // --uds; binds without unlink, so a stale file makes it fail
  p.key_env = "VLLM_API_KEY";  // guards /v1, /v2, /inference only
  // The socket is bound but does not listen until the engine is ready: refused means loading.
  // /health says 503 only when the engine is dead.
  p.health_path = "/health";
  p.models_path = "/v1/models";
  p.models_optional = false;
  p.probes = openai_probes();
  p.on_sigterm = OnSigterm::drains;  // with --shutdown-timeout N, as rendered; 0 aborts
  p.on_second_sigterm = OnSecondSigterm::ignored;
  p.idle_before_sigterm = false;
  p.keep_alive = seconds(5);  // uvicorn's default; VLLM_HTTP_TIMEOUT_KEEP_ALIVE raises it
  p.pool_idle = seconds(4);
  p.include_usage = true;
  p.continuous_usage_stats = true;  // the Rust front end refused it until May 2026: fall back
  p.metrics = {"/metrics",
               "vllm:num_requests_running",
               "vllm:num_requests_waiting",
               "vllm:kv_cache_usage_perc",
               "vllm:gpu_cache_usage_perc",
               "vllm:prompt_tokens_total",
               "vllm:generation_tokens_total"};
  p.routes = {{"POST", "/v1/chat/completions"},
              {"POST", "/v1/completions"},
              {"POST", "/v1/embeddings"},
              {"POST", "/v1/responses"},
              {"POST", "/v1/messages"},
              {"POST", "/v1/messages/count_tokens"},
              {"POST", "/v1/rerank"},
              {"POST", "/v2/rerank"},
              {"POST", "/rerank"},
              {"POST", "/v1/score"},
              {"POST", "/score"},
              {"POST", "/classify"},
              {"POST", "/pooling"},
              {"POST", "/v1/audio/transcriptions"},
              {"POST", "/v1/audio/translations"},
              {"POST", "/tokenize"},
              {"POST", "/detokenize"}};
  return p;
}

EnginePreset sglang() {
  EnginePreset p{};
  p.kind = EngineKind::sglang;
  p.source =
      "python/sglang/srt/server_args.py, srt/entrypoints/http_server.py, srt/environ.py; "
      "sgl-project/sglang#12241 for continuous usage";
  p.version = "read in 0.5.4 to 0.5.13";
  p.knows_unix_socket = false;
  p.key_env = "";  // --api-key in argv only, where every user of the node can read it: not used
  // /health makes one token while idle; 503 while starting or draining.
  p.health_path = "/health";
  p.models_path = "/v1/models";
  p.models_optional = false;
  p.probes = openai_probes();
  p.on_sigterm = OnSigterm::drains;  // looks every 5 s; SGL_FORCE_SHUTDOWN turns it off
  p.on_second_sigterm = OnSecondSigterm::unknown;
  p.idle_before_sigterm = false;
  p.keep_alive = seconds(5);  // uvicorn; SGLANG_TIMEOUT_KEEP_ALIVE in newer versions
  p.pool_idle = seconds(4);
  p.include_usage = true;
  p.continuous_usage_stats = true;  // since October 2025: fall back on 400
  p.metrics = {"/metrics",
               "sglang:num_running_reqs",
               "sglang:num_queue_reqs",
               "sglang:token_usage",
               "",
               "sglang:prompt_tokens_total",
               "sglang:generation_tokens_total"};
  p.routes = {{"POST", "/v1/chat/completions"},
              {"POST", "/v1/completions"},
              {"POST", "/v1/embeddings"},
              {"POST", "/v1/responses"},
              {"POST", "/v1/messages"},
              {"POST", "/v1/messages/count_tokens"},
              {"POST", "/v1/rerank"},
              {"POST", "/v1/score"},
              {"POST", "/v1/classify"},
              {"POST", "/v1/audio/transcriptions"},
              {"POST", "/tokenize"},
              {"POST", "/detokenize"},
              {"POST", "/v1/tokenize"},
              {"POST", "/v1/detokenize"}};
  return p;
}

EnginePreset llama_server() {
  EnginePreset p{};
  p.kind = EngineKind::llama_server;
  p.source = "llama.cpp tools/server (README.md and measured)";
  p.version = "measured on v0.4.0-dev, 80fb11a (September 2026)";
  p.knows_unix_socket =
      true;  // --host PATH ending in .sock; not removed at exit, a stale one fails
  p.key_env = "LLAMA_API_KEY";
  // Listens at once; every route answers 503 "Loading model" until the model is in.
  p.health_path = "/health";
  p.models_path = "/v1/models";
  p.models_optional = false;
  p.probes = openai_probes();
  // A stream goes silent and is cut after the ping interval; a non-streaming request in flight
  // keeps the process for ever (573 s seen). So: idle first, then one SIGTERM, then another.
  p.on_sigterm = OnSigterm::lingers;
  p.on_second_sigterm = OnSecondSigterm::exits;
  p.idle_before_sigterm = true;
  p.keep_alive = seconds(5);  // cpp-httplib's default, and at most 100 requests a connection
  p.pool_idle = seconds(4);
  p.include_usage = true;
  p.continuous_usage_stats = false;
  p.metrics = {"/metrics",  // with --metrics, as rendered
               "llamacpp:requests_processing",
               "llamacpp:requests_deferred",
               "",
               "",
               "llamacpp:prompt_tokens_total",
               "llamacpp:tokens_predicted_total"};
  p.routes = {{"POST", "/v1/chat/completions"},
              {"POST", "/v1/completions"},
              {"POST", "/v1/embeddings"},
              {"POST", "/v1/responses"},
              {"POST", "/v1/messages"},
              {"POST", "/v1/messages/count_tokens"},
              {"POST", "/v1/rerank"},
              {"POST", "/rerank"},
              {"POST", "/tokenize"},
              {"POST", "/detokenize"},
              {"POST", "/apply-template"},
              {"POST", "/infill"}};
  return p;
}

EnginePreset tei() {
  EnginePreset p{};
  p.kind = EngineKind::tei;
  p.source = "text-embeddings-inference router/src/main.rs and its documentation";
  p.version = "read in 1.9.3";
  p.knows_unix_socket = false;  // --uds-path is for its own back end, not for HTTP
  p.key_env = "API_KEY";
  p.health_path = "/health";
  p.models_path = "/info";
  p.models_optional = false;
  p.probes = {{"POST", "/v1/embeddings", kEmbedding},
              {"POST", "/rerank", kTeiRerank},
              {"POST", "/predict", kTeiPredict}};
  p.on_sigterm = OnSigterm::drains;
  p.on_second_sigterm = OnSecondSigterm::unknown;
  p.idle_before_sigterm = false;
  p.keep_alive = std::nullopt;  // hyper closes no idle connection by itself
  p.pool_idle = seconds(30);
  p.include_usage = false;  // no streams
  p.continuous_usage_stats = false;
  p.metrics = {"/metrics", "", "te_queue_size", "", "", "", ""};
  p.routes = {{"POST", "/v1/embeddings"}, {"POST", "/embed"},    {"POST", "/embed_all"},
              {"POST", "/embed_sparse"},  {"POST", "/rerank"},   {"POST", "/predict"},
              {"POST", "/similarity"},    {"POST", "/tokenize"}, {"POST", "/decode"}};
  return p;
}

EnginePreset command() {
  EnginePreset p{};
  p.kind = EngineKind::command;
  p.source = "none: an unknown server that speaks the OpenAI API";
  p.version = "any";
  p.knows_unix_socket = true;  // when its command line names {uds}
  p.key_env = "";
  p.health_path = "";
  p.models_path = "/v1/models";
  p.models_optional = true;
  p.probes = openai_probes();
  p.on_sigterm = OnSigterm::unknown;
  p.on_second_sigterm = OnSecondSigterm::unknown;
  p.idle_before_sigterm = true;
  p.keep_alive = seconds(5);  // the shortest common default
  p.pool_idle = seconds(4);
  p.include_usage = true;
  p.continuous_usage_stats = false;
  p.metrics = {};
  p.routes = {{"POST", "/v1/chat/completions"},
              {"POST", "/v1/completions"},
              {"POST", "/v1/embeddings"},
              {"POST", "/v1/responses"},
              {"POST", "/v1/messages"},
              {"POST", "/v1/messages/count_tokens"},
              {"POST", "/v1/rerank"},
              {"POST", "/v2/rerank"},
              {"POST", "/rerank"},
              {"POST", "/v1/score"},
              {"POST", "/score"},
              {"POST", "/v1/audio/transcriptions"},
              {"POST", "/v1/audio/translations"},
              {"POST", "/v1/audio/speech"},
              {"POST", "/tokenize"},
              {"POST", "/detokenize"}};
  return p;
}

}  // namespace

const EnginePreset& preset(EngineKind kind) {
  static const EnginePreset presets[] = {vllm(), sglang(), llama_server(), tei(), command()};
  for (const EnginePreset& p : presets)
    if (p.kind == kind) return p;
  return presets[4];
}

}  // namespace berth::config
