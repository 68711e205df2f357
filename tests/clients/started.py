"""What tests of all protocols do with the real sluice: start a program and read its lines as they arrive, wait for what holds, and
end after a time. A module in a folder below this one adds this folder to sys.path."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice")
SECONDS_MAX = 60.0  # for whatever is waited for


def wait_until(holds: Callable[[], bool], what: str, seconds_max: float = SECONDS_MAX) -> None:
    """Waits until it holds."""
    end = time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds_max:g} s")
        time.sleep(0.01)


class Started:
    """A program that runs, without the tester's own environment, which must not change what it does. `said`: its lines, of both
    of its streams; they are added to those of `said` that is given."""

    def __init__(self, command: list[str], folder: str | None = None, said: list[str] | None = None, **environment: str) -> None:
        self.said: list[str] = [] if said is None else said
        self.process = subprocess.Popen(
            command, cwd=folder, env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.said.append(line.rstrip("\n"))
            self._lines.put(self.said[-1])
        self._lines.put(None)

    def await_line(self, wanted: str, seconds_max: float = SECONDS_MAX) -> re.Match[str]:
        """The next line in which the expression is found. Where there is none the program is ended."""
        end = time.monotonic() + seconds_max
        try:
            while True:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
                if line is None:
                    raise RuntimeError("it ended at once:\n" + "\n".join(self.said))
                if found := re.search(wanted, line):
                    return found
        except BaseException:
            self.kill()
            raise

    def hold(self) -> None:
        """Stops the process (SIGSTOP), so that requests wait in its sockets."""
        self.process.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: state.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T", "it stands still")

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def await_end(self, seconds_max: float = SECONDS_MAX) -> int:
        """Waits for its end; returns its status."""
        try:
            return self.process.wait(seconds_max)
        finally:
            self.kill()

    def stop(self, seconds_max: float = SECONDS_MAX) -> int:
        """Asks it to end and waits for it; returns its status."""
        self.go_on()
        self.process.terminate()
        return self.await_end(seconds_max)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(SECONDS_MAX)
        if self.process.stdout:
            self.process.stdout.close()


class LimitedTest(unittest.TestCase):
    """A test with a limit of its time."""

    test_seconds_max = 60

    def setUp(self) -> None:
        signal.signal(signal.SIGALRM, self._late)
        self.allow_seconds(self.test_seconds_max)
        self.addCleanup(signal.alarm, 0)

    def allow_seconds(self, seconds: int) -> None:
        """From now until the end of the test."""
        self._allowed = seconds
        signal.alarm(seconds)

    def _late(self, *_: object) -> None:
        raise TimeoutError(f"took more than {self._allowed} s")
