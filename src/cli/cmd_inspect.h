// ps, explain, events, logs: what is there, why, what happened, and what the engine says.
#pragma once

#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

int run_ps(Context& context, const Arguments& arguments);
int run_explain(Context& context, const Arguments& arguments);
int run_events(Context& context, const Arguments& arguments);
int run_logs(Context& context, const Arguments& arguments);

}  // namespace berth::cli
