"""Tests of check_protocol_names.py on small trees of their own."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import check_protocol_names


class CheckProtocolNamesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("src/protocol/list.def", "// The protocols.\nSLUICE_PROTOCOL(divvy)\nSLUICE_PROTOCOL(toy)\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def breaches(self, exceptions: dict[str, str] | None = None) -> list[str]:
        found = check_protocol_names.check(self.root, exceptions or {})
        return [f"{b.path}:{b.line}: {b.text}" for b in found]

    def lines(self, name: str, text: str) -> list[int]:
        """The lines of the breaches in one file, which is removed afterwards."""
        self.write(name, text)
        found = [b.line for b in check_protocol_names.check(self.root, {}) if b.path == name]
        (self.root / name).unlink()
        return found

    def test_a_folder_names_itself_and_others(self) -> None:
        self.write("src/protocol/divvy/divvy.cc", '#include "protocol/divvy/a.h"\nint divvy, toy;\n')
        self.assertEqual(self.breaches(), [])

    def test_includes_are_found(self) -> None:
        self.write("src/config/a.cc", '#include "base/a.h"\n#  include "protocol/toy/rules.h"\n')
        self.assertEqual(
            self.breaches(), ["src/config/a.cc:2: includes the folder of a protocol: protocol/toy/rules.h"]
        )
        self.assertEqual(self.lines("src/main.cc", "#include <protocol/divvy/rules.h>\n"), [1])

    def test_identifiers_are_found_whatever_their_form(self) -> None:
        for word in ("divvy", "of_divvy", "divvy_port", "DivvyPage", "readDivvy", "DIVVY_MAX", "kDivvy", "divvys",
                     "Protocol::divvy", "divvyctl"):
            self.assertEqual(self.lines("src/a/a.h", f"\nint {word};\n"), [2], word)

    def test_strings_are_found(self) -> None:
        for text in ('"divvy"', '"divvy:ip="', '"a toy"', "\"Divvy's\"", 'R"x(a\ndivvy)x"', '"\\"divvy"', '"//divvy"'):
            self.assertEqual(len(self.lines("src/a/a.cc", f"f({text});\n")), 1, text)

    def test_other_words_are_not_names(self) -> None:
        for word in ("individivvy", "history", "NOTOY", "hoTOY", "destroy"):
            self.assertEqual(self.lines("src/a/a.cc", f"int {word};\n"), [], word)

    def test_comments_may_name_protocols(self) -> None:
        self.assertEqual(self.lines("src/a/a.cc", '// divvy\nint a; /* divvy\ntoy */ int b;  // "toy"\n'), [])
        self.assertEqual(self.lines("src/a/a.cc", "// a comment goes on \\\ndivvy\nint c;\n"), [])
        self.assertEqual(self.lines("tools/a.py", '"""Of divvy."""\n\n\ndef f():\n    """Toy."""\n    # toy\n'), [])
        self.assertEqual(self.lines("cmake/a.cmake", "# divvy\nset(a b) # toy\n"), [])

    def test_names_after_a_comment_are_found(self) -> None:
        self.assertEqual(self.lines("src/a/a.cc", "/* one\ntwo */ int divvy;  // three\nint toy;\n"), [2, 3])
        self.assertEqual(self.lines("src/a/a.cc", "char a = '\"';  // \"\nint divvy;\n"), [2])

    def test_python_and_cmake_are_held_too(self) -> None:
        self.assertEqual(self.lines("tools/a.py", '"""A tool."""\nNAME = "divvy"\n'), [2])
        self.assertEqual(self.lines("tools/CMakeLists.txt", "a(b)\nadd_executable(toy toy.cc)\n"), [2])
        self.assertEqual(self.lines("cmake/a.cmake", "set(divvy 1)\n"), [1])
        self.assertEqual(self.lines("CMakeLists.txt", 'set(a "divvy")\n'), [1])
        self.assertEqual(self.lines("src/config/a.cc.in", '"divvy"\n'), [1])

    def test_names_of_files_are_found(self) -> None:
        self.write("src/redis/lua_divvy.cc", "int a;\n")
        self.assertEqual(self.breaches(), ["src/redis/lua_divvy.cc:1: is named after the protocol divvy"])

    def test_the_names_are_those_of_the_list(self) -> None:
        self.assertEqual(self.lines("src/a/a.cc", "int envoy;\n"), [])
        self.write("src/protocol/list.def", "SLUICE_PROTOCOL(envoy)\n")
        self.assertEqual(self.lines("src/a/a.cc", "int envoy, divvy;\n"), [1])
        self.assertEqual(len(self.lines("src/protocol/divvy/a.cc", "int envoy;\n")), 1)

    def test_a_shared_word_counts_only_in_includes_and_whole_strings(self) -> None:
        with unittest.mock.patch.dict(check_protocol_names.SHARED_WORDS, {"toy": "a test"}):
            self.assertEqual(self.lines("src/a/toy.cc", 'int toy; f("a toy");\n'), [])
            self.assertEqual(self.lines("src/a/a.cc", 'if (name == "toy") f();\n'), [1])
            self.assertEqual(self.lines("src/a/a.cc", '#include "protocol/toy/a.h"\n'), [1])

    def test_an_exception_is_of_one_file_or_folder_and_is_needed(self) -> None:
        self.write("src/a/a_test.cc", "int divvy;\n")
        self.write("tools/b/c.py", "divvy = 1\n")
        self.assertEqual(len(self.breaches()), 2)
        self.assertEqual(self.breaches({"src/a/a_test.cc": "why", "tools/b/": "why"}), [])
        self.assertEqual(len(self.breaches({"src/a/a_test.cc": "why"})), 1)
        self.write("src/a/a_test.cc", "int a;\n")
        self.assertIn("names no protocol", self.breaches({"src/a/a_test.cc": "why", "tools/b/": "why"})[0])

    def test_no_product_file_is_an_exception(self) -> None:
        for path, why in check_protocol_names.EXCEPTIONS.items():
            self.assertTrue(why, path)
            self.assertRegex(path, r"^tools/\w+\.py$|^src/[\w/]+_(test|fuzz|bench)\.(cc|h)$")

    def test_the_command_prints_and_returns_its_findings(self) -> None:
        out = io.StringIO()
        with unittest.mock.patch.dict(check_protocol_names.EXCEPTIONS, clear=True), contextlib.redirect_stdout(out):
            self.assertEqual(check_protocol_names.main([str(self.root)]), 0)
            self.write("src/a/a.cc", "int divvy;\n")
            self.assertEqual(check_protocol_names.main([str(self.root)]), 1)
        self.assertEqual(
            out.getvalue().splitlines(),
            [
                "names of protocols: kept",
                "src/a/a.cc:1: names the protocol divvy: int divvy;",
                "names of protocols: 1 breaches",
            ],
        )


if __name__ == "__main__":
    unittest.main()
