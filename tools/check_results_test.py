"""Tests of check_results.py on small trees of their own."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import check_results


class CheckResultsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "src").mkdir()

    def breaches(self, text: str, exceptions: dict[str, str] | None = None) -> list[str]:
        (self.root / "src/a.h").write_text(text, encoding="utf-8")
        found = check_results.check(self.root, exceptions or {})
        return [f"{b.path}:{b.line}: " + b.text.split(": ")[0] for b in found]

    def test_a_parameter_for_a_problem_is_found_on_its_line(self) -> None:
        self.assertEqual(self.breaches("int a;\nbool f(int a,\n       std::string& problem);\n"),
                         ["src/a.h:3: `std::string& problem`"])
        self.assertEqual(self.breaches("T* g(std::string* error = nullptr);\n"), ["src/a.h:1: `std::string* error`"])
        self.assertEqual(self.breaches("bool h(base::Problem& its_problem) {\n"),
                         ["src/a.h:1: `base::Problem& its_problem`"])
        self.assertEqual(self.breaches("auto f = [&](std::string& why) {};\n"), ["src/a.h:1: `std::string& why`"])

    def test_read_only_and_other_parameters_pass(self) -> None:
        self.assertEqual(self.breaches("void f(const std::string& problem);\n"), [])
        self.assertEqual(self.breaches("void f(std::string& text, std::string problem);\n"), [])
        self.assertEqual(self.breaches("const std::string& why = text;\n"), [])
        self.assertEqual(self.breaches("void f(const base::Problem& problem);\n"), [])
        self.assertEqual(self.breaches("base::Done f();\n"), [])

    def test_comments_and_texts_are_not_read(self) -> None:
        self.assertEqual(self.breaches("// bool f(std::string& problem);\nauto t = \"f(std::string& problem)\";\n"), [])

    def test_an_exception_covers_its_files_and_must_be_needed(self) -> None:
        allowed = {"src/a.": "the hot path"}
        self.assertEqual(self.breaches("bool f(std::string& problem);\n", allowed), [])
        self.assertEqual(self.breaches("base::Done f();\n", allowed), ["tools/check_results.py:1: EXCEPTIONS"])
        self.assertEqual(self.breaches("bool f(std::string& problem);\n", {"s*/a.": "the hot path"}), [])
        other = {"src/b.": "the hot path"}
        self.assertEqual(self.breaches("bool f(std::string& problem);\n", other),
                         ["src/a.h:1: `std::string& problem`", "tools/check_results.py:1: EXCEPTIONS"])


if __name__ == "__main__":
    unittest.main()
