"""The test cluster by itself: what the other tests rely on."""

import os
import time

import pytest
import slurm


def test_jobs_run_as_their_users_with_typed_gpus(cluster):
    job = cluster.sbatch("alice", "id -un; echo gpus=$SLURM_JOB_GPUS; echo $SLURM_JOB_ACCOUNT",
                         "-A", "gaia", "-p", "h200", "--gres=gpu:h200:2", "-o",
                         f"{cluster.shared}/%j.out")
    cluster.wait_job(job, "COMPLETED")
    with open(f"{cluster.shared}/{job}.out") as f:
        assert f.read().split() == ["alice", "gpus=0,1", "gaia"]


def test_an_account_is_asked_for_and_checked(cluster):
    with pytest.raises(slurm.RigError, match="Invalid account"):
        cluster.sbatch("carol", "true", "-A", "gaia")
    with pytest.raises(slurm.RigError, match="Invalid account"):
        cluster.sbatch("alice", "true", "-A", "vesta")


def test_a_frozen_controller_comes_back(cluster):
    cluster.freeze("slurmctld")
    try:
        with pytest.raises(slurm.RigError, match="no answer"):
            cluster.run("alice", ["squeue"], timeout=1)
    finally:
        cluster.thaw("slurmctld")
    assert cluster.run("alice", ["squeue", "-h", "-u", "carol"]) == ""


def test_a_killed_controller_keeps_its_jobs(cluster):
    job = cluster.sbatch("bob", "sleep 60", "-A", "vesta", "-o", "/dev/null")
    cluster.wait_job(job, "RUNNING")
    cluster.wait_saved(job)
    cluster.kill("slurmctld")
    cluster.start("slurmctld")
    cluster.wait_job(job, "RUNNING")
    cluster.wait_idle_or_busy()
    cluster.run("bob", ["scancel", str(job)])
    cluster.wait_job(job, "CANCELLED")


def test_a_lost_node_leaves_no_process(cluster):
    node = cluster.shape.prefix + "cpun1"
    mark = f"{cluster.shared}/lost.pids"
    job = cluster.sbatch(
        "alice", f"setsid sleep 300 & echo $! $$ > {mark}.new; mv {mark}.new {mark}; sleep 300",
        "-A", "gaia", "--no-requeue", "-o", "/dev/null")
    slurm.wait_until(lambda: os.path.exists(mark), 20, "the job's processes")
    with open(mark) as f:
        pids = [int(p) for p in f.read().split()]
    assert all(slurm.alive(p) for p in pids)
    began = time.monotonic()
    cluster.lose_node(node)
    assert time.monotonic() - began < 3
    assert not any(slurm.alive(p) for p in pids)
    # By itself Slurm takes half a minute; a minute and more when slurmd is back at once.
    cluster.run("root", ["scontrol", "update", f"nodename={node}", "state=down", "reason=test"])
    cluster.wait_job(job, "NODE_FAIL")
    cluster.start(f"slurmd-{node}")
    cluster.wait_idle_or_busy()
