"""A receiver of OTLP over HTTP for a test: it keeps what arrives, and answers as it is told."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from otlp_messages import MetricsRequest, Response, TraceRequest, read, values  # noqa: E402
from started import SECONDS_MAX, wait_until  # noqa: E402


class Collector:
    """On a free port of loopback, or on `port`. `status`: of its answers; `gate`: while it is clear, they wait."""

    def __init__(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.status, self.rejected = 200, 0
        self.gate = threading.Event()
        self.gate.set()
        self.requests: list[tuple[str, dict[str, str], object]] = []  # path, headers, message
        self.connections: set[tuple[str, int]] = set()
        self._broken: list[Exception] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    message = read(MetricsRequest if "metrics" in self.path else TraceRequest, body)
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    collector.connections.add(self.client_address)
                    collector.requests.append((self.path, headers, message))
                except Exception as error:  # the test says so (broken)
                    collector._broken.append(error)
                collector.gate.wait(SECONDS_MAX)
                answer = Response()
                if collector.rejected:
                    answer.partial_success.rejected = collector.rejected
                    answer.partial_success.error_message = "too old"
                text = answer.SerializeToString()
                self.send_response(collector.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:  # a client that leaves
                pass

        self._server = Quiet(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://localhost:{self.port}"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self._broken:
            raise self._broken[0]

    def messages(self, path: str) -> list[object]:
        return [message for its, _, message in list(self.requests) if its == path]

    @property
    def spans(self) -> list[object]:
        return [span for message in self.messages("/v1/traces") for resource in message.resource_spans
                for scope in resource.scope_spans for span in scope.spans]

    def await_spans(self, count: int, holds: Callable[[object], bool] = lambda _: True) -> list[object]:
        """The spans for which it holds, once there are so many."""
        wait_until(lambda: len([span for span in self.spans if holds(span)]) >= count, f"{count} spans have arrived")
        return [span for span in self.spans if holds(span)]

    def metrics(self) -> dict[str, object]:
        """Of the last message, by their names."""
        messages = self.messages("/v1/metrics")
        return {metric.name: metric for resource in messages[-1].resource_metrics for scope in resource.scope_metrics
                for metric in scope.metrics} if messages else {}

    def resource(self) -> dict[str, object]:
        """Of the first message of traces."""
        return values(self.messages("/v1/traces")[0].resource_spans[0].resource.attributes)
