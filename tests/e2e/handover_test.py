"""A job's time limit strikes, again and again, and no client notices."""

import json

import load
import pytest
from declared_test import service

LIMIT = "0:01:00"  # Slurm's limits are whole minutes


@pytest.fixture(scope="module")
def short(slurm_site):
    site = slurm_site
    path = service(site, "short", slurm={"partition": "cpu", "account": "gaia", "time": LIMIT})
    site.cli("alice", "apply", "-f", path)
    site.cli("alice", "wait", "short", "--timeout", "60s", timeout=70)
    yield site, site.service("alice", "short")["name"]
    site.cli("alice", "rm", "short")


def events(site, kind):
    out = site.cli("alice", "events", "short", "-n", "1000", "--json").stdout
    return [e for e in json.loads(out)["events"] if e["kind"] == kind]


def test_streams_go_on_while_replicas_are_handed_over(short):
    site, name = short
    with load.Load(site.url, name, site.keys["alice"], clients=16) as running:
        site.wait(lambda: len(events(site, "handover")) >= 3, 240, "three handovers")
        text = site.cli("alice", "explain", "short").stdout
    print(site.cli("alice", "events", "short").stdout)
    running.check()
    assert running.answers > 100
    assert "handover" in text or "handed over" in text, text
    # Learnt: the later leads are by starts that were measured.
    assert "by " in events(site, "handover")[0]["text"], events(site, "handover")
    ends = [e["text"] for e in events(site, "ended")]
    assert all("handed over" in t or "drain" in t or "stopped" in t for t in ends), ends
