#!/usr/bin/env python3
"""Processor time of sluice for each Divvy reply, beside that of a server which decides nothing (tools/floor.cc).

Both run on one processor, the load on another, in turns, so that a busy machine disturbs both alike. What counts is
the ratio of the medians; rates say more about the generator. Exit status 1: a target was missed.
"""

from __future__ import annotations

import os
import statistics
import sys

from bench_common import Server, load, serving_floor, serving_sluice

ROUNDS = 5
SECONDS = 3
CONNECTIONS = 50
ACTORS = 100_000
TARGETS = {1: 1.2, 16: 2.5}  # the most that sluice may cost, in floors, by hits outstanding on each connection


def measure(server: Server, depth: int) -> dict[str, float]:
    return load(server, conns=CONNECTIONS, depth=depth, keys=ACTORS, warmup=1, secs=SECONDS, pid=server.pid)


def main() -> int:
    missed = 0
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"The load average is {busy:.1f}: what else runs here adds to both sides, and pulls the ratio about.")
    with serving_floor() as floor, serving_sluice() as sluice:
        for depth, target in TARGETS.items():
            runs: dict[str, list[dict[str, float]]] = {"floor": [], "sluice": []}
            for number in range(1, ROUNDS + 1):
                for name, server in (("floor", floor), ("sluice", sluice)):
                    figures = measure(server, depth)
                    runs[name].append(figures)
                    print(f"  {CONNECTIONS}x{depth} round {number} {name:<6} {figures['cpu_ns']:8.1f} ns/reply "
                          f"{figures['rate']:9.0f} replies/s", flush=True)
            costs = {name: statistics.median(run["cpu_ns"] for run in of) for name, of in runs.items()}
            ratio = costs["sluice"] / costs["floor"]
            kept = ratio <= target
            missed += not kept
            p99 = statistics.median(run["p99_us"] for run in runs["sluice"])
            print(f"{CONNECTIONS} connections, {depth} outstanding: floor {costs['floor']:.1f} ns, sluice "
                  f"{costs['sluice']:.1f} ns ({costs['sluice'] - costs['floor']:.1f} more), p99 {p99:.0f} us; ratio "
                  f"{ratio:.2f}, target {target}: {'met' if kept else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
