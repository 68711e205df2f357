"""Tests of check_words.py on small trees of their own."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import check_words


class CheckWordsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_check(self, *flags: str) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            status = check_words.main([*flags, str(self.root)])
        return status, out.getvalue()

    def words(self, name: str, text: str) -> list[tuple[int, str]]:
        """Line and word of each breach in a file."""
        self.write(name, text)
        found = check_words.breaches(self.root, (name,)).get(name, [])
        return [(breach.line, breach.text) for breach in found]

    def test_words_of_a_page(self) -> None:
        self.assertEqual(self.words("a.md", "Nobody waits.\n\nA look-up\nfinds it by\nand by.\n"),
                         [(1, "Nobody"), (3, "look-up"), (4, "by and by")])

    def test_code_of_a_page_is_not_read(self) -> None:
        self.assertEqual(self.words("a.md", "A\n\n    nobody\n\n```console\nnobody\n```\n`nobody` and\n[a](nobody.md)\n"), [])

    def test_lists_of_a_page_are_read(self) -> None:
        self.assertEqual(self.words("a.md", "- one\n\n      nobody\n- two\n    nobody\n"), [(3, "nobody"), (5, "nobody")])

    def test_a_negated_noun(self) -> None:
        self.assertEqual(self.words("a.md", "`x` is no port.\nIt is no longer here. There is no port.\nThey are no more.\n"),
                         [(1, "is no port")])

    def test_a_relative_clause_as_subject(self) -> None:
        self.assertEqual(self.words("a.md", "It ends. Who waits is answered.\nClients who wait. Who is it?\n"),
                         [(1, "Who waits")])

    def test_one_wording(self) -> None:
        self.assertEqual(self.words("a.md", "A time-out, a timeout, Web-socket, WebSocket, a host name.\n"),
                         [(1, "time-out"), (1, "Web-socket"), (1, "host name")])

    def test_comments_and_strings_of_the_source(self) -> None:
        self.assertEqual(
            self.words("a.cc", '// It goes by\n// and by.\nint nobody = 1; /* at one\nstroke */ f("whoever asks", R"(nobody )");\n'),
            [(1, "by and by"), (3, "at one stroke"), (4, "whoever"), (4, "nobody")])
        self.assertEqual(self.words("b.cc", 'f("nobody", "it is " "no port", x); // who\ng(" is "); no_port();\n'), [(1, "is no port")])
        self.assertEqual(self.words("a.py", '"""Whoever."""\nnobody = 1  # nobody\n'), [(1, "Whoever"), (2, "nobody")])
        self.assertEqual(self.words("a.yaml", "nobody: 1  # nobody\n"), [(1, "nobody")])
        self.assertEqual(self.words("a.bin", "nobody\n"), [])

    def test_a_page_has_no_breach(self) -> None:
        self.write("README.md", "Fine.\n")
        self.assertEqual(self.run_check(), (0, ""))
        self.write("docs/compat/a.md", "\nnobody\n")
        status, out = self.run_check()
        self.assertEqual(status, 1)
        self.assertIn("docs/compat/a.md:2: `nobody` is not used here: write", out)

    def test_the_source_has_no_breach(self) -> None:
        self.write("src/new.h", "// nobody\n")
        self.assertEqual(self.run_check()[0], 1)

    def test_usage(self) -> None:
        self.assertEqual(self.run_check("--nosuch")[0], 2)

    def test_proposed_wordings_are_accepted(self) -> None:
        for pattern, better in check_words.NOT_USED + check_words.ONE_WORDING:
            found = check_words.breaches_in("", better)
            self.assertEqual(found, [], pattern)


if __name__ == "__main__":
    unittest.main()
