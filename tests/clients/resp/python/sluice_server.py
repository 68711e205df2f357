"""The real sluice for a test, and how its replies are compared."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from started import BINARY, LimitedTest, Started  # noqa: E402

READY = r"^sluice: resp listening on .*:(\d+)$"
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
        self._started = Started(command)
        self.port = int(self._started.await_line(READY, SECONDS_MAX)[1])

    def stop(self) -> int:
        """Asks it to end and waits for it. Returns its status."""
        try:
            return self._started.stop(SECONDS_MAX)
        finally:
            self._folder.cleanup()


class RespTest(LimitedTest):
    """A test with a server of its own, which has to end cleanly, and with a limit of its time."""

    test_seconds_max = SECONDS_MAX
    config: str | None = None

    def setUp(self) -> None:
        super().setUp()
        self.server = Server(self.config)
        self.addCleanup(lambda: self.assertEqual(self.server.stop(), 0))

    def assert_reply(self, reply: object, expected: Sequence[int]) -> None:
        """Whole numbers, exact except for times above 0, which may have become less meanwhile."""
        self.assertIsInstance(reply, list)
        assert isinstance(reply, list)
        self.assertEqual([type(number) for number in reply], [int] * len(expected), reply)
        fits = [number - TIMES_FROM < got <= number if number >= TIMES_FROM else got == number
                for got, number in zip(reply, expected)]
        self.assertTrue(all(fits), f"{reply} in place of {expected}")
