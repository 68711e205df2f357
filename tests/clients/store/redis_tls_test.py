"""Counters in a real Redis that is reached by TLS alone and wants a certificate of its clients: by sluice.yaml and by the
variables of `sluice envoy`, with what is right and with what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from certificates import Pair  # noqa: E402
from secure import TlsTest  # noqa: E402
from started import BINARY, SECONDS_MAX, Started, wait_until  # noqa: E402

RULES = "rules:\n" + "".join(
    f"  - {{ name: {answer}, match: {{ {answer}: '*' }}, actor: {answer}, on_store_error: {answer}, "
    "limit: { quota: 3, window: 1d, algorithm: fixed_window } }\n" for answer in ("error", "deny", "local", "allow"))
LIMITS = "domain: a\ndescriptors:\n  - { key: k, rate_limit: { unit: year, requests_per_unit: 3 } }\n"


class Redis:
    """A redis-server on a port of TLS of loopback, with nothing on disk."""

    def __init__(self, test: TlsTest, pair: Pair, clients: str = "yes") -> None:
        self._test, self.pair, self._clients = test, pair, clients
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-redis-")
        test.addCleanup(self._folder.cleanup)
        self._client = test.authority.sign("DNS:tester")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        test.addCleanup(self.stop)
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["redis-server", "--port", "0", "--tls-port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--tls-cert-file", str(self.pair.certificate), "--tls-key-file", str(self.pair.key),
             "--tls-ca-cert-file", str(self._test.authority.certificate), "--tls-auth-clients", self._clients],
            cwd=self._folder.name, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until(self._answers, "Redis answers")

    def _answers(self) -> bool:
        assert self._process and self._process.poll() is None, "Redis ended at once"
        try:
            return self.ask("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def ask(self, command: str) -> bytes:
        context = ssl.create_default_context(cafile=str(self._test.authority.certificate))
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(self._client.certificate, self._client.key)
        with (socket.create_connection(("127.0.0.1", self.port), SECONDS_MAX) as plain, context.wrap_socket(plain) as secure):
            secure.sendall(command.encode() + b"\r\n")
            return secure.recv(1 << 12)

    def keys(self) -> int:
        return int(self.ask("DBSIZE")[1:-2])

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(SECONDS_MAX)
        self._process = None


def post(url: str, body: object) -> tuple[int, dict[str, object]]:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS_MAX) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}


@unittest.skipUnless(shutil.which("redis-server"), "there is no redis-server")
class RedisTlsTest(TlsTest):
    test_seconds_max = 120

    def setUp(self) -> None:
        super().setUp()
        self.mine = self.authority.sign("DNS:sluice")

    def await_said(self, server: Started, *words: str) -> str:
        """A line of the log with these words."""
        def found() -> list[str]:
            return [line for line in server.said if all(word in line for word in words)]

        wait_until(lambda: bool(found()), f"a line with {words} in {server.said}")
        return found()[0]


class Keys(RedisTlsTest):
    """`store.redis` of a sluice.yaml."""

    def serve_with(self, redis: Redis, host: str = "localhost", authority: str | None = None, shown: Pair | None = None,
                   **more: str) -> None:
        settings = {"nodes": f'["{host}:{redis.port}"]', "tls": "true",
                    "tls_ca": authority or str(self.authority.certificate),
                    **({"tls_certificate": str(shown.certificate), "tls_key": str(shown.key)} if shown else {}), **more}
        text = ", ".join(f"{key}: {value}" for key, value in settings.items())
        self.server = self.serve(f"listen:\n{self.plain('http')}{self.plain('admin')}store: {{ redis: {{ {text} }} }}\n{RULES}")

    def take(self, rule: str) -> tuple[int, object]:
        """The status, and what remains where a rule decided."""
        status, answer = post(f"http://localhost:{self.server.port('http')}/v1/take", {"entries": {rule: "x"}})
        return status, answer.get("remaining")

    def assert_decides(self, redis: Redis) -> None:
        """All by Redis."""
        wait_until(lambda: self.take("error")[0] != 503, "Redis decides")
        for rule in ("deny", "local", "allow"):
            self.assertEqual([self.take(rule) for _ in range(4)], [(200, 2), (200, 1), (200, 0), (429, 0)])
        self.assertEqual(redis.keys(), 4)

    def assert_answers_without(self, redis: Redis) -> None:
        """Each rule as its on_store_error says, and nothing is in Redis."""
        self.assertEqual(self.take("error")[0], 503)
        self.assertEqual(self.take("deny")[0], 429)
        self.assertEqual([self.take("local") for _ in range(4)], [(200, 2), (200, 1), (200, 0), (429, 0)])
        self.assertEqual([self.take("allow")[0] for _ in range(5)], [200] * 5)
        self.assertEqual(redis.keys(), 0)
        with urllib.request.urlopen(f"http://localhost:{self.server.port('admin')}/health/ready", timeout=SECONDS_MAX) as answer:
            self.assertEqual(json.load(answer)["status"], "degraded")

    def test_with_a_client_certificate(self) -> None:
        redis = Redis(self, self.pair)
        self.serve_with(redis, shown=self.mine)
        self.assert_decides(redis)

    def test_by_address(self) -> None:
        redis = Redis(self, self.authority.sign("IP:127.0.0.1"))
        self.serve_with(redis, "127.0.0.1", shown=self.mine)
        self.assert_decides(redis)

    def test_no_certificate_where_redis_wants_one(self) -> None:
        redis = Redis(self, self.pair)
        self.serve_with(redis)
        line = self.await_said(self.server, f"localhost:{redis.port}", "certificate")
        self.assertRegex(line, " warning ")
        self.assert_answers_without(redis)

    def test_a_certificate_that_redis_does_not_trust(self) -> None:
        redis = Redis(self, self.pair)
        self.serve_with(redis, shown=self.other.sign("DNS:sluice"))
        self.await_said(self.server, f"localhost:{redis.port}", "unknown ca")
        self.assert_answers_without(redis)

    def test_redis_may_do_without(self) -> None:
        redis = Redis(self, self.pair, "no")
        self.serve_with(redis)
        self.assert_decides(redis)

    def test_another_authority(self) -> None:
        redis = Redis(self, self.other.sign("DNS:localhost"))
        self.serve_with(redis, shown=self.mine)
        self.await_said(self.server, f"localhost:{redis.port}", "is not trusted", "by other")
        self.assert_answers_without(redis)

    def test_another_name(self) -> None:
        """Which tls_any_name takes, of the authority alone."""
        redis = Redis(self, self.authority.sign("DNS:elsewhere.example"))
        self.serve_with(redis, shown=self.mine)
        self.await_said(self.server, f"localhost:{redis.port}", "is not for localhost", "elsewhere.example")
        self.assert_answers_without(redis)
        self.serve_with(redis, shown=self.mine, tls_any_name="true")
        self.assert_decides(redis)

    def test_any_name_is_not_any_authority(self) -> None:
        redis = Redis(self, self.other.sign("DNS:localhost"))
        self.serve_with(redis, shown=self.mine, tls_any_name="true")
        self.await_said(self.server, f"localhost:{redis.port}", "is not trusted")
        self.assert_answers_without(redis)

    def test_an_expired_certificate(self) -> None:
        redis = Redis(self, self.authority.sign("DNS:localhost", expired=True))
        self.serve_with(redis, shown=self.mine)
        self.await_said(self.server, f"localhost:{redis.port}", "expired")
        self.assert_answers_without(redis)

    def test_redis_gets_a_right_certificate_later(self) -> None:
        redis = Redis(self, self.other.sign("DNS:localhost"))
        self.serve_with(redis, shown=self.mine)
        self.assert_answers_without(redis)
        redis.stop()
        redis.pair = self.pair
        redis.start()
        wait_until(lambda: self.take("error")[0] == 200, "Redis decides")

    def test_files_that_cannot_be_used(self) -> None:
        """They end the start, which names them."""
        (self.folder / "sluice.yaml").write_text("")
        stranger = self.authority.sign("DNS:x")
        for keys, named in (({"tls_ca": "/nowhere/ca.crt"}, "/nowhere/ca.crt"),
                            ({"tls_certificate": "/nowhere/a.crt", "tls_key": str(self.mine.key)}, "/nowhere/a.crt"),
                            ({"tls_certificate": str(self.mine.certificate), "tls_key": str(stranger.key)}, str(stranger.key)),
                            ({"tls_certificate": str(self.mine.certificate)}, "key")):
            text = "".join(f", {key}: {value}" for key, value in keys.items())
            (self.folder / "sluice.yaml").write_text(
                f"listen:\n{self.plain('http')}store: {{ redis: {{ nodes: [\"localhost:1\"], tls: true{text} }} }}\n{RULES}")
            done = subprocess.run(
                [BINARY, "serve", "--config", str(self.folder / "sluice.yaml")], stdin=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            self.assertNotEqual(done.returncode, 0, keys)
            self.assertIn(named, done.stderr)


class Variables(RedisTlsTest):
    """Those of `sluice envoy`."""

    def serve_with(self, redis: Redis, **variables: str) -> tuple[Started, int]:
        folder = self.folder / "limits"
        folder.mkdir(exist_ok=True)
        (folder / "limits.yaml").write_text(LIMITS)
        server = Started([BINARY, "envoy", str(folder)], GRPC_HOST="127.0.0.1", GRPC_PORT="0", HOST="127.0.0.1", PORT="0",
                         USE_STATSD="false", SLUICE_ADMIN="off", REDIS_SOCKET_TYPE="tcp", REDIS_URL=f"localhost:{redis.port}",
                         BACKEND_TYPE="redis", REDIS_TLS="true", **variables)
        self.addCleanup(lambda: server.process.returncode is not None or server.stop())
        ports = [int(server.await_line(r"^sluice: envoy listening on 127\.0\.0\.1:(\d+)$")[1]) for _ in range(2)]
        return server, ports[1]

    def ask(self, port: int) -> tuple[int, object]:
        status, answer = post(f"http://127.0.0.1:{port}/json",
                              {"domain": "a", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]})
        return status, answer.get("overallCode")

    @property
    def trusting(self) -> dict[str, str]:
        return {"REDIS_TLS_CACERT": str(self.authority.certificate)}

    @property
    def showing(self) -> dict[str, str]:
        return {"REDIS_TLS_CLIENT_CERT": str(self.mine.certificate), "REDIS_TLS_CLIENT_KEY": str(self.mine.key)}

    def test_with_a_client_certificate(self) -> None:
        redis = Redis(self, self.pair)
        _, port = self.serve_with(redis, **self.trusting, **self.showing)
        wait_until(lambda: self.ask(port)[0] != 503, "Redis decides")
        wait_until(lambda: self.ask(port) == (429, "OVER_LIMIT"), "the limit")
        self.assertEqual(redis.keys(), 1)

    def test_what_is_wrong_is_told_and_requests_fail(self) -> None:
        right = Redis(self, self.pair)
        stranger = Redis(self, self.other.sign("DNS:localhost"))
        elsewhere = Redis(self, self.authority.sign("DNS:elsewhere.example"))
        for redis, variables, words in ((right, self.trusting, "certificate"), (right, self.showing, "is not trusted"),
                                        (stranger, {**self.trusting, **self.showing}, "by other"),
                                        (elsewhere, {**self.trusting, **self.showing}, "is not for localhost")):
            with self.subTest(words):
                server, port = self.serve_with(redis, **variables)
                self.await_said(server, f"localhost:{redis.port}", words)
                self.assertEqual(self.ask(port)[0], 503)
                self.assertEqual(redis.keys(), 0)
                self.assertEqual(server.stop(), 0)

    def test_a_name_that_is_not_verified(self) -> None:
        redis = Redis(self, self.authority.sign("DNS:elsewhere.example"))
        _, port = self.serve_with(redis, **self.trusting, **self.showing, REDIS_TLS_SKIP_HOSTNAME_VERIFICATION="true")
        wait_until(lambda: self.ask(port) == (429, "OVER_LIMIT"), "the limit")
        self.assertEqual(redis.keys(), 1)


if __name__ == "__main__":
    unittest.main()
