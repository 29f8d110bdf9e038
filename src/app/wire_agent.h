// `berth agent`: from the command line's arguments to agent/agent.h.
#pragma once

#include "agent/agent.h"
#include "base/result.h"
#include "cli/command.h"

namespace berth::app {

// invalid_argument names the option that cannot be read.
Result<agent::AgentOptions> agent_options(const cli::Arguments& arguments);

}  // namespace berth::app
