// Help texts and the command reference, made from the table. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace berth::cli {

// `berth --help`: at most 24 lines of 80 columns.
std::string overview(const std::vector<Command>& table, std::string_view version);
// `berth COMMAND --help`.
std::string command_help(const Command& command);
// `berth key`: the commands that begin with this word; "" when none does.
std::string group_help(const std::vector<Command>& table, std::string_view word);
// docs/ref/cli.md.
std::string cli_reference(const std::vector<Command>& table);

}  // namespace berth::cli
