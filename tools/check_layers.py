#!/usr/bin/env python3
"""Holds the source and CMakeLists.txt to the table of rooms, files to their shape, and comments to files that exist; prints file:line for each breach, exits 1 on any.

    tools/check_layers.py [ROOT]        ROOT: the checkout, by default the one this file is in
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What the code of each room may include beside its own, lowest room first. A room is a folder below src/; `main` stands
# for the files directly in it. A room that ends with `*` stands for each folder below it. The table has no cycle (check_table), and no more than the code uses.
ROOMS: dict[str, str] = {
    "base": "",
    "log": "base",
    "limit": "base",
    "metrics": "base",
    "access": "base",
    "request": "base access limit",
    "policy": "base limit request",
    "policy/read": "base limit request policy",
    "wire": "base",
    "net": "base",
    "store": "base limit request net",
    "embed": "base limit request policy policy/read store",
    "store/log": "base limit request store",
    "keep": "base limit request policy policy/read store store/log embed",
    "durable": "base limit request metrics store store/log",
    "redis": "base limit request metrics net store",
    "client": "base net wire",
    "otlp": "base limit request metrics net wire client",
    "protocol": "base request metrics policy",
    "remote": "base client net protocol",
    "live": "access base log limit request metrics policy policy/read wire store protocol",
    "engine": "access base limit request metrics policy store live protocol",
    "admin": "access base limit log request metrics net policy policy/read wire store live protocol engine",
    "server": "access base limit log request policy metrics net otlp store live protocol engine admin",
    "config": "access base limit log request metrics net policy policy/read wire store store/log durable redis otlp protocol live engine admin server",
    "cli": "access base limit net policy policy/read wire store/log client remote live protocol admin config",
    "protocol/*": "access base limit request metrics net policy policy/read wire store/log client otlp protocol engine admin server config cli",
    "main": "cli",
    "testing": "base limit request policy store/log client",
}
# Pairs of the table that must still be removed; the check for cycles ignores them.
KNOWN_DEBTS = {
}
# Pairs of rooms of which the first uses headers of the second alone, so their libraries are not linked.
HEADERS_ALONE = {
    ("store", "net"),  # an interface: the loop that stores with sockets get
}
# What tests, fuzz targets and microbenchmarks of a room may include beside that, and what lies under tests/.
SIDE_ROOMS: dict[str, str] = {
    "policy": "policy/read protocol/*",
    "policy/read": "protocol/*",
    "engine": "policy/read store/log durable protocol/*",
    "server": "protocol/*",
    "admin": "protocol/*",
    "protocol/*": "store",
}

# Where comments are read, and where the files that they name may be. A comment names a file by the end of its path.
COMMENTED = ("src", "include", "tests", "bindings", "fuzz", "tools", "examples")
NAMED_FILE = re.compile(r"(?<![\w/<.-])[\w./-]*\w\.(?:h|cc)\b")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# Code beside the product's own, which may use what lies under tests/.
SIDE_CODE = re.compile(r"_(test|fuzz|bench|model)\.(cc|h)$")
SKIPPED_FOLDERS = {"node_modules", "__pycache__"}


class Breach(NamedTuple):
    path: Path
    line: int
    text: str


def room_of(path: Path) -> str:
    """The room of a path relative to src/."""
    return path.parent.as_posix() if len(path.parts) > 1 else "main"


def line_of(room: str) -> str | None:
    """The room's name in the table, or None."""
    if room in ROOMS:
        return room
    star = room.partition("/")[0] + "/*"
    return star if "/" in room and star in ROOMS else None


def check_table() -> Iterator[str]:
    """Yields a cycle among the rooms, and names in the table that are not rooms."""
    below = {
        room: {r for r in rooms.split() if (room, r) not in KNOWN_DEBTS} for room, rooms in ROOMS.items()
    }
    seen: set[str] = set()
    for room, rooms in below.items():
        for other in sorted(rooms):
            if line_of(other) is None:
                yield f"{room} may include {other}, which is not a room"
    while ready := [room for room in below if room not in seen and all(line_of(r) in seen for r in below[room])]:
        seen.update(ready)
    for room in below:
        if room not in seen:
            yield f"{room} may include a room that may include it"


