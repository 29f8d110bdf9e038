"""Two users on one node: bob gets neither at alice's engine nor into her service's place."""

import hashlib
import json
import os
import socket
import subprocess
import sys

import jobs
import pytest
import slurm


def as_alice_in_namespaces(site):
    """The status of a command in a user and a network namespace of alice's own."""
    return site.cluster.popen("alice", ["unshare", "--user", "--map-root-user", "--net", "true"],
                              stderr=subprocess.DEVNULL).wait(timeout=60)


@pytest.fixture(scope="module", params=["unix socket", "tcp only"])
def victim(request, slurm_site):
    """Alice's service, her engine on a UNIX socket or an engine that knows only TCP."""
    tcp = request.param == "tcp only"
    if tcp and as_alice_in_namespaces(slurm_site) != 0:
        pytest.skip("users may not make network namespaces here (a chroot, a container?)")
    job = jobs.SelfRegistered(slurm_site, "alice", "tcp" if tcp else "uds", "-A", "gaia", "-p",
                              "cpu", tcp=tcp)
    job.wait_listed("alice")
    job.engine, job.agent = job.engine_and_agent()
    job.tcp = tcp
    yield job
    job.cancel()


def as_bob(site, *argv, **options):
    """Runs a command as bob; (status, output with errors)."""
    p = site.cluster.popen("bob", list(argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, text=True, **options)
    out, _ = p.communicate(timeout=60)
    return p.returncode, out


def listening_ports(pid):
    """TCP ports on which a process listens, in its own network."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{fd}")
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for row in slurm.proc_text(pid, f"net/{table}").splitlines()[1:]:
            cells = row.split()
            if cells[3] == "0A" and cells[9] in inodes:
                ports.add(int(cells[1].rpartition(":")[2], 16))
    return ports


PROBE = """
import socket, sys
s = socket.socket(socket.AF_UNIX if sys.argv[1] == "unix" else socket.AF_INET)
s.settimeout(3)
try:
    s.connect(sys.argv[2] if sys.argv[1] == "unix" else ("127.0.0.1", int(sys.argv[2])))
    s.sendall(b"GET /v1/models HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    print(s.recv(1000).decode().split("\\r\\n")[0])
except OSError as e:
    print(type(e).__name__)
"""


def test_bob_cannot_reach_the_engine(slurm_site, victim):
    argv = victim.argv(victim.engine)
    if victim.tcp:
        port = argv[argv.index("--port") + 1]
        here, there = os.readlink("/proc/self/ns/net"), os.readlink(f"/proc/{victim.engine}/ns/net")
        assert here != there and listening_ports(victim.engine) == {int(port)}
        with socket.socket() as s:  # nobody else has the port, so that a refusal means something
            free = s.connect_ex(("127.0.0.1", int(port)))
        assert free != 0
        assert "ConnectionRefusedError" in as_bob(slurm_site, sys.executable, "-c", PROBE, "tcp",
                                                  port)[1]
    else:
        path = argv[argv.index("--uds") + 1]
        assert os.path.exists(path) and listening_ports(victim.engine) == set()
        assert "PermissionError" in as_bob(slurm_site, sys.executable, "-c", PROBE, "unix", path)[1]


def test_the_front_lets_in_only_the_gateway(slurm_site, victim):
    ports = listening_ports(victim.agent)
    assert len(ports) == 1
    status = as_bob(slurm_site, sys.executable, "-c", PROBE, "tcp", str(ports.pop()))[1]
    assert status.startswith(("HTTP/1.1 401", "HTTP/1.1 403")), status


def test_bob_cannot_read_what_alice_keeps(slurm_site, victim):
    for pid in (victim.agent, victim.engine):
        for what in ("environ", "fd", "mem"):
            status, _ = as_bob(slurm_site, "sh", "-c", f"ls -l /proc/{pid}/{what}/ || "
                               f"cat /proc/{pid}/{what}")
            assert status != 0, f"bob reads /proc/{pid}/{what}"
    environment = slurm.proc_text(victim.engine, "environ").split("\0")
    scratch = next(v[7:] for v in environment if v.startswith("TMPDIR="))
    assert scratch.startswith("/tmp/berth-"), scratch
    for root in (os.path.dirname(scratch), slurm_site.state):
        assert as_bob(slurm_site, "ls", root)[0] != 0, f"bob lists {root}"
    readable = as_bob(slurm_site, "sh", "-c", f"find {slurm_site.shared} -type f -readable "
                      "-not -path '*/bin/*' -not -name '*.log' 2>/dev/null")[1]
    assert readable == "", f"bob reads {readable}"


def test_no_secret_is_on_a_command_line_or_in_the_job(slurm_site, victim):
    secrets = [slurm_site.keys[u] for u in ("alice", "bob", "carol")]
    for pid in (victim.agent, victim.engine):
        text = slurm.proc_text(pid, "cmdline")
        assert not any(s in text for s in secrets)
        assert "secret" not in text.lower() and "token=" not in text.lower()
    job = str(slurm_site.cluster.job(victim.id))
    stored = slurm_site.cluster.run("root", ["sacct", "-j", str(victim.id), "--env-vars"])
    assert not any(s in job + stored + victim.output() for s in secrets)


def test_bob_cannot_get_into_the_place_of_her_service(slurm_site, victim):
    """Whatever he calls his service, it is listed under his own name."""
    before = slurm_site.models("alice")[victim.name]
    job = jobs.SelfRegistered(slurm_site, "bob", victim.name, "-A", "gaia", "-p", "cpu")
    try:
        assert job.wait_listed("bob").name == f"bob/{victim.name}"
        assert slurm_site.models("alice")[victim.name] == before
        assert len(slurm_site.service("alice", victim.name)["leases"]) == 1
    finally:
        job.cancel()


def register(site, user, **changes):
    """POST /berth/v1/leases as a user with a MUNGE credential for exactly this body."""
    body = {"v": 1, "service": "posed", "job_id": 0, "node": "cpun1", "address": "127.0.0.1:9",
            "cluster": "", "secret": "s" * 32, "renew": "r" * 32, "engine": "command"} | changes
    data = json.dumps(body)
    credential = site.cluster.run(user, [
        "munge", "--socket", f"{site.cluster.dir}/run/munge.sock", "--string",
        hashlib.sha256(data.encode()).hexdigest()])
    status, reply, _ = site.request("/berth/v1/leases", body=body,
                                    headers={"Authorization": f"Munge {credential}"})
    return status, str(reply)


@pytest.fixture(scope="module")
def jobs_of_both(slurm_site):
    pair = {user: slurm_site.cluster.sbatch(user, "sleep 300", "-A", "gaia", "-o", "/dev/null")
            for user in ("alice", "bob")}
    for job in pair.values():
        slurm_site.cluster.wait_job(job, "RUNNING")
    yield pair
    for user, job in pair.items():
        slurm_site.cluster.run(user, ["scancel", str(job)])


def test_bob_registers_only_his_own_live_job(slurm_site, jobs_of_both):
    his = jobs_of_both["bob"]
    cases = {
        "alice's job": dict(job_id=jobs_of_both["alice"]),
        "no job": dict(job_id=0),
        "a job that never was": dict(job_id=99999),
        "another node's address": dict(job_id=his, address="192.0.2.7:8000"),
        "her replica": dict(job_id=his, service="alice/uds", replica_key="berth-0123456789abcdef"),
    }
    for what, changes in cases.items():
        status, reply = register(slurm_site, "bob", **changes)
        assert 400 <= status < 500, f"{what}: {status} {reply}"
    for service, listed in (("posed", "bob/posed"), ("alice/uds", "bob/alice/uds")):
        status, reply = register(slurm_site, "bob", job_id=his, service=service)
        assert status == 201 and f"'public_name': '{listed}'" in reply, f"{status} {reply}"


def test_a_credential_is_good_once_and_for_its_body(slurm_site, jobs_of_both):
    his = jobs_of_both["bob"]
    body = {"v": 1, "service": "once", "job_id": his, "node": "cpun1", "address": "127.0.0.1:9",
            "cluster": "", "secret": "s" * 32, "renew": "r" * 32, "engine": "command"}
    digest = hashlib.sha256(json.dumps(body).encode()).hexdigest()
    socket_path = f"{slurm_site.cluster.dir}/run/munge.sock"

    def send(credential, value):
        return slurm_site.request("/berth/v1/leases", body=value,
                                  headers={"Authorization": f"Munge {credential}"})[0]

    credential = slurm_site.cluster.run("bob", ["munge", "--socket", socket_path, "--string",
                                                digest])
    assert send(credential, body | {"service": "other"}) == 401
    credential = slurm_site.cluster.run("bob", ["munge", "--socket", socket_path, "--string",
                                                digest])
    assert send(credential, body) in (200, 201)
    assert send(credential, body) == 401
