"""A node on two networks: a replica at its other address is accepted by the operators' name for the
node there, never by the agent's word.  A23"""

import ctypes
import os

import berth
import jobs
import pytest

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
OTHER = "127.0.0.9"  # cpun1's address on the other network; NodeAddr is another


@pytest.fixture(scope="module")
def hosts(scratch):
    """/etc/hosts with the other network's names, seen by this process and its children only."""
    path = f"{scratch}/hosts"
    with open("/etc/hosts") as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(f"{text}\n{OTHER} cpun1-ib\n127.0.0.10 h100n1-ib\n")
    os.chmod(path, 0o644)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        pytest.skip("needs a private mount namespace, which a chroot cannot have")
    assert libc.mount(path.encode(), b"/etc/hosts", None, MS_BIND, None) == 0
    yield
    assert libc.umount(b"/etc/hosts") == 0


@pytest.fixture(scope="module")
def site(scratch, cluster, hosts):
    s = berth.Site(f"{scratch}/two-networks", cluster=cluster,
                   config={"node_address": {"names": ["{node}-ib"]}})
    s.start()
    s.key("alice", "gaia")
    yield s
    s.close()


def register_at(site, name, address):
    return jobs.SelfRegistered(site, "alice", name, "-A", "gaia", "-w", "cpun1",
                               agent=["--address-policy", address])


def test_its_other_address_by_the_operators_name(site):
    job = register_at(site, "other-net", OTHER).wait_listed("alice")
    lease = site.service("alice", job.name)["leases"][0]
    assert lease["address"].startswith(f"{OTHER}:"), lease
    said = site.cli("alice", "chat", "other-net", "count from 41", "--max-tokens", "2").stdout
    assert said.split() == ["42", "43"]
    job.cancel()


def test_another_nodes_address_is_refused(site):
    job = register_at(site, "not-mine", "127.0.0.10")  # h100n1's, by the same names
    site.cluster.wait_job(job.id, "FAILED")
    assert "is not one of the nodes" in job.output(), job.output()
    assert site.cluster.job(job.id)["ExitCode"] == "13:0"
    assert site.service("alice", job.name) == {}
