#include "cli/cmd_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/call.h"
#include "cli/cmd_wait.h"
#include "config/service_document.h"
#include "config/service_file.h"
#include "config/yaml_read.h"

namespace berth::cli {
namespace {

// One service to be declared: its name and the body of the PUT.
struct Put {
  std::string name;
  Json body;
};

Put put_of(Json spec, const std::string& project) {
  Put put;
  put.name = spec["name"].get<std::string>();
  put.body = {{"v", 1}, {"spec", std::move(spec)}};
  if (!project.empty()) put.body["project"] = project;
  return put;
}

// All services of all files, or nothing: what is wrong has been printed.
std::optional<std::vector<Put>> read_files(Context& context, const Arguments& arguments) {
  std::vector<Put> all;
  bool good = true;
  for (const std::string& path : arguments.values("--file")) {
    auto text = context.read_file(path);
    if (!text) {
      fail(context, text.error().message);
      good = false;
      continue;
    }
    auto services = config::parse_service_file(*text, path == "-" ? "standard input" : path);
    if (!services) {
      context.err(services.error().message + "\n");
      good = false;
      continue;
    }
    for (const auto& service : *services)
      all.push_back(put_of(config::to_json(service), arguments.value("--project")));
  }
  if (!good) return std::nullopt;
  return all;
}

std::string replicas_text(int64_t n) {
  return n == 1 ? "1 replica" : fmt::format("{} replicas", n);
}

void say_applied(Context& context, const Json& document) {
  std::string action = text_of(document, "action");
  std::string done = action == "create"   ? "created"
                     : action == "update" ? "updated"
                     : action == "none"   ? "unchanged"
                                          : "declared";
  context.out(fmt::format("{}: {}, {} wanted, {}\n", text_of(document, "name"), done,
                          replicas_text(number_of(document, "wanted_replicas")),
                          text_of(document, "status")));
}

// A list of texts as one would type it in a shell, or nearly.
std::string shown_list(const Json& list) {
  std::string text;
  for (const Json& item : list) {
    std::string word = item.is_string() ? item.get<std::string>() : dump_json(item);
    bool plain = !word.empty() && word.find_first_of(" \t\n'\"") == std::string::npos;
    text += fmt::format("{}{}", text.empty() ? "" : " ", plain ? word : dump_json(Json(word)));
  }
  return text;
}

std::string shown(const Json& value) {
  std::string text = value.is_string()  ? value.get<std::string>()
                     : value.is_array() ? shown_list(value)
                                        : dump_json(value);
  text = harmless(text);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.size() > 200 ? text.substr(0, 200) + "..." : text;
}

void say_plan(Context& context, const std::string& asked, const Json& document) {
  auto it = document.find("plan");
  Json plan = it != document.end() && it->is_object() ? *it : Json::object();
  std::string name = text_of(plan, "name");
  std::string action = text_of(plan, "action");
  context.out(fmt::format("{}: {}\n", name.empty() ? asked : name,
                          action == "none" ? "nothing to change" : action));
  for (const Json& change : list_of(plan, "changes")) {
    if (!change.is_object()) continue;
    Json from = change.value("from", Json()), to = change.value("to", Json());
    std::string path = text_of(change, "path");
    if (from.is_null())
      context.out(fmt::format("  + {}: {}\n", path, shown(to)));
    else if (to.is_null())
      context.out(fmt::format("  - {}: {}\n", path, shown(from)));
    else
      context.out(fmt::format("  ~ {}: {} -> {}\n", path, shown(from), shown(to)));
  }
  for (const Json& effect : list_of(plan, "effects"))
    if (effect.is_string()) context.out(fmt::format("  would {}\n", shown(effect)));
}

// What is worse of two exit statuses: not knowing, then failing.
int worse(int a, int b) {
  if (a == exit_unknown || b == exit_unknown) return exit_unknown;
  return std::max(a, b);
}

enum class Mode { apply, plan };

int put_all(Context& context, const Arguments& arguments, const std::vector<Put>& puts, Mode mode) {
  int status = exit_ok;
  std::vector<std::string> names;
  for (const Put& put : puts) {
    bool plan = mode == Mode::plan;
    std::string what = fmt::format("{} {}", plan ? "plan" : "apply", put.name);
    ApiRequest request{"PUT", service_path(put.name, plan ? "?plan=1" : ""), dump_json(put.body),
                       seconds(60)};
    Answer answer = ask(context, what, request, plan ? Effect::reads : Effect::changes);
    status = worse(status, answer.status);
    if (answer.status == exit_unknown) return status;  // more of the same would not help
    if (!answer) continue;
    names.push_back(text_of(answer.document(), "name"));
    if (arguments.has("--json"))
      print_document(context, answer);
    else if (plan)
      say_plan(context, put.name, answer.document());
    else
      say_applied(context, answer.document());
  }
  if (mode == Mode::plan || !arguments.has("--wait")) return status;
  for (const std::string& name : names)
    status = worse(status, wait_for(context, name, WaitFor::ready, std::nullopt));
  return status;
}

// "NAME=value" options as members.
Status add_pairs(Json& into, const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs) {
    size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalid_argument(fmt::format("--env must be NAME=VALUE, not \"{}\"", pair));
    into[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return {};
}

// The document that the options of `berth deploy` describe, in the words of a service file.
Result<Json> deployed_spec(Context& context, const Arguments& a) {
  Json spec = {{"name", a.positional(0)}};
  for (const char* option :
       {"--engine", "--model", "--replicas", "--isolation", "--served-model-name", "--load-timeout",
        "--drain-grace", "--log-dir"}) {
    std::string member = std::string(option).substr(2);
    std::replace(member.begin(), member.end(), '-', '_');
    if (a.has(option)) spec[member] = a.value(option);
  }
  bool command = a.value("--engine") == "command" || !a.has("--engine");
  if (!a.rest.empty()) spec[command ? "command" : "args"] = a.rest;
  Json slurm = Json::object();
  for (const char* option : {"--partition", "--account", "--qos", "--reservation", "--constraint",
                             "--gpus", "--cpus-per-task", "--mem", "--time"})
    if (a.has(option)) slurm[std::string(option).substr(2)] = a.value(option);
  if (!slurm.empty()) spec["slurm"] = slurm;
  Json env = Json::object();
  if (Status ok = add_pairs(env, a.values("--env")); !ok) return ok.error();
  if (!env.empty()) spec["env"] = env;
  if (a.has("--setup")) {
    auto text = context.read_file(a.value("--setup"));
    if (!text) return std::move(text).error();
    spec["setup"] = *text;
  }
  Json access = Json::object();
  if (a.has("--access-public")) access["public"] = true;
  for (const char* who : {"project", "user", "group"})
    if (auto names = a.values(std::string("--access-") + who); !names.empty())
      access[std::string(who) + "s"] = names;
  if (!access.empty()) spec["access"] = access;
  if (auto checked = config::parse_service_document(spec); !checked)
    return std::move(checked).error();
  if (!a.has("--engine")) spec["engine"] = "command";
  return spec;
}

std::string jobs_text(int64_t n) { return n == 1 ? "1 job" : fmt::format("{} jobs", n); }

int64_t living(const Json& document) {
  int64_t n = 0;
  for (const Json& replica : list_of(document, "replicas"))
    if (text_of(replica, "state") != "ended") ++n;
  return n;
}

// What was asked, and how far it is from being so at this moment.
void say_asked(Context& context, const std::string& action, const Json& document) {
  std::string how;
  int64_t jobs = living(document), wanted = number_of(document, "wanted_replicas");
  if (action == "stop")
    how = jobs == 0 ? "it has no job" : jobs_text(jobs) + " to end";
  else
    how = fmt::format("{}/{} ready now", number_of(document, "ready"), wanted);
  std::string to = action == "scale" ? fmt::format("scale to {}", wanted) : action;
  context.out(fmt::format("{}: asked to {}; {}\n", text_of(document, "name"), to, how));
}

int act(Context& context, const Arguments& arguments, const std::string& action, Json more) {
  std::string name = arguments.positional(0);
  Json body = {{"v", 1}, {"action", action}};
  body.update(more);
  Answer answer = change(context, fmt::format("{} {}", action, name), "POST",
                         service_path(name, "/actions"), &body);
  if (!answer) return answer.status;
  if (arguments.has("--json")) {
    print_document(context, answer);
  } else {
    say_asked(context, action, answer.document());
  }
  if (!arguments.has("--wait")) return exit_ok;
  WaitFor state = action == "stop" ? WaitFor::stopped : WaitFor::ready;
  return wait_for(context, name, state, std::nullopt);
}

}  // namespace

int run_apply(Context& context, const Arguments& arguments) {
  auto puts = read_files(context, arguments);
  return puts ? put_all(context, arguments, *puts, Mode::apply) : exit_failed;
}

int run_plan(Context& context, const Arguments& arguments) {
  auto puts = read_files(context, arguments);
  return puts ? put_all(context, arguments, *puts, Mode::plan) : exit_failed;
}

int run_deploy(Context& context, const Arguments& arguments) {
  auto spec = deployed_spec(context, arguments);
  if (!spec) {
    context.err(spec.error().message + "\n");
    return exit_failed;
  }
  Mode mode = arguments.has("--plan") ? Mode::plan : Mode::apply;
  return put_all(context, arguments, {put_of(std::move(*spec), arguments.value("--project"))},
                 mode);
}

int run_start(Context& context, const Arguments& arguments) {
  return act(context, arguments, "start", Json::object());
}

int run_stop(Context& context, const Arguments& arguments) {
  return act(context, arguments, "stop", Json::object());
}

int run_restart(Context& context, const Arguments& arguments) {
  return act(context, arguments, "restart", Json::object());
}

int run_scale(Context& context, const Arguments& arguments) {
  std::string why;
  auto n = config::parse_integer(arguments.positional(1), why);
  if (!n || *n < 0 || *n > 1000)
    return fail(context, "scale: REPLICAS must be a number from 0 to 1000", exit_usage);
  return act(context, arguments, "scale", Json{{"replicas", *n}});
}

int run_rm(Context& context, const Arguments& arguments) {
  std::string name = arguments.positional(0);
  Answer answer = change(context, "rm " + name, "DELETE", service_path(name), nullptr);
  if (!answer) return answer.status;
  Json document = answer.document();
  if (arguments.has("--json"))
    print_document(context, answer);
  else if (int64_t jobs = living(document); jobs > 0)
    context.out(fmt::format("{}: asked to remove; gone when {} ended\n", text_of(document, "name"),
                            jobs == 1 ? "its job has" : jobs_text(jobs) + " have"));
  else
    context.out(fmt::format("{}: removed; it had no job\n", text_of(document, "name")));
  if (!arguments.has("--wait")) return exit_ok;
  return wait_for(context, name, WaitFor::gone, std::nullopt);
}

}  // namespace berth::cli
