#!/usr/bin/env python3
"""What cmake/SluiceCompiling.cmake saves of a cold build: compiles rooms with its settings and with plain ones (no
precompiled headers, no batches, tests optimized like the program), in turns, without ccache.

    tools/bench_builds.py [--rounds N] [ROOM...]        by default store, protocol_resp and cli; `all`: everything

For each room and preset it compiles the objects of the room's library and of its tests, in both ways, and prints the
time. A precompiled header serves all rooms: it is compiled before, and its time is printed by itself, and
counted with `all`. Nothing is linked. Exit status 1: the rooms took more than the share allowed, over both presets.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ROOT / "build/bench_builds"
PRESETS = ("release", "asan")  # those that `make test` builds
PLAIN = ("-DSLUICE_UNITY=none", "-DSLUICE_PRECOMPILED=OFF", "-DSLUICE_TEST_FLAGS=")
ROOMS = ("store", "protocol_resp", "cli")
SHARE_MAX = 0.65


class Cost(NamedTuple):
    processor: float = 0.0  # seconds
    elapsed: float = 0.0  # seconds

    def plus(self, other: Cost) -> Cost:
        return Cost(self.processor + other.processor, self.elapsed + other.elapsed)


class Build:
    """One configured build folder, and the objects of each of its targets."""

    def __init__(self, preset: str, *options: str) -> None:
        self.folder = BUILDS / (f"{preset}-plain" if options else preset)
        shutil.rmtree(self.folder, ignore_errors=True)
        run("cmake", "--preset", preset, "-B", str(self.folder), "-DSLUICE_CCACHE=OFF", "-DCMAKE_CXX_COMPILER_LAUNCHER=",
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options)
        self.objects: dict[str, list[str]] = defaultdict(list)
        self.headers: list[str] = []
        for entry in json.loads((self.folder / "compile_commands.json").read_text(encoding="utf-8")):
            found = re.search(r" -o (\S*CMakeFiles/([-\w]+)\.dir/\S+)", entry["command"])
            assert found, entry["command"]
            if "cmake_pch" in found[1]:
                self.headers.append(found[1])
            else:
                self.objects[found[2]].append(found[1])
        # The generated code, so that no room pays for it.
        self.ninja("sluice_proto", "sluice_grpc_proto")
        self.header_cost = self.ninja(*self.headers) if self.headers else Cost()

    def ninja(self, *targets: str) -> Cost:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        jobs = os.environ.get("JOBS") or str(len(os.sched_getaffinity(0)))
        run("ninja", "-C", str(self.folder), f"-j{jobs}", *targets)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Cost(processor, time.monotonic() - begun)

    def compile(self, room: str) -> Cost:
        targets = (f"sluice_{room}", f"{room}_test") if room in self.rooms() else (room,)
        objects = [name for target in targets for name in self.objects.get(target, [])]
        if not objects:
            sys.exit(f"{room} is not a room or target with code; the rooms are {', '.join(self.rooms())}")
        for name in objects:
            (self.folder / name).unlink(missing_ok=True)
        return self.ninja(*objects)

    def rooms(self) -> list[str]:
        names = [target.removeprefix("sluice_") for target in self.objects if target.startswith("sluice_")]
        return [name for name in names if f"{name}_test" in self.objects]


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\nfailed with status {done.returncode}")


def share(fast: Cost, plain: Cost) -> str:
    return (f"{fast.processor:7.1f} of {plain.processor:7.1f} s of processor time, {fast.processor / plain.processor:.2f};"
            f" {fast.elapsed:6.1f} of {plain.elapsed:6.1f} s elapsed, {fast.elapsed / plain.elapsed:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", metavar="ROOM", nargs="*", default=list(ROOMS), help="the room src/a/b is a_b; all: every target")
    parser.add_argument("--rounds", metavar="N", type=int, default=1, help="how often each room is compiled (default 1)")
    wanted = parser.parse_args()
    if wanted.rounds < 1:
        parser.error("--rounds must be at least 1")
    all_fast, all_plain = Cost(), Cost()
    for preset in PRESETS:
        fast, plain = Build(preset), Build(preset, *PLAIN)
        header = fast.header_cost
        print(f"{preset}: precompiled headers, once for all rooms: {header.processor:.1f} s of processor time, "
              f"{header.elapsed:.1f} s elapsed", flush=True)
        if wanted.rooms == ["all"]:
            all_fast = all_fast.plus(header)
        for room in list(plain.objects) if wanted.rooms == ["all"] else wanted.rooms:
            room_fast, room_plain = Cost(), Cost()
            for turn in range(wanted.rounds):
                if turn % 2 == 0:
                    room_plain = room_plain.plus(plain.compile(room))
                room_fast = room_fast.plus(fast.compile(room))
                if turn % 2 == 1:
                    room_plain = room_plain.plus(plain.compile(room))
            print(f"{preset:8} {room:16} {share(room_fast, room_plain)}", flush=True)
            all_fast, all_plain = all_fast.plus(room_fast), all_plain.plus(room_plain)
    print(f"{'together':25} {share(all_fast, all_plain)}")
    met = all_fast.processor <= SHARE_MAX * all_plain.processor
    print(f"at most {SHARE_MAX:.2f} of the processor time: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
