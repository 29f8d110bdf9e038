// doctor: what is wrong, from this terminal to Slurm and the replicas.
#pragma once

#include "cli/command.h"
#include "cli/context.h"

namespace berth::cli {

// exit_failed when there is a problem; warnings alone are exit_ok.
int run_doctor(Context& context, const Arguments& arguments);

}  // namespace berth::cli
