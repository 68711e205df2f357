#!/usr/bin/env python3
"""Processor time of sluice and its Redis together for each HIT, beside that of the bare script driven at Redis.

Redis and sluice share one processor, the load has another, in turns, so that a busy machine disturbs both alike. The
bare script is what Divvy's documentation says that a hit does (GET, SETEX or DECR, TTL), called by redis-benchmark
with as many connections and as deep. What counts is the ratio of the medians. Exit status 1: the target was missed.
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


@contextlib.contextmanager
def serving_redis() -> Iterator[Server]:
    """A redis-server of our own, on a port that was free a moment ago."""
    if shutil.which("redis-server") is None:
        give_up("there is no redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*pinned(SERVER_CORE), "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
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


def bare(redis: Server, sha: str, requests: int) -> float:
    """Microseconds of Redis for one call."""
    before = cpu_seconds(redis.pid)
    subprocess.run([*pinned(LOAD_CORE), "redis-benchmark", "-p", str(redis.port), "-c", str(CONNECTIONS), "-P",
                    str(DEPTH), "-n", str(requests), "-r", str(KEYS), "-q", "EVALSHA", sha, "1",
                    "divvy:ip=* method=GET path=/bench:__rand_int__:1000000000:86400", "1000000000", "86400"],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (cpu_seconds(redis.pid) - before) / requests * 1e6


def through_sluice(redis: Server, sluice: Server, seconds: int) -> tuple[float, float, float]:
    """Microseconds of both, and of Redis alone, for one HIT; HITs per second."""
    load(sluice, "divvy", conns=CONNECTIONS, depth=DEPTH, keys=KEYS, warmup=0, secs=1)
    def calls() -> int:
        found = re.search(r"cmdstat_evalsha:calls=(\d+)", cli(redis.port, "INFO", "commandstats"))
        return int(found.group(1)) if found else 0
    before = (cpu_seconds(redis.pid), cpu_seconds(sluice.pid), calls())
    figures = load(sluice, "divvy", conns=CONNECTIONS, depth=DEPTH, keys=KEYS, warmup=0, secs=seconds)
    hits = calls() - before[2]
    of_redis, of_sluice = cpu_seconds(redis.pid) - before[0], cpu_seconds(sluice.pid) - before[1]
    return (of_redis + of_sluice) / hits * 1e6, of_redis / hits * 1e6, figures["rate"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--seconds", type=int, default=3, help="of a round; default %(default)s")
    options = parser.parse_args()
    bares: list[float] = []
    both: list[float] = []
    with serving_redis() as redis, tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "bench.ini"
        policy.write_text(DIVVY_POLICY, encoding="utf-8")
        sha = cli(redis.port, "SCRIPT", "LOAD", SCRIPT)
        config = Path(folder) / "sluice.yaml"
        # A machine that does other things as well is not to end the run.
        config.write_text(f"""listen: [{{ protocol: divvy, address: "127.0.0.1:0" }}]
store: {{ redis: {{ nodes: ["127.0.0.1:{redis.port}"], deadline_ms: 1000 }} }}
policy: [{{ divvy: bench.ini }}]
""", encoding="utf-8")
        command = [str(BUILD / "sluice"), "serve", "--config", str(config)]
        with serving(command) as sluice:
            for number in range(1, options.rounds + 1):
                bares.append(bare(redis, sha, 150_000 * options.seconds))
                cost, of_redis, rate = through_sluice(redis, sluice, options.seconds)
                both.append(cost)
                print(f"  divvy {CONNECTIONS}x{DEPTH} round {number}  bare {bares[-1]:.2f} us, sluice and Redis "
                      f"{cost:.2f} us (Redis {of_redis:.2f}), {rate:.0f} HITs/s", flush=True)
    ratio = statistics.median(both) / statistics.median(bares)
    kept = ratio <= TARGET
    print(f"divvy on Redis {CONNECTIONS}x{DEPTH}: bare script {statistics.median(bares):.2f} us, sluice and Redis "
          f"{statistics.median(both):.2f} us; ratio {ratio:.2f}, target {TARGET}: {'met' if kept else 'MISSED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
