#!/usr/bin/env python3
"""Memory of sluice for each counter: the growth of its resident size, measured from one million counters to ten million
in steps of a tenth, so that no size between two steps of the table's growth is missed; then with each protocol at a
million. Exit status 1: a counter took more than the most allowed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench_common import BUILD, Server, load, serving_sluice

PROTOCOLS = ("divvy", "limitd", "droplet", "resp", "envoy", "http")
FIRST, LAST = 1_000_000, 10_000_000
BYTES_MAX = 80.0
BYTES_TARGET = 56.0
LEAST_OF = 3


def resident_bytes(server: Server) -> int:
    for line in Path(f"/proc/{server.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def steps() -> list[int]:
    sizes = [FIRST]
    while sizes[-1] < LAST:
        sizes.append(min(LAST, sizes[-1] * 11 // 10))
    return sizes


def least(protocol: str = "divvy", build: Path = BUILD) -> tuple[int, float]:
    """The bytes when empty, and of each of a million counters. The least of several servers: the system gives or leaves out a
    huge page of 2 MiB, which is two bytes of each counter."""
    found = []
    for _ in range(LEAST_OF):
        with serving_sluice(protocol, build) as server:
            empty = resident_bytes(server)
            load(server, protocol, conns=8, depth=128, distinct=FIRST)
            found.append((empty, (resident_bytes(server) - empty) / FIRST))
    return min(empty for empty, _ in found), min(each for _, each in found)


def main() -> int:
    worst = 0.0
    with serving_sluice() as server:
        empty = resident_bytes(server)
        print(f"empty: {empty / 1e6:.1f} MB", flush=True)
        counters = 0
        for size in steps():
            figures = load(server, conns=8, depth=128, distinct=size - counters, **{"from": counters})
            assert figures["allowed"] == size - counters
            counters = size
            each = (resident_bytes(server) - empty) / counters
            worst = max(worst, each)
            print(f"{counters:>10} counters: {each:5.1f} bytes each", flush=True)
    kept = worst <= BYTES_MAX
    target = "met" if worst <= BYTES_TARGET else "missed"
    print(f"worst: {worst:.1f} bytes a counter, at most {BYTES_MAX:.0f}: {'met' if kept else 'MISSED'}; "
          f"target {BYTES_TARGET:.0f}: {target}")
    for protocol in PROTOCOLS:
        empty, each = least(protocol)
        print(f"{protocol}: {empty / 1e6:.1f} MB when empty, {each:.1f} bytes a counter", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
