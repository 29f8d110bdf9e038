"""Fixtures of the end-to-end tests. What they start they stop, by pid; each test run has its own
folders under /tmp, ports the kernel chose, and one Slurm cluster for all tests that want one."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "rig"))
sys.path.insert(0, HERE)
import berth  # noqa: E402
import engine  # noqa: E402
import slurm  # noqa: E402


@pytest.fixture(scope="session")
def scratch():
    """A folder that every user can reach, unlike pytest's own."""
    path = tempfile.mkdtemp(prefix="berth-e2e-", dir="/tmp")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster(scratch):
    """A real Slurm cluster with accounting."""
    if os.geteuid() != 0:
        pytest.skip("a test cluster needs root")
    c = slurm.Cluster(f"{scratch}/slurm", accounting=True)
    c.up()
    yield c
    c.down()


@pytest.fixture(scope="session")
def tiny(scratch):
    """The tiny engine by itself, with the key `tiny-key`."""
    options = ["--served-model-name", "tiny", "--embeddings", "--max-num-seqs", "16",
               "--max-model-len", "2048"]
    with engine.Engine(options, env={"TINY_API_KEY": "tiny-key"}) as e:
        yield e


@pytest.fixture(scope="session")
def sdk():
    """sdk(client, url, key, model, cases...) runs tests/e2e/sdk/<client>.mjs; returns
    {case: result}. A case that threw fails the test."""

    def run(client, url, key, model, *cases):
        out = subprocess.run(
            [engine.node(), f"{HERE}/sdk/{client}.mjs", model, *cases], timeout=120,
            env={"PATH": os.environ["PATH"], "BERTH_URL": url, "BERTH_KEY": key},
            stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = [json.loads(line) for line in out.splitlines()]
        wrong = [row for row in rows if "error" in row]
        assert not wrong, wrong
        return {row["case"]: row["result"] for row in rows}

    return run


@pytest.fixture(scope="session")
def slurm_site(scratch, cluster):
    """A Berth daemon on the cluster; alice and bob have keys paid by gaia, carol has one."""
    site = berth.Site(f"{scratch}/slurm-site", cluster=cluster)
    site.start()
    site.key("alice", "gaia")
    site.key("bob", "gaia")
    site.key("carol")
    yield site
    site.close()


@pytest.fixture(scope="session")
def local_site(scratch):
    """A Berth daemon with the local scheduler."""
    site = berth.Site(f"{scratch}/local-site")
    site.start()
    site.key("alice", "gaia")
    yield site
    site.close()
