"""A user's own batch script brings a model into the catalogue, and takes it out when it ends."""

import statistics
import threading
import time

import clients
import jobs
import pytest
import streams

OPENAI = ["models", "chat", "stream", "stream_usage", "completion", "abort", "abort_silent",
          "unknown_model", "wrong_key"]


@pytest.fixture(scope="module")
def numbers(slurm_site):
    """Two replicas of alice's service, in two jobs."""
    options = ["-A", "gaia", "-t", "30"]
    pair = [jobs.SelfRegistered(slurm_site, "alice", "numbers", *options,
                                engine=["--max-num-seqs", "16", "--max-model-len", "2048"])
            for _ in range(2)]
    for job in pair:
        job.wait_listed("alice")
    slurm_site.wait(lambda: ready_leases(slurm_site, pair[0].name) == 2, 30, "two replicas")
    yield pair
    for job in pair:
        job.cancel()


def ready_leases(site, name):
    leases = site.service("alice", name).get("leases", [])
    return sum(1 for lease in leases if lease["state"] == "ready")


def test_the_catalogue_shows_it_to_its_project(slurm_site, numbers):
    entry = slurm_site.models("alice")["alice/numbers"]
    assert entry["owned_by"] == "alice" and entry["state"] == "ready"
    assert entry["context_length"] == 2048
    assert "alice/numbers" in slurm_site.models("bob")  # bob's key pays from gaia, too
    assert "alice/numbers" not in slurm_site.models("carol")


def test_the_openai_sdk(slurm_site, numbers, sdk):
    seen = sdk("openai", slurm_site.url, slurm_site.keys["alice"], "alice/numbers", *OPENAI)
    clients.check_openai(seen, "alice/numbers")


def test_the_ai_sdk(slurm_site, numbers, sdk):
    seen = sdk("ai", slurm_site.url, slurm_site.keys["alice"], "alice/numbers", "generate",
               "stream", "stream_usage", "abort")
    clients.check_ai(seen)


def test_32_streams_through_two_replicas(slurm_site, numbers):
    key = slurm_site.keys["alice"]
    for usage in (True, False):
        for s in streams.count_many(32, slurm_site.url, "alice/numbers", 50, key=key, usage=usage):
            s.check(usage=usage)


def test_no_event_waits_for_the_next(slurm_site):
    """The engine pauses 60 ms between pieces: a relay that held one back would deliver pairs."""
    job = jobs.SelfRegistered(slurm_site, "alice", "slow", "-A", "gaia",
                              engine=["--token-delay-ms", "60"]).wait_listed("alice")
    try:
        s = streams.count(slurm_site.url, job.name, 5, 20, key=slurm_site.keys["alice"])
        s.check(usage=True)
        assert len(set(s.reads)) == 20
        assert 0.05 < statistics.median(s.gaps()) < 0.1 and min(s.gaps()) > 0.02
    finally:
        job.cancel()


def leaves_within(site, name, seconds):
    began = time.monotonic()
    site.wait(lambda: name not in site.models("alice"), seconds + 5, f"{name} to leave")
    took = time.monotonic() - began
    assert took < seconds, f"{name} left after {took:.1f} s"


def test_it_leaves_with_its_job(slurm_site):
    job = jobs.SelfRegistered(slurm_site, "alice", "short", "-A", "gaia").wait_listed("alice")
    job.cancel()
    leaves_within(slurm_site, job.name, 2)
    slurm_site.cluster.wait_job(job.id, "CANCELLED")


def test_it_leaves_within_the_ttl_when_everything_is_killed(slurm_site):
    job = jobs.SelfRegistered(slurm_site, "alice", "lost", "-A", "gaia", "-p", "mig")
    job.wait_listed("alice")
    cluster, node = slurm_site.cluster, slurm_site.cluster.job(job.id)["NodeList"]
    cluster.lose_node(node)
    try:
        leaves_within(slurm_site, job.name, 10.5)
    finally:
        cluster.run("root", ["scontrol", "update", f"nodename={node}", "state=down", "reason=test"])
        cluster.start(f"slurmd-{node}")
        cluster.wait_idle_or_busy()


def test_a_stream_in_flight_ends_whole_when_the_job_is_told_to_end(slurm_site):
    job = jobs.SelfRegistered(slurm_site, "alice", "ending", "-A", "gaia",
                              engine=["--token-delay-ms", "40"]).wait_listed("alice")
    result = []

    def ask():
        result.append(streams.count(slurm_site.url, job.name, 0, 400, key=slurm_site.keys["alice"]))

    thread = threading.Thread(target=ask)
    thread.start()
    slurm_site.wait(lambda: "Queuing request 2" in job.output(), 10, "the stream")
    slurm_site.cluster.run("alice", ["scancel", "--batch", "--signal=USR1", str(job.id)])
    slurm_site.wait(lambda: job.name not in slurm_site.models("alice"), 10,
                    "it to leave the catalogue")
    assert result == [], "the stream must be in flight still"
    thread.join(60)
    result[0].check(usage=True)
    slurm_site.cluster.wait_job(job.id, "COMPLETED")
