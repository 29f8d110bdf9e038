// What is right and wrong with a Slurm site, for `berth doctor`.
//
// Runs a handful of commands, each with the settings' deadline. `listing` is a list() made just
// before. Findings come in a fixed order, problems with what to do. Blocking. Threading: any.
#pragma once

#include <string_view>
#include <vector>

#include "sched/sched.h"
#include "sched/slurm_command.h"

namespace berth::sched {

std::vector<Finding> diagnose_slurm(const SlurmSettings& settings, const JobListing& listing);

// The part that only reads `scontrol show config` and `scontrol show partition -o`. Pure.
std::vector<Finding> judge_slurm_config(std::string_view config, std::string_view partitions,
                                        const SlurmSettings& settings);

}  // namespace berth::sched
