// config check, config show: the daemon's configuration, read as `berth serve` would.
#pragma once

#include "base/result.h"
#include "cli/command.h"
#include "cli/context.h"
#include "config/option.h"

namespace berth::cli {

// The options of `berth serve` and `berth config show`: --config, --state, --listen,
// --health-listen, --scheduler, --role, and --set NAME=VALUE for every other one.
std::vector<Option> config_options();

// What these options, the environment and the file amount to.
Result<config::LoadedConfig> configuration(const Context& context, const Arguments& arguments);

int run_config_check(Context& context, const Arguments& arguments);
int run_config_show(Context& context, const Arguments& arguments);

}  // namespace berth::cli
