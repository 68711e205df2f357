"""A control plane for a test: the aggregated discovery service of xDS on a free port of loopback. It records what it is
asked and answers what the test tells it to, or as go-control-plane's snapshot cache would (`Cache`)."""

from __future__ import annotations

import queue
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from dataclasses import dataclass

import grpc

from xds_messages import Request, read_request, response

METHOD = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
SECONDS_MAX = 60  # that a test waits for one thing


def free_port() -> int:
    """A port that stays free while nobody listens at it: outside of those that systems hand out."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@dataclass
class Tls:
    """PEM texts. `clients`: the authority of the certificates that clients have to show."""

    certificate: str
    key: str
    clients: str | None = None


class Stream:
    """One stream of a client. `send` and `end` return at once."""

    def __init__(self, number: int, context: grpc.ServicerContext) -> None:
        self.number = number
        self.opened = time.monotonic()
        self.ended_at: float | None = None  # when `end` was called, or the client had gone
        self.metadata = {pair.key: pair.value for pair in context.invocation_metadata()}
        self.certificate = b"".join(context.auth_context().get("x509_pem_cert", ())).decode()  # the client's
        self.out: queue.SimpleQueue[bytes | grpc.StatusCode | None] = queue.SimpleQueue()
        self.sent: list[tuple[str, str]] = []  # versions and nonces

    def send(self, version: str, nonce: str, resources: Iterable[bytes], **more: str) -> None:
        self.sent.append((version, nonce))
        self.out.put(response(version, nonce, resources, **more))

    def send_bytes(self, message: bytes) -> None:
        self.out.put(message)

    def end(self, code: grpc.StatusCode) -> None:
        self.ended_at = time.monotonic()
        self.out.put(code)


class Ads:
    """`start` and `stop` may be repeated: it keeps its port. `on_request` is called for each request, in the thread of its
    stream."""

    def __init__(self, tls: Tls | None = None, on_request: Callable[[Stream, Request], None] | None = None) -> None:
        self.tls = tls  # what new connections get
        self.on_request = on_request
        self.requests: list[Request] = []
        self.streams: list[Stream] = []
        self._changed = threading.Condition()
        self._taken = 0
        self._server: grpc.Server | None = None
        self._pool: futures.ThreadPoolExecutor | None = None
        self.port = free_port()
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._pool = futures.ThreadPoolExecutor(32)
        server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)])
        handler = grpc.stream_stream_rpc_method_handler(self._serve)
        service, name = METHOD[1:].split("/")
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {name: handler})])
        if self.tls is None:
            server.add_insecure_port(self.address)
        else:
            wants = self.tls.clients is not None
            server.add_secure_port(self.address, grpc.dynamic_ssl_server_credentials(
                self._certificates(), self._certificates, wants))
        server.start()
        self._server = server

    def _certificates(self):
        assert self.tls is not None
        clients = None if self.tls.clients is None else self.tls.clients.encode()
        return grpc.ssl_server_certificate_configuration(
            [(self.tls.key.encode(), self.tls.certificate.encode())], clients)

    def stop(self) -> None:
        """Cuts all connections; nobody listens any more when it returns."""
        if self._server is None:
            return
        stopped = self._server.stop(None)
        for stream in self.streams:
            stream.out.put(None)
        if not stopped.wait(SECONDS_MAX):
            raise TimeoutError("the control plane does not stop")
        assert self._pool is not None
        self._pool.shutdown()
        self._server = None

    def go_away(self) -> None:
        """Tells its clients that connections end when their streams do; it listens no more."""
        assert self._server is not None
        self._server.stop(SECONDS_MAX)

    def _serve(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with self._changed:
            stream = Stream(len(self.streams) + 1, context)
            self.streams.append(stream)
            self._changed.notify_all()
        if not context.add_callback(lambda: self._has_gone(stream)):
            self._has_gone(stream)
        reader = threading.Thread(target=self._read, args=(stream, requests), daemon=True)
        reader.start()
        while (told := stream.out.get()) is not None:
            if isinstance(told, bytes):
                yield told
            elif told is grpc.StatusCode.OK:
                return
            else:
                context.abort(told, "as the test says")

    def _has_gone(self, stream: Stream) -> None:
        with self._changed:
            stream.ended_at = stream.ended_at or time.monotonic()
            self._changed.notify_all()
        stream.out.put(None)

    def _read(self, stream: Stream, requests: Iterator[bytes]) -> None:
        try:
            for message in requests:
                request = read_request(message, time.monotonic(), stream.number)
                with self._changed:
                    self.requests.append(request)
                    self._changed.notify_all()
                if self.on_request:
                    self.on_request(stream, request)
        except grpc.RpcError:  # the stream has ended
            pass

    @property
    def stream(self) -> Stream:
        """The newest one."""
        return self.streams[-1]

    def wait(self, holds: Callable[[], bool], what: str, seconds: float = SECONDS_MAX) -> None:
        """Waits until it holds; it is looked at with every request and every stream that begins or ends."""
        with self._changed:
            if not self._changed.wait_for(holds, seconds):
                raise TimeoutError(f"the control plane got no {what} within {seconds} s; requests so far: {self.requests}")

    def await_stream(self, number: int) -> Stream:
        self.wait(lambda: len(self.streams) >= number, f"stream {number}")
        return self.streams[number - 1]

    def await_end(self, stream: Stream) -> None:
        self.wait(lambda: stream.ended_at is not None, f"end of stream {stream.number}")

    def await_request(self) -> Request:
        """The next one that this has not returned yet."""
        self.wait(lambda: len(self.requests) > self._taken, "request")
        self._taken += 1
        return self.requests[self._taken - 1]

    def await_told(self, nonce: str) -> Request:
        """The answer to the response with this nonce; requests before it are passed over."""
        while (request := self.await_request()).nonce != nonce:
            pass
        return request

    def pass_over(self) -> None:
        """`await_request` returns what comes from now on."""
        with self._changed:
            self._taken = len(self.requests)


class Cache:
    """Answers as go-control-plane 0.14.0 does for one node: a snapshot goes to each new stream, and to a stream whose
    request does not tell the snapshot's version, at once; so a refusal gets the same again. Nonces count within a stream."""

    def __init__(self, tls: Tls | None = None) -> None:
        self._lock = threading.RLock()
        self._snapshot: tuple[str, list[bytes]] | None = None
        self._waiting: Stream | None = None  # that has the snapshot, or there is none
        self._current: Stream | None = None
        self.events: list[tuple[str, int, str, str, str | None]] = []  # what, stream, version, nonce, refusal
        self.ads = Ads(tls, self._ask)

    def _send(self, stream: Stream) -> None:
        assert self._snapshot is not None
        version, resources = self._snapshot
        nonce = str(len(stream.sent) + 1)
        self._waiting = None
        self.events.append(("send", stream.number, version, nonce, None))
        stream.send(version, nonce, resources)

    def _ask(self, stream: Stream, request: Request) -> None:
        with self._lock:
            self.events.append(("recv", stream.number, *request.told))
            if stream.sent and request.nonce != stream.sent[-1][1]:
                return  # about an older response
            is_new = stream is not self._current
            self._current = self._waiting = stream
            if self._snapshot and (is_new or request.version != self._snapshot[0]):
                self._send(stream)

    def set(self, version: str, *resources: bytes) -> None:
        with self._lock:
            self._snapshot = version, list(resources)
            if self._waiting and self._waiting.ended_at is None:
                self._send(self._waiting)

    def inject(self, version: str, nonce: str, *resources: bytes) -> None:
        """A response past the snapshot."""
        with self._lock:
            self.events.append(("send", self.ads.stream.number, version, nonce, None))
            self.ads.stream.send(version, nonce, resources)

    def forget(self) -> None:
        """As a control plane that starts anew."""
        with self._lock:
            self._snapshot = self._waiting = None


class Relay:
    """A port of loopback whose connections go on to another one, until they are cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:  # it is closed
                return
            try:
                made = socket.create_connection(("127.0.0.1", self._target), SECONDS_MAX)
            except OSError:
                taken.close()
                continue
            made.settimeout(None)
            with self._lock:
                self._sockets += [taken, made]
            for one, other in ((taken, made), (made, taken)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65_536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self) -> None:
        """Resets all connections."""
        with self._lock:
            cut, self._sockets = self._sockets, []
        for each in cut:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                each.shutdown(socket.SHUT_RD)  # wakes the thread that reads
            except OSError:  # it has been reset already
                pass
            each.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
