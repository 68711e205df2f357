#!/usr/bin/env python3
"""Processor time of sluice and its Redis together for each HIT, beside that of the bare script driven at Redis.

Redis and sluice share one processor, the load has another, in turns, so that a busy machine disturbs both alike. The
bare script is what Divvy's documentation says that a hit does (GET, SETEX or DECR, TTL), called by redis-benchmark
with as many connections and as deep. Then the same of a Redis Cluster of one primary and of three, beside the single
Redis. What counts are the ratios of the medians. Exit status 1: a target was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_common import DIVVY_POLICY, BUILD, SERVER_CORE, LOAD_CORE, Server, give_up, load, pinned, serving

CONNECTIONS, DEPTH, KEYS = 50, 16, 100_000
TARGET = 1.3
# Primaries of a cluster: the most that a HIT may cost, in HITs of a single Redis.
CLUSTER_TARGETS = {1: 1.1, 3: 1.3}
SLOTS = 16384
SCRIPT = """
local value = redis.call('GET', KEYS[1])
local allowed, left = 1, 0
if not value then
  left = ARGV[1] - 1
  redis.call('SETEX', KEYS[1], ARGV[2], left)
elseif tonumber(value) > 0 then
  left = redis.call('DECR', KEYS[1])
else
  allowed = 0
end
return {allowed, left, redis.call('TTL', KEYS[1])}
"""
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Of all threads, as precisely as the scheduler tells."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    return total


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving_redis(*settings: str) -> Iterator[Server]:
    """A redis-server of our own, on a port that was free a moment ago."""
    if shutil.which("redis-server") is None:
        give_up("there is no redis-server")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*pinned(SERVER_CORE), "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", *settings], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            yield Server(process.pid, port)
        finally:
            process.terminate()
            process.wait()


def cli(port: int, *words: str) -> str:
    return subprocess.run(["redis-cli", "-p", str(port), *words], check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL).stdout.strip()


@contextlib.contextmanager
def serving_cluster(primaries: int) -> Iterator[list[Server]]:
    """A Redis Cluster of our own."""
    with contextlib.ExitStack() as stack:
        ports = [free_port() for _ in range(primaries)]
        nodes = [stack.enter_context(serving_redis("--cluster-enabled", "yes", "--cluster-port", str(port)))
                 for port in ports]
        for i, node in enumerate(nodes):
            cli(node.port, "CLUSTER", "SET-CONFIG-EPOCH", str(i + 1))
            cli(node.port, "CLUSTER", "ADDSLOTSRANGE", str(SLOTS * i // primaries),
                str(SLOTS * (i + 1) // primaries - 1))
            if i > 0:
                cli(node.port, "CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port), str(ports[0]))
        for node in nodes:
            for _ in range(600):
                if {"cluster_state:ok", f"cluster_slots_assigned:{SLOTS}"} <= set(
                        cli(node.port, "CLUSTER", "INFO").split()):
                    break
                time.sleep(0.05)
            else:
                give_up("the cluster does not come about")
        yield nodes


def bare(redis: Server, sha: str, requests: int) -> float:
    """Microseconds of Redis for one call."""
    before = cpu_seconds(redis.pid)
    subprocess.run([*pinned(LOAD_CORE), "redis-benchmark", "-p", str(redis.port), "-c", str(CONNECTIONS), "-P",
                    str(DEPTH), "-n", str(requests), "-r", str(KEYS), "-q", "EVALSHA", sha, "1",
                    "divvy:ip=* method=GET path=/bench:__rand_int__:1000000000:86400", "1000000000", "86400"],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (cpu_seconds(redis.pid) - before) / requests * 1e6


def through_sluice(nodes: list[Server], sluice: Server, seconds: int) -> tuple[float, float, float]:
    """Microseconds of all, and of Redis alone, for one HIT; HITs per second."""
    load(sluice, "divvy", conns=CONNECTIONS, depth=DEPTH, keys=KEYS, warmup=0, secs=1)

    def calls() -> int:
        found = [re.search(r"cmdstat_evalsha:calls=(\d+)", cli(node.port, "INFO", "commandstats")) for node in nodes]
        return sum(int(one.group(1)) for one in found if one)

    def of_all() -> float:
        return sum(cpu_seconds(node.pid) for node in nodes)

    before = (of_all(), cpu_seconds(sluice.pid), calls())
    figures = load(sluice, "divvy", conns=CONNECTIONS, depth=DEPTH, keys=KEYS, warmup=0, secs=seconds)
    hits = calls() - before[2]
    of_redis, of_sluice = of_all() - before[0], cpu_seconds(sluice.pid) - before[1]
    return (of_redis + of_sluice) / hits * 1e6, of_redis / hits * 1e6, figures["rate"]


@contextlib.contextmanager
def serving_on(nodes: list[Server], cluster: bool) -> Iterator[Server]:
    """Sluice with its counters there."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench.ini").write_text(DIVVY_POLICY, encoding="utf-8")
        config = Path(folder) / "sluice.yaml"
        named = ", ".join(f'"127.0.0.1:{node.port}"' for node in nodes)
        # A machine that does other things as well is not to end the run.
        config.write_text(f"""listen: [{{ protocol: divvy, address: "127.0.0.1:0" }}]
store: {{ redis: {{ nodes: [{named}], cluster: {str(cluster).lower()}, deadline_ms: 1000 }} }}
policy: [{{ divvy: bench.ini }}]
""", encoding="utf-8")
        with serving([str(BUILD / "sluice"), "serve", "--config", str(config)]) as sluice:
            yield sluice


def verdict(what: str, ratio: float, target: float) -> bool:
    kept = ratio <= target
    print(f"{what}: ratio {ratio:.2f}, target {target}: {'met' if kept else 'MISSED'}")
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=3, help="of a round; default %(default)s")
    options = parser.parse_args()
    bares: list[float] = []
    costs: dict[int, list[float]] = {0: []} | {primaries: [] for primaries in CLUSTER_TARGETS}
    with contextlib.ExitStack() as stack:
        single = stack.enter_context(serving_redis())
        sha = cli(single.port, "SCRIPT", "LOAD", SCRIPT)
        setups = {0: [single]} | {primaries: stack.enter_context(serving_cluster(primaries))
                                  for primaries in CLUSTER_TARGETS}
        sluices = {primaries: stack.enter_context(serving_on(nodes, primaries > 0))
                   for primaries, nodes in setups.items()}
        for number in range(1, options.rounds + 1):
            bares.append(bare(single, sha, 150_000 * options.seconds))
            for primaries, nodes in setups.items():
                cost, of_redis, rate = through_sluice(nodes, sluices[primaries], options.seconds)
                costs[primaries].append(cost)
                print(f"  divvy {CONNECTIONS}x{DEPTH} round {number}  bare {bares[-1]:.2f} us, sluice and "
                      f"{f'a cluster of {primaries}' if primaries else 'Redis'} {cost:.2f} us (Redis {of_redis:.2f}), "
                      f"{rate:.0f} HITs/s", flush=True)
    medians = {primaries: statistics.median(all_of_it) for primaries, all_of_it in costs.items()}
    kept = verdict(f"divvy on Redis {CONNECTIONS}x{DEPTH}: bare script {statistics.median(bares):.2f} us, sluice and "
                   f"Redis {medians[0]:.2f} us", medians[0] / statistics.median(bares), TARGET)
    for primaries, target in CLUSTER_TARGETS.items():
        kept &= verdict(f"a cluster of {primaries}: {medians[primaries]:.2f} us, beside a single Redis",
                        medians[primaries] / medians[0], target)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
