#include "cli/cmd_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/nearest.h"
#include "cli/call.h"

namespace berth::cli {
namespace {

constexpr std::pair<const char*, const char*> kOwnFlags[] = {{"--state", "state_dir"},
                                                             {"--listen", "listen"},
                                                             {"--health-listen", "health_listen"},
                                                             {"--scheduler", "scheduler"},
                                                             {"--role", "role"}};

Status add_settings(const Arguments& arguments, config::ConfigInput& input) {
  for (const auto& [flag, name] : kOwnFlags)
    if (arguments.has(flag)) input.command_line.emplace_back(name, arguments.value(flag));
  for (const std::string& setting : arguments.values("--set")) {
    std::string name = setting.substr(0, setting.find('='));
    std::vector<std::string> names;
    for (const config::Option& o : config::options()) names.emplace_back(o.name);
    if (!config::find_option(name))
      return invalid_argument(
          fmt::format("--set {}: unknown option{}", setting, did_you_mean(name, names)));
    if (name.size() == setting.size())
      return invalid_argument(fmt::format("--set must be NAME=VALUE, not \"{}\"", setting));
    input.command_line.emplace_back(name, setting.substr(name.size() + 1));
  }
  return {};
}

std::string_view origin_name(config::Origin origin) {
  switch (origin) {
    case config::Origin::fallback:
      return "default";
    case config::Origin::file:
      return "file";
    case config::Origin::environment:
      return "environment";
    case config::Origin::command_line:
      return "command_line";
  }
  return "default";
}

}  // namespace

std::vector<Option> config_options() {
  return {
      {"--config", 'c', "FILE", "configuration file, YAML", Repeat::once, Completes::files},
      {"--state", 0, "DIR", "where the state goes", Repeat::once, Completes::folders},
      {"--listen", 0, "ADDR:PORT", "address of gateway and API; port 0: any free one"},
      {"--health-listen", 0, "ADDR:PORT", "address of /health and /metrics"},
      {"--scheduler",
       0,
       "KIND",
       "what runs the jobs",
       Repeat::once,
       Completes::choices,
       {"auto", "slurm", "local"}},
      {"--role",
       0,
       "ROLE",
       "what this process is",
       Repeat::once,
       Completes::choices,
       {"all", "gateway", "controller"}},
      {"--set", 0, "NAME=VALUE", "any other option of the configuration", Repeat::many},
  };
}

Result<config::LoadedConfig> configuration(const Context& context, const Arguments& arguments) {
  config::ConfigInput input;
  input.environment = context.environment;
  std::string path = arguments.value("--config");
  if (!path.empty()) {
    auto text = context.read_file(path);
    if (!text) return std::move(text).error();
    input.file_name = path;
    input.file_text = std::move(*text);
  }
  if (Status ok = add_settings(arguments, input); !ok) return ok.error();
  return config::load_config(input);
}

int run_config_check(Context& context, const Arguments& arguments) {
  config::ConfigInput input;
  // The file alone: what this terminal's environment says is not in question.
  for (const char* name : {"HOME", "PWD"}) input.environment[name] = context.variable(name);
  if (input.environment["HOME"].empty()) input.environment["HOME"] = "/";
  input.file_name = arguments.positional(0);
  auto text = context.read_file(input.file_name);
  if (!text) return fail(context, text.error().message);
  input.file_text = std::move(*text);
  auto loaded = config::load_config(input);
  if (!loaded) {
    context.err(loaded.error().message + "\n");
    return exit_failed;
  }
  context.out(fmt::format("{}: good\n", input.file_name));
  return exit_ok;
}

int run_config_show(Context& context, const Arguments& arguments) {
  auto loaded = configuration(context, arguments);
  if (!loaded) {
    context.err(loaded.error().message + "\n");
    return exit_failed;
  }
  if (!arguments.has("--json")) {
    context.out(config::show_config(*loaded));
    return exit_ok;
  }
  Json options = Json::array();
  for (const config::Setting& s : loaded->settings)
    options.push_back({{"name", s.name},
                       {"value", s.value},
                       {"origin", origin_name(s.origin)},
                       {"place", s.place}});
  context.out(dump_json(Json{{"v", 1}, {"options", options}}) + "\n");
  return exit_ok;
}

}  // namespace berth::cli
