#include "agent/hook_probe.h"

#include <fmt/format.h>

#include "agent/hook_output.h"

namespace berth::agent {
namespace {

using lifecycle::Probed;
using runtime::Loop;
using runtime::Task;

constexpr Duration kProbeConnectLimit = seconds(2);
constexpr Duration kAskLimit = seconds(10);
// The first real request may compile kernels.
constexpr Duration kRequestLimit = seconds(120);
constexpr size_t kMaxAnswer = size_t{4} << 20;

http::ClientRequest request_to(const EngineTarget& target, std::string_view method,
                               std::string_view path) {
  http::ClientRequest r;
  r.address = target.address;
  r.dialer = target.dialer;
  r.host = "localhost";
  r.method = method;
  r.target = path;
  if (!target.key.empty()) r.fields = "Authorization: Bearer " + target.key + "\r\n";
  r.connect_timeout = kProbeConnectLimit;
  r.deadline = kAskLimit;
  r.max_body = kMaxAnswer;
  return r;
}

ProbeAnswer loading(std::string detail) {
  return {Probed::Verdict::loading, std::move(detail), "", std::nullopt};
}
ProbeAnswer wrong(std::string detail) {
  return {Probed::Verdict::wrong, std::move(detail), "", std::nullopt};
}

// 503 is an engine's own word; 502 and 504 are those of what stands before one that does not
// answer yet.
bool says_loading(int status) { return status >= 502 && status <= 504; }

std::string describe(std::string_view method, std::string_view path,
                     const http::ClientResponse& answer) {
  std::string words = last_lines(std::string_view(answer.body).substr(0, 300), 300);
  return fmt::format("{} {} gave {}{}{}", method, path, answer.status, words.empty() ? "" : ": ",
                     words);
}

// nullopt: 200, or there is no such route to ask.
Task<std::optional<ProbeAnswer>> ask_health(Loop& loop, const EngineTarget& target) {
  std::string_view path = target.preset->health_path;
  if (path.empty()) co_return std::nullopt;
  auto answer = co_await http::fetch(loop, request_to(target, "GET", path));
  if (!answer) co_return loading(answer.error().message);
  if (answer->status == 200) co_return std::nullopt;
  if (says_loading(answer->status)) co_return loading(describe("GET", path, *answer));
  co_return wrong(describe("GET", path, *answer));
}

// Fills in the served model; a verdict other than `right` ends the probe.
Task<ProbeAnswer> ask_models(Loop& loop, const EngineTarget& target) {
  std::string_view path = target.preset->models_path;
  ProbeAnswer found;
  found.verdict = Probed::Verdict::right;
  if (path.empty()) co_return found;
  auto answer = co_await http::fetch(loop, request_to(target, "GET", path));
  if (!answer) co_return loading(answer.error().message);
  if (answer->status == 404 && target.preset->models_optional) co_return found;
  if (says_loading(answer->status)) co_return loading(describe("GET", path, *answer));
  if (answer->status != 200) co_return wrong(describe("GET", path, *answer));
  auto model = config::read_models(answer->body, target.model_ids);
  if (!model && model.error().code == Code::unavailable) co_return loading(model.error().message);
  if (!model) co_return wrong(model.error().message);
  found.served_model = model->id;
  found.context_length = model->context_length;
  co_return found;
}

// One request that makes the model work.
Task<ProbeAnswer> ask_for_work(Loop& loop, const EngineTarget& target, ProbeAnswer found) {
  std::string model = found.served_model;
  if (model.empty() && !target.model_ids.empty()) model = target.model_ids.front();
  std::string last = "the engine's preset has no request to try";
  for (const config::ProbeRequest& probe : target.preset->probes) {
    http::ClientRequest r = request_to(target, probe.method, probe.path);
    r.fields += "Content-Type: application/json\r\n";
    r.body = config::probe_body(probe, model);
    r.deadline = kRequestLimit;
    auto answer = co_await http::fetch(loop, std::move(r));
    if (!answer) co_return loading(answer.error().message);
    if (answer->status == 200) co_return found;
    last = describe(probe.method, probe.path, *answer);
    if (says_loading(answer->status)) co_return loading(last);
    if (!config::try_next_probe(answer->status)) co_return wrong(last);
  }
  // It lists the right model but does none of the requests that can be tried, as an engine for
  // speech. The list is then the proof.
  if (!found.served_model.empty()) co_return found;
  co_return wrong(last);
}

}  // namespace

Task<ProbeAnswer> probe_full(Loop& loop, const EngineTarget& target) {
  auto not_well = co_await ask_health(loop, target);
  if (not_well) co_return *not_well;
  ProbeAnswer found = co_await ask_models(loop, target);
  if (found.verdict != Probed::Verdict::right) co_return found;
  if (target.check_listener)
    if (Status ours = target.check_listener(); !ours) co_return wrong(ours.error().message);
  co_return co_await ask_for_work(loop, target, std::move(found));
}

Task<ProbeAnswer> probe_light(Loop& loop, const EngineTarget& target) {
  bool health = !target.preset->health_path.empty();
  std::string_view path = health ? target.preset->health_path : target.preset->models_path;
  ProbeAnswer well;
  well.verdict = Probed::Verdict::right;
  if (path.empty()) co_return well;
  auto answer = co_await http::fetch(loop, request_to(target, "GET", path));
  if (!answer) co_return wrong(answer.error().message);
  bool ok = answer->status == 200 || (!health && answer->status == 404);
  if (!ok) co_return wrong(describe("GET", path, *answer));
  co_return well;
}

}  // namespace berth::agent
