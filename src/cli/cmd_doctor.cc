#include "cli/cmd_doctor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/call.h"
#include "cli/target.h"

namespace berth::cli {
namespace {

void say(Context& context, const std::string& level, const std::string& what,
         const std::string& detail) {
  Colour colour = level == "ok" ? Colour::green : level == "warning" ? Colour::yellow : Colour::red;
  std::string mark = painted(fmt::format("{:<8}", level), colour, paint_for(context));
  context.out(detail.empty() ? fmt::format("{} {}\n", mark, what)
                             : fmt::format("{} {}: {}\n", mark, what, detail));
}

bool is_loopback(const Target& t) {
  return t.scheme == Target::Scheme::unix_socket || t.host == "localhost" || t.host == "::1" ||
         t.host.starts_with("127.");
}

// What can be seen from here without asking.
void look_at_target(Context& context) {
  auto target = find_target(context.environment);
  if (!target) {
    say(context, "problem", "address of Berth", target.error().message);
    return;
  }
  say(context, "ok", "address of Berth", fmt::format("{} (from {})", target->url, target->source));
  if (target->key.empty() && target->scheme != Target::Scheme::unix_socket)
    say(context, "warning", "key", "none; set BERTH_KEY or `berth login`");
  if (!target->key.empty() && target->scheme == Target::Scheme::http && !is_loopback(*target))
    say(context, "warning", "key", "goes over the network without encryption; use https://");
}

}  // namespace

int run_doctor(Context& context, const Arguments& arguments) {
  bool json = arguments.has("--json");
  if (!json) look_at_target(context);
  ApiRequest request;
  request.path = "/berth/v1/doctor";
  request.timeout = seconds(120);  // it asks Slurm and each replica
  Answer answer = ask(context, "doctor", request, Effect::reads);
  if (!answer) {
    if (!json && answer.http_status == 0)
      say(context, "problem", "Berth answers",
          "no; is `berth serve` running, and does the address reach it from here?");
    return exit_failed;
  }
  Json document = answer.document();
  int problems = 0, warnings = 0;
  for (const Json& finding : list_of(document, "findings")) {
    std::string level = text_of(finding, "level");
    problems += level == "problem";
    warnings += level == "warning";
    if (!json) say(context, level, text_of(finding, "what"), text_of(finding, "detail"));
  }
  if (json)
    print_document(context, answer);
  else
    context.out(fmt::format("{} problems, {} warnings\n", problems, warnings));
  return problems == 0 ? exit_ok : exit_failed;
}

}  // namespace berth::cli
