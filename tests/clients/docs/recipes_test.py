"""The commands of docs/recipes.md, typed in their order; its programs are those of examples/llm and examples/places."""

from __future__ import annotations

import shutil
import unittest

from manual import ROOT, Manual


@unittest.skipUnless(shutil.which("jq"), "there is no jq")
class RecipesTest(unittest.TestCase):
    def test_the_page(self) -> None:
        with Manual(self, "docs/recipes.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (8, 4, 10))
            shown = dict(manual.files)
        examples = [path for name in ("llm", "places") for path in sorted((ROOT / "examples" / name).iterdir()) if path.is_file()]
        self.assertEqual({path.name: path.read_text(encoding="utf-8") for path in examples},
                         {name: text for name, text in shown.items() if name != "billing.yaml"})


if __name__ == "__main__":
    unittest.main()
