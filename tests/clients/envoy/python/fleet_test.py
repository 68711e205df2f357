"""A fleet that is moved server by server: the original's way of counting in Redis and `sluice envoy`, on one real Redis.
In each store the counts are exact, and so is how many requests pass."""

from __future__ import annotations

import random
import shutil
import threading
import time
import unittest
from collections import Counter
from collections.abc import Callable

from redis_server import Client, RedisServer
from sluice_server import SECONDS_MAX, LimitedTest, Server

YEAR, DAY = 365 * 86_400, 86_400
JITTER_SECONDS_MAX = 300
LIMITS = f"""
domain: shop
descriptors:
  - key: user
    rate_limit: {{ unit: year, requests_per_unit: 200 }}
  - key: tenant
    descriptors:
      - key: path
        rate_limit: {{ unit: year, requests_per_unit: 50 }}
  - key: file
    value: "images/*"
    share_threshold: true
    rate_limit: {{ unit: year, requests_per_unit: 60 }}
  - key: hour
    rate_limit: {{ unit: day, requests_per_unit: 1000000 }}
"""
Entries = list[tuple[str, str]]


class Limit:
    """One of LIMITS, as the original has it for a request's entries."""

    def __init__(self, requests: int, seconds: int, pattern: str | None = None) -> None:
        self.requests, self.seconds, self._pattern = requests, seconds, pattern

    def key(self, entries: Entries, now: float, prefix: str = "") -> str:
        pairs = [(key, self._pattern if self._pattern else value) for key, value in entries]
        window = int(now) // self.seconds * self.seconds
        return prefix + "_".join(["shop", *(word for pair in pairs for word in pair), str(window)])


LIMIT_OF = {("user",): Limit(200, YEAR), ("tenant", "path"): Limit(50, YEAR),
            ("file",): Limit(60, YEAR, "images/*"), ("hour",): Limit(1_000_000, DAY)}


def limit_of(entries: Entries) -> Limit:
    return LIMIT_OF[tuple(key for key, _ in entries)]


class Original:
    """What the original does with Redis: of each request one pipeline, of each descriptor INCRBY and EXPIRE; what INCRBY
    answers decides."""

    def __init__(self, redis: RedisServer, prefix: str = "") -> None:
        self._client, self._prefix = Client(redis.port), prefix
        self._random = random.Random(1)

    def ask(self, descriptors: list[Entries], hits: int = 1) -> bool:
        now = time.time()
        commands: list[tuple[str, ...]] = []
        for entries in descriptors:
            limit = limit_of(entries)
            key = limit.key(entries, now, self._prefix)
            life = limit.seconds + self._random.randrange(JITTER_SECONDS_MAX)
            commands += [("INCRBY", key, str(hits)), ("EXPIRE", key, str(life))]
        counts = self._client.pipeline(*commands)[::2]
        return all(count <= limit_of(entries).requests for count, entries in zip(counts, descriptors))

    def close(self) -> None:
        self._client.close()


