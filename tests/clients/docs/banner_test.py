"""The commands that `sluice serve` suggests at its start, typed in another terminal as they are printed."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from manual import BINARY, SECONDS_MAX

TRY = "in another terminal, try"
LAST = "policy generation 1"  # the line of the log after the banner


class BannerTest(unittest.TestCase):
    def serve(self, *arguments: str) -> list[str]:
        """Starts a server that ends with the test; returns the lines that it prints at its start."""
        server = subprocess.Popen([BINARY, "serve", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, env={"PATH": os.environ["PATH"]})
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait, SECONDS_MAX)
        self.addCleanup(server.terminate)
        said = []
        for line in server.stdout:
            said.append(line.rstrip("\n"))
            if LAST in line:
                return said
        self.fail("\n".join(said))

    def test_its_commands_work_as_printed(self) -> None:
        said = self.serve("--listen", "divvy=127.0.0.1:0", "--listen", "droplet=127.0.0.1:0")
        at = next(i for i, line in enumerate(said) if line.endswith(TRY))
        commands = [line.strip() for line in said[at + 1:] if line.startswith("  ")]
        self.assertEqual([command.split()[0] for command in commands], ["sluice", "bash"])
        with tempfile.TemporaryDirectory(prefix="sluice-docs-") as folder:
            (Path(folder) / "sluice").symlink_to(BINARY)
            environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
            answers = [subprocess.run(["bash", "-c", command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=SECONDS_MAX, check=True).stdout for command in commands]
        self.assertRegex(answers[0], r"^allowed: 2 left, ")
        self.assertRegex(answers[1], r"^OK true 1 \d+\n$")

    def test_a_configuration_without_rules_is_not_called_the_example(self) -> None:
        with tempfile.TemporaryDirectory(prefix="sluice-docs-") as folder:
            file = Path(folder) / "sluice.yaml"
            file.write_text('listen: [{ protocol: droplet, address: "127.0.0.1:0" }]\n', encoding="utf-8")
            said = self.serve("--config", str(file))
        self.assertNotIn(TRY, "\n".join(said))


if __name__ == "__main__":
    unittest.main()
