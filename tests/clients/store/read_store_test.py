#!/usr/bin/env python3
"""A store on disk as read_store.py reads it, which was written from docs/store-format.md alone, and as `sluice store
dump` does: after a stop, after a kill, as a snapshot, and with a log behind it."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import read_store

ROOT = Path(__file__).resolve().parents[3]
SLUICE = Path(os.environ.get("SLUICE", ROOT / "build/release/sluice"))
CONFIG = """listen: [{{ protocol: http, address: "127.0.0.1:{port}" }}]
store: {{ path: {path}, durability: {durability} }}
rules:
  - {{ name: one, match: {{ user: "*" }}, actor: user, then: continue,
      limits: [{{ quota: 100, window: 1h, algorithm: fixed_window }}, {{ quota: 50, window: 1m, algorithm: sliding_log }}] }}
  - {{ name: two, match: {{ user: "*", group: "*" }}, actor: group, limit: {{ quota: 9, window: 1d, algorithm: token_bucket }} }}
"""
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class ReadStore(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.data = Path(self.folder.name) / "data"
        self.dice = random.Random(4)

    def tearDown(self) -> None:
        self.folder.cleanup()

    def serve(self, durability: str, how: signal.Signals, requests: int) -> None:
        """One life of a server that takes so many requests."""
        port = free_port()
        config = Path(self.folder.name) / "sluice.yaml"
        config.write_text(CONFIG.format(port=port, path=self.data, durability=durability))
        with subprocess.Popen([SLUICE, "serve", "--config", config], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as server:
            try:
                self.ask(server, port, requests)
            finally:
                server.send_signal(how)
                server.wait(PATIENCE)

    def ask(self, server: subprocess.Popen[bytes], port: int, requests: int) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
                break
            except ConnectionRefusedError:
                if time.monotonic() > end or server.poll() is not None:
                    raise
                time.sleep(0.02)
        with connection, connection.makefile("rb") as answers:
            for _ in range(requests):
                entries = {"user": f"u{self.dice.randrange(40)}\u00e9", "group": str(self.dice.randrange(5))}
                body = json.dumps({"entries": entries, "n": self.dice.randrange(4)}).encode()
                connection.sendall(b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                length = 0
                while (line := answers.readline()) != b"\r\n":
                    self.assertTrue(line)
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                answers.read(length)

    def compare(self) -> int:
        """The number of counters, which are the same in both."""
        dump = subprocess.run([SLUICE, "store", "dump", self.data], capture_output=True, check=True, timeout=PATIENCE)
        dumped = {}
        for line in dump.stdout.decode().splitlines():
            one = json.loads(line)
            limits = [{key: limit[key] for key in ("algorithm", "quota", "window_us", "burst")}
                      for limit in one["limits"]]
            dumped[one["prefix"], one["key"], one["suffix"]] = (limits, one["forget_us"])
        now = time.time() * 1e6
        read = {tuple(part.decode() for part in name): (limits, forget)
                for name, (limits, forget, _) in read_store.Store(self.data).counters.items()
                if forget is None or forget > now}
        self.assertEqual({name for name in dumped if dumped[name][1] is None or dumped[name][1] > now}, set(read))
        self.assertEqual(read, {name: dumped[name] for name in read})
        return len(read)

    def test_reads_what_dump_reads(self) -> None:
        self.serve("interval", signal.SIGTERM, 200)
        self.assertGreater(self.compare(), 20)
        self.serve("always", signal.SIGKILL, 100)
        self.compare()
        subprocess.run([SLUICE, "store", "repair", self.data], check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
        self.assertEqual(len(list((self.data / "sluice").glob("snapshot-*"))), 1)
        before = self.compare()
        self.serve("always", signal.SIGKILL, 100)
        self.assertGreaterEqual(self.compare(), before)

    def test_says_what_is_damaged(self) -> None:
        self.serve("always", signal.SIGTERM, 50)
        log = max((self.data / "sluice").glob("log-*"), key=lambda path: path.stat().st_size)
        data = bytearray(log.read_bytes())
        data[60] ^= 4
        before = len(read_store.Store(self.data).counters)
        log.write_bytes(data)
        try:
            self.assertLess(len(read_store.Store(self.data).counters), before)
        except read_store.Damaged:
            pass


if __name__ == "__main__":
    unittest.main()
