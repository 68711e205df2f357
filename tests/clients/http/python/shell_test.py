"""examples/shell: commands of a shell, with curl."""

from __future__ import annotations

import shutil
import subprocess
import unittest

from sluice_server import ROOT, SECONDS_MAX, Answering, HttpTest, Program

LIMITED = str(ROOT / "examples/shell/limited")


@unittest.skipUnless(shutil.which("curl"), "there is no curl")
class ShellTest(HttpTest):
    seconds = SECONDS_MAX  # how long the command waits for sluice

    def run_limited(self, server: Program | Answering, *words: str) -> tuple[int, str, str]:
        """Returns its exit status and what it prints."""
        environment = {"PATH": "/usr/bin:/bin", "SLUICE_URL": f"http://127.0.0.1:{server.port}",
                       "SLUICE_SECONDS": str(self.seconds)}
        done = subprocess.run([LIMITED, *words], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX,
                              check=False)
        return done.returncode, done.stdout, done.stderr

    def test_up_to_the_limit(self) -> None:
        server = self.serve()
        for _ in range(2):
            self.assertEqual(self.run_limited(server, "k", "2/10m", "echo", "a b", "c"), (0, "a b c\n", ""))
        status, printed, told = self.run_limited(server, "k", "2/10m", "echo", "x")
        self.assertEqual((status, printed), (75, ""))
        self.assertRegex(told, r'^limited: too often; Retry-After: [1-9]\d*; RateLimit: "default";r=0;t=\d+\n$')
        self.assertEqual(self.run_limited(server, "other", "2/10m", "sh", "-c", "exit 3"), (3, "", ""))

    def test_keys_of_special_characters(self) -> None:
        server = self.serve()
        for key in ('a"b', "a\\b", "a b", "$(x)", "'", "clé", '", "n": 0, "x": "', "%s%n"):
            self.assertEqual(self.run_limited(server, key, "1/10m", "true")[0], 0, key)
            self.assertEqual(self.run_limited(server, key, "1/10m", "true")[0], 75, key)

    def test_wrong_usage(self) -> None:
        server = self.serve()
        for words in ((), ("k",), ("k", "2/10m"), ("k", "x/10m", "true"), ("k", "2/1 0m", "true"), ("a\nb", "2/10m", "true")):
            status, printed, told = self.run_limited(server, *words)
            self.assertEqual((status, printed), (64, ""), words)
            self.assertIn("limited [-o] KEY QUOTA/WINDOW COMMAND", told)

    def test_without_sluice(self) -> None:
        server = self.serve()
        self.assertEqual(server.stop(), 0)
        status, printed, told = self.run_limited(server, "k", "1/10m", "echo", "x")
        self.assertEqual((status, printed), (69, ""))
        self.assertRegex(told, "^limited: sluice cannot be reached: .+\n$")
        status, printed, told = self.run_limited(server, "-o", "k", "1/10m", "echo", "x")
        self.assertEqual((status, printed), (0, "x\n"))
        self.assertRegex(told, "^limited: sluice cannot be reached: .+\n$")

    def test_a_silent_sluice_is_not_waited_for(self) -> None:
        server = self.serve()
        server.hold()
        self.seconds = 1
        self.assertEqual(self.run_limited(server, "k", "1/10m", "echo", "x")[:2], (69, ""))
        self.assertEqual(self.run_limited(server, "-o", "k", "1/10m", "echo", "x")[:2], (0, "x\n"))

    def test_a_limit_that_sluice_rejects(self) -> None:
        server = self.serve()
        for words in (("k",), ("-o", "k")):
            status, printed, told = self.run_limited(server, *words, "1/10parsecs", "echo", "x")
            self.assertEqual((status, printed, told), (78, "", "limited: sluice does not decide: status 400\n"))

    def test_an_answer_that_is_not_a_decision_runs_nothing(self) -> None:
        for answered in (302, 400, 401, 404, 421, 503):
            status, printed, told = self.run_limited(Answering(self, answered), "-o", "k", "1/10m", "echo", "x")
            self.assertEqual((status, printed, told), (78, "", f"limited: sluice does not decide: status {answered}\n"))


if __name__ == "__main__":
    unittest.main()
