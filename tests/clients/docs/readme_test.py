"""The commands of README.md: the downloaded program is the one under test, and the others begin with its server. The image and the
package are tried by the tests of `make dist` (every_command_test.py)."""

from __future__ import annotations

import re
import shutil
import unittest

from manual import BINARY, ROOT, Manual, lines_of

PROGRAM = "sluice-linux-amd64"


class ReadmeTest(unittest.TestCase):
    def test_from_the_download_to_a_refusal(self) -> None:
        """A file that cannot be executed, as a download; its server listens on a free port."""
        [line] = [line[4:] for line in lines_of("README.md", "## Run it") if line.startswith(f"    chmod +x {PROGRAM}")]
        permit, serve = line.split(" && ")
        with Manual(self, "README.md", "## Allow and refuse") as manual:
            (manual.folder / "bin/sluice").unlink()  # nothing but the download
            shutil.copy(BINARY, manual.folder / PROGRAM)
            (manual.folder / PROGRAM).chmod(0o644)
            self.assertEqual(manual.run(permit)[0], 0)
            manual.serve(f"{serve} --listen http=127.0.0.1:8390")
            manual.follow()
            self.assertEqual((len(manual.servers), manual.commands), (1, 1))

    def test_make_run_serves(self) -> None:
        self.assertIn("exec build/release/sluice serve", (ROOT / "scripts/run").read_text(encoding="utf-8"))

    def test_each_protocols_default_port_is_in_the_table(self) -> None:
        """What `sluice serve` prints that it listens on."""
        with Manual(self, "README.md") as manual:
            printed = manual.run("sluice serve --print-config")[1]
        ports = re.findall(r'protocol: (\w+), address: "127\.0\.0\.1:(\d+)"', printed)
        self.assertGreater(len(ports), 5)
        table = "\n".join(lines_of("README.md", "## Point your clients at it"))
        for protocol, port in ports:
            if protocol != "admin":
                self.assertRegex(table, rf"(:|-p ){port}\b", protocol)

    def test_it_is_short(self) -> None:
        self.assertLessEqual(len(lines_of("README.md", "")), 120)


if __name__ == "__main__":
    unittest.main()
