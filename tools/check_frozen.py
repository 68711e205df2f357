#!/usr/bin/env python3
"""Holds what the tests judge by to `tests/frozen.txt`: recorded answers and vectors, the seeds of models and random
tests, and the seeds of fuzz targets. A line of it has the number of cases, the digest and the path:

    146 cases   9b0c... tests/conformance/divvy.json      a JSON file: its digest is that of its bytes
      3 seeds   51d2... src/limit/put_test.cc             a source: the digest of what it seeds random numbers with
      1 input   0f77... fuzz/native_fuzz/empty            an input of a fuzz target
      1 kept    77e1... tests/kept/0.2.0/log/...          a file that a release wrote

A change of one that is listed fails. If the change is meant, the same commit takes the line out of the list (and adds the
new one with --add), so that the history of the list shows each. What is new is listed by --add, which changes no line.

    tools/check_frozen.py [--add]
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = Path("tests/frozen.txt")
RECORDED = re.compile(r"^tests/(config|conformance|redis/recorded)/[^/]+\.json$")
KEPT = re.compile(r"^tests/kept/")
FUZZ_SEED = re.compile(r"^fuzz/[^/]+/")
TEST_SOURCE = re.compile(r"^(src|tests)/.*\.(cc|h)$")
# What decides the numbers of a random test: a generator with its seed, or a loop over seeds.
SEEDED = re.compile(r"\b(?:Dice|mt19937(?:_64)?)(?:\s+\w+)?\s*[({][^;{}()]*[)}]|for \([^;]*\bseed\b[^;]*;[^;]*;")
LINE = re.compile(r"^\s*(\d+) (cases|seeds|input|kept)\s+([0-9a-f]{64}) (\S+)$")


class Frozen(NamedTuple):
    number: int
    kind: str
    digest: str


def number_of_cases(text: bytes) -> int:
    """The items of the file's lists, or of its objects where it has no list."""
    data = json.loads(text)
    if not isinstance(data, dict):
        return len(data)
    lists = [len(part) for part in data.values() if isinstance(part, list)]
    return sum(lists) if lists else sum(len(part) for part in data.values() if isinstance(part, dict))


def frozen(root: Path, path: str) -> Frozen | None:
    """What the list has to say of a file; None: nothing in it is frozen."""
    try:
        text = (root / path).read_bytes()
    except OSError:
        return None
    if RECORDED.match(path):
        return Frozen(number_of_cases(text), "cases", hashlib.sha256(text).hexdigest())
    if KEPT.match(path):
        return Frozen(1, "kept", hashlib.sha256(text).hexdigest())
    if FUZZ_SEED.match(path):
        return Frozen(1, "input", hashlib.sha256(text).hexdigest())
    if TEST_SOURCE.match(path):
        seeds = [" ".join(found.split()) for found in SEEDED.findall(text.decode("utf-8", "replace"))]
        if seeds:
            return Frozen(len(seeds), "seeds", hashlib.sha256("\n".join(seeds).encode()).hexdigest())
    return None


def listed(root: Path) -> tuple[dict[str, Frozen], list[str]]:
    entries, problems = {}, []
    for number, line in enumerate((root / LIST).read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        found = LINE.match(line)
        if not found:
            problems.append(f"{LIST}:{number}: is not a number, a kind, a digest and a path")
        elif found[4] in entries:
            problems.append(f"{LIST}:{number}: {found[4]} is listed twice")
        else:
            entries[found[4]] = Frozen(int(found[1]), found[2], found[3])
    return entries, problems


def problems_of(root: Path) -> list[str]:
    entries, problems = listed(root)
    for path, entry in entries.items():
        now = frozen(root, path)
        if now == entry:
            continue
        what = "is gone" if now is None else f"has changed ({entry.number} {entry.kind} before, {now.number} now)"
        problems.append(f"{path}: {what}, but {LIST} lists it: put it back, or take its line out in the same commit")
    return problems


def add(root: Path) -> int:
    entries, problems = listed(root)
    if problems:
        print("\n".join(problems))
        return 1
    files = subprocess.run(("git", "ls-files", "tests", "fuzz", "src"), cwd=root, check=True, capture_output=True,
                           text=True).stdout.splitlines()
    new = {path: found for path in files if path not in entries and (found := frozen(root, path))}
    kept = (root / LIST).read_text(encoding="utf-8").splitlines()
    comments = [line for line in kept if line.startswith("#")]
    entries |= new
    lines = [f"{of.number:5} {of.kind} {of.digest} {path}" for path, of in sorted(entries.items())]
    (root / LIST).write_text("\n".join(comments + lines) + "\n", encoding="utf-8")
    print(f"{len(new)} added, {len(entries)} listed")
    return 0


def main(root: Path = ROOT) -> int:
    if sys.argv[1:] == ["--add"]:
        return add(root)
    problems = problems_of(root)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
