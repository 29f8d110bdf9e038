#!/usr/bin/env python3
"""./dev bench gateway: Berth beside a plain TCP relay, nginx and HAProxy, on one machine.

Every proxy has one core and the same mock engine behind it; the engine and the load generator
share the other core. Rounds are short and interleaved, their order reversed every other round, and
only ratios within a round are compared: the speed of a machine changes more between minutes than
the proxies differ. The contents of every reply are checked while measuring.

Exits non-zero when a target does not hold beyond its noise margin, or when Berth changed a byte.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import figures
import rows

sys.path.insert(0, str(rows.ROOT / "bench"))
import results as results_file  # noqa: E402


# name: (title, load generator's options, streaming)
SCENARIOS = {
    "unary": ("Small requests: closed loop, 64 connections, 1.5 KB request, 1 KB reply",
              ["unary", "--connections", 64, "--seconds", 0.5, "--warm", 0.25], False),
    "sse10k": ("Streams: 200 at one event of 235 B every 20 ms, 10,000 events/s",
               ["sse", "--connections", 200, "--seconds", 1, "--warm", 0.8, "--events", 100,
                "--gap-us", 20000], True),
    "sse20k": ("Streams: 2,000 at one event of 235 B every 100 ms, 20,000 events/s",
               ["sse", "--connections", 2000, "--seconds", 1.5, "--warm", 2.5, "--events", 100,
                "--gap-us", 100000], True),
    "open1k": ("Open loop: 1,000 requests/s, latency from the intended time",
               ["unary", "--connections", 64, "--seconds", 1, "--warm", 0.3, "--rate", 1000],
               False),
}
# How often a scenario is measured in one round: the shorter it takes, the more one measurement is
# off when the machine's speed changes under it.
SLICES = {"unary": 4, "sse20k": 2}
MEMORY = ["sse", "--connections", 5000, "--seconds", 2, "--warm", 6, "--events", 60, "--gap-us",
          1000000]
MEMORY_STREAMS = 5000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--rows", default="", help="names, comma-separated; default: all")
    parser.add_argument("--no-memory", action="store_true", help="leave the memory table out")
    parser.add_argument("--no-realtime", action="store_true",
                        help="do not ask for real-time scheduling of the measured processes")
    return parser.parse_args()


def may_be_realtime():
    try:
        before = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
        os.sched_setscheduler(0, before, os.sched_param(0))
        return True
    except OSError:
        return False


def load(processes, row, options, pids):
    argv = [rows.BUILD / "bench" / "bench_load", options[0], row.port, *options[1:],
            "--key", rows.KEY, "--usage", int(row.asks_usage), "--model", row.model,
            "--pids", ",".join(map(str, pids))]
    result = processes.run(argv, timeout=150)
    if result["stderr"]:
        print(f"  {row.name}: {result['stderr'].strip()}", file=sys.stderr)
    return result


def measure(processes, chosen, scenarios, count):
    """results[scenario][row][number of the measurement]."""
    results = {s: {row.name: {} for row in chosen} for s in scenarios}
    rows.start_mock(processes)
    for row in chosen:
        row.start(row, processes)
    for n in range(count):
        for scenario in scenarios:
            slices = SLICES.get(scenario, 1)
            for number in range(n * slices, (n + 1) * slices):
                for row in chosen if number % 2 == 0 else chosen[::-1]:
                    results[scenario][row.name][number] = load(
                        processes, row, SCENARIOS[scenario][1], row.pids)
                    time.sleep(0.1)
        print(f"  round {n + 1} of {count} done", flush=True)
    processes.stop()
    return results


def measure_memory(processes, chosen):
    """KiB of each row's processes per open stream, fresh processes for each row."""
    out = {}
    for row in chosen:
        rows.start_mock(processes)
        row.start(row, processes)
        time.sleep(0.5)
        result = load(processes, row, MEMORY, row.pids)
        grown = sum(result["rss_after_kb"]) - sum(result["rss_before_kb"])
        out[row.name] = (sum(result["rss_before_kb"]) / 1024, grown / MEMORY_STREAMS, result)
        processes.stop()
        print(f"  memory of {row.name} done", flush=True)
    return out


def scenario_table(scenario, per_row):
    streaming = SCENARIOS[scenario][2]
    cost = {name: {n: figures.unit_cost_us(r, streaming) for n, r in by_round.items()}
            for name, by_round in per_row.items()}
    p50, p99 = ("delay_p50_us", "delay_p99_us") if streaming else ("p50_us", "p99_us")
    lines = []
    for name, by_round in per_row.items():
        runs = list(by_round.values())
        median = lambda key, runs=runs: statistics.median(r[key] for r in runs)  # noqa: E731
        done = statistics.median((r["events"] if streaming else r["done"]) / r["seconds"]
                                 for r in runs)
        compared = [str(figures.ratio(cost[name], cost[other]) or "-") if other in cost else "-"
                    for other in ("nginx", "haproxy", "tcp floor")]
        lines.append([name, f"{statistics.median(cost[name].values()):.1f}", *compared,
                      f"{done:.0f}", f"{median(p50):.0f} / {median(p99):.0f}",
                      str(sum(r["errors"] + r["wrong"] for r in runs))])
    unit = "event" if streaming else "request"
    text = figures.table(
        ["row", f"CPU us/{unit}", "x nginx", "x haproxy", "x floor", f"{unit}s/s",
         ("event delay" if streaming else "latency") + " p50 / p99 us", "wrong"], lines)
    return text, cost


