"""Very many handshakes beside a client that only wants answers: whole ones, some of which say no word afterwards, and ones that
never go on. SLUICE_SECONDS: how long, instead of 10."""

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
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from secure import Secured, TlsTest  # noqa: E402
from started import SECONDS_MAX, wait_until  # noqa: E402

RULES = 'rules:\n  - { name: all, match: { queue: "*" }, actor: queue, limit: { quota: 1000000000, window: 1h } }\n'
SECONDS = float(os.environ.get("SLUICE_SECONDS") or "10")
OF_ONE_ADDRESS = 1_024  # handshakes under way, of a worker
HALF_OPEN = 2_000
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
        if hard != resource.RLIM_INFINITY and hard < 3 * HALF_OPEN:
            self.skipTest("too few files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(3 * HALF_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard))

    def listen(self, more: str = "") -> Secured:
        """One worker, so that all handshakes are its own."""
        return self.serve(f"workers: 1\nlisten:\n{self.listener('http')}{self.plain('admin')}{RULES}{more}")

    def closed(self, server: Secured) -> int:
        """How many the bound has closed."""
        connection = http.client.HTTPConnection("localhost", server.port("admin"), timeout=SECONDS_MAX)
        try:
            connection.request("GET", "/metrics")
            return sum(map(int, CLOSED.findall(connection.getresponse().read().decode())))
        finally:
            connection.close()

    def half_open(self, server: Secured, sent: bytes, number: int = HALF_OPEN) -> list[socket.socket]:
        """Connections that have sent this and say nothing more."""
        opened = []
        for _ in range(number):
            connection = socket.create_connection(("127.0.0.1", server.port("http")), SECONDS_MAX)
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
                opened += self.half_open(server, sent, HALF_OPEN - OF_ONE_ADDRESS)
                past = HALF_OPEN - OF_ONE_ADDRESS
                wait_until(lambda server=server: self.closed(server) >= past, "those past the bound are closed")
                wait_until(lambda opened=opened: len(self.ended(opened)) >= past, "their ends arrive")
                self.assertEqual(self.closed(server), past)
                self.assertEqual(self.ended(opened), list(range(past)))
                self.assertEqual(server.stop(), 0, server.said)

    def test_one_client_beside_very_many(self) -> None:
        server = self.listen()
        context = self.context()
        asking = Asking(server, context)
        self.addCleanup(asking.stop)
        opened = self.half_open(server, hello()[:100], HALF_OPEN // 2) + self.half_open(server, b"", HALF_OPEN // 2)
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
        self.assertGreaterEqual(self.closed(server), HALF_OPEN - OF_ONE_ADDRESS)
        self.assertGreaterEqual(len(self.ended(opened)), HALF_OPEN - OF_ONE_ADDRESS)
        print(f"{made / seconds:.0f} handshakes a second, the slowest {slowest * 1e3:.0f} ms, beside {HALF_OPEN} half-open ones; "
              f"{asking.answers} answers, the slowest {asking.slowest * 1e3:.1f} ms")
        self.assertLess(asking.slowest, 10)  # of a hang; a busy machine alone takes some
        self.assertGreater(asking.answers, made // 10)
        self.assertGreater(made, SECONDS)


if __name__ == "__main__":
    unittest.main()
