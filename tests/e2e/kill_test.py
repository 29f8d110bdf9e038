"""SIGKILL of `berth serve` under load, twenty times at random moments: the same jobs are adopted,
none is submitted twice, none is orphaned, and no acknowledged command is lost."""

import random
import threading
import time

import berth
import pytest
import slurm
import streams
from declared_test import service

KILLS = 20


@pytest.fixture(params=["local"])
def site(request, scratch):
    cluster = request.getfixturevalue("cluster") if request.param == "slurm" else None
    config = {"local": {"max_jobs": 16}}
    site = berth.Site(f"{scratch}/kills-{request.param}", cluster=cluster, config=config)
    site.start()
    site.key("alice", "gaia")
    yield site
    site.close()


class Load:
    """Streams without end in the background. They fail while the daemon is dead; none may be
    wrong: what arrives is in order, and a stream that says it is whole is whole."""

    def __init__(self, site, name):
        self.site, self.name, self.whole, self.wrong = site, name, 0, []
        self.stopping = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.stopping:
            try:
                s = streams.count(self.site.url, self.name, 3, 40, key=self.site.keys["alice"])
            except OSError:  # no address file at this moment
                continue
            if s.pieces != s.expected()[:len(s.pieces)] or s.done and s.pieces != s.expected():
                self.wrong.append(s)
            self.whole += s.done
            if not s.pieces:
                time.sleep(0.05)  # the daemon is dead: do not spin

    def stop(self):
        self.stopping = True
        self.thread.join()


def live(site, name):
    return [r for r in site.service("alice", name).get("replicas", []) if r["state"] != "ended"]


def command(site, random_, wanted):
    """One random command. Returns what must hold once it was acknowledged: (name, replicas)."""
    name = random_.choice(["one", "two", "three"])
    verb = random_.choice(["apply", "apply", "scale", "stop", "start", "rm"])
    if verb == "apply":
        count = random_.randint(1, 2)
        args, after = ["apply", "-f", service(site, name, replicas=count)], count
    elif verb == "scale":
        count = random_.randint(1, 2)
        args, after = ["scale", name, str(count)], count
    elif verb in ("stop", "rm"):
        args, after = [verb, name], 0 if verb == "stop" else None
    else:
        args, after = ["start", name], "as declared"
    done = site.cli("alice", *args, check=False)
    if done.returncode == 0:
        wanted[name] = after
    elif done.returncode == 3:  # outcome unknown: either may hold
        wanted.pop(name, None)
    return done


def test_killed_twenty_times(site):
    random_ = random.Random(4)
    site.cli("alice", "apply", "-f", service(site, "base", replicas=2))
    site.cli("alice", "wait", "base", "--timeout", "60s", timeout=70)
    base = {r["job_id"] for r in live(site, "base")}
    load = Load(site, site.service("alice", "base")["name"])
    wanted, kills = {}, 0
    try:
        while kills < KILLS:
            stopper = threading.Timer(random_.uniform(0, 0.5), site.kill)
            stopper.start()
            for _ in range(3):
                command(site, random_, wanted)
            stopper.join()
            kills += 1
            site.start()
        site.cli("alice", "wait", "base", "--timeout", "60s", timeout=70)
        assert {r["job_id"] for r in live(site, "base")} == base, "the same jobs"
        for name, count in wanted.items():
            check_wanted(site, name, count)
        check_jobs(site)
    finally:
        load.stop()
        for name in ("base", "one", "two", "three"):
            site.cli("alice", "rm", name, check=False)
    assert load.whole > 0 and load.wrong == []
    site.wait(lambda: not any(live(site, n) for n in ("base", "one", "two", "three")), 90,
              "all jobs to end")
    check_jobs(site)


def check_wanted(site, name, count):
    """That an acknowledged command holds after all the kills."""
    if count is None:
        site.wait(lambda: site.service("alice", name) == {}, 60, f"{name} to be gone")
    elif count == "as declared":
        assert site.service("alice", name)["wanted"] == "running"
    else:
        site.wait(lambda: len(live(site, name)) == count and all(
            r["state"] == "ready" for r in live(site, name)), 60, f"{name} to have {count}")


def check_jobs(site):
    """No key has two jobs, and every live job belongs to a live replica."""
    if not site.cluster:
        return
    rows = site.cluster.run("root", ["squeue", "-h", "-u", berth.SERVICE_USER, "-t",
                                     "PD,R,CF", "-o", "%i %j"]).splitlines()
    ids, names = zip(*[row.split() for row in rows]) if rows else ((), ())
    assert len(set(names)) == len(names), f"a key with two jobs: {rows}"
    history = site.cluster.run("root", ["sacct", "-n", "-X", "-P", "-u", berth.SERVICE_USER, "-S",
                                        "00:00", "-o", "JobName"]).split()
    twice = {n for n in history if history.count(n) > 1}
    assert not twice, f"submitted twice: {twice}"

    def recorded():
        services = site.request("/berth/v1/services", "alice")[1]["services"]
        return {str(r["job_id"]) for s in services for r in s["replicas"] if r["state"] != "ended"}

    slurm.wait_until(lambda: set(ids) <= recorded() or not ids, 30, "no orphan",
                     lambda: f"{ids} in Slurm, {recorded()} recorded")
