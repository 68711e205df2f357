"""The commands of docs/concepts.md, typed in their order."""

from __future__ import annotations

import unittest

from manual import Manual


class ConceptsTest(unittest.TestCase):
    def test_the_example(self) -> None:
        with Manual(self, "docs/concepts.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 1, 8))


if __name__ == "__main__":
    unittest.main()
