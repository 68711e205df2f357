#!/usr/bin/env python3
"""Processor time of sluice and its Redis together for each request, in comparisons of medians; and what `wait_replicas` adds to it.

1. Divvy's HIT on a single Redis, beside a bare script driven straight at that Redis: it does GET, DECRBY and TTL for each hit (and SETEX for the
   first one of a key), called by redis-benchmark over as many connections and as deep.
2. The same on a Redis Cluster of one primary, beside the single Redis.
3. The same on a Redis Cluster of three primaries, beside the single Redis.
4. A HIT of two native rules whose counters are in two slots (`across_slots: settle`) of those three primaries, beside a HIT of one such rule.
5. `wait_replicas: 1` on a primary with a replica, beside the same without it, the replica's processor time included; on a single Redis and on a
   Redis Cluster of one primary, with as many connections and requests as the others, and with one connection that sends one request at a time. Of these
   no ratio is held: they depend on how many calls a turn has, and so on how busy the machine is. The second also has the time until a reply.

All Redis and sluice share one processor, the load has another. All measurements take turns in every round, so that a busy machine disturbs them
alike. A measurement is one request for each of --requests keys. Exit status 1: a limit was exceeded.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench_common import DIVVY_POLICY, BUILD, SERVER_CORE, LOAD_CORE, Server, give_up, load, pinned, serving

CONNECTIONS, DEPTH = 50, 16
SLOTS = 16384
SCRIPT = """
local value = redis.call('GET', KEYS[1])
local left
if value then
  left = redis.call('DECRBY', KEYS[1], 1)
else
  left = ARGV[1] - 1
  redis.call('SETEX', KEYS[1], ARGV[2], left)
end
return {left, redis.call('TTL', KEYS[1])}
"""
# Both count by the address, the second one by the method as well: so their counters have different tags and different
# slots.
ONE_RULE = 'rules:\n  - { name: one, match: { path: /bench, ip: "*" }, actor: ip, then: continue, ' \
    "limit: { quota: 1000000000, window: 1d, algorithm: fixed_window } }\n"
TWO_RULES = ONE_RULE + '  - { name: two, match: { method: GET, path: /bench, ip: "*" }, actor: [ip, method], ' \
    "limit: { quota: 1000000000, window: 1d, algorithm: fixed_window } }\n"


class Comparison(NamedTuple):
    what: str
    beside: str
    limit: float | None = None  # the most that it may cost, in costs of the other
    # Two other costs, whose ratio is Redis' own part: what the same script costs more in a cluster without sluice. The limit is of the rest.
    redis_part: tuple[str, str] | None = None


BARE_PART = ("bare script, cluster of one", "bare script")
# Behind the name of what has one connection with one request at a time; it has so many times fewer requests.
ONE_REQUEST, FEWER = ", one request", 10

COMPARISONS = [
    Comparison("single Redis", "bare script", 1.3),
    Comparison("cluster of one", "single Redis", 1.1, BARE_PART),
    Comparison("cluster of three", "single Redis", 1.3, BARE_PART),
    Comparison("two slots", "one slot", 2.4),
    Comparison("wait_replicas", "primary and replica"),
    Comparison("wait_replicas, one request", "primary and replica, one request"),
    Comparison("wait_replicas, cluster", "primary and replica, cluster"),
    Comparison("wait_replicas, cluster, one request", "primary and replica, cluster, one request"),
]


def cpu_seconds(server: Server) -> float:
    """Processor time of all threads, including those that have ended."""
    return time.clock_gettime(~server.pid << 3 | 2)


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


def await_line(node: Server, words: tuple[str, ...], line: str) -> None:
    """Until the node's answer has that line."""
    for _ in range(600):
        if line in cli(node.port, *words).splitlines():
            return
        time.sleep(0.05)
    give_up(f"a Redis does not say {line}")


