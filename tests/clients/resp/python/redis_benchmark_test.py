"""Debian's redis-benchmark against the real server: all its requests are answered without an error, and its numbers
agree with what the server has counted."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import time
import unittest

from sluice_server import SECONDS_MAX, RespTest

REQUESTS = 20_000
# It asks for `save` and `appendonly` first.
QUESTIONS = 2


@unittest.skipUnless(shutil.which("redis-benchmark"), "there is no redis-benchmark")
class RedisBenchmarkTest(RespTest):
    def run_benchmark(self, *words: str) -> tuple[str, float]:
        """Returns what it prints, and how many seconds it ran at most."""
        command = ["redis-benchmark", "-p", str(self.server.port), "-c", "50", "-P", "16", "-n", str(REQUESTS), *words]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        seconds = time.monotonic() - start
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("rror", done.stdout + done.stderr)
        return done.stdout, seconds

    def benchmark(self, *words: str) -> dict[str, float]:
        """Requests per second by the name of the test; they must be possible in the time that it ran."""
        printed, seconds = self.run_benchmark("--csv", *words)
        rows = list(csv.DictReader(printed.splitlines()))
        rates = {row["test"]: float(row["rps"]) for row in rows}
        self.assertTrue(rates, printed)
        for rate in rates.values():
            # It counts whole milliseconds, so its time may be up to one too short.
            self.assertGreaterEqual(rate, REQUESTS / (seconds + 0.001))
        for row in rows:
            self.assertLessEqual(float(row["min_latency_ms"]), float(row["p50_latency_ms"]))
            self.assertLessEqual(float(row["p50_latency_ms"]), float(row["max_latency_ms"]))
            self.assertLessEqual(float(row["max_latency_ms"]), 1000 * seconds + 1)
        return rates

    def cli(self, *words: str) -> str:
        command = ["redis-cli", "-p", str(self.server.port), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True).stdout

    def ask(self, *words: str) -> list[int]:
        reply = json.loads(self.cli("--json", *words))
        assert isinstance(reply, list)
        return reply

    def commands_processed(self) -> int:
        """By INFO, which does not count itself before it is answered."""
        found = re.search(r"^total_commands_processed:(\d+)", self.cli("INFO", "stats"), re.MULTILINE)
        assert found
        return int(found[1])

    def test_pings_in_a_pipeline(self) -> None:
        before = self.commands_processed()
        rates = self.benchmark("-t", "ping")
        self.assertEqual(set(rates), {"PING_INLINE", "PING_MBULK"})
        self.assertEqual(self.commands_processed() - before, 1 + QUESTIONS + 2 * REQUESTS)

    def test_its_summary(self) -> None:
        before = self.commands_processed()
        printed, seconds = self.run_benchmark("CL.THROTTLE", "one", "15", "30", "60")
        self.assertEqual(self.commands_processed() - before, 1 + QUESTIONS + REQUESTS)
        completed = re.search(r"^  (\d+) requests completed in ([\d.]+) seconds$", printed, re.MULTILINE)
        rate = re.search(r"throughput summary: ([\d.]+) requests per second$", printed, re.MULTILINE)
        assert completed and rate, printed
        self.assertEqual(int(completed[1]), REQUESTS)
        self.assertLessEqual(float(completed[2]), seconds + 0.01)
        # Seconds are written with two digits.
        self.assertAlmostEqual(REQUESTS / float(rate[1]), float(completed[2]), delta=0.0051)

    def test_a_command_line_with_random_keys(self) -> None:
        words = ("CL.THROTTLE", "key:__rand_int__", "15", "1", "3600")
        before = self.commands_processed()
        self.assertEqual(set(self.benchmark("-r", "20", *words)), {" ".join(words)})
        self.assertEqual(self.commands_processed() - before, 1 + QUESTIONS + REQUESTS)
        # 20 keys of 16 units each were asked 20000 times, and a unit comes back after an hour.
        for i in range(20):
            self.assertEqual(self.ask("CL.THROTTLE", f"key:{i:012}", "15", "1", "3600", "0")[:3], [0, 16, 0])

    def test_no_request_is_lost_or_counted_twice(self) -> None:
        words = ("CL.THROTTLE", "one", "99999", "1", "60000")
        before = self.commands_processed()
        self.benchmark("--threads", "2", *words)
        self.assertEqual(self.commands_processed() - before, 1 + QUESTIONS + REQUESTS)
        self.assertEqual(self.ask(*words, "0")[:3], [0, 100_000, 100_000 - REQUESTS])

    def test_resp3_and_a_database(self) -> None:
        words = ("CL.THROTTLE", "one", "99999", "1", "60000")
        self.benchmark("-3", "--dbnum", "3", *words)
        self.assertEqual(self.ask("-n", "3", *words, "0")[:3], [0, 100_000, 100_000 - REQUESTS])
        self.assertEqual(self.ask(*words, "0")[:3], [0, 100_000, 100_000])


if __name__ == "__main__":
    unittest.main()
