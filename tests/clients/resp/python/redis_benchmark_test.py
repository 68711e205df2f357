"""Debian's redis-benchmark against the real server: it ends, was answered without an error, and has counted."""

from __future__ import annotations

import csv
import json
import subprocess
import unittest

from sluice_server import SECONDS_MAX, RespTest


class RedisBenchmarkTest(RespTest):
    def benchmark(self, *words: str) -> dict[str, float]:
        """Requests per second by the name of the test."""
        command = ["redis-benchmark", "-p", str(self.server.port), "--csv", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("rror", done.stdout + done.stderr)
        rows = list(csv.DictReader(done.stdout.splitlines()))
        rates = {row["test"]: float(row["rps"]) for row in rows}
        self.assertTrue(rates and all(rate > 0 for rate in rates.values()), done.stdout)
        return rates

    def ask(self, *words: str) -> list[int]:
        command = ["redis-cli", "-p", str(self.server.port), "--json", *words]
        reply = json.loads(subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=True).stdout)
        assert isinstance(reply, list)
        return reply

    def test_pings_in_a_pipeline(self) -> None:
        rates = self.benchmark("-c", "50", "-P", "16", "-n", "20000", "-t", "ping")
        self.assertEqual(set(rates), {"PING_INLINE", "PING_MBULK"})

    def test_a_command_line_with_keys_by_chance(self) -> None:
        words = ("CL.THROTTLE", "key:__rand_int__", "15", "30", "60")
        self.assertEqual(set(self.benchmark("-c", "50", "-P", "16", "-n", "20000", "-r", "20", *words)), {" ".join(words)})
        # 20 keys of 16 units each were asked 20000 times. What comes back since is one in two seconds.
        for i in range(20):
            limited, limit, remaining, _, reset = self.ask("CL.THROTTLE", f"key:{i:012}", "15", "30", "60", "0")
            self.assertEqual((limited, limit), (0, 16))
            self.assertLess(remaining, 16)
            self.assertGreater(reset, 0)

    def test_no_request_is_lost_or_counted_twice(self) -> None:
        words = ("CL.THROTTLE", "one", "99999", "1", "1000000")
        self.benchmark("-c", "50", "-P", "16", "-n", "20000", "--threads", "2", *words)
        self.assertEqual(self.ask(*words, "0")[:3], [0, 100_000, 80_000])


if __name__ == "__main__":
    unittest.main()
