"""examples/places: workers that share a pool of places; some are killed, one is stopped, and so is the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sluice_server import BINARY, LISTENING, ROOT, LimitedTest, Program, wait_until

QUOTA = 3
LEASE = 2.0
CONFIG = """listen: [{{ protocol: http, address: "127.0.0.1:{port}" }}]
store: {{ path: {path}, durability: always }}
rules:
  - name: pool
    match: {{ pool: "*" }}
    actor: pool
    limit: {{ quota: {quota}, algorithm: concurrency, lease: 2s, max_lease: 10s }}
"""
# Says when it has a place and when it gives it up, by the clock that all processes share.
WORKER = """
import sys, time
sys.path.append({folder!r})
from places import place
server, lease, work, turns = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
for _ in range(turns):
    with place("gpu", server, lease, 60, "worker") as lost:
        print("has", time.monotonic(), flush=True)
        end = time.monotonic() + work
        while time.monotonic() < end and not lost.is_set():
            time.sleep(0.005)
        print("lost" if lost.is_set() else "done", time.monotonic(), flush=True)
"""


class Places(LimitedTest):
    test_seconds_max = 150

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.port = 0
        self.server = self.start()
        self.addCleanup(lambda: self.server.kill())
        self.workers: list[subprocess.Popen[str]] = []

    def start(self) -> Program:
        config = self.folder / "sluice.yaml"
        config.write_text(CONFIG.format(port=self.port, path=self.folder / "data", quota=QUOTA))
        server = Program([BINARY, "serve", "--config", str(config)], LISTENING)
        self.port = server.port
        return server

    def work(self, seconds: float, turns: int) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER.format(folder=str(ROOT / "examples/places")), f"127.0.0.1:{self.port}", str(LEASE),
             str(seconds), str(turns)], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"})
        self.addCleanup(self.end, worker)
        self.workers.append(worker)
        return worker

    @staticmethod
    def end(worker: subprocess.Popen[str]) -> None:
        worker.kill()
        worker.wait()
        if worker.stdout:
            worker.stdout.close()

    @staticmethod
    def said(worker: subprocess.Popen[str]) -> tuple[str, float]:
        assert worker.stdout is not None
        word, _, at = worker.stdout.readline().partition(" ")
        return word, float(at or 0)

    def test_no_more_than_the_quota_work_at_a_time(self) -> None:
        workers = [self.work(0.02, 15) for _ in range(10)]
        moments = []
        for worker in workers:
            text, _ = worker.communicate(timeout=100)
            lines = [line.split() for line in text.splitlines()]
            self.assertEqual([word for word, _ in lines], ["has", "done"] * 15)
            moments += [(float(at), 1 if word == "has" else -1) for word, at in lines]
        working = most = 0
        for _, change in sorted(moments):
            working += change
            most = max(most, working)
        self.assertEqual(most, QUOTA)

    def test_places_of_the_killed_come_back_and_no_sooner(self) -> None:
        killed = [self.work(60, 1) for _ in range(QUOTA)]
        for worker in killed:
            self.assertEqual(self.said(worker)[0], "has")
        time.sleep(LEASE)  # they renew
        began = time.monotonic()
        for worker in killed:
            worker.kill()
        others = [self.work(0, 1) for _ in range(QUOTA)]
        for worker in others:
            word, at = self.said(worker)
            self.assertEqual(word, "has")
            # The last renewal was at most a third of a lease before, or somewhat more on a busy machine.
            self.assertGreater(at - began, 0)
            self.assertLess(at - began, 60)

    def test_who_is_stopped_for_longer_than_its_lease_is_told(self) -> None:
        stopped = self.work(60, 1)
        self.assertEqual(self.said(stopped)[0], "has")
        stopped.send_signal(signal.SIGSTOP)
        others = [self.work(0, 1) for _ in range(QUOTA)]
        for worker in others:
            self.assertEqual(self.said(worker)[0], "has")
        time.sleep(LEASE)
        stopped.send_signal(signal.SIGCONT)
        self.assertEqual(self.said(stopped)[0], "lost")

    def test_a_server_that_is_killed_keeps_its_places(self) -> None:
        workers = [self.work(30, 1) for _ in range(QUOTA)]
        for worker in workers:
            self.assertEqual(self.said(worker)[0], "has")
        self.server.kill()
        self.server = self.start()
        late = self.work(0, 1)
        time.sleep(2 * LEASE)
        self.assertIsNone(late.poll())
        for worker in workers:
            self.assertIsNone(worker.poll(), "it has its place still")
        workers[0].kill()
        wait_until(lambda: late.poll() is not None, "the place of the killed worker goes to the one that waits")
        self.assertEqual(late.returncode, 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
