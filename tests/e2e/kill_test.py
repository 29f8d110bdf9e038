"""SIGKILL of `berth serve` under load, at random moments while services start, run and stop.

After each restart: the jobs that were there belong to their replicas as before, none was submitted
twice, none is orphaned, every command that was acknowledged is still true, and requests flow.

BERTH_KILL_ROUNDS (default 20): kills on each scheduler. BERTH_KILL_SEED (default 4).
"""

import json
import os
import random
import statistics
import threading
import time

import berth
import pytest
import slurm
import streams
from declared_test import service

ROUNDS = int(os.environ.get("BERTH_KILL_ROUNDS", "20"))
SEED = int(os.environ.get("BERTH_KILL_SEED", "4"))


class SlurmJobs:
    """Jobs by Slurm's own words, less those of other tests on the same cluster."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.others = {number for _, number in self.rows()}
        self.since = self.cluster.run("root", ["date", "+%Y-%m-%dT%H:%M:%S"])

    def rows(self):
        out = self.cluster.run("root", ["squeue", "-h", "-t", "PD,CF,R", "-u", berth.SERVICE_USER,
                                        "-o", "%j %A"])
        return [(row.split()[0], int(row.split()[1])) for row in out.splitlines()]

    def live(self):
        """(replica key, job id) of each job that is neither ended nor ending."""
        return [row for row in self.rows() if row[1] not in self.others]

    def ever(self):
        """The same of all jobs so far. A requeued job has several rows and one id: one job."""
        out = self.cluster.run("root", ["sacct", "-n", "-X", "-P", "-D", "-S", self.since, "-u",
                                        berth.SERVICE_USER, "-o", "JobName,JobIDRaw"])
        rows = {(name, int(number)) for name, number in
                (row.split("|") for row in out.splitlines())}
        return {row for row in rows if row[1] not in self.others}


class LocalJobs:
    def __init__(self, site):
        self.folder = f"{site.state}/jobs"

    def live(self):
        """One row for each shim that runs: two shims of a job would show."""
        rows = []
        for pid in slurm.processes():
            argv = slurm.proc_text(pid, "cmdline").split("\0")
            if len(argv) > 2 and argv[1] == "shim" and argv[2].startswith(self.folder):
                key = os.path.basename(argv[2])
                if slurm.alive(pid) and not os.path.exists(f"{self.folder}/{key}/status"):
                    rows.append((key, self.job_id(key)))
        return rows

    def job_id(self, key):
        with open(f"{self.folder}/{key}/spec") as f:
            return json.load(f)["id"]

    def ever(self):
        return {(key, self.job_id(key)) for key in os.listdir(self.folder)
                if os.path.exists(f"{self.folder}/{key}/spec")}


class Commands:
    """What was asked of Berth, and what may be true since. An acknowledged command leaves one
    possibility; one whose answer was lost leaves that and what was before."""

    def __init__(self, site):
        self.site = site
        # name -> counts of replicas; 0: stopped, "some": not stopped, None: no such service
        self.wanted = {}
        self.keys = []
        self.acknowledged = self.lost = 0

    def run(self, name, count, *args):
        before = self.wanted.get(name, {None})
        self.wanted[name] = before | {count}
        done = self.site.cli("alice", *args, check=False, timeout=30)
        if done.returncode == 0:
            self.wanted[name] = {count}
            self.acknowledged += 1
        else:
            self.lost += 1

    def create_key(self):
        done = self.site.admin("key", "create", f"k{len(self.keys)}", "--user", "alice",
                               check=False)
        if done.returncode == 0:
            self.keys.append(done.stdout.strip())
            self.acknowledged += 1

    def one(self, rng):
        """One random command that makes sense after what is known. At most three services at once;
        a removed one's name is not used again, as it may take a while to be free."""
        if rng.random() < 0.1:
            return self.create_key()
        there = [name for name, counts in self.wanted.items()
                 if name != "kept" and counts != {None}]
        size = rng.choice([1, 2])
        if len(there) < 3:
            there.append(f"s{len(self.wanted)}")
        name = rng.choice(there)
        counts = self.wanted.get(name, {None})
        if None in counts or len(counts) > 1:  # new, or this settles what was open
            return self.run(name, size, "apply", "-f", service(self.site, name, replicas=size))
        verb = "start" if counts == {0} else rng.choice(["scale", "stop", "rm"])
        if verb == "start":
            return self.run(name, "some", "start", name)  # as many as before it was stopped
        if verb == "scale":
            return self.run(name, size, "scale", name, str(size))
        return self.run(name, 0 if verb == "stop" else None, verb, name)

    def now(self, name):
        document = self.site.service("alice", name)
        if not document or document["wanted"] == "removed":
            return None
        return document["wanted_replicas"]

    def check(self):
        """That all of it holds; settles what was open."""
        for name, allowed in self.wanted.items():
            now = self.now(name)
            holds = now in allowed or (now and "some" in allowed)
            assert holds, f"{name}: {now} instead of {allowed}: {self.site.service('alice', name)}"
            self.wanted[name] = {now}
        for key in self.keys:
            status, body, _ = self.site.request("/v1/models",
                                                headers={"Authorization": f"Bearer {key}"})
            assert status == 200, body


