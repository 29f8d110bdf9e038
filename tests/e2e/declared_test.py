"""Services declared with `berth apply`, on Slurm and on the local scheduler, by the commands."""

import json

import pytest
import streams


@pytest.fixture(scope="module", params=["slurm", "local"])
def site(request):
    return request.getfixturevalue(f"{request.param}_site")


def service(site, name, replicas=1, engine=(), **more):
    """A service file for the tiny engine, as JSON (which is YAML)."""
    spec = {"name": name, "engine": "command", "model": site.tools.model,
            "command": [site.tools.node(), f"{site.tools.dir}/tiny/serve.mjs", "--model", "{model}",
                        "--uds", "{uds}", "--served-model-name", "{name}", *engine],
            "replicas": replicas, "drain_grace": "20s"} | more
    if site.cluster:
        spec.setdefault("slurm", {"partition": "cpu", "account": "gaia", "time": "0:30:00"})
    path = f"{site.dir}/{name}.yaml"
    with open(path, "w") as f:
        json.dump(spec, f)
    return path


@pytest.fixture(scope="module")
def steady(site):
    """A service with two replicas, ready."""
    site.cli("alice", "apply", "-f", service(site, "steady", replicas=2))
    site.cli("alice", "wait", "steady", "--timeout", "60s", timeout=70)
    name = site.service("alice", "steady")["name"]
    yield name
    site.cli("alice", "rm", "steady")


def test_it_answers_in_the_terminal_and_over_http(site, steady):
    said = site.cli("alice", "chat", "steady", "count from 41", "--max-tokens", "5").stdout
    assert said.split() == ["42", "43", "44", "45", "46"]
    for s in streams.count_many(16, site.url, steady, 40, key=site.keys["alice"]):
        s.check(usage=True)


def test_what_the_commands_show(site, steady):
    table = site.cli("alice", "ps").stdout
    assert steady in table and "ready" in table and "2/2" in table
    document = json.loads(site.cli("alice", "ps", "steady", "--json").stdout)
    assert len([r for r in document["replicas"] if r["state"] == "ready"]) == 2
    assert "ready" in site.cli("alice", "explain", "steady").stdout
    assert "berth agent" in site.cli("alice", "explain", "steady", "--script").stdout or \
        " agent " in site.cli("alice", "explain", "steady", "--script").stdout
    assert "listening on" in site.cli("alice", "logs", "steady").stdout


def test_a_second_apply_changes_nothing(site, steady):
    before = {r["job_id"] for r in site.service("alice", steady)["replicas"]}
    plan = site.cli("alice", "plan", "-f", service(site, "steady", replicas=2)).stdout
    assert "steady" in plan
    site.cli("alice", "apply", "-f", service(site, "steady", replicas=2))
    site.cli("alice", "wait", "steady", "--timeout", "30s")
    after = {r["job_id"] for r in site.service("alice", steady)["replicas"]
             if r["state"] != "ended"}
    assert after <= before and len(after) == 2


def test_scale_stop_start_rm(site):
    site.cli("alice", "apply", "-f", service(site, "moving"))
    site.cli("alice", "wait", "moving", "--timeout", "60s", timeout=70)

    def live():
        return [r for r in site.service("alice", "moving").get("replicas", [])
                if r["state"] != "ended"]

    def ready(count):
        rows = live()
        return len(rows) == count and all(r["state"] == "ready" for r in rows)

    site.cli("alice", "scale", "moving", "2")
    site.wait(lambda: ready(2), 60, "two replicas")
    site.cli("alice", "scale", "moving", "1")
    site.wait(lambda: ready(1), 60, "one replica")
    site.cli("alice", "stop", "moving")
    site.wait(lambda: live() == [], 60, "no replica")
    status, body, headers = site.request("/v1/chat/completions", "alice", {
        "model": site.service("alice", "moving")["name"],
        "messages": [{"role": "user", "content": "1"}]})
    assert status == 503 and int(headers["Retry-After"]) > 0, body
    site.cli("alice", "start", "moving")
    site.wait(lambda: ready(1), 60, "a replica again")
    site.cli("alice", "rm", "moving")
    site.wait(lambda: site.service("alice", "moving") == {}, 60, "the service to be gone")


def test_everything_wrong_with_a_file_is_said_at_once(site):
    path = f"{site.dir}/wrong.yaml"
    with open(path, "w") as f:
        f.write("name: bad name\nengine: vlm\nreplicas: -1\nmodell: /x\n")
    done = site.cli("alice", "apply", "-f", path, check=False)
    assert done.returncode == 1, done
    for line in (1, 2, 3, 4):
        assert f"wrong.yaml:{line}:" in done.stderr, done.stderr


def test_an_engine_that_cannot_start_is_told_so(site):
    complaint = "echo no such model >&2; exit 3 # {uds}"
    path = service(site, "broken", command=["/bin/sh", "-c", complaint],
                   max_start_attempts=2)
    site.cli("alice", "apply", "-f", path)
    done = site.cli("alice", "wait", "broken", "--timeout", "90s", check=False, timeout=100)
    assert done.returncode == 1, done
    explained = site.cli("alice", "explain", "broken").stdout
    assert "no such model" in explained, explained
    site.cli("alice", "rm", "broken")
