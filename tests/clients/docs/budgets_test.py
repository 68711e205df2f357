"""The commands of docs/budgets.md, typed in their order."""

from __future__ import annotations

import shutil
import unittest

from manual import Manual


@unittest.skipUnless(shutil.which("jq"), "there is no jq")
class BudgetsTest(unittest.TestCase):
    def test_the_page(self) -> None:
        with Manual(self, "docs/budgets.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (2, 2, 21))


if __name__ == "__main__":
    unittest.main()
