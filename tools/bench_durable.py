#!/usr/bin/env python3
"""What the durable store costs: sluice with `durability: none`, `interval` and `always`, in turns.

50 connections with 16 requests each over 100,000 keys of Divvy's protocol, folds and compactions included:

- cost: processor time of the whole process for each reply; server and load on a processor each;
- rate: decisions a second of `always`, and of the others, with the load on the same two processors;
- late: the 99.9th percentile at half the rate that `always` sustains, there and with `none` at the same rate;
- snapshot: with --counters of them the 99.9th percentile of short runs during which a snapshot is written, and of others
  between; and the anonymous memory beside that of `none` with the same counters.

Exit status 1: a target was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_common import BUILD, DIVVY_POLICY, SERVER_CORE, Server, load, serving

PARTS = ("cost", "rate", "late", "snapshot")
CONNECTIONS, DEPTH, KEYS = 50, 16, 100_000
COST_MAX = 1.25  # the cost of `interval` divided by the cost of `none`
RATE_MIN = 400_000
LATE_US_MAX, LATE_RATIO_MAX = 2000.0, 2.0  # whichever is larger
SNAPSHOT_US_MAX, SNAPSHOT_RATE, SNAPSHOT_RUNS = 2000.0, 50_000, 5
ANONYMOUS_MIB_MAX = 16


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the durable store costs.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default all")
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("BENCH_DURABLE_SECONDS", "60")),
                        help="of a run, behind two to warm up; default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--folder", default=str(BUILD), help="on the disk to measure; default %(default)s")
    parser.add_argument("--counters", type=int, default=10_000_000, help="of snapshot; default %(default)s")
    options = parser.parse_args()
    if set(options.parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    return options


@contextlib.contextmanager
def sluice(folder: str, durability: str, core: str) -> Iterator[Server]:
    """A server with a store of its own, which is removed with it."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="durable-") as place:
        policy = Path(place) / "bench.ini"
        policy.write_text(DIVVY_POLICY, encoding="utf-8")
        command = [str(BUILD / "sluice"), "divvy", str(policy)]
        if durability != "none":
            command += ["--data", str(Path(place) / "data"), "--durability", durability]
        with serving(command, core=core, PORT="0") as server:
            yield server


def anonymous_mib(server: Server) -> float:
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def is_writing_snapshot(folder: str) -> bool:
    return any(Path(folder).glob("durable-*/data/**/snapshot*.new"))


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.missed = 0

    def run(self, durability: str, core: str, **more: int) -> dict[str, float]:
        with sluice(self.options.folder, durability, core) as server:
            where = {} if core else {"core": ""}
            return load(server, "divvy", conns=CONNECTIONS, depth=DEPTH, keys=KEYS, warmup=2,
                        secs=self.options.seconds, pid=server.pid, **where, **more)

    def medians(self, figure: str, title: str, durabilities: list[str], core: str, **more: int) -> dict[str, float]:
        runs: dict[str, list[float]] = {name: [] for name in durabilities}
        for number in range(1, self.options.rounds + 1):
            for name in durabilities:
                figures = self.run(name, core, **more)
                runs[name].append(figures[figure])
                print(f"  {title} round {number} {name:<8} {figures['cpu_ns']:8.1f} ns/reply "
                      f"{figures['rate']:9.0f} replies/s p99.9 {figures['p999_us']:.0f} us", flush=True)
        return {name: statistics.median(values) for name, values in runs.items()}

    def judge(self, text: str, kept: bool) -> None:
        print(f"{text}: {'met' if kept else 'MISSED'}", flush=True)
        self.missed += not kept

    def cost(self) -> None:
        costs = self.medians("cpu_ns", "cost", ["none", "interval", "always"], SERVER_CORE)
        ratio = costs["interval"] / costs["none"]
        print(f"cost: always {costs['always']:.1f} ns/reply, {costs['always'] / costs['none']:.2f} of none")
        self.judge(f"cost: none {costs['none']:.1f} ns/reply, interval {costs['interval']:.1f}; ratio {ratio:.2f}, "
                   f"target {COST_MAX}", ratio <= COST_MAX)

    def rate(self) -> float:
        rates = self.medians("rate", "rate", ["none", "interval", "always"], "")
        print(f"rate: none {rates['none']:.0f}, interval {rates['interval']:.0f} decisions/s")
        self.judge(f"rate: always {rates['always']:.0f} decisions/s, target {RATE_MIN}", rates["always"] >= RATE_MIN)
        return rates["always"]

    def late(self, sustained: float) -> None:
        late = self.medians("p999_us", "late", ["none", "interval", "always"], "", rate=max(1, int(sustained / 2)))
        target = max(LATE_US_MAX, LATE_RATIO_MAX * late["none"])
        for name in ("interval", "always"):
            self.judge(f"late: at {sustained / 2:.0f} decisions/s the 99.9th percentile of {name} is {late[name]:.0f} us, "
                       f"of none {late['none']:.0f}; target {target:.0f}", late[name] <= target)

    def snapshot(self) -> None:
        count, folder = self.options.counters, self.options.folder
        fill = {"conns": CONNECTIONS, "depth": DEPTH, "distinct": count}
        with sluice(folder, "none", SERVER_CORE) as server:
            load(server, "divvy", **fill)
            table = anonymous_mib(server)
        runs: dict[bool, list[float]] = {True: [], False: []}
        beside = 0.0
        with sluice(folder, "interval", SERVER_CORE) as server:
            load(server, "divvy", **fill)
            for _ in range(50):  # mostly a snapshot is written
                beside = max(beside, anonymous_mib(server) - table)
                time.sleep(0.1)
            for wanted, count_of in ((False, SNAPSHOT_RUNS), (True, SNAPSHOT_RUNS), (False, 2 * SNAPSHOT_RUNS)):
                end = time.monotonic() + 120
                while len(runs[wanted]) < count_of and time.monotonic() < end:
                    before = is_writing_snapshot(folder)
                    # Where a snapshot is wanted all counters change, until the log is so long that one is due.
                    few = before or not wanted
                    keys, rate = (KEYS, SNAPSHOT_RATE) if few else (count, 10 * SNAPSHOT_RATE)
                    figures = load(server, "divvy", conns=CONNECTIONS, depth=1, keys=keys, secs=1, rate=rate)
                    if few and before == wanted == is_writing_snapshot(folder):
                        runs[wanted].append(figures["p999_us"])
        during, without = (statistics.median(runs[which] or [float("nan")]) for which in (True, False))
        print(f"  snapshot: during {sorted(runs[True])}, without {sorted(runs[False])} us", flush=True)
        self.judge(f"snapshot: {count} counters, the 99.9th percentile at {SNAPSHOT_RATE} decisions/s is {during:.0f} us "
                   f"during one, {without:.0f} without; target {SNAPSHOT_US_MAX:.0f} more",
                   during <= without + SNAPSHOT_US_MAX)
        self.judge(f"snapshot: {beside:.0f} MiB of anonymous memory beside the {table:.0f} of the table; target "
                   f"{ANONYMOUS_MIB_MAX}", beside <= ANONYMOUS_MIB_MAX)


def main() -> int:
    options = arguments()
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"The load average is {busy:.1f}: what else runs here adds to all sides, and pulls the figures about.")
    parts = options.parts or PARTS
    bench = Bench(options)
    if "cost" in parts:
        bench.cost()
    sustained = bench.rate() if "rate" in parts or "late" in parts else 0.0
    if "late" in parts:
        bench.late(sustained)
    if "snapshot" in parts:
        bench.snapshot()
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
