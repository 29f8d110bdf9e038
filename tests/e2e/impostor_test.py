"""What bob gets with alice's replica keys, jobs and addresses, and where her front's secret is not.

What he can reach and read otherwise is in isolation_test.py.
"""

import glob
import hashlib
import json
import os
import shutil
import sqlite3

import jobs
import pytest
import slurm
from declared_test import service

@pytest.fixture(scope="module")
def engine(slurm_site):
    """A job of alice's, on the node where bob's run."""
    job = jobs.SelfRegistered(slurm_site, "alice", "hers", "-A", "gaia").wait_listed("alice")
    yield job
    job.cancel()


@pytest.fixture(scope="module")
def bobs_job(slurm_site):
    """A running job of bob's on the same node, in which nothing runs that matters."""
    cluster = slurm_site.cluster
    job = cluster.sbatch("bob", "exec sleep 3600\n", "-A", "gaia", "-o", "/dev/null")
    cluster.wait_job(job, "RUNNING")
    yield job
    cluster.run("bob", ["scancel", str(job)])


@pytest.fixture(scope="module")
def declared(slurm_site):
    slurm_site.cli("alice", "apply", "-f", service(slurm_site, "guarded"))
    slurm_site.cli("alice", "wait", "guarded", "--timeout", "60s", timeout=70)
    yield slurm_site.service("alice", "guarded")
    slurm_site.cli("alice", "rm", "guarded")


def as_bob(site, *argv, check=True):
    return site.cluster.run("bob", list(argv), check=check)


def engine_pid(job):
    """Of the engine itself, not of the agent whose arguments name it, too."""
    return next(pid for pid in job.processes() if job.argv(pid)[1:2] and
                job.argv(pid)[1].endswith("/serve.mjs"))


def lease_of(site, job):
    """The lease as the daemon keeps it, with what no answer of the API shows."""
    copy = f"{site.dir}/copy-{job.id}"
    os.makedirs(copy, exist_ok=True)
    for path in glob.glob(f"{site.state}/berth.db*"):
        shutil.copy(path, copy)
    with sqlite3.connect(f"{copy}/berth.db") as db:
        rows = [json.loads(doc) for (doc,) in db.execute("select doc from leases")]
    shutil.rmtree(copy)
    public = next(row for row in site.service("alice", job.name)["leases"])
    return next(row for row in rows if row["id"] == public["id"])


def test_the_secret_is_nowhere_bob_can_look(slurm_site, engine):
    lease = lease_of(slurm_site, engine)
    secret = lease["secret"]
    assert len(secret) >= 32
    pids = engine.processes()
    assert len(pids) > 1
    for pid in pids:
        for what in ("cmdline", "environ"):
            assert secret not in slurm.proc_text(pid, what), f"{what} of {pid}"
    pid = engine_pid(engine)
    look = f"cat /proc/{pid}/environ >/dev/null 2>&1; echo $?"
    assert as_bob(slurm_site, "sh", "-c", look) == "1"
    files = ["grep", "-rlsI", "--", secret[:24], slurm_site.cluster.shared, slurm_site.shared]
    assert slurm_site.cluster.run("root", files, check=False) == ""
    assert slurm_site.cluster.run("bob", ["sh", "-c", f"ls {slurm_site.state} 2>&1; echo $?"]
                                  ).endswith("2")
    _, shown, _ = slurm_site.request("/berth/v1/leases", "bob")
    assert secret not in json.dumps(shown) and secret not in engine.output()
    assert secret not in slurm_site.tail(100000)


def test_the_front_asks_bob_for_the_secret(slurm_site, engine):
    lease = lease_of(slurm_site, engine)
    body = json.dumps({"model": engine.service, "max_tokens": 2,
                       "messages": [{"role": "user", "content": "1"}]})

    def status(*headers):
        return as_bob(slurm_site, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "20",
                      *[part for h in headers for part in ("-H", h)], "-d", body,
                      f"http://{lease['address']}/v1/chat/completions")

    assert status() == "401"
    assert status("Authorization: Bearer wrong") == "401"
    assert status(f"Authorization: Bearer {slurm_site.keys['bob']}") == "401"
    assert status(f"Authorization: Bearer {lease['secret']}") == "200"  # it is the right one


