"""The real sluice with its HTTP protocol for a test, programs that listen beside it, and the limit of a test's time."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import re
import socket
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[2]))

from started import BINARY, ROOT, LimitedTest, Started, wait_until  # noqa: E402, F401  (for the tests as well)

LISTENING = r"^sluice: http listening on 127\.0\.0\.1:(\d+)$"
SECONDS_MAX = 60  # for one test, and for everything that it waits for


class Program(Started):
    """A program that prints the port of loopback on which it listens. The constructor returns after that."""

    def __init__(self, command: list[str], listening: str, folder: str | None = None, **environment: str) -> None:
        """`listening`: an expression for the line with the port, with one group; `environment`: all variables except
        PATH."""
        super().__init__(command, folder, **environment)
        self.port = int(self.await_line(listening)[1])


class Answering:
    """A server that answers every request with one status and a problem, as a sluice that does not decide. Ends with the test."""

    def __init__(self, test: unittest.TestCase, status: int) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                body = b'{"status": %d, "detail": "the reason for it"}' % status
                self.send_response(status)
                self.send_header("Content-Type", "application/problem+json")
                self.send_header("Location", "/elsewhere")  # of 302
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:  # a client that follows a redirect gets a 200
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.port = server.server_port


class Answer(NamedTuple):
    status: int
    fields: list[tuple[str, str]]  # names in lower case
    body: bytes

    def value(self, name: str) -> str | None:
        """The value of a field that occurs once at most."""
        values = [value for key, value in self.fields if key == name.lower()]
        if len(values) > 1:
            raise AssertionError(f"{name} is there {len(values)} times: {values}")
        return values[0] if values else None

    def json(self) -> dict[str, object]:
        return json.loads(self.body)


def ask(port: int, method: str, path: str, body: object = None, source: str | None = None, **fields: str) -> Answer:
    """One request on a connection of its own, from the address `source` if there is one; `body` as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX,
                                            source_address=(source, 0) if source else None)
    try:
        text = None if body is None else json.dumps(body)
        more = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, text, {**more, **{name.replace("_", "-"): value for name, value in fields.items()}})
        response = connection.getresponse()
        return Answer(response.status, [(name.lower(), value) for name, value in response.getheaders()], response.read())
    finally:
        connection.close()


def ask_as_written(port: int, target: str, host: str) -> tuple[int, bytes]:
    """The status of a GET of a target that is sent as it is, and all that is answered; 0: nothing is."""
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1"))
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1 << 16):
                answer += data
    status = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(status[1]) if status else 0, answer


class HttpTest(LimitedTest):
    """A test with a limit of its time, and programs that end with it."""

    test_seconds_max = SECONDS_MAX

    def serve(self, config: str | None = None, port: int = 0) -> Program:
        """`sluice http`, or `sluice serve` by the text of a sluice.yaml whose 127.0.0.1:8390 becomes `port`; it has to end
        cleanly."""
        command = [BINARY, "http", "--port", str(port)]
        if config is not None:
            folder = tempfile.TemporaryDirectory(prefix="sluice-http-")
            self.addCleanup(folder.cleanup)
            path = Path(folder.name) / "sluice.yaml"
            self.assertIn("127.0.0.1:8390", config)
            path.write_text(config.replace("127.0.0.1:8390", f"127.0.0.1:{port}"), encoding="utf-8")
            command = [BINARY, "serve", "--config", str(path), "--admin", "off"]
        server = Program(command, LISTENING)
        self.addCleanup(lambda: server.process.returncode is not None or self.assertEqual(server.stop(), 0, server.said))
        return server
