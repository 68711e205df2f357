"""The real sluice for a test, and how its replies are compared."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
BINARY = os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice")
READY = re.compile(r"^sluice: resp listening on .*:(\d+)$")
SECONDS_MAX = 60  # of one test
# In seconds: numbers in replies from this one on are times. Tests use no shorter times, and no other numbers as large.
TIMES_FROM = 50


class Server:
    """Serves RESP on a free port of loopback. When the constructor returns, the server has printed its port."""

    def __init__(self, config: str | None = None) -> None:
        """`config`: the text of a sluice.yaml, by which `sluice serve` runs; else it is `sluice resp`."""
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-resp-")
        command = [BINARY, "resp", "--port", "0"]
        if config is not None:
            path = Path(self._folder.name) / "sluice.yaml"
            path.write_text(config, encoding="utf-8")
            command = [BINARY, "serve", "--config", str(path)]
        # The tester's own environment must not change what is served.
        self.process = subprocess.Popen(
            command, env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.port = self._await_port()
        except BaseException:
            self.process.kill()
            raise

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _await_port(self) -> int:
        said = []
        end = time.monotonic() + SECONDS_MAX
        while True:
            line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            if line is None:
                raise RuntimeError("sluice ended at once: " + "\n".join(said))
            said.append(line)
            if ready := READY.match(line):
                return int(ready[1])

    def stop(self) -> int:
        """Asks it to end and waits for it. Returns its status."""
        self.process.terminate()
        try:
            return self.process.wait(SECONDS_MAX)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(SECONDS_MAX)
            if self.process.stdout:
                self.process.stdout.close()
            self._folder.cleanup()


class RespTest(unittest.TestCase):
    """A test with a server of its own, which has to end cleanly, and with a limit of its time."""

    config: str | None = None

    def setUp(self) -> None:
        signal.signal(signal.SIGALRM, self._late)
        signal.alarm(SECONDS_MAX)
        self.addCleanup(signal.alarm, 0)
        self.server = Server(self.config)
        self.addCleanup(lambda: self.assertEqual(self.server.stop(), 0))

    def _late(self, *_: object) -> None:
        raise TimeoutError(f"took more than {SECONDS_MAX} s")

    def assert_reply(self, reply: object, expected: Sequence[int]) -> None:
        """Whole numbers, exact except for times above 0, which may have become less meanwhile."""
        self.assertIsInstance(reply, list)
        assert isinstance(reply, list)
        self.assertEqual([type(number) for number in reply], [int] * len(expected), reply)
        fits = [number - TIMES_FROM < got <= number if number >= TIMES_FROM else got == number
                for got, number in zip(reply, expected)]
        self.assertTrue(all(fits), f"{reply} in place of {expected}")
