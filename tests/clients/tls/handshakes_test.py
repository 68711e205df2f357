"""Very many handshakes beside a client that only wants answers: whole ones, some of which say no word afterwards, and ones that
never go on. SLUICE_SECONDS: how long, instead of 5."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from secure import Secured, TlsTest  # noqa: E402
from started import SECONDS_MAX, wait_until  # noqa: E402

RULES = 'rules:\n  - { name: all, match: { queue: "*" }, actor: queue, limit: { quota: 1000000000, window: 1h } }\n'
SECONDS = float(os.environ.get("SLUICE_SECONDS") or "5")
OF_ONE_ADDRESS, OF_A_WORKER = 1_024, 4_096  # handshakes under way, of a worker
HALF_OPEN = 5_000
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 12)]  # none has so many of them that its own bound counts
A_SECOND = 200
CLOSED = re.compile(r'^sluice_connections_closed_total\{.*reason="handshakes".*\} (\d+)$', re.MULTILINE)


def hello() -> bytes:
    """The first message of a handshake."""
    out = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


class Asking:
    """A client that asks without a pause over one connection; `slowest`: its longest wait for an answer."""

    def __init__(self, server: Secured, context: ssl.SSLContext) -> None:
        self._connection = http.client.HTTPSConnection("localhost", server.ports["http"][0], timeout=SECONDS_MAX, context=context)
        self._over, self.problem = threading.Event(), None
        self.answers, self.slowest = 0, 0.0
        self._ask()  # it is connected
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        begin = time.monotonic()
        self._connection.request("POST", "/v1/take", '{"entries": {"queue": "a"}}', {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        if not json.loads(response.read())["allowed"]:
            raise AssertionError("was refused")
        self.answers += 1
        self.slowest = max(self.slowest, time.monotonic() - begin)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._ask()
        except BaseException as error:
            self.problem = error

    def stop(self) -> None:
        self._over.set()
        self._thread.join(SECONDS_MAX)
        self._connection.close()


class HandshakesTest(TlsTest):
    test_seconds_max = 240

    def setUp(self) -> None:
        super().setUp()
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = HALF_OPEN + 1_000
        if hard != resource.RLIM_INFINITY and hard < files:
            self.skipTest("too few files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard))

    def listen(self, host: str = "127.0.0.1") -> Secured:
        """One worker, so that all handshakes are its own."""
        listener = self.listener("http").replace("127.0.0.1", host)
        return self.serve(f"workers: 1\nlisten:\n{listener}{self.plain('admin')}{RULES}")

    def closed(self, server: Secured) -> int:
        """How many the bound has closed."""
        connection = http.client.HTTPConnection("localhost", server.port("admin"), timeout=SECONDS_MAX)
        try:
            connection.request("GET", "/metrics")
            return sum(map(int, CLOSED.findall(connection.getresponse().read().decode())))
        finally:
            connection.close()

    def half_open(self, server: Secured, sent: bytes, number: int, addresses: Sequence[str] = ("127.0.0.1",),
                  host: str = "127.0.0.1") -> list[socket.socket]:
        """Connections that have sent this and say nothing more, from these addresses by turns."""
        opened = []
        for one in range(number):
            connection = socket.create_connection((host, server.port("http")), SECONDS_MAX,
                                                  source_address=(addresses[one % len(addresses)], 0))
            self.addCleanup(connection.close)
            connection.sendall(sent)
            opened.append(connection)
        return opened

    def ended(self, opened: list[socket.socket]) -> list[int]:
        """Which of them the server has closed."""
        found = []
        with selectors.DefaultSelector() as selector:
            for number, connection in enumerate(opened):
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ, number)
            for key, _ in selector.select(0):
                with contextlib.suppress(BlockingIOError):
                    try:
                        over = key.fileobj.recv(1, socket.MSG_PEEK) == b""  # type: ignore[union-attr]
                    except ConnectionResetError:
                        over = True
                    if over:
                        found.append(key.data)
        return sorted(found)

    def test_those_past_the_bound_are_closed(self) -> None:
        """The oldest first, whether they have sent a part of a hello, or nothing at all."""
        for sent in (hello()[:100], b""):
            with self.subTest(sent=len(sent)):
                server = self.listen()
                opened = self.half_open(server, sent, OF_ONE_ADDRESS)
                with self.context().wrap_socket(socket.create_connection(("127.0.0.1", server.port("http"))),
                                                server_hostname="localhost") as one_more:
                    wait_until(lambda server=server: self.closed(server) == 1, "the first is closed")
                    wait_until(lambda opened=opened: self.ended(opened) == [0], "the oldest")
                    self.assertEqual(one_more.version(), "TLSv1.3")
                past = 976
                opened += self.half_open(server, sent, past)
                self.expect_ended(server, opened, past)
                self.assertEqual(server.stop(), 0, server.said)

    def expect_ended(self, server: Secured, opened: list[socket.socket], count: int) -> None:
        """So many of them are closed, the oldest, and no others."""
        wait_until(lambda: self.closed(server) >= count, "those past the bound are closed")
        wait_until(lambda: len(self.ended(opened)) >= count, "their ends arrive")
        self.assertEqual(self.closed(server), count)
        self.assertEqual(self.ended(opened), list(range(count)))

    def test_those_past_the_bound_of_a_worker_are_closed(self) -> None:
        """The oldest of all, though no address has too many."""
        server = self.listen()
        opened = self.half_open(server, b"", OF_A_WORKER, ADDRESSES)
        opened += self.half_open(server, b"", 100, ["127.0.0.99"])
        self.expect_ended(server, opened, 100)

    def test_an_ipv6_network_is_one_client(self) -> None:
        """Two addresses of one network of 64 bits are one client, two of two networks are two."""
        if "SLUICE_NETWORK" not in os.environ:
            return self.in_a_network("fd00::1", "fd00:0:0:0:ffff::1", "fd00:0:0:1::1")
        server, number = self.listen("[fd00::1]"), OF_ONE_ADDRESS + 100
        others = self.half_open(server, b"", OF_ONE_ADDRESS, ["fd00:0:0:1::1"], "fd00::1")
        opened = self.half_open(server, b"", number, ["fd00::1", "fd00:0:0:0:ffff::1"], "fd00::1")
        self.expect_ended(server, opened, 100)
        self.assertEqual(self.ended(others), [])

    def in_a_network(self, *addresses: str) -> None:
        """The test again, in a network of its own with these addresses."""
        network = ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec"]
        up = "ip link set lo up; " + "".join(f"ip -6 addr add {one}/64 dev lo nodad; " for one in addresses)
        try:
            made = subprocess.run([*network, up], capture_output=True, text=True, timeout=SECONDS_MAX)
        except FileNotFoundError as error:
            self.skipTest(str(error))
        if made.returncode != 0:
            self.skipTest(f"no network of its own can be made here: {made.stderr.strip()}")
        result = subprocess.run([*network, up + 'exec "$@"', "sh", sys.executable, __file__, self.id().partition(".")[2]],
                                env={**os.environ, "SLUICE_NETWORK": "1"}, capture_output=True, text=True, timeout=2 * SECONDS_MAX)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_one_client_beside_very_many(self) -> None:
        server = self.listen()
        context = self.context()
        asking = Asking(server, context)
        self.addCleanup(asking.stop)
        opened = [one for sent in (hello()[:100], b"") for one in self.half_open(server, sent, HALF_OPEN // 2, ADDRESSES)]
        begin, made, slowest, silent = time.monotonic(), 0, 0.0, []
        while time.monotonic() - begin < SECONDS:
            started = time.monotonic()
            plain = socket.create_connection(("127.0.0.1", server.port("http")), SECONDS_MAX)
            secure = context.wrap_socket(plain, server_hostname="localhost")
            made += 1
            slowest = max(slowest, time.monotonic() - started)
            if made % 10 == 0 and len(silent) < 200:
                silent.append(secure)  # a handshake that is over counts no more
                self.addCleanup(secure.close)
            else:
                secure.close()
            time.sleep(max(0.0, begin + made / A_SECOND - time.monotonic()))
        seconds = time.monotonic() - begin
        asking.stop()
        self.assertIsNone(asking.problem)
        for secure in silent:  # all are still there
            secure.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(secure.recv(100).startswith(b"HTTP/1.1 200"))
        self.assertGreaterEqual(self.closed(server), HALF_OPEN - OF_A_WORKER)
        self.assertGreaterEqual(len(self.ended(opened)), HALF_OPEN - OF_A_WORKER)
        print(f"{made / seconds:.0f} handshakes a second, the slowest {slowest * 1e3:.0f} ms, beside {HALF_OPEN} half-open ones; "
              f"{asking.answers} answers, the slowest {asking.slowest * 1e3:.1f} ms")
        self.assertLess(asking.slowest, 10)  # of a hang; a busy machine alone takes some
        self.assertGreater(asking.answers, made // 10)
        self.assertGreater(made, SECONDS)


if __name__ == "__main__":
    unittest.main()
