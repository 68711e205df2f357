#!/usr/bin/env python3
"""What reservations and places cost, measured from outside: the server's processor time for a reserve and its commit, and for an
acquire and its release, beside that for a take, in turns; the growth of its resident memory for each of a million reservations that
are held, with one limit and with three, and for each that is settled and remembered; how long another client's take waits while a
million of them, or of places, end in one second. Exit status 1: a bound was exceeded.

    tools/bench_holds.py [--only time|memory|ends] [--count N] [--build FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench_common import BUILD, LOAD_CORE, Server, give_up, serving
from bench_memory import resident_bytes

DEPTHS = (1, 16)  # requests under way on the one connection
ROUNDS, OF_A_ROUND = 9, 10_000  # takes, and pairs of reserve and commit
PAIR_MAX = 2.2  # times the processor time of a take
HELD_MAX, LIMIT_MAX, SETTLED_MAX = 200.0, 32.0, 64.0  # bytes
WAIT_MS_MAX = 5.0
TTL = 3600
RULES = """
listen: [{{ protocol: http, address: "127.0.0.1:0" }}]
workers: 1
holds: {{ max: 2000000, remember: 1h }}
rules:
  - name: bench
    match: {{ tenant: "*" }}
    actor: tenant
    limits: [{limits}]
    reserve: {{ max_ttl: 2h }}
  - name: pool
    match: {{ pool: "*" }}
    actor: pool
    limit: {{ quota: 1000000000, algorithm: concurrency, lease: 1h, max_lease: 2h }}