class Load:
    """Streams without end in the background. They fail while the daemon is dead; none may be
    wrong: what arrives is in order, and a stream that says it is whole is whole."""

    def __init__(self, site, name):
        self.site, self.name, self.whole, self.wrong = site, name, 0, []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(100 * i,)) for i in range(3)]

    def _run(self, start):
        while not self.over.is_set():
            s = streams.count(self.site.url, self.name, start, 40, key=self.site.keys["alice"])
            if s.pieces != s.expected()[:len(s.pieces)] or s.done and s.pieces != s.expected():
                self.wrong.append(s)
            self.whole += s.done
            if not s.pieces:
                self.over.wait(0.05)  # the daemon is dead: do not spin

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture(params=["slurm", "local"])
def site(request, scratch):
    cluster = request.getfixturevalue("cluster") if request.param == "slurm" else None
    site = berth.Site(f"{scratch}/kill-{request.param}", cluster=cluster,
                      config={"local": {"max_jobs": 16}})
    site.jobs = SlurmJobs(cluster) if cluster else LocalJobs(site)
    site.start()
    site.key("alice", "gaia")
    yield site
    for s in services(site):
        site.cli("alice", "rm", s["name"], check=False)
    slurm.wait_until(lambda: not site.jobs.live(), 90, "the jobs to end")
    site.close()


def services(site):
    status, body, _ = site.request("/berth/v1/services", "alice")
    assert status == 200, body
    return body["services"]


def job_ids(site):
    """Replica key -> job id, 0 when not known, of all replicas that Berth shows."""
    return {r["key"]: r["job_id"] for s in services(site) for r in s["replicas"]}


def no_key_twice(rows):
    rows = set(rows)
    assert len({key for key, _ in rows}) == len(rows), f"submitted twice: {sorted(rows)}"


def check_jobs(site, before):
    """The jobs of before the kill are those of their replicas still, and none is nobody's."""
    no_key_twice(list(before.items()) + site.jobs.live())

    def adopted():
        known = job_ids(site)
        for key, number in before.items():
            assert known.get(key, 0) in (0, number), f"{key}: {known[key]} instead of {number}"
        live = site.jobs.live()
        no_key_twice(live)
        return all(known.get(key) == number for key, number in live)

    site.wait(adopted, 30, "every job to have its replica")


def kill_once(site, commands, rng):
    """Returns how long after the restart the first request was answered whole."""
    over = threading.Event()

    def work():
        while not over.is_set():
            commands.one(rng)

    worker = threading.Thread(target=work)
    worker.start()
    over.wait(rng.uniform(0.02, 1.5))  # the random moment
    site.kill()
    over.set()
    worker.join()
    before = site.jobs.live()
    no_key_twice(before)
    began = time.monotonic()
    site.start()
    site.wait(lambda: streams.count(site.url, "alice/kept", 7, 5, key=site.keys["alice"]).done, 20,
              "requests to flow again")
    took = time.monotonic() - began
    commands.check()
    check_jobs(site, dict(before))
    return took


def settled(site, commands):
    for name, counts in commands.wanted.items():
        rows = [r["state"] for r in site.service("alice", name).get("replicas", [])
                if r["state"] != "ended"]
        if rows != ["ready"] * (next(iter(counts)) or 0):
            return False
    return True


def test_killed_under_load(site, capsys):
    rng = random.Random(SEED)
    commands = Commands(site)
    commands.run("kept", 2, "apply", "-f", service(site, "kept", replicas=2))
    site.cli("alice", "wait", "kept", "--timeout", "60s", timeout=70)

    def kept():
        return {r["key"]: r["job_id"] for r in site.service("alice", "kept")["replicas"]}

    first, took = kept(), []
    with Load(site, "alice/kept") as load:
        for _ in range(ROUNDS):
            took.append(kill_once(site, commands, rng))
            assert kept() == first, ("replicas that nobody touched were replaced: " +
                                     json.dumps(site.service("alice", "kept")["replicas"]))
        # A submit that was under way at a kill is repeated only when it surely never arrived.
        site.wait(lambda: settled(site, commands), 120, "all services to be as asked for")
    assert load.whole > 0 and load.wrong == []
    known, live = job_ids(site), dict(site.jobs.live())
    assert live.items() <= known.items(), "a job that no replica has"
    no_key_twice(site.jobs.ever())
    with capsys.disabled():
        print(f"\n{'slurm' if site.cluster else 'local'}: {ROUNDS} kills (seed {SEED}), "
              f"{len(site.jobs.ever())} jobs, {commands.acknowledged} commands acknowledged, "
              f"{commands.lost} not; {load.whole} streams; first answer after a restart: median "
              f"{statistics.median(took):.2f} s, slowest {max(took):.2f} s")
