#!/usr/bin/env python3
"""Instructions of a decision in the store, counted by valgrind: two limits on one key compared with one limit, a token
bucket compared with a fixed window, a charge compared with a take, windows of the calendar with those of the clock. Counts do not depend on what else the machine does. Exit status 1: a target was
missed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

from bench_common import BUILD, give_up

BATCH = 16
COUNTED = "--toggle-collect=*EmbeddedStore::apply*"  # not the caller's instructions
FEW, MANY = 1_000, 3_000  # batches: the difference leaves out the start and the first batches
TARGETS = [  # what, compared with what, ratio at most
    (("fixed_window", "fixed_window"), ("fixed_window",), 1.3),
    (("token_bucket", "token_bucket"), ("token_bucket",), 1.3),
    (("token_bucket", "fixed_window"), ("token_bucket",), 1.3),
    (("token_bucket",), ("fixed_window",), 1.1),
    (("charge", "fixed_window"), ("fixed_window",), 1.1),
    (("charge", "token_bucket"), ("token_bucket",), 1.1),
    (("charge", "token_bucket", "fixed_window"), ("token_bucket", "fixed_window"), 1.1),
]
MORE = [  # what, compared with what, instructions more at most
    (("calendar",), ("aligned_window",), 12),
]


def instructions(batches: int, limits: tuple[str, ...]) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED, str(BUILD / "tools/decisions"),
               str(batches), *limits]
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        give_up("valgrind is missing: scripts/setup test installs it")
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not found:
        give_up(f"{' '.join(command)} failed: {result.stderr.strip()}")
    return int(found[1])


@cache
def of_one(limits: tuple[str, ...]) -> float:
    return (instructions(MANY, limits) - instructions(FEW, limits)) / ((MANY - FEW) * BATCH)


def main() -> int:
    missed = 0
    for limits, beside, target in TARGETS:
        ratio = of_one(limits) / of_one(beside)
        kept = ratio <= target
        missed += not kept
        print(f"{' + '.join(limits)}: {of_one(limits):.1f} instructions, {' + '.join(beside)}: {of_one(beside):.1f}; "
              f"ratio {ratio:.3f}, at most {target}: {'met' if kept else 'MISSED'}", flush=True)
    for limits, beside, most in MORE:
        more = of_one(limits) - of_one(beside)
        missed += more > most
        print(f"{' + '.join(limits)}: {of_one(limits):.1f} instructions, {' + '.join(beside)}: {of_one(beside):.1f}; "
              f"{more:.1f} more, at most {most}: {'met' if more <= most else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
