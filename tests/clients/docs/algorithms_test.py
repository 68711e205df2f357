"""docs/algorithms.md: its tables of examples computed again by the limiter library, its commands typed, and the tests and
headers that it names looked up."""

from __future__ import annotations

import os
import re
import sys
import unittest
from typing import NamedTuple

from manual import ROOT, Manual

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bindings/python"))
os.environ.setdefault("SLUICE_LIMITER_LIBRARY", str(ROOT / "build/release/libsluice-limiter.so"))

from sluice_limiter import NEVER, Limiter  # noqa: E402

PAGE = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8")
HEAD = "| at | request | answer | remaining | retry after | reset after |\n|---|---|---|---|---|---|\n"
EXAMPLE = re.compile(r"\*\*Example[\w ]*\.\*\*\s`(\{[^`]*?\})`[^|]*?\n\n" + re.escape(HEAD) + r"((?:\|.*\n)+)")
MINUTE = 1_800_000_000 * 1_000_000  # Unix time in microseconds of the examples' second 0
UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000}


class Row(NamedTuple):
    at: int
    verb: str
    units: int
    answer: tuple[bool, int, int, int]  # allowed, remaining, retry and reset in microseconds


def microseconds(text: str) -> int:
    if text in ("0", "never"):
        return NEVER if text == "never" else 0
    number, unit = text.split()
    return int(number) * UNITS[unit]


def row_of(line: str) -> Row:
    at, request, answer, remaining, retry, reset = (cell.strip() for cell in line.strip("|").split("|"))
    verb, units = request.split()
    return Row(microseconds(at), verb, int(units), ({"allowed": True, "refused": False}[answer], int(remaining),
                                                    microseconds(retry), microseconds(reset)))


class AlgorithmsTest(unittest.TestCase):
    def test_the_examples(self) -> None:
        examples = EXAMPLE.findall(PAGE)
        self.assertEqual(len(examples), PAGE.count(HEAD))
        algorithms = set()
        for limit, rows in examples:
            limiter = Limiter("rules: [{ name: example, match: { key: '*' }, actor: key, limit: %s }]" % limit)
            handle = limiter.find("example")
            algorithms.add(re.search(r"algorithm: (\w+)", limit)[1])
            for line in rows.splitlines():
                row = row_of(line)
                with self.subTest(limit=limit, row=line):
                    found = getattr(handle, row.verb)("a", row.units, MINUTE + row.at)
                    self.assertEqual((found.allowed, found.remaining, found.retry_after_us, found.reset_after_us), row.answer)
        self.assertEqual(len(algorithms), 7)

    def test_the_commands(self) -> None:
        with Manual(self, "docs/algorithms.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (0, 2, 4))

    def test_the_named_tests_exist(self) -> None:
        code = "\n".join(path.read_text(encoding="utf-8") for folder in ("src/limit", "src/store", "tests/clock")
                         for path in sorted((ROOT / folder).glob("*_test.cc")))
        exist = {f"{suite}.{test}" for suite, test in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", code, re.MULTILINE)}
        named = set(re.findall(r"`([A-Z]\w*[a-z]\w*\.[A-Z]\w+)`", PAGE))
        self.assertGreater(len(named), 30)
        self.assertEqual(named - exist, set())
        headers = set(re.findall(r"`(\w+\.h)`", PAGE))
        self.assertGreater(len(headers), 8)
        self.assertEqual({header for header in headers if not (ROOT / "src/limit" / header).is_file()}, set())


if __name__ == "__main__":
    unittest.main()
