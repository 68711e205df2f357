"""The commands of docs/commands.md, typed in their order, except `man`, which opens a pager."""

from __future__ import annotations

import unittest

from manual import Manual


class CommandsTest(unittest.TestCase):
    def test_the_page(self) -> None:
        with Manual(self, "docs/commands.md") as manual:
            manual.lines.remove("$ sluice man check | man -l -")
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 1, 5))


if __name__ == "__main__":
    unittest.main()
