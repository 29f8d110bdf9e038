// Does the engine answer, as the right model?
//
// full(): the readiness route, then the list of models, which must name the right one, then a real
// request of one token (or an embedding), as the engine's preset says. light(): whether an engine
// that was ready is still well; one cheap request.
// A refused connection and an engine's "I load" are `loading`; anything else that is not the right
// answer is `wrong`, with the reason.
// `check_listener` is asked before an answer is believed: a foreign process that happens to listen
// on the port must not pass. Guarantees: never a proxy, never a redirect; every step has a limit.
// Threading: the loop's thread. Cost: at most five small requests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/engines.h"
#include "http/client.h"
#include "lifecycle/agent_lifecycle.h"

namespace berth::agent {

struct EngineTarget {
  runtime::Address address;        // in messages, and for a plain connection
  http::Dialer* dialer = nullptr;  // for a private network; may be null
  std::string key;                 // the engine's own key; may be empty
  const config::EnginePreset* preset = nullptr;
  std::vector<std::string> model_ids;      // accepted; empty: any
  std::function<Status()> check_listener;  // may be empty
};

struct ProbeAnswer {
  lifecycle::Probed::Verdict verdict = lifecycle::Probed::Verdict::loading;
  std::string detail;
  std::string served_model;
  std::optional<int64_t> context_length;
};

runtime::Task<ProbeAnswer> probe_full(runtime::Loop& loop, const EngineTarget& target);
runtime::Task<ProbeAnswer> probe_light(runtime::Loop& loop, const EngineTarget& target);

}  // namespace berth::agent
