"""The real `sluice envoy` for a test, with a folder of limits of its own, and the limit of a test's time."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
BINARY = os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice")
LIMITS = Path(__file__).resolve().parents[1] / "limits.yaml"
READY = re.compile(r"^sluice: envoy listening on 127\.0\.0\.1:(\d+)$")
SECONDS_MAX = 120  # of one test, and of whatever it waits for


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Waits until it holds."""
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {SECONDS_MAX} s")
        time.sleep(0.01)


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
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []

    def start(self) -> Server:
        # The tester's own environment must not change what is served.
        self.process = subprocess.Popen(
            self._command,
            env={"PATH": os.environ["PATH"], "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(self.grpc_port),
                 "HOST": "127.0.0.1", "PORT": str(self.http_port), **self._environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self.process, lines), daemon=True)
        self._reader.start()
        try:
            self.grpc_port = self._await_port(lines)  # which it names first
            self.http_port = self._await_port(lines)
        except BaseException:
            self.kill()
            raise
        return self

    def _read(self, process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        for line in process.stdout or ():
            self.said.append(line.rstrip("\n"))
            lines.put(self.said[-1])
        lines.put(None)

    def _await_port(self, lines: queue.Queue[str | None]) -> int:
        end = time.monotonic() + SECONDS_MAX
        while True:
            line = lines.get(timeout=max(0.0, end - time.monotonic()))
            if line is None:
                raise RuntimeError("sluice ended at once: " + "\n".join(self.said))
            if ready := READY.match(line):
                return int(ready[1])

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    @contextlib.contextmanager
    def held(self):
        """Stops the process meanwhile (SIGSTOP), so that requests wait in its sockets."""
        assert self.process is not None
        self.signal(signal.SIGSTOP)
        state = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "the server stands still")
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def await_end(self) -> int:
        """Waits for its end; returns its status."""
        assert self.process is not None
        try:
            return self.process.wait(SECONDS_MAX)
        finally:
            self.kill()

    def stop(self) -> int:
        """Asks it to end and waits for it; returns its status."""
        self.signal(signal.SIGTERM)
        return self.await_end()

    def kill(self) -> None:
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self._reader.join(SECONDS_MAX)
        if self.process.stdout:
            self.process.stdout.close()
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


class LimitedTest(unittest.TestCase):
    """A test with a limit of its time, and servers that must end cleanly."""

    def setUp(self) -> None:
        signal.signal(signal.SIGALRM, self._late)
        self.allow_seconds(SECONDS_MAX)
        self.addCleanup(signal.alarm, 0)

    def allow_seconds(self, seconds: int) -> None:
        """From now until the end of the test."""
        self._allowed = seconds
        signal.alarm(seconds)

    def _late(self, *_: object) -> None:
        raise TimeoutError(f"took more than {self._allowed} s")

    def serve(self, limits: str | None = None, durable: bool = False, rules: str | None = None,
              **environment: str) -> Server:
        server = Server(limits, durable, rules, **environment)
        self.addCleanup(server.close)
        server.start()
        self.addCleanup(lambda: server.process is None or self.assertEqual(server.stop(), 0, server.said))
        return server
