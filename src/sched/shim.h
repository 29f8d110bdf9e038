// `berth shim DIR`: the process beside each local job that keeps what Slurm's daemons would keep.
//
// It detaches from whoever started it, so that the job outlives the daemon; waits for a slot;
// starts the job's script in a session of its own with exactly the environment of the spec; adopts
// whatever the job's processes leave behind (PR_SET_CHILD_SUBREAPER), so that double forks do not
// escape.
//   before the time limit   SIGUSR1 to the script's process group, as Slurm signals a step
//   at the time limit       SIGTERM to every process of the job, SIGKILL after the kill wait
//   cancelled               the same; by LocalJobCancel::How::kill, SIGKILL at once
//   the script has ended    SIGKILL to whatever is left
// Then it writes how the job ended. A cancel or a time limit decides the state even when the
// script ends with 0 in the time it was given, as in Slurm; a job that ended before was told is
// what it was.
// If the shim itself is killed, the script dies with it (PR_SET_PDEATHSIG); other processes of the
// job go on until the local scheduler next looks, which kills those that still have the job's
// variable in their environment and records a node failure.
// Memory, processors and GPUs are not enforced.
#pragma once

#include <string>

namespace berth::sched {

// The variable by which processes of a job are found again: "BERTH_LOCAL_JOB=DIR".
inline constexpr const char* kLocalJobVariable = "BERTH_LOCAL_JOB";

// Returns in the caller once the shim has taken charge of the job (0) or could not (1; the reason
// is on standard error). Starting a second shim for a job is harmless: it sees the first and
// returns 0. Must be called from a process with one thread.
int run_shim(const std::string& dir);

}  // namespace berth::sched
