"""The commands of docs/upgrade.md, from its first line to its last."""

from __future__ import annotations

import unittest

from manual import Manual


class UpgradeTest(unittest.TestCase):
    def test_the_page(self) -> None:
        with Manual(self, "docs/upgrade.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 2, 4))


if __name__ == "__main__":
    unittest.main()
