#!/usr/bin/env python3
"""Instructions of a whole reply in user space, of the worker's thread alone, counted by valgrind over the same requests
in each protocol: what is read, decided and written, for counters that exist. Counts hardly depend on what else the
machine does. With --against FOLDER, the same of another build of the server, and how much this one takes more; exit
status 1: more than --within percent. With --traces, those of HTTP without traces, with traces of which none is recorded,
and with each recorded.

    tools/bench_replies.py [--against FOLDER] [--within PERCENT] [--traces] [PROTOCOL...]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import bench_common
from bench_common import BUILD, load, serving_sluice

REQUESTS = 8_000
FEW, MANY = 1, 3  # how often all of them are sent: the difference leaves out the start and new counters
DEPTHS = (1, 16)  # requests under way on the one connection
TRIES = 3
PROTOCOLS = ("divvy", "limitd", "droplet")
# Spans stay in the worker's memory, which has room for all of them, as nothing is sent before the end.
TRACES = """
otlp: { traces: { endpoint: "http://127.0.0.1:9", sample: SAMPLE, delay: 10m, queue: 100000 } }
"""


def collected(folder: Path) -> int:
    """The instructions of the thread that has most, which is the worker's. The first thread is left out: its start can be
    more than all replies, more so where libraries are linked at that time."""
    totals = [int(found[1]) for path in folder.glob("callgrind.out*")
              if not path.name.endswith("-01")
              and (found := re.search(r"^(?:totals|summary): (\d+)", path.read_text(encoding="utf-8"), re.MULTILINE))]
    if not totals:
        bench_common.give_up("valgrind wrote no counts: scripts/setup bench installs it")
    return max(totals)


def instructions(build: Path, protocol: str, depth: int, times: int, more: str = "") -> int:
    with tempfile.TemporaryDirectory() as name:
        valgrind = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "-q",
                    f"--callgrind-out-file={name}/callgrind.out"]
        with serving_sluice(protocol, build, valgrind, more) as server:
            for _ in range(times):
                load(server, protocol, core="", conns=1, depth=depth, distinct=REQUESTS)
        return collected(Path(name))


def of_a_reply(build: Path, protocol: str, depth: int, more: str = "") -> float:
    return (instructions(build, protocol, depth, MANY, more) - instructions(build, protocol, depth, FEW, more)) / (
        (MANY - FEW) * REQUESTS)


def compare_traces(build: Path) -> None:
    for depth in DEPTHS:
        off = of_a_reply(build, "http", depth)
        for name, more in (("without traces", ""), ("none recorded", TRACES.replace("SAMPLE", "0")),
                           ("each recorded", TRACES.replace("SAMPLE", "1"))):
            each = off if more == "" else of_a_reply(build, "http", depth, more)
            print(f"http, {depth} at a time, {name}: {each:.0f} instructions a reply, {each - off:+.0f}", flush=True)


def of_both(ours: Path, theirs: Path, protocol: str, depth: int, within: float) -> tuple[float, float]:
    """The same of two builds. A busy machine adds to one more than to the other, as it has more turns of a timer to a reply, or
    fewer requests in what is read at once: where they differ they are measured again, and the least of each counts."""
    each, other = of_a_reply(ours, protocol, depth), of_a_reply(theirs, protocol, depth)
    for _ in range(TRIES - 1):
        if abs(each / other - 1) * 100 <= within:
            break
        each, other = min(each, of_a_reply(ours, protocol, depth)), min(other, of_a_reply(theirs, protocol, depth))
    return each, other


def compare(ours: Path, theirs: Path | None, protocols: Iterable[str], within: float) -> int:
    """Prints the instructions of a reply of the build `ours`, and those of `theirs` if it is there. Returns how many of ours
    are more by more than `within` percent."""
    missed = 0
    for protocol in protocols:
        for depth in DEPTHS:
            each, other = of_both(ours, theirs, protocol, depth, within) if theirs else (of_a_reply(ours, protocol, depth), 0.0)
            text = f"{protocol}, {depth} at a time: {each:.0f} instructions a reply"
            if theirs:
                more = (each / other - 1) * 100
                kept = more <= within
                missed += not kept
                text += f"; {theirs}: {other:.0f}; {more:+.1f} %, at most {within:g}: {'met' if kept else 'MISSED'}"
            print(text, flush=True)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another build, with a `sluice` in it")
    parser.add_argument("--within", type=float, default=2.0, metavar="PERCENT", help="by default 2")
    parser.add_argument("--traces", action="store_true", help="what a trace costs")
    parser.add_argument("protocols", nargs="*", default=PROTOCOLS, metavar="PROTOCOL")
    asked = parser.parse_args()
    if asked.traces:
        compare_traces(BUILD)
        return 0
    return 1 if compare(BUILD, asked.against, asked.protocols, asked.within) else 0


if __name__ == "__main__":
    sys.exit(main())
