"""Tests of run_tests.py: whatever goes wrong must never be counted as a success."""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import run_tests
from run_tests import Failed, Tally

JUNIT = """<testsuite>
  <testcase name="good" status="run"/>
  <testcase name="bad" status="fail"><failure message=""/></testcase>
  <testcase name="gone" status="notrun"><skipped message="Unable to find executable"/></testcase>
  <testcase name="passes over" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="off" status="disabled"/>
  <testcase name="store/Table" status="fail"><failure message=""/></testcase>
  <testcase name="store/Table/0" status="run"/>
  <testcase name="store/Leaks" status="fail"><failure message=""/></testcase>
  <testcase name="store/Crashes" status="fail"><failure message=""/></testcase>
</testsuite>"""

# By the names that CTest's tests have, with `_` for `/`.
SUITES = {
    "store_Table": """<testsuites><testsuite name="Table">
  <testcase name="holds" classname="Table" status="run" result="completed"/>
  <testcase name="grows" classname="Table" status="run" result="completed"><failure message="1 != 2"/></testcase>
  <testcase name="rests" classname="Table" status="run" result="skipped"><skipped message="no disk"/></testcase>
  <testcase name="off" classname="Table" status="notrun" result="suppressed"/>
</testsuite></testsuites>""",
    "store_Table_0": """<testsuites><testsuite name="Table/0">
  <testcase name="one" classname="Table/0" status="run" result="completed"/>
  <testcase name="two" classname="Table/0" status="run" result="completed"/>
</testsuite></testsuites>""",
    # Every test passed, and then the process ended with a status of its own.
    "store_Leaks": """<testsuites><testsuite name="Leaks">
  <testcase name="one" classname="Leaks" status="run" result="completed"/>
</testsuite></testsuites>""",
}


def last_line(*outcomes: Tally | Exception) -> tuple[int, str]:
    suites = {f"s{i}": mock.Mock(side_effect=[outcome]) for i, outcome in enumerate(outcomes)}
    output = io.StringIO()
    with mock.patch.object(run_tests, "SUITES", suites), contextlib.redirect_stdout(output):
        status = run_tests.main(list(suites))
    return status, output.getvalue().splitlines()[-1]


class LastLineTest(unittest.TestCase):
    def test_sums_the_suites(self) -> None:
        self.assertEqual(last_line(Tally(2), Tally(3, 1)), (0, "tests: 5 passed, 0 failed"))
        self.assertEqual(last_line(Tally(2), Tally(3, 0, ["a", "b"])), (1, "tests: 5 passed, 2 failed"))

    def test_a_broken_or_empty_run_has_failed(self) -> None:
        self.assertEqual(last_line(Tally(2), Failed("no compiler")), (1, "tests: 2 passed, 1 failed"))
        self.assertEqual(last_line(FileNotFoundError("node"), Tally(2)), (1, "tests: 2 passed, 1 failed"))
        self.assertEqual(last_line(Tally(0)), (1, "tests: 0 passed, 1 failed"))


class CountTest(unittest.TestCase):
    def test_junit(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tests.xml"
            path.write_text(JUNIT, encoding="utf-8")
            for name, text in SUITES.items():
                (Path(folder) / f"{name}.xml").write_text(text, encoding="utf-8")
            tally = run_tests.count_junit(path, Path(folder))
            self.assertEqual(tally, Tally(5, 4, ["bad", "gone", "Table.grows", "store/Leaks", "store/Crashes"]))

    def test_node_in_both_of_its_styles(self) -> None:
        for mark in ("#", "\u2139"):
            words = "\n".join(f"{mark} {line}" for line in ("tests 9", "pass 5", "fail 2", "cancelled 1", "skipped 1"))
            tally = run_tests.count_words(1, words, run_tests.NODE_SUMMARY)
            self.assertEqual((tally.passed, len(tally.failures), tally.skipped), (5, 3, 1))

    def test_unittest(self) -> None:
        words = "Ran 7 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n"
        tally = run_tests.count_words(1, words, run_tests.UNITTEST_SUMMARY)
        self.assertEqual((tally.passed, len(tally.failures), tally.skipped), (7, 3, 1))

    def test_unittest_of_which_some_failed(self) -> None:
        tally = run_tests.count_unittest(1, "Ran 7 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n")
        self.assertEqual((tally.passed, len(tally.failures), tally.skipped), (3, 3, 1))

    def test_go(self) -> None:
        words = "\n".join((
            "=== RUN   TestA", "=== RUN   TestA/RESP2", "--- PASS: TestA (0.01s)", "    --- PASS: TestA/RESP2 (0.01s)",
            "--- FAIL: TestB (0.00s)", "    --- FAIL: TestB/RESP2 (0.00s)", "--- SKIP: TestC (0.00s)",
            "--- PASS: TestD (0.01s)", "FAIL", "FAIL\tsluice.test/resp\t0.5s"))
        tally = run_tests.count_words(1, words, run_tests.GO_SUMMARY)
        self.assertEqual((tally.passed, len(tally.failures), tally.skipped), (2, 1, 1))

    def test_go_that_does_not_compile(self) -> None:
        tally = run_tests.count_words(1, "FAIL\tsluice.test/resp [build failed]\n", run_tests.GO_SUMMARY)
        self.assertEqual((tally.passed, len(tally.failures), tally.skipped), (0, 1, 0))

    def test_a_bad_status_alone_is_a_failure(self) -> None:
        tally = run_tests.count_words(139, "# pass 5\n# fail 0\n", run_tests.NODE_SUMMARY)
        self.assertEqual(len(tally.failures), 1)


class RunTest(unittest.TestCase):
    def test_returns_status_and_output(self) -> None:
        found = run_tests.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10, listen=True, show=False)
        self.assertEqual(found, (3, "out\nerr\n"))

    def test_a_hanging_command_is_ended_with_its_children(self) -> None:
        start = time.monotonic()
        with self.assertRaises(Failed):
            run_tests.run(["sh", "-c", "sleep 60 & wait"], 0.2, listen=True)
        self.assertLess(time.monotonic() - start, 10)


if __name__ == "__main__":
    unittest.main()
