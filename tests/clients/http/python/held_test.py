"""What is held, as people see it: /v1/counters and /v1/explain of the admin port, `sluice counters` and `sluice explain`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from sluice_server import BINARY, LISTENING, HttpTest, Program, ask, wait_until

CONFIG = """listen:
  - { protocol: http, address: "127.0.0.1:0" }
  - { protocol: admin, address: "127.0.0.1:0" }
rules:
  - name: tokens
    match: { tenant: "*" }
    actor: tenant
    limits:
      - { quota: 100, window: 1h, algorithm: fixed_window }
      - { quota: 50, window: 2s, algorithm: fixed_window }
  - name: pool
    match: { pool: "*", who: "*" }
    actor: pool
    fair_by: who
    limits:
      - { quota: 10, algorithm: concurrency, lease: 30s, max_lease: 1h }
      - { quota: 1000, window: 1h, algorithm: fixed_window }
"""


class Held(HttpTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="sluice-held-")
        self.addCleanup(folder.cleanup)
        config = Path(folder.name) / "sluice.yaml"
        config.write_text(CONFIG, encoding="utf-8")
        self.config = config
        self.server = Program([BINARY, "serve", "--config", str(config)], LISTENING)
        self.addCleanup(self.server.kill)
        self.admin = int(self.server.await_line(r"^sluice: admin listening on 127\.0\.0\.1:(\d+)$")[1])

    def post(self, path: str, **body: object) -> dict[str, object]:
        answer = ask(self.server.port, "POST", "/v1/" + path, body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def counter(self, name: str) -> dict[str, object]:
        answer = ask(self.admin, "GET", "/v1/counters/" + name.replace(":", "%3A"))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def held(self, name: str) -> list[int]:
        return [limit["held"] for limit in self.counter(name)["limits"]]

    def sluice(self, *words: str) -> str:
        done = subprocess.run([BINARY, *words, "--admin", f"127.0.0.1:{self.admin}"], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"]}, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_reservations_are_told_apart_from_what_was_used(self) -> None:
        tenant = {"tenant": "acme"}
        self.post("take", entries=tenant, n=5)
        self.assertEqual(self.held("native:tokens:acme:tenant"), [0, 0])
        self.assertNotIn("holds", self.counter("native:tokens:acme:tenant"))
        for number, ttl in ((1, 20), (2, 100)):
            self.post("reserve", entries=tenant, n=20, ttl=ttl, id=f"reservation-held-{number}")
        counter = self.counter("native:tokens:acme:tenant")
        self.assertEqual([limit["held"] for limit in counter["limits"]], [40, 40])
        self.assertEqual(counter["limits"][0]["remaining"], 55)
        holds = counter["holds"]
        self.assertEqual(holds["count"], 2)
        self.assertTrue(0 < holds["first_expires_in"] <= 20 < 60 < holds["last_expires_in"] <= 100, holds)
        page = ask(self.admin, "GET", "/v1/counters?actor=acme").json()["counters"]
        self.assertEqual([limit["held"] for limit in page[0]["limits"]], [40, 40])
        self.assertIn("55 left of 100 per 1h (40 held)", self.sluice("counters"))
        said = self.sluice("explain", "tenant=acme")
        self.assertIn("held by 2 holds, which end in ", said)
        # The window of the second limit ends: what is held is of the first alone.
        wait_until(lambda: self.held("native:tokens:acme:tenant") == [40, 0], "the window ends")
        self.post("commit", id="reservation-held-1", n=7)
        self.assertEqual(self.held("native:tokens:acme:tenant"), [20, 0])
        self.assertEqual(self.counter("native:tokens:acme:tenant")["limits"][0]["remaining"], 100 - 5 - 7 - 20)
        self.post("release", id="reservation-held-2")
        self.assertEqual(self.held("native:tokens:acme:tenant"), [0, 0])

    def test_of_places_those_with_an_id_are_held(self) -> None:
        pool = {"pool": "gpu", "who": "ann"}
        self.post("take", entries=pool, n=1)
        self.post("acquire", entries=pool, n=3, ttl=40, id="a-place-with-an-id-1")
        counter = self.counter("native:pool:gpu:pool")
        # Of the rate beside it units are taken for good.
        self.assertEqual([(limit["remaining"], limit["held"]) for limit in counter["limits"]], [(6, 3), (996, 0)])
        self.assertEqual(counter["holds"]["count"], 1)
        asked = ask(self.admin, "POST", "/v1/explain", {
            "protocol": "http", "descriptor": [{"key": key, "value": value} for key, value in pool.items()]}).json()
        rule = next(rule for rule in asked["rules"] if rule["rule"] == "pool")
        self.assertEqual([limit["held"] for limit in rule["decisions"]], [3, 0])
        self.assertEqual(rule["holds"]["count"], 1)
        self.assertEqual(rule["fair_by"], "who")
        said = self.sluice("explain", "pool=gpu", "who=ann")
        self.assertIn("allows: 5 left of 10 at a time, concurrency, lease 30s, at most 1h (3 held)", said)
        self.assertRegex(said, r"\n  held by 1 hold, which ends in [34]\d*s")
        self.assertIn("\n  waiting: in turn by who\n", said)
        of_file = [BINARY, "explain", "--policy", str(self.config), "pool=gpu", "who=ann"]
        words, whole = (subprocess.run([*of_file, *more], capture_output=True, text=True, timeout=60, check=True).stdout
                        for more in ([], ["--json"]))
        self.assertIn("waiting: in turn by `who`", words)
        self.assertEqual([rule.get("fair_by") for rule in json.loads(whole)["rules"] if rule["name"] == "pool"], ["who"])
        # A reset forgets the units, so nothing that is used is held, though the place is still known.
        self.assertEqual(ask(self.admin, "DELETE", "/v1/counters/native%3Apool%3Agpu%3Apool").status, 200)
        self.assertEqual(self.held("native:pool:gpu:pool"), [0, 0])
        self.assertEqual(json.loads(ask(self.admin, "GET", "/v1/holds").body)["total"], 1)


if __name__ == "__main__":
    unittest.main()
