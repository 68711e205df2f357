"""Reservations as a ledger: clients whose estimates are wrong, of whom a third die, over kills of a server with its counters on
disk, and of two servers whose counters are in one Redis. What was committed is what the counters say, to the unit, and nothing
stays held."""

from __future__ import annotations

import http.client
import json
import random
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from sluice_server import BINARY, LISTENING, LimitedTest, Program, wait_until

sys.path.append(str(Path(__file__).resolve().parents[2] / "envoy/python"))

from redis_server import RedisServer  # noqa: E402

TENANTS = 20
CLIENTS = 16
ROUNDS = 12  # of each client
KILLS = 4
QUOTA = 1_000_000
CONFIG = """listen: [{{ protocol: http, address: "127.0.0.1:{port}" }}]
workers: 2
store: {{ {store} }}
rules:
  - name: tokens
    match: {{ tenant: "*" }}
    actor: tenant
    limits:
      - {{ quota: {quota}, window: 24h, algorithm: fixed_window }}
      - {{ quota: {quota}, algorithm: fixed_bucket }}
"""


class Ledger(LimitedTest):
    """With one server, whose counters are on disk."""

    test_seconds_max = 150
    SERVERS = 1

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.store = self.make_store()
        self.ports = [0] * self.SERVERS
        self.servers = [self.start(number) for number in range(self.SERVERS)]
        self.addCleanup(lambda: [server.kill() for server in self.servers])
        self.lock = threading.Lock()
        self.used = dict.fromkeys(range(TENANTS), 0)
        self.committed: list[tuple[str, int]] = []
        self.wrong: list[str] = []

    def make_store(self) -> str:
        return f"path: {self.folder / 'data'}, durability: always"

    def start(self, number: int) -> Program:
        config = self.folder / f"sluice-{number}.yaml"
        config.write_text(CONFIG.format(port=self.ports[number], store=self.store, quota=QUOTA))
        server = Program([BINARY, "serve", "--config", str(config)], LISTENING)
        self.ports[number] = server.port
        return server

    def restart(self, number: int) -> None:
        self.servers[number].kill()
        self.servers[number] = self.start(number)

    def post(self, path: str, body: dict[str, object]) -> tuple[int, dict[str, object]]:
        """One request, to any server; one that gets no answer is sent again, as the server may be killed."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", random.choice(self.ports), timeout=20)
            try:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 503:
                    return answer.status, json.loads(text)
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.02)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            with self.lock:
                self.wrong.append(what)

    def client(self, number: int) -> None:
        dice = random.Random(number)
        for turn in range(ROUNDS):
            tenant = dice.randrange(TENANTS)
            reservation = f"ledger-{number:04}-{turn:04}"
            estimate = dice.randrange(1, 400)
            dies = number % 3 == 0 and turn % 2 == 1
            reserve = {"entries": {"tenant": str(tenant)}, "n": estimate, "id": reservation, "ttl": 1 if dies else 60}
            status, answer = self.post("/v1/reserve", reserve)
            # Sent again after its end it is one that has ended.
            if dies and status == 410:
                continue
            self.expect(status == 200 and answer["reserved"] == estimate, f"{reservation}: {answer}")
            if dies:
                continue
            if dice.randrange(3) == 0:
                status, answer = self.post("/v1/renew", {"id": reservation})
                self.expect(status == 200, f"{reservation}: {answer}")
            actual = int(estimate * 10 ** dice.uniform(-1, 1))
            if dice.randrange(6) == 0:
                status, answer = self.post("/v1/release", {"id": reservation})
                self.expect(status == 200, f"{reservation}: {answer}")
                continue
            status, answer = self.post("/v1/commit", {"id": reservation, "n": actual})
            self.expect(status == 200 and answer["late"] is False, f"{reservation}: {answer}")
            with self.lock:
                self.used[tenant] += actual
                self.committed.append((reservation, actual))

    def test_every_unit_is_accounted_for_over_kills(self) -> None:
        threads = [threading.Thread(target=self.client, args=(number,), daemon=True) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for kill in range(KILLS):
            seen = len(self.committed)
            wait_until(lambda seen=seen: len(self.committed) >= seen + CLIENTS or not any(t.is_alive() for t in threads),
                       "the clients get on")
            self.restart(kill % self.SERVERS)
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(self.wrong, [])
        # A commit that was answered before a kill is known after it.
        for reservation, actual in random.Random(1).sample(self.committed, 30):
            status, answer = self.post("/v1/commit", {"id": reservation, "n": actual})
            self.assertEqual((status, answer["repeated"]), (200, True), answer)
            self.assertEqual(self.post("/v1/commit", {"id": reservation, "n": actual + 1})[0], 409)
        wait_until(lambda: self.left() == {tenant: QUOTA - used for tenant, used in self.used.items()},
                   "what the dead held is given back")
        for number in range(self.SERVERS):
            self.restart(number)
        self.assertEqual(self.left(), {tenant: QUOTA - used for tenant, used in self.used.items()})

    def left(self) -> dict[int, int]:
        """What is left of both limits of each tenant, which are equal."""
        found = {}
        for tenant in range(TENANTS):
            status, answer = self.post("/v1/peek", {"entries": {"tenant": str(tenant)}, "n": 0, "detail": True})
            self.assertEqual(status, 200)
            window, bucket = (one["remaining"] for one in answer["limits"])
            self.assertEqual(window, bucket)
            found[tenant] = window
        return found


class LedgerInRedis(Ledger):
    """With two servers on one Redis, which settle each other's reservations and end those of a killed one."""

    SERVERS = 2

    def make_store(self) -> str:
        redis = RedisServer()
        self.addCleanup(redis.close)
        return f'redis: {{ nodes: ["127.0.0.1:{redis.port}"], deadline_ms: 1000 }}'


if __name__ == "__main__":
    unittest.main()
