#!/usr/bin/env python3
"""Holds the costs that every change is held to, in `tests/baseline.json`: instructions of a decision by algorithm and of
a whole reply by protocol (counted by valgrind, so they hardly depend on what else the machine does), bytes of resident
memory for each counter by protocol, and the sizes of what is shipped, stripped.

    tools/bench_baseline.py            measure, and compare; exit status 1: a figure is past what the file allows
    tools/bench_baseline.py --write    measure, and write the file

Instructions may grow by 2 %, bytes of a counter by a tenth of a byte, sizes by 10 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_decisions
import bench_memory
import bench_replies
from bench_common import BUILD, ROOT

FILE = ROOT / "tests/baseline.json"
ALGORITHMS = ("fixed_window", "aligned_window", "token_bucket", "sliding_window", "sliding_log", "fixed_bucket")
REPLIES = ("divvy", "limitd", "droplet", "resp", "envoy", "http", "http/auth", "http/h2")
COUNTERS_OF = ("divvy", "limitd", "droplet", "resp", "envoy", "http")
SHIPPED = ("sluice", "libsluice-limiter.so", "libsluice-durable.so", "libsluice-client.so")
INSTRUCTIONS, BYTES, SIZE = "instructions", "bytes of a counter", "bytes of a file"
ALLOWED = {INSTRUCTIONS: lambda before: before * 1.02, BYTES: lambda before: before + 0.1,
           SIZE: lambda before: before * 1.1}


def decisions() -> dict[str, float]:
    return {f"decision {name}": round(bench_decisions.of_one((name,)), 1) for name in ALGORITHMS} | {
        "decision token_bucket + fixed_window": round(bench_decisions.of_one(("token_bucket", "fixed_window")), 1)}


def replies() -> dict[str, float]:
    return {f"reply {protocol}, {depth} at a time": round(bench_replies.of_a_reply(BUILD, protocol, depth))
            for protocol in REPLIES for depth in bench_replies.DEPTHS if not (protocol == "http/h2" and depth == 1)}


def counters() -> dict[str, float]:
    return {f"counter {protocol}": round(bench_memory.least(protocol)[1], 1) for protocol in COUNTERS_OF}


def sizes() -> dict[str, float]:
    found = {}
    for name in SHIPPED:
        with tempfile.NamedTemporaryFile() as stripped:
            subprocess.run(("strip", "-o", stripped.name, str(ROOT / "build/release" / name)), check=True)
            found[f"size {name}"] = Path(stripped.name).stat().st_size
    return found


def measured() -> dict[str, dict[str, float]]:
    subprocess.run((str(ROOT / "scripts/build"), "release", "sluice", "public_libraries"), cwd=ROOT, check=True)
    found: dict[str, dict[str, float]] = {}
    for kind, parts in ((INSTRUCTIONS, (decisions, replies)), (BYTES, (counters,)), (SIZE, (sizes,))):
        found[kind] = {}
        for part in parts:
            for name, figure in part().items():
                print(f"{name}: {figure:,} {kind}", flush=True)
                found[kind][name] = figure
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write tests/baseline.json")
    asked = parser.parse_args()
    now = measured()
    if asked.write:
        FILE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return 0
    missed = 0
    for kind, figures in json.loads(FILE.read_text(encoding="utf-8")).items():
        for name, before in figures.items():
            figure = now[kind].get(name)
            kept = figure is not None and figure <= ALLOWED[kind](before)
            missed += not kept
            if not kept or figure != before:
                print(f"{name}: {before:,} {kind} in the baseline, {figure} now: {'met' if kept else 'MISSED'}")
    print(f"baseline: {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
