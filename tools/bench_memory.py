#!/usr/bin/env python3
"""Memory of sluice for each counter: the growth of its resident size, measured from one million counters to ten million
in steps of a tenth, so that no size between two steps of the table's growth is missed; then with each protocol at a
million. Then that of each of 10,000 connections that are idle after one request. Exit status 1: a counter or a connection
took more than the most allowed.

    tools/bench_memory.py [--only counters|connections] [--build FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import socket
import sys
from pathlib import Path

from bench_common import BUILD, Server, give_up, load, serving_sluice

PROTOCOLS = ("divvy", "limitd", "droplet", "resp", "envoy", "http")
FIRST, LAST = 1_000_000, 10_000_000
BYTES_MAX = 80.0
BYTES_TARGET = 56.0
LEAST_OF = 3
CONNECTIONS, FIRST_CONNECTIONS = 10_000, 200  # the first ones allocate what all share
# A request of each protocol, the end of its reply, and the most bytes of a connection (tests/e2e/bounds_test.cc and
# http_harm_test.cc hold them).
IDLE = {
    "http": (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"}", 4096),
    "resp": (b"CL.THROTTLE user:1 15 30 60 1\r\n", b"\r\n", 5120),
}


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


def of_a_connection(protocol: str, build: Path) -> float:
    request, end, _ = IDLE[protocol]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving_sluice(protocol, build))

        def connect(count: int) -> None:
            for _ in range(count):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                client.sendall(request)
                reply = b""
                while not reply.endswith(end):
                    got = client.recv(4096)
                    if not got:
                        give_up(f"{protocol} ended a connection: {reply!r}")
                    reply += got

        connect(FIRST_CONNECTIONS)
        # What the server allocates once, whenever that is, belongs to no connection.
        halves = []
        for _ in range(2):
            before = resident_bytes(server)
            connect(CONNECTIONS // 2)
            halves.append((resident_bytes(server) - before) / (CONNECTIONS // 2))
        return min(halves)


def connections(build: Path) -> bool:
    """Were all within their bounds?"""
    files = CONNECTIONS + FIRST_CONNECTIONS + 100
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most_files < files:
        give_up(f"it takes {files} open files, and {most_files} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most_files))
    kept = True
    for protocol, (_, _, most) in IDLE.items():
        each = of_a_connection(protocol, build)
        kept &= each <= most
        print(f"{protocol}: {each:.0f} bytes for each of {CONNECTIONS} idle connections, at most {most}: "
              f"{'met' if each <= most else 'MISSED'}", flush=True)
    return kept


def counters(build: Path) -> bool:
    """Were all within their bound?"""
    worst = 0.0
    with serving_sluice("divvy", build) as server:
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
        empty, each = least(protocol, build)
        print(f"{protocol}: {empty / 1e6:.1f} MB when empty, {each:.1f} bytes a counter", flush=True)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("counters", "connections"))
    parser.add_argument("--build", type=Path, default=BUILD, metavar="FOLDER", help="with a `sluice` in it; default %(default)s")
    asked = parser.parse_args()
    kept = asked.only == "connections" or counters(asked.build)
    if asked.only != "counters":
        kept &= connections(asked.build)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
