"""The parts of a test of forward-auth: the real sluice, a proxy by the files of examples/ with other ports, a client, an
application behind the proxy that records what it is asked, and a relay between proxy and sluice that counts connections
and can be silent."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[2]))

from started import BINARY, ROOT, SECONDS_MAX, LimitedTest, Started, wait_until  # noqa: E402, F401  (for the tests as well)

EXAMPLES = ROOT / "examples"
LISTENING = r"^sluice: (http|admin) listening on 127\.0\.0\.1:(\d+)$"
STARTS_MAX = 5  # how often a proxy is started while other processes take its port


def replaced(text: str, *edits: tuple[str, str]) -> str:
    """`text` with all edits; the old text of each must occur."""
    for old, new in edits:
        if old not in text:
            raise AssertionError(f"`{old}` is not in:\n{text}")
        text = text.replace(old, new)
    return text


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Process(Started):
    """A program in a folder, which is its home. Proxies lie in /usr/sbin."""

    def __init__(self, command: list[str], folder: Path, **more: str) -> None:
        """`more`: variables of its environment."""
        super().__init__(command, str(folder), **{"PATH": f"{os.environ['PATH']}:/usr/sbin", "HOME": str(folder), **more})

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def has_said(self, text: str) -> bool:
        return any(text in line for line in self.said)


class Sluice:
    """`sluice serve` by a sluice.yaml, on free ports of loopback. `start` returns when the server has printed its
    ports. After a stop it can be called again: then it serves on the same port."""

    def __init__(self, config: str, folder: Path) -> None:
        self._config, self._folder = config, folder
        self.port = self.admin_port = 0
        self.process: Process | None = None

    def start(self) -> Sluice:
        path = self._folder / "sluice.yaml"
        path.write_text(replaced(self._config, ("127.0.0.1:8390", f"127.0.0.1:{self.port}")), encoding="utf-8")
        self.process = Process([BINARY, "serve", "--config", str(path), "--admin", "127.0.0.1:0"], self._folder)
        ports: dict[str, int] = {}
        while len(ports) < 2:
            found = self.process.await_line(LISTENING)
            ports[found[1]] = int(found[2])
        self.port, self.admin_port = ports["http"], ports["admin"]
        return self

    def stop(self) -> int:
        """Returns its status; 0 if it does not run."""
        process, self.process = self.process, None
        return process.stop() if process else 0

    def counters(self) -> list[str]:
        """The names of all counters."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/v1/counters", timeout=SECONDS_MAX) as answer:
            return sorted(item["counter"] for item in json.load(answer)["counters"])


class Asked(NamedTuple):
    method: str
    target: str
    fields: list[tuple[str, str]]  # names in lower case
    body_bytes: int
    body_digest: str

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]


class Application:
    """Answers each request with 200, or with N at a path that ends in /status/N, and records it."""

    def __init__(self) -> None:
        application = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(self) -> None:
                size, digest = 0, hashlib.sha256()
                for chunk in self.chunks():
                    size += len(chunk)
                    digest.update(chunk)
                fields = [(name.lower(), value) for name, value in self.headers.items()]
                application.asked.append(Asked(self.command, self.path, fields, size, digest.hexdigest()))
                status = re.search(r"/status/(\d+)", self.path)
                self.send_response(int(status[1]) if status else 200)
                body = b"the application\n"
                self.send_header("Content-Length", str(len(body)))
                self.send_header("X-Application", "yes")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def chunks(self) -> Iterable[bytes]:
                if self.headers.get("Transfer-Encoding") == "chunked":
                    while size := int(self.rfile.readline(), 16):
                        yield self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                    return
                left = int(self.headers.get("Content-Length", "0"))
                while left > 0 and (chunk := self.rfile.read(min(left, 1 << 16))):
                    left -= len(chunk)
                    yield chunk

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = answer

            def log_message(self, *_: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                pass  # a client that went away

        self.asked: list[Asked] = []
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(SECONDS_MAX)
        self._server.server_close()


class Relay:
    """Passes on what comes to its port, and records it. Once it is closed connections to it are refused."""

    def __init__(self, sluice: Sluice) -> None:
        self._sluice = sluice
        self.port = 0
        self.open()

    def open(self) -> None:
        self.connections = 0  # connections with a request; a proxy may only try whether a server listens
        self.sent = self.answered = b""  # to sluice, and by it
        self.silent = False  # bytes are read and dropped
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._server = socket.create_server(("127.0.0.1", self.port))
        self.port = self._server.getsockname()[1]
        self._run(self._accept)

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._sluice.port))
                except OSError:
                    client.close()
                    continue
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                self._run(self._pass_on, client, server, True)
                self._run(self._pass_on, server, client, False)

    def _pass_on(self, source: socket.socket, target: socket.socket, is_question: bool) -> None:
        is_new = is_question
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_question:
                    self.connections += is_new
                    is_new = False
                    self.sent += data
                    if self.silent:
                        continue
                else:
                    self.answered += data
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def questions(self) -> list[str]:
        """The heads of all requests that were sent to sluice, none of which has a body."""
        return [head.decode("latin-1") for head in self.sent.split(b"\r\n\r\n")[:-1]]

    def close(self) -> None:
        # A thread in accept() does not notice that its socket is closed.
        for one in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(SECONDS_MAX)
        for one in (self._server, *self._sockets):
            one.close()


class Answer(NamedTuple):
    status: int
    fields: list[tuple[str, str]]  # names in lower case
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def value(self, name: str) -> str | None:
        """The value of a field that occurs once at most."""
        values = self.values(name)
        if len(values) > 1:
            raise AssertionError(f"{name} is there {len(values)} times: {values}")
        return values[0] if values else None