def register(site, user, credential="munge", **request):
    """A registration as a user's own program would send it: (status, answer)."""
    body = {"v": 1, "service": "posing", "replica_key": "", "job_id": 0, "cluster": "",
            "restarts": 0, "node": "cpun1", "address": "127.0.0.1:9", "secret": "s" * 40,
            "renew": "r" * 40, "engine": "command", "access": {}, "stops_at": None} | request
    if credential == "munge":
        digest = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        credential = "Munge " + site.cluster.run(
            user, ["munge", f"--socket={site.cluster.dir}/run/munge.sock", "-s", digest])
    status, answer, _ = site.request("/berth/v1/leases", body=body,
                                     headers={"Authorization": credential})
    return status, answer


def test_bob_cannot_join_her_declared_service(slurm_site, bobs_job, declared):
    replica = next(r for r in declared["replicas"] if r["state"] == "ready")
    mine = {"service": declared["name"], "replica_key": replica["key"]}
    guesses = [{"job_id": bobs_job}, {"job_id": replica["job_id"]}, {"job_id": 0}]
    for guess in guesses:
        for credential in ("munge", "Join " + "0" * 64, f"Bearer {slurm_site.keys['bob']}"):
            status, answer = register(slurm_site, "bob", credential, **mine, **guess)
            assert status in (401, 403), (guess, credential, answer)
    script = f"cat {slurm_site.shared}/jobs/{replica['key']}/join"
    assert os.path.exists(f"{slurm_site.shared}/jobs/{replica['key']}/join")
    assert as_bob(slurm_site, "sh", "-c", f"{script} 2>/dev/null; echo $?") == "1"
    leases = slurm_site.service("alice", declared["name"])["leases"]
    assert [lease["job_id"] for lease in leases] == [replica["job_id"]], leases


def test_only_an_address_of_his_own_live_job(slurm_site, bobs_job, engine):
    ended = slurm_site.cluster.sbatch("bob", "true\n", "-A", "gaia", "-o", "/dev/null")
    slurm_site.cluster.wait_job(ended, "COMPLETED")
    wrong = {"from outside a job": {"job_id": 0},
             "with alice's job": {"job_id": engine.id},
             "with a job that never was": {"job_id": 999999},
             "with a job that has ended": {"job_id": ended},
             "with a foreign address": {"job_id": bobs_job, "address": "10.1.2.3:8000"},
             "with the machine's other address": {"job_id": bobs_job, "address": "127.0.0.2:8000"},
             "with a name for an address": {"job_id": bobs_job, "address": "localhost:8000"}}
    for what, request in wrong.items():
        status, answer = register(slurm_site, "bob", **request)
        assert status in (400, 401, 403, 404), (what, status, answer)
    # A credential is good for the request it was made for, and for nothing else.
    digest = hashlib.sha256(b"another body").hexdigest()
    stolen = "Munge " + slurm_site.cluster.run(
        "alice", ["munge", f"--socket={slurm_site.cluster.dir}/run/munge.sock", "-s", digest])
    status, answer = register(slurm_site, "bob", stolen, service="stolen", job_id=engine.id)
    assert status == 401, answer
    assert "bob/posing" not in slurm_site.models("bob")
    status, answer = register(slurm_site, "bob", job_id=bobs_job)  # all right as such
    assert status == 201, answer


def test_a_job_named_like_her_replica_is_still_his(slurm_site, declared):
    replica = next(r for r in declared["replicas"] if r["state"] == "ready")
    named = slurm_site.cluster.sbatch("bob", "exec sleep 3600\n", "-A", "gaia", "-o", "/dev/null",
                                      "-J", replica["key"])
    try:
        slurm_site.cluster.wait_job(named, "RUNNING")
        status, answer = register(slurm_site, "bob", service=declared["name"],
                                  replica_key=replica["key"], job_id=named)
        assert status in (401, 403), answer
    finally:
        slurm_site.cluster.run("bob", ["scancel", str(named)])
