// Shell completion scripts, made from the command table. Pure.
//
// Names of services are asked of `berth ps --names`, quietly: without an answer nothing is offered.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace berth::cli {

std::string bash_completion(const std::vector<Command>& table);
std::string zsh_completion(const std::vector<Command>& table);

}  // namespace berth::cli
