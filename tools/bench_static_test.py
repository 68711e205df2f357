"""A static program that takes more than the dynamic one is told by the exit status: tools/bench_static.py with counts of our own."""

from __future__ import annotations

import contextlib
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_memory  # noqa: E402
import bench_replies  # noqa: E402
import bench_static  # noqa: E402

STATIC = Path("static")


class Judged(unittest.TestCase):
    def status(self, instructions: float, empty: int = 10_000_000, each: float = 56.0) -> int:
        """Of a static program with these figures, beside a dynamic one of 1,000 instructions, 10 MB and 56 bytes."""
        with mock.patch.object(bench_replies, "of_a_reply", lambda build, *_: instructions if build == STATIC else 1000.0), \
                mock.patch.object(bench_memory, "least", lambda build: (empty, each) if build == STATIC else (10_000_000, 56.0)), \
                mock.patch.object(sys, "argv", ["bench_static.py", "--static", str(STATIC), "--dynamic", "dynamic"]), \
                contextlib.redirect_stdout(io.StringIO()) as said:
            status = bench_static.main()
        self.assertEqual(said.getvalue().count(" at a time: "), 2 * len(bench_static.PROTOCOLS))
        return status

    def test_within_the_bounds(self) -> None:
        self.assertEqual(self.status(1009.9), 0)
        self.assertEqual(self.status(900, 9_000_000, 55.0), 0)

    def test_more_than_a_percent_of_instructions_is_missed(self) -> None:
        self.assertEqual(self.status(1010.1), 1)

    def test_a_busy_machine_that_adds_to_one_of_them_is_no_miss_and_hides_none(self) -> None:
        for true, noisy in ((1000, STATIC), (1020, Path("dynamic"))):
            counts = {STATIC: [true] * 3, Path("dynamic"): [1000.0] * 3}
            counts[noisy][0] += 500
            with mock.patch.object(bench_replies, "of_a_reply", lambda build, *_: counts[build].pop(0)):
                self.assertEqual(bench_replies.of_both(STATIC, Path("dynamic"), "http", 1, 1.0), (true, 1000))

    def test_more_memory_is_missed(self) -> None:
        self.assertEqual(self.status(1000, empty=10_000_001), 1)
        self.assertEqual(self.status(1000, each=56.2), 1)


if __name__ == "__main__":
    unittest.main()
