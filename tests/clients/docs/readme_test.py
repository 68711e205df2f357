"""The commands of README.md. Sections about one protocol are typed by tests of that protocol
(every_command_test.py)."""

from __future__ import annotations

import unittest

from manual import ROOT, SECONDS_MAX, Manual, lines_of


class ReadmeTest(unittest.TestCase):
    def test_from_nothing_to_a_limited_log_in(self) -> None:
        with Manual(self, "README.md", "## From nothing") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (2, 2, 5))

    def test_every_protocol_at_once(self) -> None:
        self.assertIn("exec build/release/sluice serve", (ROOT / "scripts/run").read_text(encoding="utf-8"))  # `make run`
        with Manual(self, "README.md", "## Every protocol at once") as manual:
            (manual.folder / "examples").symlink_to(ROOT / "examples")
            manual.serve("sluice serve --listen divvy=127.0.0.1:8321")
            manual.follow()
            self.assertEqual((len(manual.servers), manual.commands), (1, 4))

    def test_from_divvy(self) -> None:
        """The three commands; Divvy's variable names a free port."""
        lines = [line[4:].split("  #")[0].rstrip() for line in lines_of("README.md", "## From Divvy to sluice")
                 if line.startswith("    ")]
        self.assertEqual(len(lines), 3)
        with Manual(self, "README.md", "## From Divvy to sluice") as manual:
            (manual.folder / "rules.ini").write_text("[method=GET path=/]\ncreditLimit = 2\nresetSeconds = 3600\n"
                                                     "[default]\ncreditLimit = 0\n", encoding="utf-8")
            manual.compare(lines[0], "rules.ini: ok, 2 rules")
            manual.serve(f"PORT=8321 {lines[1]}")
            manual.compare(lines[2], "allowed: 1 left, all of them again in 1h")

    def test_counters_that_survive(self) -> None:
        """The command, with a folder of this test and a free port; a second server finds what the first one counted."""
        [line] = [line[4:] for line in lines_of("README.md", "## Counters that survive") if line.startswith("    ")]
        with Manual(self, "README.md", "## Counters that survive") as manual:
            (manual.folder / "rules.ini").write_text("[default]\ncreditLimit = 2\nresetSeconds = 86400\n", encoding="utf-8")
            here = line.replace("/var/lib/sluice", "counters")
            self.assertNotEqual(here, line)
            for left in (1, 0):
                manual.serve(f"PORT=8321 {here}")
                manual.compare("sluice ask divvy k=v", f"allowed: {left} left, all of them again in 1d")
                server = manual.servers.pop()
                server.terminate()
                self.assertEqual(server.wait(SECONDS_MAX), 0)
                manual.ports.clear()


if __name__ == "__main__":
    unittest.main()
