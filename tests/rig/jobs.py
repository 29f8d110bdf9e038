"""Batch scripts that register themselves at a Berth site: what a user writes by hand.

    job = SelfRegistered(site, "alice", "numbers", "-A", "gaia")
    job.wait_listed("alice")             # in the catalogue, as alice sees it
    job.name                             # "alice/numbers"
"""

import os
import shlex

import slurm


class SelfRegistered:
    """One job of one user. `engine` are further arguments of the tiny engine; `tcp` makes it an
    engine that knows no UNIX socket; `agent` are further arguments of berth agent."""

    def __init__(self, site, user, service, *sbatch, engine=(), tcp=False, agent=()):
        self.site, self.cluster, self.user = site, site.cluster, user
        self.service, self.name = service, f"{user}/{service}"
        where = ["--host", "{host}", "--port", "{port}"] if tcp else ["--uds", "{uds}"]
        command = [site.tools.berth, "agent", "--url", site.url, "--service", service,
                   "--munge-socket", f"{site.cluster.dir}/run/munge.sock", *agent, "--",
                   *site.tools.engine("--served-model-name", service, *where, *engine)]
        self.log = f"{self.cluster.shared}/{user}-{service.replace('/', '-')}-%j.log"
        self.id = self.cluster.sbatch(user, f"exec {shlex.join(command)}\n", "-o", self.log,
                                      "--no-requeue", *sbatch)
        self.log = self.log.replace("%j", str(self.id))

    def output(self):
        try:
            with open(self.log, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return "(no output yet)"

    def wait_listed(self, seen_by, seconds=30):
        """Until the catalogue shows the service as ready."""
        def listed():
            state = self.cluster.job(self.id).get("JobState", "")
            if state not in ("PENDING", "CONFIGURING", "RUNNING", ""):
                raise AssertionError(f"job {self.id} is {state}:\n{self.output()}")
            entry = self.site.models(seen_by).get(self.name)
            return entry is not None and entry.get("state", "ready") == "ready"
        try:
            slurm.wait_until(listed, seconds, f"{self.name} in the catalogue")
        except slurm.RigError as e:
            raise AssertionError(f"{e}\n{self.output()}\n{self.site.tail()}") from e
        return self

    def listed(self, seen_by):
        return self.name in self.site.models(seen_by)

    def cancel(self):
        self.cluster.run(self.user, ["scancel", str(self.id)])

    def processes(self):
        """Pids of the job: agent, engine and what they started."""
        return self.cluster.job_processes({str(self.id)})

    def process(self, program):
        """The pid of a process of the job that runs `program`, such as "node"."""
        for pid in self.processes():
            argv = self.argv(pid)
            if argv and os.path.basename(argv[0]) == program:
                return pid
        raise AssertionError(f"no {program} in job {self.id}:\n{self.output()}")

    def engine_and_agent(self):
        """Their pids. (The agent has a child that runs the same program: it watches signals.)"""
        engine = self.process("node")
        return engine, int(slurm.proc_text(engine, "stat").rpartition(")")[2].split()[1])

    def argv(self, pid):
        return slurm.proc_text(pid, "cmdline").split("\0")[:-1]
