#!/usr/bin/env python3
"""What a Redis still grants when it is asked for more than it can do, in time, and what it charges for nothing.

Redis has a processor of its own, and each decision costs it much (a sliding_window past 2^53), so that neither sluice nor the load is the bottleneck. In each round the
same generator (tools/load) asks for:

1. the capacity: a closed loop of so few requests that none is refused or late;
2. 2.5 times the capacity, in an open loop, with `deadline_ms: 50`. At least 90 % of the capacity must be granted, and requests that timed out, and may have been
   charged, may be 1 % of what is granted;
3. 50 connections with 32 requests each, in a closed loop, with `deadline_ms` 50 and 1000. With 1000 at least 90 % of the capacity must be granted. With 50 at
   least half, as clients that ask again at once take the processor: sluice refuses some hundred thousand requests a second beside Redis;
4. 2.5 times the capacity in an open loop of 6 s, of a server that has just started, with four workers on its one processor: each learns
   for itself what Redis can do, so no limit is held. With --only-workers only this, and the capacity.

Every figure is the median of the rounds. Exit status 1: a target was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench_common import BUILD, LOAD_CORE, TOOLS, Server, give_up, pinned, serving
from bench_redis import free_port, serving_redis

OVERLOAD = 2.5
LEAST_GRANTED, LEAST_GRANTED_BESIDE_REFUSALS, MOST_TIMED_OUT = 0.9, 0.5, 0.01
CONNECTIONS, DEPTH = 50, 32
KEYS, WARM_UP_SECONDS = 1000, 2
WORKERS, WORKERS_SECONDS, JUST_STARTED = 4, 6, "that have just started"
CONFIG = """
workers: %d
listen:
  - { protocol: http, address: "127.0.0.1:0" }
  - { protocol: admin, address: "127.0.0.1:%d" }
rules:
  - { name: take, match: { method: POST, path: /bench, ip: "*" }, actor: ip,
      limit: { quota: 1000000000, window: 30d, algorithm: sliding_window } }
store: { redis: { nodes: ["127.0.0.1:%d"], deadline_ms: %d } }
"""


class Sluice(NamedTuple):
    server: Server
    admin: int


class Run(NamedTuple):
    granted: float  # in a second
    timed_out: float  # as a part of the granted
    p99_ms: float


@contextlib.contextmanager
def serving_on(redis: Server, deadline_ms: int, workers: int = 1) -> Iterator[Sluice]:
    admin = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "sluice.yaml"
        config.write_text(CONFIG % (workers, admin, redis.port, deadline_ms), encoding="utf-8")
        with serving([str(BUILD / "sluice"), "serve", "--config", str(config)], LOAD_CORE) as server:
            yield Sluice(server, admin)


def timed_out(sluice: Sluice) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{sluice.admin}/metrics", timeout=30) as page:
        found = re.search(rb'^sluice_redis_failures_total\{reason="deadline"\} (\d+)', page.read(), re.MULTILINE)
    if found is None:
        give_up("the metrics do not say what timed out")
    return int(found[1])


def load(sluice: Sluice, seconds: int, **options: int) -> Run:
    before = timed_out(sluice)
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    ran = subprocess.run([*pinned(LOAD_CORE), str(TOOLS / "load"), "--port", str(sluice.server.port), "--protocol", "http", "--secs", str(seconds),
                          "--warmup", "0", "--keys", str(KEYS), *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        give_up(ran.stderr.strip())
    figures = dict(pair.split("=") for pair in ran.stdout.split())
    if figures["denied"] != "0":
        give_up(f"the limit was reached: {ran.stdout.strip()}")
    allowed = int(figures["allowed"])
    return Run(allowed / seconds, (timed_out(sluice) - before) / max(allowed, 1), int(figures["p99_us"]) / 1000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=10, help="of each load; default %(default)s")
    parser.add_argument("--only-workers", action="store_true", help="only the server of several workers")
    options = parser.parse_args()
    rounds: dict[str, list[tuple[float, Run]]] = {}
    capacities = []
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(serving_redis())
        servers = {ms: stack.enter_context(serving_on(redis, ms)) for ms in (50, 1000)}
        load(servers[50], WARM_UP_SECONDS, conns=CONNECTIONS, depth=1)
        for _ in range(options.rounds):
            capacity = load(servers[1000], options.seconds, conns=CONNECTIONS, depth=4)
            capacities.append(capacity.granted)
            runs = {} if options.only_workers else {
                f"open loop, {OVERLOAD} times the capacity, deadline_ms 50":
                    load(servers[50], options.seconds, conns=CONNECTIONS, depth=512, rate=round(OVERLOAD * capacity.granted)),
                **{f"closed loop, {CONNECTIONS} x {DEPTH}, deadline_ms {ms}":
                       load(sluice, options.seconds, conns=CONNECTIONS, depth=DEPTH) for ms, sluice in servers.items()},
            }
            with serving_on(redis, 50, WORKERS) as several:
                runs[f"open loop, {OVERLOAD} times the capacity, deadline_ms 50, {WORKERS} workers {JUST_STARTED}"] = load(
                    several, WORKERS_SECONDS, conns=CONNECTIONS, depth=512, rate=round(OVERLOAD * capacity.granted))
            for name, run in runs.items():
                rounds.setdefault(name, []).append((run.granted / capacity.granted, run))
                print(f"  {name}: {run.granted:.0f} of {capacity.granted:.0f} a second, {100 * run.timed_out:.2f} % timed out", flush=True)
    missed = False
    print(f"capacity: {statistics.median(capacities):.0f} a second")
    for name, its in rounds.items():
        part = statistics.median(part for part, _ in its)
        late = statistics.median(run.timed_out for _, run in its)
        if name.endswith(JUST_STARTED):
            print(f"{name}: {100 * part:.1f} % of the capacity granted, {100 * late:.2f} % of that timed out, no limits")
            continue
        held_late = name.startswith("open")
        least = LEAST_GRANTED_BESIDE_REFUSALS if name.startswith("closed") and name.endswith(" 50") else LEAST_GRANTED
        is_met = part >= least and (late <= MOST_TIMED_OUT or not held_late)
        missed |= not is_met
        limits = f"at least {100 * least:.0f} %" + (f", at most {100 * MOST_TIMED_OUT:.0f} %" if held_late else "")
        print(f"{name}: {100 * part:.1f} % of the capacity granted, {100 * late:.2f} % of that timed out, limits {limits}: {'met' if is_met else 'MISSED'}")
    print(f"load average {os.getloadavg()[0]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
