#!/usr/bin/env python3
"""Processor time of sluice for each reply, compared with a server that decides nothing (tools/floor.cc); for a protocol
over HTTP/2, compared with sluice's line protocol; with TLS (NAME/tls), compared with the same without.

Both run on one processor, the load on another, in turns, so that a busy machine disturbs both alike. What counts is
the ratio of the medians; rates say more about the generator. With --against, another build of sluice stands in place of
that server. Exit status 1: a target was missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from bench_common import Server, load, serving_floor, serving_sluice

CONNECTIONS = 50
KEYS = 100_000
# The most that sluice's cost may be, divided by the floor's, by protocol and by the requests outstanding on each
# connection.
TARGETS = {"divvy": {1: 1.2, 16: 2.5}, "limitd": {1: 1.25, 16: 3.0}, "droplet": {1: 1.25, 16: 3.0},
           "resp": {1: 1.2, 16: 2.2}, "envoy": {1: 1.45, 16: 4.0}, "http": {1: 1.3, 16: 2.8},
           "http/auth": {1: 1.3, 16: 2.8}, "http/h2": {16: 5.0},
           "http/tls": {1: 1.35, 16: 1.6}, "resp/tls": {1: 1.35, 16: 1.6}, "envoy/tls": {1: 1.35, 16: 1.6}}
# Protocols that are compared with another protocol of sluice in place of a floor.
HELD_TO = {"envoy": "divvy", "http/h2": "divvy", "http/tls": "http", "resp/tls": "resp", "envoy/tls": "envoy"}


class Side(NamedTuple):
    """A server, and the protocol that it is measured with."""
    server: Server
    protocol: str


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Processor time for each reply, in floors.")
    parser.add_argument("protocols", nargs="*", metavar="PROTOCOL", help=f"of {', '.join(TARGETS)}; default all")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=3, help="of a round, behind one to warm up; default %(default)s")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another build, with a `sluice` in it")
    parser.add_argument("--within", type=float, default=4.0, metavar="PERCENT",
                        help="that sluice may cost more than that; default %(default)s")
    options = parser.parse_args()
    for name in options.protocols:
        if name not in TARGETS:
            parser.error(f"unknown protocol {name}")
    return options


def measure(protocol: str, sides: dict[str, Side], depth: int, target: float, rounds: int, seconds: int) -> bool:
    """`sides`: what sluice is compared with, and sluice. True: it costs at most `target` times as much."""
    other = next(iter(sides))
    title = f"{protocol} {CONNECTIONS}x{depth}"
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for number in range(1, rounds + 1):
        for name, (server, spoken) in sides.items():
            figures = load(server, spoken, conns=CONNECTIONS, depth=depth, keys=KEYS, warmup=1, secs=seconds,
                           pid=server.pid)
            runs[name].append(figures)
            print(f"  {title} round {number} {name:<6} {figures['cpu_ns']:8.1f} ns/reply "
                  f"{figures['rate']:9.0f} replies/s", flush=True)
    costs = {name: statistics.median(run["cpu_ns"] for run in of) for name, of in runs.items()}
    ratio = costs["sluice"] / costs[other]
    kept = ratio <= target
    p99 = statistics.median(run["p99_us"] for run in runs["sluice"])
    print(f"{title}: {other} {costs[other]:.1f} ns, sluice {costs['sluice']:.1f} ns "
          f"({costs['sluice'] - costs[other]:+.1f}), p99 {p99:.0f} us; ratio {ratio:.3f}, target {target}: "
          f"{'met' if kept else 'MISSED'}", flush=True)
    return kept


def main() -> int:
    options = arguments()
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"The load average is {busy:.1f}: what else runs here adds to both sides, and pulls the ratio about.")
    missed = 0
    for protocol in options.protocols or TARGETS:
        peer = HELD_TO.get(protocol)
        if options.against:
            name, spoken, held_to = "before", protocol, serving_sluice(protocol, options.against)
        elif peer:
            name, spoken, held_to = peer, peer, serving_sluice(peer)
        else:
            name, spoken, held_to = "floor", protocol, serving_floor(protocol)
        with held_to as other, serving_sluice(protocol) as sluice:
            for depth, target in TARGETS[protocol].items():
                if options.against:
                    target = 1 + options.within / 100
                sides = {name: Side(other, spoken), "sluice": Side(sluice, protocol)}
                missed += not measure(protocol, sides, depth, target, options.rounds, options.seconds)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
