"""Slurm's commands with faults on demand.

    shims = Shims(DIR, path=cluster.path())      # DIR/bin/squeue, sbatch, ...
    shims.set("squeue", "hang")                  # until shims.set("squeue", "")
    shims.calls("sbatch")                        # the arguments of each call so far

Give DIR/bin as the folder of Slurm's commands. Each command runs the real one unless a mode is set:

  rc1      status 1, an error on standard error, nothing on standard output
  empty    status 0, nothing on standard output, an error on standard error
  cluster  status 0, only a line "CLUSTER: berth"
  hang     never ends
  cut      the real answer, cut in the middle of a line, status 0
  killed   dies of SIGKILL
  lost     does what it was asked, then loses the reply: the error of a timeout, status 1
"""

import os

COMMANDS = ["squeue", "sacct", "sbatch", "scancel", "scontrol", "sinfo", "sacctmgr", "srun"]
MODES = {"", "rc1", "empty", "cluster", "hang", "cut", "killed", "lost"}

SCRIPT = """#!/bin/bash
name=$(basename "$0") home=$(dirname "$(dirname "$(realpath "$0")")")
{ printf '%s' "$name"; printf '\\x1f%s' "$@"; printf '\\x1e'; } >>"$home/calls"
real=$(PATH=@PATH@ command -v "$name")
case "$(cat "$home/mode/$name" 2>/dev/null)" in
  '') exec "$real" "$@" ;;
  rc1) echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2
       exit 1 ;;
  empty) echo "$name: error: Socket timed out on send/recv operation" >&2; exit 0 ;;
  cluster) echo "CLUSTER: berth"; exit 0 ;;
  hang) exec sleep 3600 ;;
  cut) out=$("$real" "$@"); printf '%s' "${out:0:$(((${#out} + 1) / 2 + 1))}"; exit 0 ;;
  killed) kill -KILL $$ ;;
  lost) "$real" "$@" >/dev/null
        echo "$name: error: Socket timed out on send/recv operation" >&2; exit 1 ;;
esac
"""


class Shims:
    def __init__(self, directory, path):
        self.dir, self.bin = directory, f"{directory}/bin"
        os.makedirs(self.bin)
        os.makedirs(f"{directory}/mode")
        for name in COMMANDS:
            with open(f"{self.bin}/{name}", "w") as f:
                f.write(SCRIPT.replace("@PATH@", path))
            os.chmod(f"{self.bin}/{name}", 0o755)
        open(f"{directory}/calls", "w").close()
        os.chmod(f"{directory}/calls", 0o666)

    def set(self, name, mode):
        assert name in COMMANDS and mode in MODES, (name, mode)
        with open(f"{self.dir}/mode/{name}", "w") as f:
            f.write(mode)

    def calls(self, name):
        with open(f"{self.dir}/calls") as f:
            rows = [row.split("\x1f") for row in f.read().split("\x1e") if row]
        return [row[1:] for row in rows if row[0] == name]