class Sluice:
    """The same requests to sluice, over /json."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def ask(self, descriptors: list[Entries], hits: int = 1) -> bool:
        request = {"domain": "shop", "hitsAddend": hits, "descriptors": [
            {"entries": [{"key": key, "value": value} for key, value in entries]} for entries in descriptors]}
        status, answer = self._server.ask_json(request)
        if (status, answer.get("overallCode")) not in ((200, "OK"), (429, "OVER_LIMIT")):
            raise RuntimeError(f"status {status}: {answer}")
        return status == 200


@unittest.skipUnless(shutil.which("redis-server"), "there is no redis-server")
class FleetTest(LimitedTest):
    def setUp(self) -> None:
        super().setUp()
        self.redis = RedisServer()
        self.addCleanup(self.redis.close)
        self.keys = Client(self.redis.port)
        self.addCleanup(self.keys.close)

    def sluice(self, **environment: str) -> Sluice:
        return Sluice(self.serve(LIMITS, REDIS_SOCKET_TYPE="tcp", REDIS_URL=f"127.0.0.1:{self.redis.port}", **environment))

    def original(self, prefix: str = "") -> Original:
        original = Original(self.redis, prefix)
        self.addCleanup(original.close)
        return original

    def count(self, entries: Entries, prefix: str = "") -> int:
        return int(str(self.keys.ask("GET", limit_of(entries).key(entries, time.time(), prefix)) or "0"))

    def assert_all_keys(self, *expected: Entries, prefix: str = "") -> None:
        """These counters are in Redis and no others, each with a time to live that the original could have set."""
        now = time.time()
        wanted = sorted(limit_of(entries).key(entries, now, prefix) for entries in expected)
        found = self.keys.ask("KEYS", prefix + "shop_*")
        assert isinstance(found, list)
        self.assertEqual(sorted(found), wanted)
        for entries in expected:
            limit = limit_of(entries)
            life = self.keys.ask("TTL", limit.key(entries, now, prefix))
            assert isinstance(life, int)
            self.assertLessEqual(life, limit.seconds + JITTER_SECONDS_MAX)
            self.assertGreater(life, limit.seconds - SECONDS_MAX)

    def test_by_turns(self) -> None:
        sluice, original = self.sluice(), self.original()
        user: Entries = [("user", "a")]
        path: Entries = [("tenant", "a b:c|d"), ("path", "/é日本_x")]
        passed = [(sluice if number % 2 else original).ask([user, path]) for number in range(60)]
        self.assertEqual(passed, [True] * 50 + [False] * 10)
        # Each descriptor was charged by itself, and refused requests were charged as well.
        self.assertEqual((self.count(user), self.count(path)), (60, 60))
        self.assertTrue(sluice.ask([user], hits=140))
        self.assertFalse(original.ask([user]))
        self.assertFalse(sluice.ask([user]))
        self.assertEqual(self.count(user), 202)
        self.assert_all_keys(user, path)

    def test_one_counter_of_a_pattern(self) -> None:
        sluice, original = self.sluice(), self.original()
        for number in range(30):
            self.assertTrue(original.ask([[("file", f"images/{number}")]]))
            self.assertTrue(sluice.ask([[("file", f"images/{number}")]]))
        shared: Entries = [("file", "images/x")]
        self.assertFalse(sluice.ask([shared]))
        self.assertFalse(original.ask([shared]))
        self.assertEqual(self.count(shared), 62)
        self.assert_all_keys(shared)

    def test_an_empty_value_and_another_window(self) -> None:
        sluice, original = self.sluice(), self.original()
        for entries in ([("user", "")], [("hour", "x")]):
            day = int(time.time()) // DAY
            for server in (sluice, original, sluice):
                self.assertTrue(server.ask([entries], hits=2))
            if day == int(time.time()) // DAY:  # else a window has ended meanwhile
                self.assertEqual(self.count(entries), 6)

    def test_a_prefix(self) -> None:
        sluice, original = self.sluice(CACHE_KEY_PREFIX="eu:"), self.original("eu:")
        user: Entries = [("user", "a")]
        for server in (sluice, original, sluice):
            server.ask([user])
        self.assertEqual((self.count(user, "eu:"), self.count(user)), (3, 0))
        self.assert_all_keys(user, prefix="eu:")

    def test_at_the_same_time(self) -> None:
        """Two of the old servers and two of ours, several clients of each, on counters that they share."""
        servers: list[Callable[[], Original | Sluice]] = []
        for sluice in (self.sluice(), self.sluice()):
            servers += [lambda sluice=sluice: sluice] * 2
        servers += [self.original] * 4
        users: list[Entries] = [[("user", f"u{number}")] for number in range(5)]
        path: Entries = [("tenant", "t"), ("path", "/")]
        rounds = 60
        passed: Counter[str] = Counter()
        problems: list[BaseException] = []
        lock = threading.Lock()

        def ask_all(server: Original | Sluice, seed: int) -> None:
            order = [*users, path] * rounds
            random.Random(seed).shuffle(order)
            try:
                for entries in order:
                    if server.ask([entries]):
                        with lock:
                            passed[entries[0][1]] += 1
            except BaseException as error:
                problems.append(error)

        clients = [threading.Thread(target=ask_all, args=(make(), seed), daemon=True) for seed, make in enumerate(servers)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(SECONDS_MAX)
        self.assertEqual(problems, [])
        asked = rounds * len(servers)
        self.assertEqual([self.count(entries) for entries in (*users, path)], [asked] * 6)
        self.assertEqual(passed, {**{f"u{number}": 200 for number in range(5)}, "t": 50})
        self.assert_all_keys(*users, path)

    def test_the_move(self) -> None:
        """The old servers are replaced by ours one by one; then one of the old ones starts again."""
        user: Entries = [("user", "a")]
        fleet: list[Original | Sluice] = [self.original() for _ in range(3)]
        passed = 0
        asked = 0

        def ask_each(times: int) -> None:
            nonlocal passed, asked
            for _ in range(times):
                for server in fleet:
                    passed += server.ask([user])
                    asked += 1

        ask_each(10)
        for place in range(3):
            fleet[place] = self.sluice()
            ask_each(10)
        self.assertEqual((passed, self.count(user)), (120, 120))
        fleet[0] = self.original()
        ask_each(30)
        self.assertEqual((passed, self.count(user)), (200, 210))
        self.assertEqual(asked, 210)
        self.assert_all_keys(user)


if __name__ == "__main__":
    unittest.main()