def judge(results, memory, ours):
    targets = figures.Targets()
    for scenario, per_row in results.items():
        _, cost = scenario_table(scenario, per_row)
        limits = {"unary": {"nginx": (0.85, 0.85), "haproxy": (1.0, 1.0)},
                  "sse10k": {"nginx": (0.92, 1.0), "haproxy": (0.92, 1.0)},
                  "sse20k": {"nginx": (0.92, 1.0), "haproxy": (0.92, 1.0)}}.get(scenario, {})
        for peer, (verbatim, edit) in limits.items():
            for name, limit in (("berth verbatim", verbatim), ("berth edit", edit)):
                if name in cost and peer in cost:
                    targets.at_most(f"{scenario}, CPU of {name} / {peer}",
                                    figures.ratio(cost[name], cost[peer]), limit)
        if SCENARIOS[scenario][2] and "nginx" in per_row:
            delay = {name: {n: r["delay_p50_us"] for n, r in by_round.items()}
                     for name, by_round in per_row.items()}
            for name in ("berth verbatim", "berth edit"):
                if name in delay:
                    targets.at_most(f"{scenario}, event delay p50 of {name} / nginx",
                                    figures.ratio(delay[name], delay["nginx"]), 1.0)
        for name in ours:
            bad = sum(r["errors"] + r["wrong"] for r in per_row.get(name, {}).values())
            targets.check(f"{scenario}, {name}: every reply as the engine sent it "
                          f"({bad} were not)", bad == 0)
    for name in ("berth verbatim", "berth edit"):
        if name in memory:
            _, per_stream, result = memory[name]
            targets.check(f"memory of {name}: {per_stream:.2f} KiB per open stream <= 4",
                          per_stream <= 4)
            targets.check(f"memory, {name}: every event as the engine sent it",
                          result["errors"] + result["wrong"] == 0)
    return targets


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.machine())
    versions = []
    for argv in (["nginx", "-v"], ["haproxy", "-v"]):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        versions.append((done.stdout + done.stderr).splitlines()[0].split(" - ")[0])
    return (f"{model}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}; "
            f"{', '.join(versions)}")


def report(arguments, realtime, results, memory, targets):
    out = [f"`./dev bench gateway --rounds {arguments.rounds}` on {machine()}.",
           "One core for the proxy, one for the mock engine and the load generator; "
           + ("real-time scheduling for all of them. " if realtime else "ordinary scheduling. ")
           + "Berth with 1,000 keys, routing and the usage scan on; nginx and HAProxy without "
           "auth or JSON work. CPU is time on a core of all threads of the row's processes. Ratios "
           "are medians of same-round ratios [lower and upper quartile]. The noise margin of a "
           "ratio is half the 95 % interval of its median, at least 0.01 and at most 0.05.", ""]
    for scenario, per_row in results.items():
        out += [f"### {SCENARIOS[scenario][0]}", "", scenario_table(scenario, per_row)[0], ""]
    if memory:
        lines = [[name, f"{base:.1f}", f"{per_stream:.2f}", str(r["errors"] + r["wrong"])]
                 for name, (base, per_stream, r) in memory.items()]
        out += [f"### Memory at {MEMORY_STREAMS:,} open streams", "",
                figures.table(["row", "RSS before MiB", "KiB per stream", "wrong"], lines), ""]
    out += ["### Targets", "", "```", *targets.lines, "```", ""]
    return "\n".join(out)


def main():
    arguments = parse_arguments()
    if missing := rows.missing_programs():
        raise SystemExit(f"not installed: {', '.join(missing)}")
    chosen = rows.all_rows()
    if not rows.berth_is_built():
        raise SystemExit(f"{rows.BUILD / 'berth'} is not there: ./dev build first")
    if arguments.rows:
        wanted = arguments.rows.split(",")
        chosen = [row for row in chosen if row.name in wanted]
    scenarios = [s for s in arguments.scenarios.split(",") if s]
    realtime = not arguments.no_realtime and may_be_realtime()
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        processes = rows.Processes(directory, realtime)
        try:
            results = measure(processes, chosen, scenarios, arguments.rounds) if scenarios else {}
            memory = {} if arguments.no_memory else measure_memory(processes, chosen)
        finally:
            processes.stop()
    targets = judge(results, memory, [row.name for row in chosen if row.ours])
    text = report(arguments, realtime, results, memory, targets)
    print("\n" + text)
    whole = not arguments.rows and set(scenarios) == set(SCENARIOS) and memory
    if whole and any(row.ours for row in chosen):
        results_file.put("Gateway", text)
    return 1 if targets.failed else 0


if __name__ == "__main__":
    sys.exit(main())
