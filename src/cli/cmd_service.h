// apply, plan, deploy, start, stop, restart, scale, rm: what changes a declared service.
#pragma once

#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

int run_apply(Context& context, const Arguments& arguments);
int run_plan(Context& context, const Arguments& arguments);
int run_deploy(Context& context, const Arguments& arguments);
int run_start(Context& context, const Arguments& arguments);
int run_stop(Context& context, const Arguments& arguments);
int run_restart(Context& context, const Arguments& arguments);
int run_scale(Context& context, const Arguments& arguments);
int run_rm(Context& context, const Arguments& arguments);

}  // namespace berth::cli
