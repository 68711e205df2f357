"""Divvy's, limitd's and droplet's protocols over TLS, which know no users: the bytes of their manuals' examples, by Python's
sockets and by `openssl s_client`, on plain listeners and on listeners with TLS of one server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from certificates import Pair  # noqa: E402
from secure import NAME, Secured, TlsTest  # noqa: E402
from started import SECONDS_MAX  # noqa: E402

RULES = """store: { memory: 16MiB }
policy:
  - divvy: rules.ini
  - limitd: limitd.yaml
"""
DIVVY = """[method=GET path=/pantry/cookies/* ip=*]
creditLimit = 3
resetSeconds = 3600
[default]
creditLimit = 50
resetSeconds = 600
"""
LIMITD = "buckets:\n  ip:\n    size: 10\n"
DROPLET_HEAD = (b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
UPGRADED = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"


class Line:
    """A connection, of which exactly so many bytes are read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._in = connection, connection.makefile("rb")

    def ask(self, sent: bytes, size: int) -> bytes:
        self._connection.sendall(sent)
        return self._in.read(size)

    def ask_line(self, sent: bytes) -> bytes:
        self._connection.sendall(sent)
        return self._in.readline()

    def ask_head(self, sent: bytes) -> bytes:
        self._connection.sendall(sent)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._in.readline() or b"cut off\r\n\r\n"
        return head


def divvy(line: Line, left: int) -> bool:
    return line.ask_line(b"HIT method=GET path=/pantry/cookies/oat ip=10.0.0.1\n").startswith(b"OK true %d " % left)


def limitd(line: Line, left: int) -> bool:
    """The TAKE of the manual; its bucket never fills by itself, so `reset` is 0 and the reply has no such field."""
    reply = line.ask(bytes.fromhex("13 0a0131 12026970 1a0831302e302e302e37 2000"), 1)
    body = line.ask(b"", reply[0])
    return body.startswith(bytes.fromhex("0a0131 aa06")) and bytes((0x08, 1, 0x18, left)) in body


def droplet(line: Line, left: int) -> bool:
    """Ten a month, one of it each time."""
    head = line.ask_head(DROPLET_HEAD)
    reply = line.ask(bytes.fromhex("828d00000000 0a036a6172 12027231 1801 500a"), 6)
    return head.startswith(b"HTTP/1.1 101 ") and head.endswith(UPGRADED) and reply == bytes((0x82, 4, 8, 1, 0x38, left))


PROTOCOLS = {"divvy": (divvy, 2), "limitd": (limitd, 9), "droplet": (droplet, 9)}


class ListenersTest(TlsTest):
    def listen(self, clients: str = "") -> Secured:
        """A plain listener and one with TLS of each."""
        (self.folder / "rules.ini").write_text(DIVVY)
        (self.folder / "limitd.yaml").write_text(LIMITD)
        rest = RULES.replace("rules.ini", str(self.folder / "rules.ini")).replace("limitd.yaml", str(self.folder / "limitd.yaml"))
        listeners = [self.plain(protocol) + self.listener(protocol, clients=clients) for protocol in PROTOCOLS]
        return self.serve("listen:\n" + "".join(listeners) + rest)

    @contextlib.contextmanager
    def plainly(self, port: int) -> Iterator[Line]:
        with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as connection:
            yield Line(connection)

    @contextlib.contextmanager
    def securely(self, port: int, shown: Pair | None = None) -> Iterator[Line]:
        with (socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as plain,
              self.context(shown).wrap_socket(plain, server_hostname="localhost") as connection):
            yield Line(connection)

    def test_each_is_answered_as_over_plain_tcp(self) -> None:
        """Both listeners of a protocol charge the same counter."""
        server = self.listen()
        for protocol, (ask, left) in PROTOCOLS.items():
            with self.subTest(protocol):
                plain, secure = server.ports[protocol]
                for way, port in ((self.plainly, plain), (self.securely, secure), (self.plainly, plain)):
                    with way(port) as line:
                        self.assertTrue(ask(line, left))
                    left -= 1

    def test_neither_is_answered_on_the_port_of_the_other(self) -> None:
        server = self.listen()
        asked = {"divvy": b"HIT ip=10.0.0.1\n", "limitd": bytes.fromhex("05a001072004"), "droplet": DROPLET_HEAD}
        for protocol, sent in asked.items():
            with self.subTest(protocol):
                plain, secure = server.ports[protocol]
                with socket.create_connection(("127.0.0.1", secure), SECONDS_MAX) as connection:
                    connection.sendall(sent)
                    received = b""
                    with contextlib.suppress(OSError):  # of a connection that is closed already
                        connection.shutdown(socket.SHUT_WR)
                    with contextlib.suppress(ConnectionResetError):
                        while data := connection.recv(1 << 12):
                            received += data
                    self.assertIn(received[:1], (b"", b"\x15"))  # an alert of TLS, if anything
                with socket.create_connection(("127.0.0.1", plain), SECONDS_MAX) as connection:
                    connection.settimeout(3)  # droplet waits for the end of a line that never comes
                    with self.assertRaises((ssl.SSLError, ConnectionResetError, TimeoutError)):
                        self.context().wrap_socket(connection, server_hostname="localhost")

    def test_clients_must_have_a_certificate_where_one_is_required(self) -> None:
        server = self.listen(f"{self.required}, names: [{NAME}]")
        for protocol, (ask, left) in PROTOCOLS.items():
            secure = server.ports[protocol][1]
            for shown in (None, self.other.sign(f"DNS:{NAME}"), self.authority.sign("DNS:other.example")):
                with self.subTest(protocol), self.assertRaises((ssl.SSLError, ConnectionError, AssertionError, IndexError)):
                    with self.securely(secure, shown) as line:
                        self.assertTrue(ask(line, left))
            with self.subTest(protocol), self.securely(secure, self.known()) as line:
                self.assertTrue(ask(line, left))  # the others have taken nothing

    def test_openssl_itself_as_a_client(self) -> None:
        server = self.listen(self.required)
        shown = self.known()
        words = ["openssl", "s_client", "-quiet", "-no_ign_eof", "-verify_return_error", "-verify_hostname", "localhost",
                 "-CAfile", str(self.authority.certificate), "-cert", str(shown.certificate), "-key", str(shown.key), "-connect"]
        with subprocess.Popen([*words, f"127.0.0.1:{server.ports['divvy'][1]}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"}) as client:
            try:
                assert client.stdin and client.stdout
                for left in (49, 48):
                    client.stdin.write(b"HIT\n")
                    client.stdin.flush()
                    self.assertRegex(client.stdout.readline(), b"^OK true %d " % left)
            finally:
                client.kill()


if __name__ == "__main__":
    unittest.main()
