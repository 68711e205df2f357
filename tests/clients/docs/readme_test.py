"""What README.md says to type in the first hour, typed."""

from __future__ import annotations

import unittest

from manual import Manual


class ReadmeTest(unittest.TestCase):
    def test_from_nothing_to_a_limited_log_in(self) -> None:
        with Manual(self, "README.md", "## From nothing") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (2, 2, 5))


if __name__ == "__main__":
    unittest.main()
