"""The commands of docs/commands.md, typed in their order, except `man`, which opens a pager; its table has every command."""

from __future__ import annotations

import re
import unittest

from manual import Manual, lines_of


class CommandsTest(unittest.TestCase):
    def test_the_page(self) -> None:
        with Manual(self, "docs/commands.md") as manual:
            manual.lines.remove("$ sluice man check | man -l -")
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 1, 5))

    def test_every_command_is_in_the_table(self) -> None:
        with Manual(self, "docs/commands.md") as manual:
            listed = set(re.findall(r"^  (\w+) +\S", manual.run("sluice --help")[1].split("Commands:")[1].split("\n\n")[0], re.MULTILINE))
        self.assertGreater(len(listed), 25)
        table = [line.split(" | ")[0] for line in lines_of("docs/commands.md", "## Every command") if line.startswith("| `")]
        named = {word for cell in table for code in re.findall(r"`([^`]+)`", cell) for word in [code.removeprefix("sluice ").split()[0]]}
        self.assertEqual(named, listed)


if __name__ == "__main__":
    unittest.main()
