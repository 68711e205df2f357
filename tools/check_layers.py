#!/usr/bin/env python3
"""Holds the source to the layer table and to the shape of a file; prints file:line for each breach, exits 1 on any.

    tools/check_layers.py [ROOT]        ROOT: the checkout, by default the one this file is in
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# A folder of src/ includes only itself and folders with a lower number. `main` stands for the files directly in src/.
LAYERS: dict[str, int] = {
    "base": 0,
    "limit": 1,
    "metrics": 1,
    "policy": 2,
    "wire": 2,
    "disk": 2,
    "store": 3,
    "redis": 4,
    "server": 5,
    "client": 5,
    "cli": 6,
    "main": 7,
}
LINES_MAX = 600

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# Code beside the product's own, which may use what lies under tests/.
SIDE_CODE = re.compile(r"_(test|fuzz|bench)\.(cc|h)$")
SOURCE_SUFFIXES = {".h", ".cc", ".cpp", ".py", ".js", ".mjs"}
SKIPPED_FOLDERS = {"node_modules", "__pycache__"}


class Breach(NamedTuple):
    path: Path
    line: int
    text: str


def folder_of(path: Path) -> str:
    """The folder of a path relative to src/."""
    return path.parts[0] if len(path.parts) > 1 else "main"


def check_include(user: str, side_code: bool, quote: str, target: str) -> str | None:
    """What is wrong when folder `user` includes `target`, or None."""
    head, slash, _ = target.partition("/")
    if not slash or head not in LAYERS:
        if quote == "<" or (side_code and head == "tests"):
            return None
        return f'"{target}" is no path from src/ (write "folder/file.h")'
    if head == user or LAYERS[head] < LAYERS[user]:
        return None
    return f"{user} (layer {LAYERS[user]}) must not include {head} (layer {LAYERS[head]}): {target}"


def check_layers(src: Path) -> Iterator[Breach]:
    for path in sorted(p for p in src.rglob("*") if p.suffix in {".h", ".cc"}):
        user = folder_of(path.relative_to(src))
        if user not in LAYERS:
            yield Breach(path, 1, f"folder {user} is not in the layer table")
            continue
        side_code = SIDE_CODE.search(path.name) is not None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if found := INCLUDE.match(line):
                if text := check_include(user, side_code, found[1], found[2]):
                    yield Breach(path, number, text)


def check_headers(src: Path) -> Iterator[Breach]:
    for path in sorted(src.rglob("*.h")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines or not re.match(r"//+ *\S", lines[0]):
            yield Breach(path, 1, "a header opens with a paragraph saying what it is")
        code = (line for line in enumerate(lines, start=1) if line[1].strip() and not line[1].startswith("//"))
        number, first = next(code, (1, ""))
        if first.strip() != "#pragma once":
            yield Breach(path, number, "#pragma once comes before all other code of a header")


def check_lengths(root: Path) -> Iterator[Breach]:
    for folder in ("src", "tests", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCE_SUFFIXES or SKIPPED_FOLDERS.intersection(path.parts):
                continue
            count = len(path.read_bytes().splitlines())
            if count > LINES_MAX:
                yield Breach(path, count, f"{count} lines; {LINES_MAX} are the most that one sitting reads")


def check(root: Path) -> list[Breach]:
    src = root / "src"
    return [*check_layers(src), *check_headers(src), *check_lengths(root)]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = check(root)
    for breach in breaches:
        print(f"{breach.path.relative_to(root)}:{breach.line}: {breach.text}")
    print(f"layers: {len(breaches)} breaches" if breaches else "layers: kept")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
