#!/usr/bin/env python3
"""The static program beside the dynamic one, from the same objects: the instructions of a whole reply in each protocol, the
memory when empty and of each counter. Both are as in the release. Exit status 1: the static program takes more.

    tools/bench_static.py [--static FOLDER] [--dynamic FOLDER] [--no-memory] [PROTOCOL...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bench_memory
import bench_replies
from bench_common import ROOT

PROTOCOLS = (*bench_replies.PROTOCOLS, "resp", "envoy", "http", "http/auth")
REPLY_PERCENT_MAX = 1.0
COUNTER_BYTES_MAX = 0.1  # more than the dynamic program's: what a huge page makes of them


def more_memory(static: Path, dynamic: Path) -> int:
    """How many of both measures the static program misses."""
    empty, each = bench_memory.least(build=static)
    empty_max, dynamic_each = bench_memory.least(build=dynamic)
    each_max = dynamic_each + COUNTER_BYTES_MAX
    print(f"empty: {empty / 1e6:.2f} MB, at most {empty_max / 1e6:.2f}: {'met' if empty <= empty_max else 'MISSED'}")
    print(f"a counter: {each:.2f} bytes, at most {each_max:.2f}: {'met' if each <= each_max else 'MISSED'}", flush=True)
    return (empty > empty_max) + (each > each_max)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--static", type=Path, default=ROOT / "build/release/dist", metavar="FOLDER",
                        help="with the static `sluice` in it")
    parser.add_argument("--dynamic", type=Path, default=ROOT / "build/release", metavar="FOLDER", help="with the other")
    parser.add_argument("--no-memory", action="store_true", help="instructions alone")
    parser.add_argument("protocols", nargs="*", default=PROTOCOLS, metavar="PROTOCOL")
    asked = parser.parse_args()
    missed = 0 if asked.no_memory else more_memory(asked.static, asked.dynamic)
    missed += bench_replies.compare(asked.static, asked.dynamic, asked.protocols, REPLY_PERCENT_MAX)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
