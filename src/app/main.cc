// The one program: commands of cli/, and the roles that are wired here.
#include <cstdio>

#include "app/wire_agent.h"
#include "app/wire_serve.h"
#include "base/log.h"
#include "cli/cmd_config.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "sched/shim.h"

namespace berth::app {
namespace {

LogLevel parse_log_level(const std::string& text) {
  if (text == "debug") return LogLevel::debug;
  if (text == "warn") return LogLevel::warn;
  if (text == "error") return LogLevel::error;
  return LogLevel::info;
}

int serve(cli::Context& context, const cli::Arguments& arguments) {
  auto loaded = cli::configuration(context, arguments);
  if (!loaded) {
    context.err("berth serve: " + loaded.error().message + "\n");
    return cli::exit_usage;
  }
  set_log_level(parse_log_level(loaded->config.log_level));
  auto reload = [&context, &arguments]() -> Result<config::Config> {
    auto again = cli::configuration(context, arguments);
    if (!again) return std::move(again).error();
    set_log_level(parse_log_level(again->config.log_level));
    return std::move(again->config);
  };
  return run_serve(loaded->config, reload);
}

int agent_role(cli::Context& context, const cli::Arguments& arguments) {
  auto options = agent_options(arguments);
  if (!options) {
    context.err("berth agent: " + options.error().message + "\n");
    return cli::exit_usage;
  }
  return agent::run_agent(*options);
}

int shim(cli::Context&, const cli::Arguments& arguments) {
  return sched::run_shim(arguments.positional(0));
}

}  // namespace
}  // namespace berth::app

int main(int argc, char** argv) {
  berth::cli::set_role("serve", berth::app::serve);
  berth::cli::set_role("agent", berth::app::agent_role);
  berth::cli::set_role("shim", berth::app::shim);
  return berth::cli::run_program(argc, argv);
}
