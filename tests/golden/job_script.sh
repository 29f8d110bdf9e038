#!/bin/bash
# berth-0123456789abcdef: written by Berth. Options are on the scheduler's command line; no #SBATCH counts here.
export BERTH_JOB_BEGAN=${EPOCHREALTIME:-$(date +%s.%N)}
berth_signal=
trap 'berth_signal=20' HUP INT TERM
trap 'berth_signal=0' USR1
trap : USR2
berth_fail() { printf 'berth: %s\n' "$2" >&2; exit "$1"; }
unset SRUN_CPUS_PER_TASK SLURM_TRES_PER_TASK
berth_bin=/shared/berth/bin/berth
[ -x "$berth_bin" ] ||
  berth_fail 97 "no executable $berth_bin on ${HOSTNAME:-this node}; can the node see it?"
berth_srun=$(command -v srun) ||
  berth_fail 97 "no srun in PATH=$PATH on ${HOSTNAME:-this node}"

export CUDA_LIST=0,1
export ML=$'l1\nl2'

# The service's setup.
berth_setup_ended() {
  local status=$?
  berth_fail 96 "setup failed with status $status${berth_at:+ at: ${berth_at:0:200}}"
}
IFS= read -r -d '' berth_setup <<'BERTH_SETUP_ENDS' || :
module load cuda
BERTH_SETUP_ENDS
berth_at=
trap berth_setup_ended EXIT
trap 'berth_at=$BASH_COMMAND' ERR
set -e
eval "$berth_setup"
set +eu
trap - EXIT ERR
trap 'berth_signal=20' HUP INT TERM
trap 'berth_signal=0' USR1
trap : USR2

[ -z "$berth_signal" ] || berth_fail "$berth_signal" 'told to stop before the engine was started'
"$berth_srun" --nodes=1 --ntasks=1 --cpus-per-task=16 --mpi=none --export=ALL \
  "$berth_bin" agent --service qwen3-coder-30b --token-file '/home/a b/token' \
  -- vllm serve /models/Qwen3 --uds '{uds}' --name 'it'\''s' </dev/null
exit $?
