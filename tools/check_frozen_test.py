"""Tests of check_frozen.py on small trees of their own."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

import check_frozen

SOURCE = "TEST(A, B) {\n  for (uint32_t seed = 1; seed < 9; ++seed) {\n    Dice dice(seed);\n  }\n}\n"


class CheckFrozenTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("tests/frozen.txt", "# the list\n")
        self.write("tests/conformance/a.json", '{"about": "x", "cases": [1, 2], "errors": [3]}')
        self.write("src/limit/a_test.cc", SOURCE)
        self.write("fuzz/a_fuzz/empty", "")
        subprocess.run(("git", "init", "-q"), cwd=self.root, check=True)
        subprocess.run(("git", "add", "."), cwd=self.root, check=True)
        check_frozen.add(self.root)

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def problems(self) -> list[str]:
        return check_frozen.problems_of(self.root)

    def test_an_unchanged_folder_passes(self) -> None:
        self.assertEqual(self.problems(), [])
        self.write("src/limit/a_test.cc", "// Another line.\n" + SOURCE)  # no seed changed
        self.write("fuzz/a_fuzz/new", "1")
        self.assertEqual(self.problems(), [])

    def test_numbers_are_those_of_cases_and_seeds(self) -> None:
        entries, _ = check_frozen.listed(self.root)
        self.assertEqual({path: (of.number, of.kind) for path, of in entries.items()},
                         {"tests/conformance/a.json": (3, "cases"), "src/limit/a_test.cc": (2, "seeds"),
                          "fuzz/a_fuzz/empty": (1, "input")})

    def test_a_change_fails_until_its_line_is_taken_out(self) -> None:
        for name, text in (("tests/conformance/a.json", '{"cases": [1, 2, 3, 4]}'),
                           ("src/limit/a_test.cc", SOURCE.replace("seed < 9", "seed < 2")),
                           ("fuzz/a_fuzz/empty", "changed")):
            with self.subTest(name=name):
                self.write(name, text)
                self.assertEqual(len(self.problems()), 1)
                self.assertIn(name, self.problems()[0])
                listed = (self.root / "tests/frozen.txt").read_text(encoding="utf-8")
                self.write("tests/frozen.txt", "".join(line + "\n" for line in listed.splitlines() if name not in line))
                self.assertEqual(self.problems(), [])

    def test_a_file_that_is_gone_fails(self) -> None:
        (self.root / "fuzz/a_fuzz/empty").unlink()
        self.assertEqual(len(self.problems()), 1)
        self.assertIn("is gone", self.problems()[0])

    def test_adding_changes_no_line(self) -> None:
        self.write("tests/conformance/a.json", '{"cases": []}')
        self.assertEqual(check_frozen.add(self.root), 0)
        self.assertEqual(len(self.problems()), 1)

    def test_a_malformed_list_fails(self) -> None:
        with (self.root / "tests/frozen.txt").open("a", encoding="utf-8") as file:
            file.write("no line\n")
        self.assertEqual(len(self.problems()), 1)


if __name__ == "__main__":
    unittest.main()