class Client:
    """One connection to a port of loopback; `address`: its source address."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX, source_address=(address, 0))

    def begin(self, method: str, target: str, fields: Iterable[tuple[str, str]] = (), host: str = "shop.example") -> None:
        """Sends a request's head."""
        self._connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        self._connection.putheader("Host", host)
        for name, value in fields:
            self._connection.putheader(name, value)
        self._connection.endheaders()

    def send(self, body: bytes) -> None:
        self._connection.send(body)

    def end(self) -> Answer:
        """Awaits the answer."""
        response = self._connection.getresponse()
        body = response.read()
        return Answer(response.status, [(name.lower(), value) for name, value in response.getheaders()], body)

    def ask(self, method: str, target: str, fields: Iterable[tuple[str, str]] = (), body: bytes = b"") -> Answer:
        length = [("Content-Length", str(len(body)))] if body or method in ("POST", "PUT") else []
        self.begin(method, target, [*fields, *length])
        if body:
            self.send(body)
        return self.end()

    def close(self) -> None:
        self._connection.close()


class Proxy:
    """A proxy by the files of examples/NAME in a folder of its own, with ports in place of 8080 (its own), 9000 (the
    application's), 8390 (sluice's) and 8391 (its own, too). It answers when the constructor returns."""

    def __init__(self, name: str, command: list[str], edits: Iterable[tuple[str, str]], sluice_port: int,
                 application_port: int, **environment: str) -> None:
        """`command`: what runs it in that folder; `edits`: each is made in the file that has its first text."""
        self._folder = tempfile.TemporaryDirectory(prefix=f"sluice-{name}-")
        folder = Path(self._folder.name)
        folder.chmod(0o755)  # nginx' workers are another user where root starts it
        try:
            for _ in range(STARTS_MAX):
                self.port = free_port()
                ports = {"8080": self.port, "8390": sluice_port, "8391": free_port(), "9000": application_port}
                self._write(name, folder, list(edits), ports)
                self.process = Process(command, folder, **environment)
                wait_until(lambda: self.process.has_ended() or self._listens(), f"{name} listens")
                if not self.process.has_ended():
                    return
                self.process.stop()
            raise RuntimeError(f"{name} ended at once: " + "\n".join(self.process.said))
        except BaseException:
            self._folder.cleanup()
            raise

    @staticmethod
    def _write(name: str, folder: Path, edits: list[tuple[str, str]], ports: dict[str, int]) -> None:
        for source in (EXAMPLES / name).iterdir():
            if source.name == "sluice.yaml":
                continue
            text = source.read_text(encoding="utf-8")
            for edit in [one for one in edits if one[0] in text]:
                text = replaced(text, edit)
                edits.remove(edit)
            # In one step, as a free port may equal one that must be replaced.
            text = re.sub(r"(?<=:)(8080|8390|8391|9000)\b", lambda port: str(ports[port[0]]), text)
            (folder / source.name).write_text(text, encoding="utf-8")
        if edits:
            raise AssertionError(f"not in the files of {name}: {edits}")

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), SECONDS_MAX).close()
        except OSError:
            return False
        return True

    def close(self) -> None:
        self.process.stop()
        self._folder.cleanup()


class World(NamedTuple):
    sluice: Sluice
    relay: Relay
    proxy: Proxy
    application: Application


class PartsTest(LimitedTest):
    """A test with a limit of its time, and with parts that end with it."""

    name: str  # of the folder in examples/
    command: list[str]
    patience: tuple[tuple[str, str], ...] = ()  # edits that have the proxy wait for sluice as long as a busy machine takes

    def setUp(self) -> None:
        if not shutil.which(self.command[0], path=f"{os.environ['PATH']}:/usr/sbin"):
            self.skipTest(f"there is no {self.command[0]}")
        super().setUp()

    def start(self, edits: Iterable[tuple[str, str]] = (), rules: str | None = None,
              sluice_edits: Iterable[tuple[str, str]] = (), patient: bool = True, application_port: int | None = None,
              **environment: str) -> World:
        """`edits`: of the proxy's files; `rules`: in place of those in its sluice.yaml; `sluice_edits`: of that file;
        `patient`: the proxy waits longer for sluice than its file says; `application_port`: of another application behind it;
        `environment`: added to the proxy's."""
        folder = tempfile.TemporaryDirectory(prefix="sluice-http-")
        self.addCleanup(folder.cleanup)
        config = replaced((EXAMPLES / self.name / "sluice.yaml").read_text(encoding="utf-8"), *sluice_edits)
        if rules is not None:
            config, found = re.subn(r"^rules:\n(?:.+\n)+", f"rules:\n{rules}\n", config, flags=re.MULTILINE)
            self.assertEqual(found, 1)
        sluice = Sluice(config, Path(folder.name))
        self.addCleanup(lambda: self.assertEqual(sluice.stop(), 0))
        sluice.start()
        relay = Relay(sluice)
        self.addCleanup(relay.close)
        application = Application()
        self.addCleanup(application.close)
        edits = [*edits, *(self.patience if patient else ())]
        proxy = Proxy(self.name, self.command, edits, relay.port, application_port or application.port, **environment)
        self.addCleanup(proxy.close)
        return World(sluice, relay, proxy, application)

    def client(self, world: World, address: str = "127.0.0.1") -> Client:
        client = Client(world.proxy.port, address)
        self.addCleanup(client.close)
        return client
