"""The commands of docs/tasks.md, typed in their order."""

from __future__ import annotations

import shutil
import unittest

from manual import Manual


@unittest.skipUnless(shutil.which("jq"), "there is no jq")
class TasksTest(unittest.TestCase):
    def test_the_tasks(self) -> None:
        with Manual(self, "docs/tasks.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (5, 6, 45))
            self.assertEqual(sum(line.startswith("## ") for line in manual.lines), 12)


if __name__ == "__main__":
    unittest.main()
