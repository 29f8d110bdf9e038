#!/usr/bin/env python3
"""Clients that stream without pause while every job of their service reaches its time limit.

    ./dev soak [--minutes 30] [--services 1] [--clients 16] [--limit 2]

A real Slurm cluster, a real engine whose model counts, `berth serve`; every answer is checked
token by token. Prints a table and exits with 1 when an answer failed, was cut or had a piece
twice, or when fewer replicas were handed over than the time limit makes necessary.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "rig"))
import berth  # noqa: E402
import load  # noqa: E402
import slurm  # noqa: E402


def declare(site, name, limit):
    spec = {"name": name, "engine": "command", "model": site.tools.model,
            "command": [site.tools.node(), f"{site.tools.dir}/tiny/serve.mjs", "--model", "{model}",
                        "--uds", "{uds}", "--served-model-name", "{name}"],
            "drain_grace": "20s",
            "slurm": {"partition": "cpu", "account": "gaia", "time": f"0:{limit:02}:00"}}
    path = f"{site.dir}/{name}.yaml"
    with open(path, "w") as f:
        json.dump(spec, f)
    site.cli("alice", "apply", "-f", path)
    site.cli("alice", "wait", name, "--timeout", "60s", timeout=70)
    return site.service("alice", name)["name"]


def count_events(site, name, kind):
    out = site.cli("alice", "events", name, "-n", "1000", "--json").stdout
    return sum(e["kind"] == kind for e in json.loads(out)["events"])


def soak(site, options):
    names = [declare(site, f"soak{i}", options.limit) for i in range(options.services)]
    with contextlib.ExitStack() as stack:
        loads = {name: stack.enter_context(load.Load(site.url, name, site.keys["alice"],
                                                     options.clients, options.tokens))
                 for name in names}
        end = time.monotonic() + options.minutes * 60
        while time.monotonic() < end:
            time.sleep(min(30, max(0.0, end - time.monotonic())))
            print("  ".join(f"{name}: {one.answers} answers, {len(one.failures)} failed"
                            for name, one in loads.items()), flush=True)
    needed = int(options.minutes / options.limit)
    good = True
    print(f"\n{'service':<14} {'answers':>8} {'failed':>7} {'handovers':>10} {'gaps':>5} "
          f"{'slowest first piece':>20}")
    for name, one in loads.items():
        handovers, gaps = (count_events(site, name, k) for k in ("handover", "gap_ahead"))
        good = good and one.answers > 0 and not one.failures and handovers >= needed
        print(f"{name:<14} {one.answers:>8} {len(one.failures):>7} {handovers:>10} {gaps:>5} "
              f"{one.longest:>18.2f} s")
        for at, what in one.failures[:5]:
            print(f"    at {at:.1f} s: {what[:300]}")
    print(f"{'ok' if good else 'MISSED'}: every answer whole and in order, and {needed} handovers "
          f"or more of each service in {options.minutes} minutes")
    return good


def main():
    parser = argparse.ArgumentParser(prog="./dev soak")
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--services", type=int, default=1)
    parser.add_argument("--clients", type=int, default=16, help="of each service")
    parser.add_argument("--tokens", type=int, default=40, help="of each answer")
    parser.add_argument("--limit", type=int, default=2, help="minutes that a job may run")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("./dev soak: a test cluster needs root")
    scratch = tempfile.mkdtemp(prefix="berth-soak-", dir="/tmp")
    os.chmod(scratch, 0o755)
    try:
        with contextlib.ExitStack() as stack:
            cluster = slurm.Cluster(f"{scratch}/slurm", accounting=True)
            stack.callback(cluster.down)
            cluster.up()
            site = berth.Site(f"{scratch}/site", cluster=cluster)
            stack.callback(site.close)
            site.start()
            site.key("alice", "gaia")
            return 0 if soak(site, options) else 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
