// The table of all commands, and how one is run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

const std::vector<Command>& commands();

// What serve, agent and shim do is not known here: the program registers it by name before it runs
// a command. A role gets its parsed arguments and returns the exit status.
using Role = std::function<int(Context&, const Arguments&)>;
void set_role(std::string_view name, Role role);

// Runs what the words after "berth" ask for; usage mistakes are exit_usage.
int run_command(const std::vector<std::string>& words, Context& context);

std::string_view version();

}  // namespace berth::cli
