// How a process ended, in words: "exit status 3", "killed by signal 4 (SIGILL)".
//
// Takes what the agent or the scheduler knows: an exit status, or the number of the signal that
// ended it. A status of 128 + N is how shells and Slurm report signal N, and is said as that
// signal. The words follow "the engine ended: ". Pure; any numbers in.
#pragma once

#include <optional>
#include <string>

namespace berth {

std::string describe_exit(std::optional<int> exit_code, std::optional<int> signal);

}  // namespace berth
