"""`sluice ask envoy` against the real `sluice envoy`."""

from __future__ import annotations

import json
import re
import subprocess
import unittest

from sluice_server import BINARY, SECONDS_MAX, LimitedTest


class AskTest(LimitedTest):
    def setUp(self) -> None:
        super().setUp()
        self.server = self.serve()

    def ask(self, *words: str) -> tuple[int, str]:
        """The exit status and the output, without lengths of time."""
        done = subprocess.run([BINARY, "ask", "envoy", "--server", f"127.0.0.1:{self.server.grpc_port}", "--timeout",
                               str(SECONDS_MAX * 1000), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=SECONDS_MAX)
        return done.returncode, re.sub(r", resets in \S+", "", done.stdout + done.stderr)

    def test_up_to_the_limit(self) -> None:
        for left in (4, 3, 2, 1, 0):
            self.assertEqual(self.ask("shop", "user=a"),
                             (0, f"allowed (OK)\n  user=a: OK, {left} of 5 left per year (of_user)\n"))
        self.assertEqual(self.ask("shop", "user=a"),
                         (1, "denied (OVER_LIMIT)\n  user=a: OVER_LIMIT, 0 of 5 left per year (of_user)\n"))

    def test_several_descriptors(self) -> None:
        self.assertEqual(
            self.ask("shop", "tenant=t", "path=/cart", "--", "trusted=x", "--", "none=x"),
            (0, "allowed (OK)\n  tenant=t, path=/cart: OK, 1 of 2 left per year\n  trusted=x: OK, unlimited\n"
                "  none=x: OK, no limit applies\n"))

    def test_hits(self) -> None:
        def left(*options: str) -> int:
            status, told = self.ask("--json", *options, "shop", "user=a")
            self.assertEqual(status, 0, told)
            return json.loads(told)["statuses"][0]["remaining"]

        self.assertEqual([left("--hits", "3"), left("--peek"), left("--refund", "--hits", "2"), left()], [2, 2, 4, 3])

    def test_an_inline_limit(self) -> None:
        self.assertEqual(self.ask("--limit", "1/day", "shop", "none=x"),
                         (0, "allowed (OK)\n  none=x: OK, 0 of 1 left per day\n"))

    def test_an_error_is_reported_without_a_decision(self) -> None:
        self.assertEqual(self.ask("", "user=a"),
                         (3, "error: the server refused: UNKNOWN, rate limit domain must not be empty\n"))
        self.server.stop()
        status, told = self.ask("shop", "user=a")
        self.assertEqual(status, 3)
        self.assertIn("Connection refused", told)


if __name__ == "__main__":
    unittest.main()
