#!/usr/bin/env python3
"""Processor time of sluice for each reply, beside that of a server which decides nothing (tools/floor.cc).

Both run on one processor, the load on another, in turns, so that a busy machine disturbs both alike. What counts is
the ratio of the medians; rates say more about the generator. Exit status 1: a target was missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

from bench_common import Server, load, serving_floor, serving_sluice

CONNECTIONS = 50
KEYS = 100_000
# The most that sluice may cost, in floors, by protocol and by the requests outstanding on each connection.
TARGETS = {"divvy": {1: 1.2, 16: 2.5}, "limitd": {1: 1.25, 16: 3.0}, "droplet": {1: 1.25, 16: 3.0}}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Processor time for each reply, in floors.")
    parser.add_argument("protocols", nargs="*", metavar="PROTOCOL", help=f"of {', '.join(TARGETS)}; default all")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=3, help="of a round, behind one to warm up; default %(default)s")
    options = parser.parse_args()
    for name in options.protocols:
        if name not in TARGETS:
            parser.error(f"unknown protocol {name}")
    return options


def measure(protocol: str, servers: dict[str, Server], depth: int, rounds: int, seconds: int) -> bool:
    """True: sluice keeps to its target."""
    title = f"{protocol} {CONNECTIONS}x{depth}"
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
    for number in range(1, rounds + 1):
        for name, server in servers.items():
            figures = load(server, protocol, conns=CONNECTIONS, depth=depth, keys=KEYS, warmup=1, secs=seconds,
                           pid=server.pid)
            runs[name].append(figures)
            print(f"  {title} round {number} {name:<6} {figures['cpu_ns']:8.1f} ns/reply "
                  f"{figures['rate']:9.0f} replies/s", flush=True)
    costs = {name: statistics.median(run["cpu_ns"] for run in of) for name, of in runs.items()}
    ratio, target = costs["sluice"] / costs["floor"], TARGETS[protocol][depth]
    kept = ratio <= target
    p99 = statistics.median(run["p99_us"] for run in runs["sluice"])
    print(f"{title}: floor {costs['floor']:.1f} ns, sluice {costs['sluice']:.1f} ns "
          f"({costs['sluice'] - costs['floor']:.1f} more), p99 {p99:.0f} us; ratio {ratio:.2f}, target {target}: "
          f"{'met' if kept else 'MISSED'}", flush=True)
    return kept


def main() -> int:
    options = arguments()
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"The load average is {busy:.1f}: what else runs here adds to both sides, and pulls the ratio about.")
    missed = 0
    for protocol in options.protocols or TARGETS:
        with serving_floor(protocol) as floor, serving_sluice(protocol) as sluice:
            for depth in TARGETS[protocol]:
                servers = {"floor": floor, "sluice": sluice}
                missed += not measure(protocol, servers, depth, options.rounds, options.seconds)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
