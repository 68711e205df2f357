"""Tests of format_pages.py on small pages."""

from __future__ import annotations

import unittest

from format_pages import COLUMNS, format_page, pages


class FormatPagesTest(unittest.TestCase):
    def test_each_sentence_has_a_line(self) -> None:
        self.assertEqual(format_page("One two. Three four? `five` is\nsix. sluice is seven, e.g. eight.\n"),
                         "One two.\nThree four?\n`five` is six.\nsluice is seven, e.g. eight.\n")

    def test_a_long_sentence_breaks_behind_a_clause(self) -> None:
        clause = "the first clause of this sentence is one that has some seventy letters in it"
        self.assertEqual(format_page(f"{clause}, and another one follows it to the end.\n"),
                         f"{clause},\nand another one follows it to the end.\n")

    def test_lists_keep_their_shape(self) -> None:
        self.assertEqual(format_page("- One. Two.\n  Three.\n  1. Four. Five.\n- Six.\n"),
                         "- One.\n  Two.\n  Three.\n  1. Four.\n     Five.\n- Six.\n")

    def test_code_tables_and_headings_stay(self) -> None:
        for text in ("```console\n$ one. Two. Three.\n\n| a. B. | c |\n```\n", "| One. Two. | Three. Four. |\n|---|---|\n",
                     "# One. Two.\n", "Text.\n\n    code. Code. Code.\n",
                     "Text:\n\n    rules:\n      - name: a\n        deny: true\n\n      - name: b\n",
                     "- Item:\n\n      - code: a\n        b: c\n", "<p>One. Two.\nThree.</p>\n"):
            with self.subTest(text=text):
                self.assertEqual(format_page(text), text)

    def test_no_line_begins_with_a_marker(self) -> None:
        for marker in ("- ", "# ", "1. ", "> ", "| "):
            text = "word " * 19 + "word, " + marker + "more words follow here to the end of the line.\n"
            with self.subTest(marker=marker):
                for line in format_page(text).splitlines():
                    self.assertFalse(line.startswith(marker), line)

    def test_code_within_a_line_is_not_broken(self) -> None:
        code = "`one. Two; three, " + "four " * 20 + "five`"
        self.assertIn(code, format_page("Some words before it, " + code + " and words behind it.\n"))

    def test_pages_keep_their_words_and_are_stable(self) -> None:
        for page in pages():
            with self.subTest(page=page.name):
                text = page.read_text(encoding="utf-8")
                once = format_page(text)
                self.assertEqual(once.split(), text.split())
                self.assertEqual(format_page(once), once)

    def test_the_room_is_what_it_is(self) -> None:
        lines = format_page("a sentence of many words " * 30 + "ends.\n").splitlines()
        self.assertTrue(all(len(line) <= COLUMNS for line in lines))


if __name__ == "__main__":
    unittest.main()