"""
LIMITS = ("{ quota: 1000000000000, window: 1d, algorithm: fixed_window }",
          "{ quota: 1000000000000, window: 30d, algorithm: fixed_window }", "{ quota: 1000000000000, window: 1d }")
SUBJECT = '"entries": {"tenant": "acme"}'
POOL = '"entries": {"pool": "gpu"}'


@contextlib.contextmanager
def serving_limits(build: Path, limits: int = 1) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "sluice.yaml"
        config.write_text(RULES.format(limits=", ".join(LIMITS[:limits])), encoding="utf-8")
        with serving([str(build / "sluice"), "serve", "--config", str(config), "--admin", "off"]) as server:
            yield server


def request(path: str, body: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


class Client:
    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, requests: Iterable[bytes], depth: int = 16) -> None:
        """Sends them, so many at a time, and reads their answers, which must not be refusals."""
        batch: list[bytes] = []
        for each in requests:
            batch.append(each)
            if len(batch) == depth:
                self.exchange(batch)
                batch = []
        if batch:
            self.exchange(batch)

    def exchange(self, batch: list[bytes]) -> None:
        self.socket.sendall(b"".join(batch))
        answers = b""
        while answers.count(b"HTTP/1.1 200 ") < len(batch):
            got = self.socket.recv(1 << 18)
            if not got or b"HTTP/1.1 4" in got or b"HTTP/1.1 5" in got:
                give_up(f"the server refused what it should allow: {got[:300]!r}")
            answers += got


def processor_ns(server: Server) -> int:
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in Path(f"/proc/{server.pid}/task").glob("*/schedstat"))


def takes(number: int) -> Iterator[bytes]:
    take = request("/v1/take", f"{{{SUBJECT}, \"n\": 5}}")
    return (take for _ in range(number))


def pairs(first: int, number: int) -> Iterator[bytes]:
    for n in range(first, first + number):
        name = f"reservation-{n:012}"
        yield request("/v1/reserve", f'{{{SUBJECT}, "n": 5, "id": "{name}"}}')
        yield request("/v1/commit", f'{{"id": "{name}", "n": 3}}')


def places(first: int, number: int) -> Iterator[bytes]:
    for n in range(first, first + number):
        name = f"place-number-{n:012}"
        yield request("/v1/acquire", f'{{{POOL}, "id": "{name}"}}')
        yield request("/v1/release", f'{{"id": "{name}"}}')


def measure_time(build: Path) -> bool:
    kept = True
    with serving_limits(build) as server:
        client = Client(server)

        def cost(requests: Iterable[bytes], depth: int) -> float:
            prepared = list(requests)
            before = processor_ns(server)
            client.send(prepared, depth)
            return (processor_ns(server) - before) / OF_A_ROUND

        names = itertools.count(1)
        for depth in DEPTHS:
            found: dict[str, list[float]] = {"take": [], "reserve and commit": [], "acquire and release": []}
            for _ in range(ROUNDS):
                found["take"].append(cost(takes(OF_A_ROUND), depth))
                found["reserve and commit"].append(cost(pairs(next(names) * OF_A_ROUND, OF_A_ROUND), depth))
                found["acquire and release"].append(cost(places(next(names) * OF_A_ROUND, OF_A_ROUND), depth))
            take = statistics.median(found.pop("take"))
            for what, each in found.items():
                pair = statistics.median(each)
                kept &= pair <= PAIR_MAX * take
                print(f"processor time over HTTP, {depth} at a time: take {take:.0f} ns, {what} {pair:.0f} ns; ratio "
                      f"{pair / take:.2f}, at most {PAIR_MAX}: {'met' if pair <= PAIR_MAX * take else 'MISSED'}", flush=True)
    return kept


def growth(build: Path, count: int, limits: int, requests: Callable[[], Iterator[bytes]]) -> float:
    with serving_limits(build, limits) as server:
        client = Client(server)
        client.send(takes(1000))
        client.send(pairs(0, 1000))
        before = resident_bytes(server)
        client.send(requests(), 64)
        return (resident_bytes(server) - before) / count


def measure_memory(build: Path, count: int) -> bool:
    reserve = request("/v1/reserve", f'{{{SUBJECT}, "n": 5, "ttl": {TTL}}}')

    def held() -> Iterator[bytes]:
        return (reserve for _ in range(count))

    one, three = (growth(build, count, limits, held) for limits in (1, 3))
    settled = growth(build, count, 1, lambda: pairs(10_000, count))
    kept = True
    for what, each, most in (("a reservation on one limit", one, HELD_MAX), ("each further limit", (three - one) / 2, LIMIT_MAX),
                             ("a settled reservation that is remembered", settled, SETTLED_MAX)):
        kept &= each <= most
        print(f"memory of {what}, over {count}: {each:.0f} bytes, at most {most:.0f}: "
              f"{'met' if each <= most else 'MISSED'}", flush=True)
    return kept


def measure_ends(build: Path, count: int, path: str, subject: str, what: str) -> bool:
    """Of a client on a processor of its own, with requests one after the other."""
    cores = os.sched_getaffinity(0)
    with serving_limits(build) as server:
        os.sched_setaffinity(0, {int(LOAD_CORE)})
        client, other = Client(server), Client(server)
        ends = time.monotonic() + max(2.0, count / 8_000)

        def reserves() -> Iterator[bytes]:
            for _ in range(count):
                left = ends - time.monotonic()
                if left <= 0:
                    give_up("the reservations were not made in time; this machine is too busy for so many")
                yield request(path, f'{{{subject}, "n": 5, "ttl": {round(left, 3)}}}')

        client.send(reserves(), 64)
        take = next(takes(1))
        waits: list[tuple[float, float]] = []  # when, and for how long
        while time.monotonic() < ends + 3:
            begun = time.monotonic()
            other.exchange([take])
            if begun > ends - 2:
                waits.append((begun, (time.monotonic() - begun) * 1e3))
        os.sched_setaffinity(0, cores)
        before = [wait for begun, wait in waits if begun < ends - 0.5]
        meanwhile = [wait for begun, wait in waits if begun >= ends - 0.5]
    kept = max(meanwhile) <= WAIT_MS_MAX
    print(f"{count} {what} that end in one second: another client's take waits {max(meanwhile):.1f} ms at most, 99 of 100 "
          f"{sorted(meanwhile)[len(meanwhile) * 99 // 100]:.2f} ms (just before: {max(before):.1f} and "
          f"{sorted(before)[len(before) * 99 // 100]:.2f}), at most {WAIT_MS_MAX:g}: {'met' if kept else 'MISSED'}", flush=True)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("time", "memory", "ends"))
    parser.add_argument("--count", type=int, default=1_000_000, help="of reservations; default %(default)s")
    parser.add_argument("--build", type=Path, default=BUILD, metavar="FOLDER", help="with a `sluice` in it; default %(default)s")
    asked = parser.parse_args()
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"The load average is {busy:.1f}: what else runs here pulls the figures about.")
    kept = True
    for name, measure in (("time", lambda: measure_time(asked.build)), ("memory", lambda: measure_memory(asked.build, asked.count)),
                          ("ends", lambda: measure_ends(asked.build, asked.count, "/v1/reserve", SUBJECT, "reservations")),
                          ("ends", lambda: measure_ends(asked.build, asked.count, "/v1/acquire", POOL, "acquires of five places"))):
        if asked.only in (None, name):
            kept &= measure()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
