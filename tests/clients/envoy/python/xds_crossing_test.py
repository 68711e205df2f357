"""What limits by xDS can meet, in random order against an exact model: new limits, wrong ones, the same again, streams that
are cut, a control plane that stops, reloads, overrides, and stops and kills of the server, whose counters are on disk
or in Redis."""

from __future__ import annotations

import random
import signal
import subprocess
import unittest

from ads import Cache
from redis_server import RedisServer
from sluice_server import BINARY, SECONDS_MAX, wait_until
from xds_messages import YEAR, config, descriptor, policy
from xds_server import XdsServer, XdsTest

VALUES = [f"v{number}" for number in range(4)]
STEPS = 60
BAD = config("a", descriptor(""))


class Model:
    """Limits of domain a: of every value of k, and of some by themselves. All of them count one counter of a value."""

    def __init__(self) -> None:
        self.of_all: int | None = None
        self.own: dict[str, int] = {}
        self.overrides: dict[str, int] = {}  # in place of the limit of all
        self.used = dict.fromkeys(VALUES, 0)

    def ask(self, value: str) -> str:
        limit = self.own.get(value)
        if limit is None and self.of_all is not None:
            limit = self.overrides.get(value, self.of_all)
        if limit is None:
            return "OK"
        self.used[value] += 1
        return "OK" if self.used[value] <= limit else "OVER_LIMIT"

    def resources(self) -> list[bytes]:
        below = [descriptor("k", value, policy(YEAR, limit)) for value, limit in self.own.items()]
        if self.of_all is not None:
            below.append(descriptor("k", "", policy(YEAR, self.of_all)))
        return [config("a", *below)]

    def rlconfig(self) -> list[str]:
        names = {f"a.k_{value}": limit for value, limit in self.own.items()}
        if self.of_all is not None:
            names["a.k"] = self.of_all
        return sorted(f"{name}: unit=YEAR requests_per_unit={limit}, shadow_mode: false, quota_mode: false"
                      for name, limit in names.items())


class Crossing(XdsTest):
    def setUp(self) -> None:
        super().setUp()
        self.cache = Cache()
        self.addCleanup(self.cache.ads.stop)
        self.model = Model()
        self.version = 0

    def cli(self, *words: str) -> None:
        done = subprocess.run([BINARY, *words, "--admin", str(self.server.folder / "admin")], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def publish(self, *resources: bytes) -> str:
        self.version += 1
        self.cache.set(str(self.version), *resources)
        return str(self.version)

    def await_limits(self) -> None:
        wait_until(lambda: self.server.rlconfig() == self.model.rlconfig(), f"the limits {self.model.rlconfig()}")

    def await_told(self, version: str, refused: bool) -> None:
        """The control plane has got an answer to that version."""
        def is_told() -> bool:
            sent = {(stream, nonce) for what, stream, its, nonce, _ in self.cache.events if what == "send" and its == version}
            return any(what == "recv" and (stream, nonce) in sent and (refusal is not None) == refused
                       for what, stream, _, nonce, refusal in list(self.cache.events))
        wait_until(is_told, f"an answer to version {version} in {self.cache.events[-6:]}")

    # What can happen. The control plane's snapshot is sound at the end of each.

    def new_limits(self) -> None:
        dice = self.dice
        self.model.of_all = dice.choice([None, 0, 2, 5, 9, 30])
        self.model.own = {value: dice.choice([0, 1, 4, 20]) for value in VALUES[:2] if dice.random() < 0.5}
        self.publish(*self.model.resources())
        self.await_limits()

    def wrong_limits(self) -> None:
        version = self.publish(*self.model.resources(), BAD)
        self.await_told(version, refused=True)
        self.asks(3)
        self.same_again()

    def same_again(self) -> None:
        generation = self.server.generation()
        version = self.publish(*self.model.resources())
        self.await_told(version, refused=False)
        self.assertEqual(self.server.generation(), generation)

    def cut(self) -> None:
        self.cache.ads.stop()
        self.asks(3)
        self.cache.ads.start()

    def update_while_away(self) -> None:
        self.cache.ads.stop()
        self.model.of_all = self.dice.choice([1, 3, 8])
        self.publish(*self.model.resources())
        self.cache.ads.start()
        self.await_limits()

    def reload(self) -> None:
        self.server.signal(signal.SIGHUP)
        self.asks(2)

    def override(self) -> None:
        if self.model.of_all is None:
            return
        value, quota = self.dice.choice(VALUES), self.dice.choice([1, 3, 50])
        self.cli("override", "set", "--dialect", "envoy", "--rule", "a.k", "--actor", f"k={value}",
                 "--quota", str(quota), "--window", "365d")
        self.model.overrides[value] = quota

    def stop_and_start(self) -> None:
        self.assertEqual(self.server.stop(), 0, self.server.said)
        self.server.start()
        self.await_limits()

    def kill_and_start(self) -> None:
        self.server.kill()
        self.server.start()
        self.await_limits()

    def asks(self, count: int) -> None:
        for _ in range(count):
            value = self.dice.choice(VALUES)
            wanted = self.model.ask(value)
            self.assertEqual(self.server.ask("k", value), wanted, (value, vars(self.model), self.steps))

    def cross(self, seed: int, redis: RedisServer | None = None) -> None:
        self.dice = random.Random(seed)
        self.steps: list[str] = []
        where = {} if redis is None else {"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis.port}"}
        server = self.make(self.cache.ads.address, XDS_CLIENT_BACKOFF_INITIAL_INTERVAL="20ms",
                           XDS_CLIENT_BACKOFF_MAX_INTERVAL="100ms", **where)
        self.server = self.begin(server if redis else server.on_disk())
        self.new_limits()
        often = [self.new_limits, self.wrong_limits, self.same_again, self.cut, self.update_while_away, self.reload,
                 self.override]
        for _ in range(STEPS):
            step = self.dice.choice([self.stop_and_start, self.kill_and_start] if self.dice.random() < 0.1 else often)
            self.steps.append(step.__name__)
            step()
            self.asks(4)

    def test_seed_1(self) -> None:
        self.cross(1)

    def test_seed_2(self) -> None:
        self.cross(2)

    def test_seed_3_with_redis(self) -> None:
        redis = RedisServer()
        self.addCleanup(redis.close)
        self.cross(3, redis)


if __name__ == "__main__":
    unittest.main()
