// Facts about each engine: readiness, stop, keep-alive, metrics, routes; each with its source and
// the version in which it was read or measured.
//
// Constant data. A new engine is a new entry here and its command line in engines.cc.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/service.h"

namespace berth::config {

// What SIGTERM does to requests in flight.
enum class OnSigterm {
  drains,   // finishes them within the engine's own limit
  aborts,   // cuts them
  lingers,  // may never exit while one is in flight; streams go silent
  unknown,
};
enum class OnSecondSigterm { ignored, exits, unknown };

struct MetricNames {
  std::string_view path;  // "" when the engine has none
  std::string_view running;
  std::string_view waiting;
  std::string_view kv_usage;      // 0..1
  std::string_view kv_usage_old;  // the same in older versions
  std::string_view prompt_tokens;
  std::string_view generated_tokens;
};

struct EngineRoute {
  std::string_view method;
  std::string_view path;  // exact
};

// A request that proves the engine works. Tried in order until one is answered with 200; the next
// is tried when the answer says that this engine does not do such requests (400, 404, 405, 415,
// 422, 424, 501), as an embedding model does to a completion.
struct ProbeRequest {
  std::string_view method;
  std::string_view path;
  std::string_view body;  // JSON; "{model}" stands for the served id, already JSON-quoted
};

struct EnginePreset {
  EngineKind kind;
  std::string_view source;   // where the facts come from
  std::string_view version;  // which version they were read in or measured on

  bool knows_unix_socket;
  std::string_view key_env;  // environment variable that takes the API key; "" if it has none

  // Readiness. A refused connection means loading for every engine.
  std::string_view health_path;
  std::string_view models_path;  // read by read_models()
  bool models_optional;          // a 404 of models_path is no failure
  std::vector<ProbeRequest> probes;

  OnSigterm on_sigterm;
  OnSecondSigterm on_second_sigterm;
  // Whether in-flight requests must have ended before SIGTERM is sent. (Routing always stops
  // first.)
  bool idle_before_sigterm;

  // How long the engine keeps an idle connection at least; nullopt: for ever.
  std::optional<Duration> keep_alive;
  Duration pool_idle;  // idle connections to it are closed after this, always below keep_alive

  bool include_usage;           // stream_options.include_usage
  bool continuous_usage_stats;  // and continuous_usage_stats; fall back when it answers 400

  MetricNames metrics;
  std::vector<EngineRoute> routes;  // what clients may call; all other routes stay closed
};

// The preset of a kind; for `command` the one of an unknown OpenAI-compatible server.
const EnginePreset& preset(EngineKind kind);

}  // namespace berth::config
