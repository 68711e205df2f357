"""What limits by xDS can meet, in random order against an exact model: new limits, wrong ones, the same again, streams that
are cut, a control plane that stops, reloads, overrides, certificates that are exchanged, some for a pair that does not
fit, and stops and kills of the server, whose counters are on disk or in Redis. Requests come by HTTP in plain text, by gRPC
over a connection that stays, and by gRPC over a new one."""

from __future__ import annotations

import random
import signal
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path

import grpc

from ads import Cache
from certificates import EC, RSA, Authority, Pair, pem
from messages import RateLimitResponse
from redis_server import RedisServer
from sluice_server import BINARY, SECONDS_MAX, wait_until
from xds_messages import YEAR, config, descriptor, policy
from xds_server import Caller, Secret, XdsServer, XdsTest

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
        folder = tempfile.TemporaryDirectory(prefix="sluice-crossing-")
        self.addCleanup(folder.cleanup)
        self.authority = Authority(Path(folder.name), "authority")
        self.pairs = [self.authority.sign("DNS:localhost", key=key) for key in (EC, EC, RSA)]
        self.pair = self.pairs[0]  # that new connections get
        (mounted := Path(folder.name) / "mounted").mkdir()
        self.secret = Secret(mounted, self.pair)

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

    def caller(self) -> Caller:
        """By gRPC over a new connection, which trusts the authority."""
        return Caller(self, self.server, grpc.ssl_channel_credentials(self.authority.certificate.read_bytes()), "localhost")

    def shown(self) -> str:
        """The certificate that a new connection gets."""
        return ssl.get_server_certificate(("127.0.0.1", self.server.grpc_port), timeout=SECONDS_MAX)

    def is_refused(self) -> bool:
        """The files of the certificate that lie there now."""
        listeners = self.server.status()["listeners"]
        return any(one["tls"] and one["tls"]["problem"] for one in listeners)  # type: ignore[attr-defined]

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

    def exchange_certificate(self) -> None:
        self.pair = self.dice.choice(self.pairs)
        self.secret.swap(*self.pair.texts)
        self.asks(4)  # by either
        wait_until(lambda: self.shown() == self.text_of(self.pair), "the new certificate")

    def wrong_certificate(self) -> None:
        other = self.dice.choice([one for one in self.pairs if one != self.pair])
        self.secret.swap(other.texts[0], self.pair.texts[1])
        wait_until(self.is_refused, "the pair is refused")
        self.dice.choice([self.new_limits, self.cut, self.reload, self.override])()
        self.asks(4)
        self.assertEqual(self.shown(), self.text_of(self.pair))
        self.secret.swap(*self.pair.texts)
        wait_until(lambda: not self.is_refused(), "the pair that is used lies there")
        self.assertEqual(self.shown(), self.text_of(self.pair))

    @staticmethod
    def text_of(pair: Pair) -> str:
        """As `shown` has it."""
        return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(pem(pair.texts[0])))

    def stop_and_start(self) -> None:
        self.assertEqual(self.server.stop(), 0, self.server.said)
        self.start_again()

    def kill_and_start(self) -> None:
        self.server.kill()
        self.start_again()

    def start_again(self) -> None:
        self.server.start()
        self.standing = self.caller()
        self.await_limits()

    def asks(self, count: int) -> None:
        for _ in range(count):
            value = self.dice.choice(VALUES)
            wanted = self.model.ask(value)
            way = self.dice.choice(["http", "http", "http", "standing", "standing", "new"])
            if way == "http":
                answer = self.server.ask("k", value)
            else:
                caller = self.standing if way == "standing" else self.caller()
                answer = RateLimitResponse.Code.Name(caller.ask("k", value).overall_code)
            self.assertEqual(answer, wanted, (way, value, vars(self.model), self.steps))

    def cross(self, seed: int, redis: RedisServer | None = None) -> None:
        self.dice = random.Random(seed)
        self.steps: list[str] = []
        where = {} if redis is None else {"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis.port}"}
        server = self.make(self.cache.ads.address, XDS_CLIENT_BACKOFF_INITIAL_INTERVAL="20ms",
                           XDS_CLIENT_BACKOFF_MAX_INTERVAL="100ms", GRPC_SERVER_USE_TLS="true",
                           GRPC_SERVER_TLS_CERT=str(self.secret.certificate), GRPC_SERVER_TLS_KEY=str(self.secret.key), **where)
        self.server = self.begin(server if redis else server.on_disk())
        self.standing = self.caller()
        self.new_limits()
        often = [self.new_limits, self.wrong_limits, self.same_again, self.cut, self.update_while_away, self.reload,
                 self.override, self.exchange_certificate, self.wrong_certificate]
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
