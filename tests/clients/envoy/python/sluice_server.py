"""The real `sluice envoy` for a test, with a folder of limits of its own, and the limit of a test's time."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import started  # noqa: E402
from started import BINARY, ROOT, Started  # noqa: E402, F401  (for the tests as well)

LIMITS = Path(__file__).resolve().parents[1] / "limits.yaml"
READY = r"^sluice: envoy listening on 127\.0\.0\.1:(\d+)$"
SECONDS_MAX = 120  # of one test, and of whatever it waits for


def wait_until(holds: Callable[[], bool], what: str) -> None:
    started.wait_until(holds, what, SECONDS_MAX)


class Server:
    """`sluice envoy`, or `sluice serve`, on free ports of loopback. `start` returns when the server has printed its ports.
    After a stop `sluice envoy` can be started again: then it serves on the same ports, from the same folder."""

    def __init__(self, limits: str | None = None, durable: bool = False, rules: str | None = None,
                 **environment: str) -> None:
        """`limits`: the text of its file of limits, by default limits.yaml; `durable`: its counters survive its end;
        `rules`: `sluice serve` with these native rules and without limits; `environment`: added to its own."""
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-envoy-")
        self.folder = Path(self._folder.name)
        self.limits = self.folder / "limits" / "limits.yaml"
        self.limits.parent.mkdir()
        self._command = [BINARY, "envoy", str(self.limits.parent)]
        if rules is not None:
            config = self.folder / "sluice.yaml"
            listener = '{ protocol: envoy, address: "127.0.0.1:0" }'  # each serves gRPC and HTTP
            config.write_text(f"listen: [{listener}, {listener}]\nrules:\n{rules}", encoding="utf-8")
            self._command = [BINARY, "serve", "--config", str(config)]
        if durable:
            self._command += ["--data", str(self.folder / "data"), "--durability", "always"]
        self.limits.write_text(LIMITS.read_text(encoding="utf-8") if limits is None else limits, encoding="utf-8")
        self._environment = environment
        self.grpc_port = self.http_port = 0
        self.process: Started | None = None
        self.said: list[str] = []

    def start(self) -> Server:
        self.process = Started(self._command, said=self.said, **{
            "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(self.grpc_port), "HOST": "127.0.0.1", "PORT": str(self.http_port),
            **self._environment})
        self.grpc_port = int(self.process.await_line(READY, SECONDS_MAX)[1])  # which it names first
        self.http_port = int(self.process.await_line(READY, SECONDS_MAX)[1])
        return self

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.process.send_signal(number)

    @contextlib.contextmanager
    def held(self):
        """Stops the process meanwhile (SIGSTOP), so that requests wait in its sockets."""
        assert self.process is not None
        self.process.hold()
        try:
            yield
        finally:
            self.process.go_on()

    def await_end(self) -> int:
        """Waits for its end; returns its status."""
        assert self.process is not None
        try:
            return self.process.await_end(SECONDS_MAX)
        finally:
            self.process = None

    def stop(self) -> int:
        """Asks it to end and waits for it; returns its status."""
        self.signal(signal.SIGTERM)
        return self.await_end()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
        self.process = None

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()

    def ask_json(self, request: object) -> tuple[int, dict[str, object]]:
        """POST /json: the HTTP status and the answer."""
        wanted = urllib.request.Request(f"http://127.0.0.1:{self.http_port}/json", json.dumps(request).encode(),
                                        {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(wanted, timeout=SECONDS_MAX) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


class LimitedTest(started.LimitedTest):
    """A test with a limit of its time, and servers that must end cleanly."""

    test_seconds_max = SECONDS_MAX

    def serve(self, limits: str | None = None, durable: bool = False, rules: str | None = None,
              **environment: str) -> Server:
        server = Server(limits, durable, rules, **environment)
        self.addCleanup(server.close)
        server.start()
        self.addCleanup(lambda: server.process is None or self.assertEqual(server.stop(), 0, server.said))
        return server