def check_include(user: str, side_code: bool, quote: str, target: str) -> str | None:
    """What is wrong when room `user` includes `target`, or None."""
    room, slash, _ = target.rpartition("/")
    if not slash or line_of(room) is None:
        if quote == "<" or (side_code and target.startswith("tests/")):
            return None
        return f'"{target}" is not a path from src/ (write "folder/file.h")'
    allowed = {user, *ROOMS[line_of(user) or user].split()}
    if side_code:
        allowed.update({"testing", *SIDE_ROOMS.get(line_of(user) or user, "").split()})
    if room in allowed or line_of(room) in allowed:
        return None
    return f"{user} must not include {room}: {target}"


def check_layers(src: Path) -> Iterator[Breach]:
    for text in check_table():
        yield Breach(src, 1, text)
    for path in sorted(p for p in src.rglob("*") if p.suffix in {".h", ".cc"}):
        user = room_of(path.relative_to(src))
        if line_of(user) is None:
            yield Breach(path, 1, f"folder {user} is not in the table of rooms")
            continue
        side_code = SIDE_CODE.search(path.name) is not None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if found := INCLUDE.match(line):
                if text := check_include(user, side_code, found[1], found[2]):
                    yield Breach(path, number, text)


def linked_rooms(cmake: str) -> dict[str, tuple[int, set[str]]]:
    """Of each `sluice_folder(room ...)`: its line, and the rooms whose libraries it links."""
    linked = {}
    for found in re.finditer(r"\bsluice_folder\(([\w/${}]+)([^)]*)\)", cmake):
        room = re.sub(r"\$\{\w+\}", "*", found[1])
        product = re.sub(r"\bORACLE\b[^)]*", "", found[2])  # what tests link besides
        names = set(re.findall(r"\bsluice_(\w+)", product))
        rooms = {other for other in ROOMS if other.replace("/", "_") in names}
        linked[room] = (cmake.count("\n", 0, found.start()) + 1, rooms)
    return linked


def check_libraries(root: Path) -> Iterator[Breach]:
    """Libraries that CMake links and the table does not name, and the reverse."""
    path = root / "CMakeLists.txt"
    if not path.exists():
        return
    linked = linked_rooms(path.read_text(encoding="utf-8"))
    for room, (line, direct) in linked.items():
        if room not in ROOMS:
            yield Breach(path, line, f"{room} is not in the table of rooms")
            continue
        allowed = set(ROOMS[room].split())
        for other in sorted(direct - allowed):
            yield Breach(path, line, f"{room} links {other}, which it may not include")
        reached, next_ones = set(direct), list(direct)
        while next_ones:
            for other in linked.get(next_ones.pop(), (0, set()))[1] - reached:
                reached.add(other)
                next_ones.append(other)
        for other in sorted(allowed - reached):
            if (room, other) not in HEADERS_ALONE:
                yield Breach(path, line, f"{room} may include {other}, and its library does not link it")


def check_headers(src: Path) -> Iterator[Breach]:
    for path in sorted(src.rglob("*.h")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines or not re.match(r"//+ *\S", lines[0]):
            yield Breach(path, 1, "a header opens with a paragraph saying what it is")
        code = (line for line in enumerate(lines, start=1) if line[1].strip() and not line[1].startswith("//"))
        number, first = next(code, (1, ""))
        if first.strip() != "#pragma once":
            yield Breach(path, number, "#pragma once comes before all other code of a header")


def check_named_files(root: Path) -> Iterator[Breach]:
    """Comments that name a header or a source that does not exist."""
    files = [path for folder in COMMENTED for path in sorted((root / folder).rglob("*"))
             if path.suffix in {".h", ".cc"} and not SKIPPED_FOLDERS.intersection(path.parts)]
    ends = set()
    for path in files:
        parts = path.relative_to(root).parts
        ends.update("/".join(parts[at:]) for at in range(len(parts)))
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            comment = re.search(r"(?:^|\s)//(.*)", line)
            for name in NAMED_FILE.findall(comment[1]) if comment else ():
                if name not in ends:
                    yield Breach(path, number, f"{name} does not exist: name the file that has this now")


def check(root: Path) -> list[Breach]:
    src = root / "src"
    return [*check_layers(src), *check_libraries(root), *check_headers(src), *check_named_files(root)]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = check(root)
    for breach in breaches:
        print(f"{breach.path.relative_to(root)}:{breach.line}: {breach.text}")
    print(f"layers: {len(breaches)} breaches" if breaches else "layers: kept")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
