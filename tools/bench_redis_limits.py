#!/usr/bin/env python3
"""Microseconds of Redis' own for one decision, by kind of limit: `usec_per_call` of EVALSHA in INFO commandstats.

Each kind is asked through sluice, --calls times over a few hundred counters, so that most requests find a counter in use. The kinds take turns in every round, and
the figure is the least of the rounds, as Redis counts the time that other processes have the processor. Token buckets that are too large for doubles (a product past
2^53), and the commands that bring their limit along, may cost 15 us. Exit status 1: one costs more.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench_common import BUILD, Server, give_up, serving
from bench_redis import cli, serving_redis

MOST_US = 15.0
ACTORS, PIPELINE = 300, 64


class Kind(NamedTuple):
    name: str
    limit: str = ""  # of the native rule of that name
    command: str = ""  # in place of a rule; ACTOR stands for the key
    held: bool = False  # may it cost MOST_US at most?


KINDS = [
    Kind("fixed_window", "{ quota: 75, window: 1d, algorithm: fixed_window }"),
    Kind("aligned_window", "{ quota: 75, window: 1d, algorithm: aligned_window }"),
    Kind("token_bucket", "{ quota: 75, window: 1h }"),
    Kind("token_bucket past 2^53", "{ quota: 2000000, window: 30d }", held=True),
    Kind("sliding_window", "{ quota: 75, window: 1h, algorithm: sliding_window }"),
    Kind("sliding_window past 2^53", "{ quota: 2000000, window: 30d, algorithm: sliding_window }"),
    Kind("sliding_log", "{ quota: 8, window: 1d, algorithm: sliding_log }"),
    Kind("sliding_log past 2^53", "{ quota: 2000000, window: 30d, algorithm: sliding_log }"),
    Kind("fixed_bucket", "{ quota: 75, algorithm: fixed_bucket }"),
    Kind("CL.THROTTLE", command="CL.THROTTLE ACTOR 74 75 86400 1", held=True),
    Kind("CL.THROTTLE, cell_shared", command="CL.THROTTLE ACTOR 74 75 86400 1", held=True),
    Kind("THROTTLE", command="THROTTLE ACTOR 75 75 86400 1", held=True),
    Kind("GCRA", command="GCRA ACTOR 74 75 86400 TOKENS 1", held=True),
]


@contextlib.contextmanager
def serving_on(redis: Server, kind: Kind) -> Iterator[Server]:
    rules = f"rules: [{{ name: bench, match: {{ actor: '*' }}, actor: actor, limit: {kind.limit} }}]\n" if kind.limit else ""
    shared = "resp: { cell_shared: true }\n" if "cell_shared" in kind.name else ""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "sluice.yaml"
        config.write_text('listen: [{ protocol: resp, address: "127.0.0.1:0" }]\n' + rules + shared +
                          f'store: {{ redis: {{ nodes: ["127.0.0.1:{redis.port}"], deadline_ms: 10000 }} }}\n',
                          encoding="utf-8")
        with serving([str(BUILD / "sluice"), "serve", "--config", str(config)]) as sluice:
            yield sluice


def ask(sluice: Server, kind: Kind, calls: int) -> None:
    """Sends so many requests, PIPELINE at a time."""
    text = kind.command or "SLUICE.TAKE actor=ACTOR"
    with socket.create_connection(("127.0.0.1", sluice.port), 30) as connection:
        replies = connection.makefile("rb")
        for first in range(0, calls, PIPELINE):
            lines = [text.replace("ACTOR", f"actor-{(first + i) % ACTORS}") for i in range(PIPELINE)]
            connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
            for _ in lines:
                head = replies.readline()
                if not head.startswith(b"*"):
                    give_up(f"{kind.name}: {head!r}")
                for _ in range(int(head[1:])):
                    replies.readline()


def in_redis(redis: Server, sluice: Server, kind: Kind, calls: int) -> float:
    cli(redis.port, "CONFIG", "RESETSTAT")
    ask(sluice, kind, calls)
    found = re.search(r"^cmdstat_evalsha:calls=(\d+),usec=(\d+)", cli(redis.port, "INFO", "commandstats"), re.MULTILINE)
    if found is None or int(found[1]) < calls:
        give_up(f"{kind.name}: Redis was not called once for each request")
    return int(found[2]) / int(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--calls", type=int, default=19_200, help="of each kind in a round; default %(default)s")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this kind; may be repeated")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if not options.only or kind.name in options.only]
    costs: dict[str, list[float]] = {kind.name: [] for kind in kinds}
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(serving_redis())
        servers = {kind.name: stack.enter_context(serving_on(redis, kind)) for kind in kinds}
        for _ in range(options.rounds):
            for kind in kinds:
                cli(redis.port, "FLUSHALL")
                ask(servers[kind.name], kind, PIPELINE)  # Redis has the script
                costs[kind.name].append(in_redis(redis, servers[kind.name], kind, options.calls))
    missed = False
    for kind in kinds:
        us = min(costs[kind.name])
        verdict = ""
        if kind.held:
            verdict = f", limit {MOST_US:.0f}: {'met' if us <= MOST_US else 'MISSED'}"
            missed |= us > MOST_US
        print(f"{kind.name}: {us:.1f} us of Redis{verdict}")
    print(f"load average {os.getloadavg()[0]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
