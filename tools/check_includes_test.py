"""Tests of check_includes.py on small trees of their own."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import check_includes


class CheckIncludesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def found(self) -> list[str]:
        return [f"{path.relative_to(self.root)}:{missing.line}: {missing.text}"
                for path, missing in check_includes.check(self.root)]

    def test_an_included_header_passes(self) -> None:
        self.write("src/a/a.cc", "#include <vector>\n#include <utility>\nstd::vector<int> a = std::move(b);\n")
        self.assertEqual(self.found(), [])

    def test_a_missing_header_is_reported_once_with_its_line(self) -> None:
        self.write("src/a/a.cc", "#include <string>\n\nstd::vector<int> a;\nstd::vector<int> b;\n")
        self.assertEqual(self.found(), ["src/a/a.cc:3: std::vector needs <vector>"])

    def test_headers_of_ours_bring_theirs(self) -> None:
        self.write("src/a/a.cc", '#include "a/b.h"\nstd::vector<int> a;\n')
        self.write("src/a/b.h", '#include "tests/c.h"\n')
        self.write("tests/c.h", "#include <vector>\n")
        self.assertEqual(self.found(), [])

    def test_any_of_several_headers_is_enough(self) -> None:
        for header in ("cerrno", "system_error"):
            self.write("src/a/a.cc", f"#include <{header}>\nauto a = EINTR;\n")
            self.assertEqual(self.found(), [])

    def test_names_of_posix_need_their_header(self) -> None:
        self.write("src/a/a.cc", "#include <sys/un.h>\nint a = ::socket(1, 2, 3);\nint b = x.socket(1);\n")
        self.write("src/a/b.cc", "#include <sys/wait.h>\nint c = ::waitpid(1, nullptr, 0);\n")
        self.assertEqual(self.found(), [
            "src/a/a.cc:2: ::socket( needs <sys/socket.h> or <netinet/in.h> or <arpa/inet.h> or <netdb.h>"])

    def test_libraries_are_known_by_their_folder(self) -> None:
        self.write("src/a/a.cc", "nlohmann::json a;\n")
        self.write("src/a/b.cc", "#include <nlohmann/json_fwd.hpp>\nnlohmann::json a;\n")
        self.assertEqual(self.found(), ["src/a/a.cc:1: nlohmann:: needs <nlohmann/>"])

    def test_comments_and_literals_name_nothing(self) -> None:
        self.write("src/a/a.cc", '// std::vector\n/* std::map\n*/ auto a = "std::set"; auto b = R"(\nstd::span)";\n')
        self.assertEqual(self.found(), [])

    def test_an_unknown_name_is_reported(self) -> None:
        self.write("src/a/a.cc", "std::unheard_of a;\n")
        self.assertEqual(self.found(), ["src/a/a.cc:1: std::unheard_of is not in the table of tools/check_includes.py"])

    def test_fix_adds_missing_headers(self) -> None:
        paths = [self.write("src/a/a.cc", "#include <string>\nstd::vector<int> a;\n"),
                 self.write("src/a/b.h", "// What it is.\n#pragma once\n\nstd::vector<int> a;\n")]
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(check_includes.main(["--fix"], self.root), 1)
            self.assertEqual(check_includes.main([], self.root), 0)
        for path in paths:
            self.assertEqual(path.read_text().count("#include <vector>\n"), 1)


if __name__ == "__main__":
    unittest.main()
