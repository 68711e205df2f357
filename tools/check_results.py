#!/usr/bin/env python3
"""Finds functions that say what went wrong through a parameter, as in `bool f(std::string& problem)`, where a
base::Result<T> or base::Done belongs (src/base/result.h); prints file:line for each, exits 1 on any. EXCEPTIONS lists
the places that keep such a parameter, each with the reason, and an entry that has become needless is an error as well.

    tools/check_results.py [ROOT]       ROOT: the checkout, by default the one this file is in
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("src", "include", "tests", "tools")
NAMES = "problems?|errors?|failure|fault|reason|why|wrong"

# Why such parameters may stay, by patterns of the beginnings of paths. A protocol's folder is `*`, because tools name
# no protocol.
EXCEPTIONS: Mapping[str, str] = {
    "src/base/result_test.h": "makes a text of a Result, for tests",
    "src/disk/": "`wrong` is what is damaged, beside the Status of what the disk did: disk/keys.h says why",
    "src/protocol/*/line.": "the hot path: the text's memory is used again",
    "src/protocol/*/take_body_scanner.h": "the hot path: the text's memory is used again",
    "src/wire/resp_model.h": "a model for tests: beside the result, what no reader may do",
    "tests/conformance/resp_socket_test.cc": "`wrong` is what differs; the result, whether the machine was fast enough",
}

PARAMETER = re.compile(
    r"(?<!const )(?<!\w|:)(?:std::string|(?:base::)?Problem) ?[&*] ?(?:\w+_)?(?:" + NAMES + r") ?(?=[,)=])"
)


class Breach(NamedTuple):
    path: str
    line: int
    text: str


def without_comments(code: str) -> str:
    """Comments and literals become blanks, so that lines stay where they are."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return re.sub(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', blank, code, flags=re.DOTALL)


def check(root: Path, exceptions: Mapping[str, str] = EXCEPTIONS) -> Iterator[Breach]:
    unused = set(exceptions)
    files = (p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in {".h", ".cc"})
    for path in sorted(files):
        name = path.relative_to(root).as_posix()
        code = without_comments(path.read_text(encoding="utf-8"))
        for found in PARAMETER.finditer(code):
            excepted = [start for start in exceptions if fnmatch.fnmatchcase(name, start + "*")]
            unused.difference_update(excepted)
            if not excepted:
                line = code.count("\n", 0, found.start()) + 1
                yield Breach(name, line, f"`{found[0].strip()}`: return a base::Result<T> or a base::Done "
                                         "(src/base/result.h), or add a reason to EXCEPTIONS of tools/check_results.py")
    for start in sorted(unused):
        yield Breach("tools/check_results.py", 1, f"EXCEPTIONS: no parameter is left in `{start}`; remove the entry")


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = list(check(root))
    for breach in breaches:
        print(f"{breach.path}:{breach.line}: {breach.text}")
    print(f"results: {len(breaches)} findings" if breaches else "results: no parameter hands back a problem")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
