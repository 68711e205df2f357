"""The commands of docs/first-limit.md."""

from __future__ import annotations

import unittest

from manual import Manual

PAGE = "docs/first-limit.md"


class FirstLimitTest(unittest.TestCase):
    def test_a_limited_log_in(self) -> None:
        with Manual(self, PAGE, "## A log-in") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (2, 2, 5))

    def test_every_protocol_at_once(self) -> None:
        """The built-in example on free ports."""
        with Manual(self, PAGE, "## Every protocol at once") as manual:
            at = manual.lines.index("    sluice serve")
            manual.lines[at] += " --listen divvy=127.0.0.1:8321 --listen admin=127.0.0.1:8380"
            manual.follow()
            self.assertEqual((len(manual.servers), manual.commands), (1, 4))


if __name__ == "__main__":
    unittest.main()
