"""The sections of docs/proxies.md that have no proxy; tests/clients/http/proxies follows the others."""

from __future__ import annotations

import unittest

from manual import ROOT, Manual


class ProxiesTest(unittest.TestCase):
    def test_keeping_counters(self) -> None:
        with Manual(self, "docs/proxies.md", "## Keep counters, and see which clients are limited") as manual:
            name = "examples/nginx/sluice.yaml"
            manual.files[name] = (ROOT / name).read_text(encoding="utf-8")
            manual.follow()
            self.assertEqual((len(manual.servers), manual.commands), (1, 3))
            self.assertTrue((manual.folder / "counters/sluice").is_dir())

    def test_api_keys_and_tenants(self) -> None:
        with Manual(self, "docs/proxies.md", "## Limit by API key and by tenant") as manual:
            manual.follow()
            self.assertEqual((len(manual.servers), manual.commands), (1, 3))


if __name__ == "__main__":
    unittest.main()
