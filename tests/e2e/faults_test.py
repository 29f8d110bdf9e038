"""Slurm freezes, dies, or its commands fail: no replica is declared dead, and requests flow."""

import json
import time

import berth
import pytest
import shims
import slurm
import streams
import upstream
from declared_test import service


@pytest.fixture(scope="module")
def site(scratch, cluster):
    """A daemon whose Slurm commands fail on demand, with a service of two ready replicas."""
    s = shims.Shims(f"{scratch}/shims", cluster.path())
    site = berth.Site(f"{scratch}/faults", cluster=cluster, bin_dir=s.bin)
    site.shims = s
    site.start()
    site.key("alice", "gaia")
    site.cli("alice", "apply", "-f", service(site, "solid", replicas=2))
    site.cli("alice", "wait", "solid", "--timeout", "60s", timeout=70)
    site.name = site.service("alice", "solid")["name"]
    yield site
    for name in shims.COMMANDS:
        s.set(name, "")
    site.cli("alice", "rm", "solid", check=False)
    site.wait(lambda: site.service("alice", "solid") == {}, 60, "the service to be gone")
    site.close()


def replicas(site):
    rows = site.service("alice", "solid")["replicas"]
    return {r["job_id"]: r["state"] for r in rows if r["state"] != "ended"}


def doctor(site):
    return site.cli("alice", "doctor", check=False, timeout=90).stdout


def holds(site, seconds):
    """For a while: all streams whole, both replicas ready, nothing submitted or cancelled."""
    before = replicas(site)
    submits, cancels = len(site.shims.calls("sbatch")), len(site.shims.calls("scancel"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for s in streams.count_many(4, site.url, site.name, 20, key=site.keys["alice"]):
            s.check(usage=True)
        assert replicas(site) == before
    assert len(site.shims.calls("sbatch")) == submits
    assert len(site.shims.calls("scancel")) == cancels


@pytest.mark.parametrize("mode", ["rc1", "empty", "cluster", "hang", "cut", "killed"])
def test_squeue_fails(site, mode):  # C03
    polls = len(site.shims.calls("squeue"))
    for name in ("squeue", "sacct"):
        site.shims.set(name, mode)
    try:
        site.wait(lambda: len(site.shims.calls("squeue")) > polls, 20, "a poll that fails")
        holds(site, 3)
    finally:
        for name in ("squeue", "sacct"):
            site.shims.set(name, "")
    polls = len(site.shims.calls("squeue"))
    site.wait(lambda: len(site.shims.calls("squeue")) > polls + 1, 60, "good polls")
    holds(site, 2)


def test_slurmctld_freezes(site, cluster):
    cluster.freeze("slurmctld")
    try:
        holds(site, 30)
        said = doctor(site)
    finally:
        cluster.thaw("slurmctld")
    assert "problem  slurmctld" in said and "problem  squeue" in said, said
    assert said.count("answers at") == 2, said  # the path to the replicas is fine
    holds(site, 3)


def test_slurmctld_is_killed(site, cluster):
    for job in replicas(site):
        cluster.wait_saved(job)
    cluster.kill("slurmctld")
    try:
        holds(site, 10)
    finally:
        cluster.start("slurmctld")
    cluster.wait_idle_or_busy()
    holds(site, 8)


def test_a_lost_reply_to_sbatch_is_adopted(site, cluster):
    before = len(site.shims.calls("sbatch"))
    site.shims.set("sbatch", "lost")
    try:
        site.cli("alice", "apply", "-f", service(site, "once"))
        site.wait(lambda: len(site.shims.calls("sbatch")) > before, 20, "the submit")
    finally:
        site.shims.set("sbatch", "")
    site.cli("alice", "wait", "once", "--timeout", "60s", timeout=70)
    live = [r for r in site.service("alice", "once")["replicas"] if r["state"] != "ended"]
    assert len(live) == 1 and len(site.shims.calls("sbatch")) == before + 1
    site.cli("alice", "rm", "once")


def test_a_proxy_in_the_environment_is_not_used(scratch, cluster):  # A03
    with upstream.TcpCounter() as proxy:
        there = f"http://127.0.0.1:{proxy.port}"
        variables = {n: there for n in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY",
                                        "ALL_PROXY", "all_proxy")}
        site = berth.Site(f"{scratch}/proxied", cluster=cluster, env=variables)
        site.start()
        try:
            site.key("alice", "gaia")
            path = service(site, "proxied", env=variables)
            site.cli("alice", "apply", "-f", path, env=variables)
            site.cli("alice", "wait", "proxied", "--timeout", "60s", timeout=70, env=variables)
            text = site.cli("alice", "ps", "proxied", "--json", env=variables).stdout
            document = json.loads(text)
            streams.count(site.url, document["name"], 1, 20, key=site.keys["alice"]).check(True)
            engine = [p for p in slurm.processes() if "serve.mjs" in slurm.proc_text(p, "cmdline")
                      and there in slurm.proc_text(p, "environ")]
            assert engine, "the engine must get the proxy: it may need it to download"
            site.cli("alice", "rm", "proxied")
            site.wait(lambda: site.service("alice", "proxied") == {}, 60, "the end")
        finally:
            site.close()
        assert proxy.connections == 0