@contextlib.contextmanager
def serving_replica(primary: Server, cluster: bool) -> Iterator[Server]:
    """A replica that has all of the primary."""
    settings = ["--repl-diskless-sync-delay", "0"]
    cli(primary.port, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
    if cluster:
        port = free_port()
        settings += ["--cluster-enabled", "yes", "--cluster-port", str(port)]
    with serving_redis(*settings) as replica:
        if cluster:
            cli(primary.port, "CLUSTER", "MEET", "127.0.0.1", str(replica.port), str(port))
            await_line(replica, ("CLUSTER", "INFO"), "cluster_known_nodes:2")
            await_line(replica, ("CLUSTER", "INFO"), "cluster_state:ok")
            cli(replica.port, "CLUSTER", "REPLICATE", cli(primary.port, "CLUSTER", "MYID"))
        else:
            cli(replica.port, "REPLICAOF", "127.0.0.1", str(primary.port))
        await_line(replica, ("INFO", "replication"), "master_link_status:up")
        yield replica


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
            await_line(node, ("CLUSTER", "INFO"), f"cluster_slots_assigned:{SLOTS}")
            await_line(node, ("CLUSTER", "INFO"), "cluster_state:ok")
        yield nodes


class Cost(NamedTuple):
    """Of one request, in microseconds."""
    # of processor time
    redis: float
    replica: float = 0.0
    sluice: float = 0.0
    # within which so many of a hundred requests have their reply; 0: not measured
    half: float = 0.0
    nearly_all: float = 0.0
    waits: float = 0.0  # how many WAITs the primaries had for it

    @property
    def all(self) -> float:
        return self.redis + self.replica + self.sluice


def bare(redis: Server, requests: int) -> Cost:
    sha = cli(redis.port, "SCRIPT", "LOAD", SCRIPT)
    before = cpu_seconds(redis)
    subprocess.run([*pinned(LOAD_CORE), "redis-benchmark", "-p", str(redis.port), "-c", str(CONNECTIONS), "-P",
                    str(DEPTH), "-n", str(requests), "-r", str(requests), "-q", "EVALSHA", sha, "1",
                    "divvy:ip=* method=GET path=/bench:__rand_int__:1000000000:86400", "1000000000", "86400"],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return Cost((cpu_seconds(redis) - before) / requests * 1e6)


def waits_of(node: Server) -> int:
    found = re.search(r"^cmdstat_wait:calls=(\d+)", cli(node.port, "INFO", "commandstats"), re.MULTILINE)
    return int(found[1]) if found else 0


def through_sluice(nodes: list[Server], replicas: list[Server], sluice: Server, requests: int, conns: int = CONNECTIONS,
                   depth: int = DEPTH) -> Cost:
    def used() -> Cost:
        return Cost(sum(map(cpu_seconds, nodes)), sum(map(cpu_seconds, replicas)), cpu_seconds(sluice),
                    waits=sum(map(waits_of, nodes)))

    before = used()
    figures = load(sluice, "divvy", conns=conns, depth=depth, distinct=requests)
    after = used()
    redis, replica, in_sluice = ((now - then) / requests * 1e6 for now, then in zip(after[:3], before[:3]))
    return Cost(redis, replica, in_sluice, figures["p50_us"], figures["p99_us"], (after.waits - before.waits) / requests)


@contextlib.contextmanager
def serving_on(nodes: list[Server], cluster: bool, rules: str | None = None, wait_replicas: int = 0) -> Iterator[Server]:
    """Sluice with its counters there: of Divvy's policy, or of native rules."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench.ini").write_text(DIVVY_POLICY, encoding="utf-8")
        config = Path(folder) / "sluice.yaml"
        named = ", ".join(f'"127.0.0.1:{node.port}"' for node in nodes)
        how = "cluster: true, across_slots: settle" if cluster else "cluster: false"
        # The deadline is long: a machine that does other things as well must not end the run. So is the wait: each grant has to be at the replica.
        config.write_text(f"""listen: [{{ protocol: divvy, address: "127.0.0.1:0" }}]
store: {{ redis: {{ nodes: [{named}], {how}, deadline_ms: 10000, wait_replicas: {wait_replicas}, wait_timeout_ms: 5000 }} }}
{rules or "policy: [{ divvy: bench.ini }]"}
""", encoding="utf-8")
        with serving([str(BUILD / "sluice"), "serve", "--config", str(config)]) as sluice:
            yield sluice


def setups(stack: contextlib.ExitStack, requests: int) -> dict[str, Callable[[], Cost]]:
    """What is measured, by its name."""
    single = stack.enter_context(serving_redis())
    measured: dict[str, Callable[[], Cost]] = {"bare script": lambda: bare(single, requests)}

    def add(name: str, nodes: list[Server], rules: str | None = None) -> None:
        sluice = stack.enter_context(serving_on(nodes, nodes[0] is not single, rules))
        measured[name] = lambda: through_sluice(nodes, [], sluice, requests)

    def add_pair(more: str, primary: Server, cluster: bool) -> None:
        replica = stack.enter_context(serving_replica(primary, cluster))
        for name, wait_replicas in (("primary and replica", 0), ("wait_replicas", 1)):
            sluice = stack.enter_context(serving_on([primary], cluster, wait_replicas=wait_replicas))

            def measure(count: int, sluice: Server = sluice, waits: int = wait_replicas, **shape: int) -> Cost:
                cost = through_sluice([primary], [replica], sluice, count, **shape)
                if (cost.waits > 0) != (waits > 0):
                    give_up(f"{cost.waits} WAITs for each request, with wait_replicas: {waits}")
                return cost

            measured[name + more] = lambda measure=measure: measure(requests)
            measured[name + more + ONE_REQUEST] = lambda measure=measure: measure(requests // FEWER, conns=1, depth=1)

    one, three = (stack.enter_context(serving_cluster(primaries)) for primaries in (1, 3))
    add("single Redis", [single])
    # How much of the difference is Redis' own.
    measured["bare script, cluster of one"] = lambda: bare(one[0], requests)
    add("cluster of one", one)
    add("cluster of three", three)
    add("one slot", three, ONE_RULE)
    add("two slots", three, TWO_RULES)
    add_pair("", stack.enter_context(serving_redis()), False)
    add_pair(", cluster", stack.enter_context(serving_cluster(1))[0], True)
    return measured


def verdict(comparison: Comparison, medians: dict[str, float]) -> bool:
    cost, other = medians[comparison.what], medians[comparison.beside]
    text = f"{comparison.what} {cost:.2f} us, {comparison.beside} {other:.2f} us: ratio {cost / other:.2f}"
    ratio = cost / other
    if comparison.redis_part and all(name in medians for name in comparison.redis_part):
        own = medians[comparison.redis_part[0]] / medians[comparison.redis_part[1]]
        ratio /= own
        text += f", of which Redis' own {own:.2f}, leaves {ratio:.2f}"
    if comparison.limit is None:
        print(f"{text}, no limit")
        return True
    kept = ratio <= comparison.limit
    print(f"{text}, limit {comparison.limit}: {'met' if kept else 'MISSED'}")
    return kept


def added_latency(comparison: Comparison, costs: dict[str, list[Cost]]) -> None:
    """The median of the rounds' differences, as a round that is disturbed is late in both."""
    pairs = list(zip(costs[comparison.what], costs[comparison.beside]))
    half = statistics.median(one.half - other.half for one, other in pairs)
    nearly_all = statistics.median(one.nearly_all - other.nearly_all for one, other in pairs)
    print(f"{comparison.what}: half of the replies {half:+.0f} us, 99 of 100 {nearly_all:+.0f} us, beside {comparison.beside}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="default %(default)s")
    parser.add_argument("--requests", type=int, default=30_000, help="of each measurement; default %(default)s")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this one of what is measured; may be repeated")
    options = parser.parse_args()
    costs: dict[str, list[Cost]] = {}
    with contextlib.ExitStack() as stack:
        measured = setups(stack, options.requests)
        if options.only:
            measured = {name: measured[name] for name in options.only}
        for number in range(options.rounds + 1):  # the first round makes the counters and does not count
            for name, measure in measured.items():
                cost = measure()
                if number == 0:
                    continue
                costs.setdefault(name, []).append(cost)
                print(f"  round {number}  {name}: {cost.all:.2f} us, of which Redis {cost.redis:.2f}", flush=True)
    for name, its in costs.items():
        median = Cost(*(statistics.median(values) for values in zip(*its)))
        text = f"{name}: median {statistics.median(one.all for one in its):.2f} us (Redis {median.redis:.2f}, "
        if median.replica:
            text += f"replica {median.replica:.2f}, "
        text += f"sluice {median.sluice:.2f})"
        if median.half:
            text += f", half of the replies within {median.half:.0f} us, 99 of 100 within {median.nearly_all:.0f} us"
        if median.waits:
            text += f", {median.waits:.2f} WAITs"
        print(text)
    medians = {name: statistics.median(one.all for one in its) for name, its in costs.items()}
    print(f"load average {os.getloadavg()[0]:.1f}")
    verdicts = [verdict(one, medians) for one in COMPARISONS if one.what in medians and one.beside in medians]
    for one in COMPARISONS:
        if one.what.endswith(ONE_REQUEST) and one.what in costs and one.beside in costs:
            added_latency(one, costs)
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
