"""A real redis-server for a test, on a free port of loopback and with nothing on disk, and a client of a few lines."""

from __future__ import annotations

import socket
import subprocess
import tempfile

from sluice_server import SECONDS_MAX, wait_until


class Client:
    """One connection. One thread at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._in = self._socket.makefile("rb")

    def pipeline(self, *commands: tuple[str, ...]) -> list[int | str | list[str] | None]:
        """Sends all of them at once; an error is raised."""
        out = bytearray()
        for words in commands:
            out += f"*{len(words)}\r\n".encode()
            for word in words:
                out += b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode())
        self._socket.sendall(out)
        return [self._read() for _ in commands]

    def ask(self, *words: str) -> int | str | list[str] | None:
        return self.pipeline(words)[0]

    def _read(self):
        line = self._in.readline()
        kind, text = line[:1], line[1:-2].decode()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis has closed the connection")
        if kind == b"-":
            raise RuntimeError(text)
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == "-1" else self._in.read(int(text) + 2)[:-2].decode()
        if kind == b"*":
            return [self._read() for _ in range(int(text))]
        return text

    def close(self) -> None:
        self._in.close()
        self._socket.close()


class RedisServer:
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-redis-")
        self._process: subprocess.Popen[bytes] | None = None
        wait_until(self._has_started, "Redis listens")

    def _has_started(self) -> bool:
        """Starts it once. False: it ended, as another process took the port."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            cwd=self._folder.name, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until(self._answers_or_ended, "Redis answers")
        return self._process.poll() is None

    def _answers_or_ended(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            return True
        try:
            client = Client(self.port)
        except OSError:
            return False
        try:
            # Another Redis may listen at the port: its process number differs.
            info = client.ask("INFO", "server")
            return f"process_id:{self._process.pid}\r\n" in str(info)
        except (ConnectionError, RuntimeError):
            return False
        finally:
            client.close()

    def close(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(SECONDS_MAX)
        self._folder.cleanup()
