"""The real sluice with its HTTP protocol for a test, programs that listen beside it, and the limit of a test's time."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[4]
BINARY = os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice")
LISTENING = r"^sluice: http listening on 127\.0\.0\.1:(\d+)$"
SECONDS_MAX = 60  # for one test, and for everything that it waits for


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Waits until it holds."""
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {SECONDS_MAX} s")
        time.sleep(0.01)


class Program:
    """A program that prints the port of loopback on which it listens. The constructor returns after that."""

    def __init__(self, command: list[str], listening: str, folder: str | None = None, **environment: str) -> None:
        """`listening`: an expression for the line with the port, with one group; `environment`: all variables except
        PATH."""
        self.said: list[str] = []
        self.process = subprocess.Popen(
            command, cwd=folder, env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.port = self._await_port(re.compile(listening))
        except BaseException:
            self.stop()
            raise

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.said.append(line.rstrip("\n"))
            self._lines.put(self.said[-1])
        self._lines.put(None)

    def _await_port(self, listening: re.Pattern[str]) -> int:
        end = time.monotonic() + SECONDS_MAX
        while True:
            line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            if line is None:
                raise RuntimeError("it ended at once: " + "\n".join(self.said))
            if found := listening.search(line):
                return int(found[1])

    def hold(self) -> None:
        """Stops the process (SIGSTOP) until `stop`, so that requests wait in its sockets."""
        self.process.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it stands still")

    def stop(self) -> int:
        """Asks it to end and waits for it. Returns its status."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(SECONDS_MAX)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(SECONDS_MAX)
            if self.process.stdout:
                self.process.stdout.close()


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


class HttpTest(unittest.TestCase):
    """A test with a limit of its time, and programs that end with it."""

    def setUp(self) -> None:
        signal.signal(signal.SIGALRM, self._late)
        signal.alarm(SECONDS_MAX)
        self.addCleanup(signal.alarm, 0)

    def _late(self, *_: object) -> None:
        raise TimeoutError(f"took more than {SECONDS_MAX} s")

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
