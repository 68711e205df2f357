"""The sections of docs/resp.md that have a server of their own. Its windows are a minute long, which the commands do
not take."""

from __future__ import annotations

import unittest

from manual import Manual


class RespTest(unittest.TestCase):
    def test_rules_of_a_policy(self) -> None:
        with Manual(self, "docs/resp.md", "## Rules of a policy") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 1, 2))


if __name__ == "__main__":
    unittest.main()
