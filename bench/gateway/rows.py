"""What the gateway benchmark compares: how each row is started, and on which port it listens."""

import dataclasses
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "release"

MOCK_PORTS = (29101, 29102)
KEY = "sk-bench-000042-aaaaaaaaaaaaaaaaaaaaaaaa"
REPLICA_SECRET = "bench-replica-secret"


@dataclasses.dataclass
class Row:
    """One proxy under test."""

    name: str
    port: int
    start: object  # (Row, Processes) -> None: starts its processes
    asks_usage: bool = True  # whether the client asks for the usage event
    model: str = "m1"  # what the client asks for; the engine calls it m1
    pids: list = dataclasses.field(default_factory=list)  # whose CPU counts
    ours: bool = False


class Processes:
    """Children of this run, each pinned to a core; ended by pid, never by name."""

    def __init__(self, directory, realtime):
        self.directory = pathlib.Path(directory)
        self.realtime = realtime
        self.children = []
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise SystemExit("the benchmark needs two cores: one for the proxy, one for the rest")
        self.load_core, self.proxy_core = cores[0], cores[1]

    def _settle(self, core):
        os.sched_setaffinity(0, {core})
        if self.realtime:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))

    def start(self, name, argv, core, env=None, stdout=None):
        log = open(self.directory / f"{name}.log", "ab")
        child = subprocess.Popen(
            [str(a) for a in argv], cwd=self.directory, stdin=subprocess.DEVNULL,
            stdout=stdout or log, stderr=log, env=env, preexec_fn=lambda: self._settle(core))
        log.close()
        self.children.append(child)
        return child

    def run(self, argv, timeout):
        """Runs the load generator; gives its result, a dict."""
        done = subprocess.run(
            [str(a) for a in argv], capture_output=True, text=True, timeout=timeout,
            preexec_fn=lambda: self._settle(self.load_core), check=False)
        if not done.stdout:
            raise SystemExit(f"{' '.join(map(str, argv))} failed: {done.stderr}")
        result = json.loads(done.stdout)
        result["stderr"] = done.stderr
        return result

    def stop(self):
        for child in reversed(self.children):
            if child.poll() is None:
                child.terminate()
        for child in self.children:
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children.clear()


def wait_for_port(port, child, what, seconds=15):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise SystemExit(f"{what} ended with {child.returncode} before it listened on {port}")
        with socket.socket() as s:
            s.settimeout(0.2)
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"{what} does not listen on port {port} after {seconds} s")


def fill_in(template, target, values):
    text = (HERE / template).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    target.write_text(text)
    return target


def _values(row, directory):
    return {
        "PORT": row.port, "DIR": directory, "UPSTREAM_A": MOCK_PORTS[0],
        "UPSTREAM_B": MOCK_PORTS[1], "USER": "user root;" if os.getuid() == 0 else "",
    }


def start_mock(processes):
    child = processes.start("mock", [BUILD / "bench" / "bench_mock_engine", *MOCK_PORTS],
                            processes.load_core)
    wait_for_port(MOCK_PORTS[1], child, "the mock engine")
    return child


def start_floor(row, processes):
    child = processes.start(
        "floor", [BUILD / "bench" / "bench_floor_relay", row.port, *MOCK_PORTS],
        processes.proxy_core)
    wait_for_port(row.port, child, row.name)
    row.pids = [child.pid]


def start_nginx(row, processes):
    directory = processes.directory / "nginx"
    directory.mkdir(exist_ok=True)
    conf = fill_in("nginx.conf.in", directory / "nginx.conf", _values(row, directory))
    child = processes.start("nginx", ["nginx", "-c", conf, "-p", directory], processes.proxy_core)
    wait_for_port(row.port, child, row.name)
    row.pids = [child.pid]


def start_haproxy(row, processes):
    conf = fill_in("haproxy.cfg.in", processes.directory / "haproxy.cfg",
                   _values(row, processes.directory))
    child = processes.start("haproxy", ["haproxy", "-db", "-f", conf], processes.proxy_core)
    wait_for_port(row.port, child, row.name)
    row.pids = [child.pid]


def _start_berth(row, processes, addresses):
    """A gateway with one shard, 1,000 keys, static routes and an access log."""
    directory = processes.directory / f"berth-{row.port}"
    directory.mkdir(exist_ok=True)
    routes = directory / "routes.json"
    keys = [{"key": f"sk-bench-{i:06d}-aaaaaaaaaaaaaaaaaaaaaaaa", "project": "bench"}
            for i in range(1000)]
    replicas = [{"address": a, "secret": REPLICA_SECRET, "served_model": "m1"} for a in addresses]
    routes.write_text(json.dumps({"routes": [{"name": row.model, "replicas": replicas}],
                                  "keys": keys}))
    child = processes.start(
        f"berth-{row.port}",
        [BUILD / "berth", "serve", "--state", directory / "state",
         "--listen", f"127.0.0.1:{row.port}", "--set", f"static_routes={routes}",
         "--set", "shards=1", "--set", f"gateway.access_log={directory / 'access.log'}",
         "--set", "allow_root=benchmark"],
        processes.proxy_core)
    wait_for_port(row.port, child, row.name)
    row.pids = [child.pid]


def start_berth(row, processes):
    _start_berth(row, processes, [f"127.0.0.1:{p}" for p in MOCK_PORTS])


FRONT_PORTS = (29103, 29104)


def start_berth_with_agents(row, processes):
    """The gateway and, on the same core, an agent's front before each engine."""
    fronts = []
    for port, engine in zip(FRONT_PORTS, MOCK_PORTS):
        child = processes.start(
            f"front-{port}", [BUILD / "bench" / "bench_agent_front", port, engine, REPLICA_SECRET],
            processes.proxy_core)
        wait_for_port(port, child, "the agent's front")
        fronts.append(child.pid)
    _start_berth(row, processes, [f"127.0.0.1:{p}" for p in FRONT_PORTS])
    row.pids += fronts


def all_rows():
    return [
        Row("tcp floor", 29110, start_floor),
        Row("nginx", 29111, start_nginx),
        Row("haproxy", 29112, start_haproxy),
        Row("berth verbatim", 29113, start_berth, ours=True),
        # Every event is rewritten: the engine's name for the model is replaced, and the usage that
        # the client did not ask for is taken out again.
        Row("berth edit", 29114, start_berth, ours=True, asks_usage=False, model="team/model-one"),
        # Two hops of ours: what a request to a replica costs in all.
        Row("berth + agent", 29115, start_berth_with_agents, ours=True),
    ]


def berth_is_built():
    return (BUILD / "berth").exists()


def missing_programs():
    return [name for name in ("nginx", "haproxy") if not shutil.which(name)]
