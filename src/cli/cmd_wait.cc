#include "cli/cmd_wait.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/call.h"

namespace berth::cli {
namespace {

constexpr Duration kLook = seconds(1);
constexpr Duration kPatience = seconds(30);

std::string_view state_name(WaitFor state) {
  switch (state) {
    case WaitFor::ready:
      return "ready";
    case WaitFor::stopped:
      return "stopped";
    case WaitFor::gone:
      return "gone";
  }
  return "ready";
}

enum class Verdict { reached, hopeless, not_yet };

// A service that is stopped may still have jobs that are on their way out.
bool has_living_replica(const Json& document) {
  if (!document.contains("replicas")) return false;
  for (const Json& replica : document["replicas"])
    if (text_of(replica, "state") != "ended") return true;
  return false;
}

Verdict judge(const Json& document, WaitFor state) {
  std::string status = text_of(document, "status");
  if (state == WaitFor::stopped)
    return status == "stopped" && !has_living_replica(document) ? Verdict::reached
                                                                : Verdict::not_yet;
  if (state == WaitFor::gone) return Verdict::not_yet;
  bool rolling = number_of(document, "older_replicas") > 0;
  if (status == "ready") return rolling ? Verdict::not_yet : Verdict::reached;
  if (status == "failed" || status == "stopped") return Verdict::hopeless;
  return Verdict::not_yet;
}

std::string line_of(const Json& document) {
  std::string text =
      fmt::format("{}: {}, {}/{} ready", text_of(document, "name"), text_of(document, "status"),
                  number_of(document, "ready"), number_of(document, "wanted_replicas"));
  std::string more = status_words(document);
  if (int64_t older = number_of(document, "older_replicas"); older > 0)
    more = fmt::format("{} of before still serve", older);
  bool says_more = !more.empty() && text_of(document, "status") != "ready";
  return says_more || number_of(document, "older_replicas") > 0 ? text + " (" + more + ")" : text;
}

// A line without the times in it, which change with every look.
std::string without_times(std::string line) {
  for (std::string_view before : {", since ", "estimated start in ", " in "})
    for (size_t at = 0; (at = line.find(before, at)) != std::string::npos;) {
      size_t end = line.find_first_of(",:;)", at + 1);
      line.erase(at, end == std::string::npos ? end : end - at);
    }
  return line;
}

}  // namespace

int wait_for(Context& context, const std::string& name, WaitFor state,
             std::optional<Duration> limit, AtTheEnd end) {
  Instant begun = context.now(), answered = begun;
  std::string said;
  bool seen = false;  // a service that was there and is not any more has been removed
  for (;;) {
    auto api = context.api();
    if (!api) return fail(context, api.error().message);
    auto reply = (*api)->call(ApiRequest{"GET", service_path(name), "", seconds(10)});
    if (!reply || reply->status >= 500) {  // Berth restarts, or a proxy says that it does
      if (context.now() - answered > kPatience)
        return fail(context, fmt::format("wait {}: {}", name,
                                         reply ? error_message(reply->status, reply->body)
                                               : reply.error().message));
    } else if (reply->status == 404 &&
               (state == WaitFor::gone || (seen && state == WaitFor::stopped))) {
      return exit_ok;
    } else if (reply->status >= 400 && reply->status < 500) {
      return fail(context,
                  fmt::format("wait {}: {}", name, error_message(reply->status, reply->body)));
    } else if (reply->status == 200) {
      answered = context.now();
      seen = true;
      Answer answer{exit_ok, 200, reply->body};
      Json document = answer.document();
      std::string line = line_of(document);
      if (without_times(line) != said) context.err(line + "\n");
      said = without_times(line);
      Verdict verdict = judge(document, state);
      if (verdict == Verdict::reached)
        return end == AtTheEnd::print_document ? print_document(context, answer) : exit_ok;
      if (verdict == Verdict::hopeless)
        return fail(context, fmt::format("{} will not get ready by itself; see `berth explain {}`",
                                         name, name));
    }
    Duration waited = context.now() - begun;
    if (limit && waited >= *limit)
      return fail(context, fmt::format("{} is not {} after {}; see `berth explain {}`", name,
                                       state_name(state), to_human(waited), name));
    Duration pause = limit ? std::min(kLook, *limit - waited) : kLook;
    if (!context.sleep(pause)) return fail(context, "interrupted");
  }
}

int run_wait(Context& context, const Arguments& arguments) {
  std::optional<Duration> limit;
  if (arguments.has("--timeout")) {
    limit = parse_duration(arguments.value("--timeout"));
    if (!limit)
      return fail(context, "wait: --timeout must be a time such as 90s or 10m", exit_usage);
  }
  std::string wanted = arguments.value("--for");
  WaitFor state = wanted == "stopped" ? WaitFor::stopped
                  : wanted == "gone"  ? WaitFor::gone
                                      : WaitFor::ready;
  AtTheEnd end = arguments.has("--json") ? AtTheEnd::print_document : AtTheEnd::say_nothing;
  return wait_for(context, arguments.positional(0), state, limit, end);
}

}  // namespace berth::cli
