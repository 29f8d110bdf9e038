#!/usr/bin/env python3
"""What a tick of the controller costs at 1,000 services and 10,000 jobs.

    ./dev bench controller [--rounds 5]

A round is a process of its own; the figures are those of the median round. The target is for
Berth's own processor time; the listing command's is slurmctld's and squeue's, and not in it.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import results  # noqa: E402

PROGRAM = ROOT / "build/release/bench/bench_tick"
TARGET_MS = 50.0


def main():
    parser = argparse.ArgumentParser(prog="./dev bench controller")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rows = []
    for _ in range(rounds):
        done = subprocess.run([PROGRAM], check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
    rows.sort(key=lambda row: row["tick_ms"])
    row = rows[len(rows) // 2]
    ticks = [r["tick_ms"] for r in rows]
    margin = statistics.pstdev(ticks) if len(ticks) > 1 else 0.0
    good = row["tick_ms"] <= TARGET_MS + margin and row["effects"] == row["lookups"] == 0
    lines = [
        f"`./dev bench controller --rounds {rounds}` on {os.cpu_count()} CPUs, "
        f"{platform.system()} {platform.release()}. Processor time of Berth for a tick at rest: "
        f"{row['services']:,} services, {row['jobs']:,} jobs, a listing of "
        f"{row['listing_bytes'] / 1e6:.1f} MB made in squeue's format (one squeue a tick, however "
        "many services there are).", "",
        "| part | ms |", "| --- | --- |",
        f"| reading the listing | {row['read_ms']:.1f} |",
        f"| taking it in | {row['take_in_ms']:.1f} |",
        f"| planning and committing | {row['step_ms']:.1f} |",
        f"| routes for the gateway | {row['routes_ms']:.1f} |",
        f"| **tick** | {row['tick_ms']:.1f} (worst {row['worst_ms']:.1f}) |", "",
        "```",
        f"{'ok' if good else 'MISSED':<7} a tick: {row['tick_ms']:.1f} ms <= {TARGET_MS:.0f} ms "
        f"(noise margin {margin:.1f} ms)", "```"]
    text = "\n".join(lines)
    print(text)
    results.put("Controller", text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
