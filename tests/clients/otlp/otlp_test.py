"""Traces and metrics by OTLP: `sluice envoy` with the variables of its original, and `sluice serve` with `otlp:`, towards a
receiver that reads every message with protobuf's own classes."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import grpc

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "envoy/python")]

from certificates import Authority  # noqa: E402
from collector import Collector  # noqa: E402
from messages import OVER_LIMIT, SHOULD_RATE_LIMIT, RateLimitRequest, RateLimitResponse, request  # noqa: E402
from otlp_messages import CUMULATIVE, ERROR, SERVER, values  # noqa: E402
from secure import Secured  # noqa: E402
from sluice_server import LimitedTest, Server  # noqa: E402
from started import SECONDS_MAX, wait_until  # noqa: E402

LIMITS = """domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: free
    rate_limit: { unit: year, requests_per_unit: 1000000 }
"""
RULES = """rules:
  - name: per-client
    match: { client: "*" }
    actor: [client]
    limit: { quota: 2, window: 365d }
"""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
NAME = SHOULD_RATE_LIMIT.removeprefix("/")


def hex_of(span) -> tuple[str, str]:
    """The ids of the trace and of the parent."""
    return span.trace_id.hex(), span.parent_span_id.hex()


class OtlpTest(LimitedTest):
    test_seconds_max = 120

    def collector(self, tls: ssl.SSLContext | None = None, port: int = 0) -> Collector:
        made = Collector(tls, port)
        self.addCleanup(made.close)
        return made

    def envoy(self, endpoint: str | None, **environment: str) -> Server:
        """`sluice envoy`, which sends what it has ten times a second."""
        wanted = {} if endpoint is None else {"TRACING_ENABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        return self.serve(LIMITS, **{**wanted, "OTEL_BSP_SCHEDULE_DELAY": "100", "USE_STATSD": "false", **environment})

    def ask(self, server: Server, *metadata: tuple[str, str], key: str = "free", value: str = "a", times: int = 1):
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            call = channel.unary_unary(SHOULD_RATE_LIMIT, RateLimitRequest.SerializeToString, RateLimitResponse.FromString)
            for _ in range(times):
                answer = call(request([(key, value)]), metadata=metadata, timeout=SECONDS_MAX)
        return answer

    def native(self, otlp: str, more: str = "") -> Secured:
        folder = tempfile.TemporaryDirectory(prefix="sluice-otlp-")
        self.addCleanup(folder.cleanup)
        listen = 'listen:\n  - { protocol: http, address: "127.0.0.1:0" }\n  - { protocol: admin, address: "127.0.0.1:0" }\n'
        server = Secured(Path(folder.name), f"{listen}{RULES}otlp: {otlp}\n{more}")
        self.addCleanup(server.kill)
        return server

    def post(self, server: Secured, path: str, body: object, port: str = "http", method: str = "POST", **headers: str):
        connection = http.client.HTTPConnection("127.0.0.1", server.port(port), timeout=SECONDS_MAX)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def take(self, server: Secured, client: str = "mallory", **headers: str) -> int:
        return self.post(server, "/v1/take", {"entries": {"client": client}}, **headers)[0]

    def status(self, server: Secured) -> dict[str, object]:
        return json.loads(self.post(server, "/v1/status", None, "admin", "GET")[1])


class SpansOfEnvoy(OtlpTest):
    def test_a_call_has_the_names_and_attributes_of_its_original(self) -> None:
        collector = self.collector()
        server = self.envoy(collector.url, TRACING_SERVICE_NAME="limits", TRACING_SERVICE_NAMESPACE="shop",
                            TRACING_SERVICE_INSTANCE_ID="pod-1")
        before, second_ns = time.time_ns(), 1_000_000_000
        for _ in range(2):
            answer = self.ask(server, ("traceparent", PARENT), key="tenant", value="alice@example.org")
        self.assertEqual(answer.overall_code, OVER_LIMIT)
        first, second = sorted(collector.await_spans(2), key=lambda span: span.start)
        for span in first, second:
            self.assertEqual((hex_of(span), span.name, span.kind), ((TRACE, SPAN), NAME, SERVER))
            self.assertEqual((len(span.span_id), span.status.code), (8, 0))
            self.assertTrue(before - second_ns <= span.start <= span.end <= time.time_ns() + second_ns)
        self.assertNotEqual(first.span_id, second.span_id)
        found = [values(span.attributes) for span in (first, second)]
        for its in found:
            self.assertEqual(its.pop("net.sock.peer.addr"), "127.0.0.1")
            self.assertGreater(its.pop("net.sock.peer.port"), 0)
        common = {"rpc.system": "grpc", "rpc.service": "envoy.service.ratelimit.v3.RateLimitService",
                  "rpc.method": "ShouldRateLimit", "rpc.grpc.status_code": 0, "domain": "shop",
                  "sluice.rule": "shop.tenant", "sluice.limit": "aligned_window"}
        self.assertEqual(found[0], {**common, "overall_code": "OK", "sluice.decision": "allowed"})
        self.assertEqual(found[1], {**common, "overall_code": "OVER_LIMIT", "sluice.decision": "denied"})
        self.assertEqual(collector.resource(), {"service.name": "limits", "service.namespace": "shop",
                                                "service.instance.id": "pod-1"})
        message = collector.messages("/v1/traces")[0].resource_spans[0]
        self.assertEqual(message.schema_url, "https://opentelemetry.io/schemas/1.7.0")
        self.assertEqual(message.scope_spans[0].scope.name, "sluice")
        _, headers, _ = collector.requests[0]
        self.assertEqual(headers["content-type"], "application/x-protobuf")
        self.assertFalse([line for line in server.said if "warning" in line], server.said)

    def test_an_error_is_the_status_of_its_span(self) -> None:
        collector = self.collector()
        server = self.envoy(collector.url)
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            call = channel.unary_unary(SHOULD_RATE_LIMIT, RateLimitRequest.SerializeToString, RateLimitResponse.FromString)
            with self.assertRaises(grpc.RpcError):
                call(RateLimitRequest(), timeout=SECONDS_MAX)
        [span] = collector.await_spans(1)
        self.assertEqual(span.status.code, ERROR)
        self.assertEqual(values(span.attributes)["rpc.grpc.status_code"], 2)

    def test_b3_in_one_field_or_several_with_long_and_short_ids(self) -> None:
        collector = self.collector()
        server = self.envoy(collector.url, TRACING_SAMPLING_RATE="0")
        short = TRACE[16:]
        for metadata, trace in (
                ((("b3", f"{TRACE}-{SPAN}-1"),), TRACE), ((("b3", f"{short}-{SPAN}-d"),), "0" * 16 + short),
                ((("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN), ("x-b3-sampled", "1")), TRACE),
                ((("x-b3-traceid", short), ("x-b3-spanid", SPAN), ("x-b3-flags", "1")), "0" * 16 + short)):
            with self.subTest(metadata):
                before = len(collector.spans)
                self.ask(server, *metadata)
                span = collector.await_spans(before + 1)[-1]
                self.assertEqual(hex_of(span), (trace, SPAN))

    def test_json_goes_on_with_the_trace_of_its_caller(self) -> None:
        collector = self.collector()
        server = self.envoy(collector.url)
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=SECONDS_MAX)
        self.addCleanup(connection.close)
        body = {"domain": "shop", "descriptors": [{"entries": [{"key": "free", "value": "secret"}]}]}
        connection.request("POST", "/json", json.dumps(body), {"Traceparent": PARENT})
        self.assertEqual(connection.getresponse().status, 200)
        [span] = collector.await_spans(1)
        self.assertEqual((hex_of(span), span.name, span.kind), ((TRACE, SPAN), "POST /json", SERVER))
        its = values(span.attributes)
        self.assertEqual((its["http.status_code"], its["domain"], its["overall_code"]), (200, "shop", "OK"))
        self.assertNotIn("secret", str(its))


class Sampling(OtlpTest):
    def test_the_decision_of_the_caller_counts_and_else_the_share(self) -> None:
        for rate, expected in (("0", [True]), ("1", [False, True, True])):
            with self.subTest(rate):
                collector = self.collector()
                server = self.envoy(collector.url, TRACING_SAMPLING_RATE=rate)
                for number, metadata in enumerate((
                        (("traceparent", f"00-{TRACE}-{SPAN}-00"),), (("b3", "0"),), (("x-b3-sampled", "0"),), (),
                        (("b3", f"{TRACE}-{SPAN}"),), (("traceparent", PARENT),))):
                    self.ask(server, *metadata, value=str(number))
                self.assertEqual(server.stop(), 0)  # which sends what waits
                self.assertEqual(sorted(hex_of(span) == (TRACE, SPAN) for span in collector.spans), expected)

    def test_a_field_that_is_malformed_counts_as_none(self) -> None:
        collector = self.collector()
        server = self.envoy(collector.url)
        wrong = [f"00-{TRACE}-{SPAN}", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
                 f"00-{TRACE.upper()}-{SPAN}-00", f"00-{TRACE}-{SPAN}-01-x", "00", "x" * 4000]
        for text in wrong:
            self.ask(server, ("traceparent", text))
        for span in collector.await_spans(len(wrong)):
            self.assertEqual(span.parent_span_id, b"")


class SpansOfHttp(OtlpTest):
    def test_each_verb_has_a_span_without_values(self) -> None:
        collector = self.collector()
        server = self.native(f'{{ traces: {{ endpoint: "{collector.url}", delay: 100ms }}, service: s }}',
                             "http: { twins: [throttlecrab] }\n")
        self.assertEqual([self.take(server, traceparent=PARENT) for _ in range(3)], [200, 200, 429])
        self.post(server, "/v1/peek", {"entries": {"client": "mallory"}})
        self.post(server, "/v1/take", {"key": "mallory", "limits": [{"quota": 5, "window": "1h"}]})
        self.post(server, "/throttle", {"key": "mallory", "max_burst": 9, "count_per_period": 9, "period": 9})
        self.post(server, "/v1/take", {"entries": {"other": "mallory"}})
        self.post(server, "/v1/take", {"nonsense": 1})
        self.post(server, "/v1/health", None, method="GET")
        self.post(server, "/nothing/mallory", {})
        spans = sorted(collector.await_spans(8), key=lambda span: span.start)
        found = [values(span.attributes) for span in spans]
        self.assertEqual([(span.name, its["http.status_code"], its.get("sluice.decision"), its.get("sluice.rule"))
                          for span, its in zip(spans, found)][:4],
                         [("POST /v1/take", 200, "allowed", "per-client"), ("POST /v1/take", 200, "allowed", "per-client"),
                          ("POST /v1/take", 429, "denied", "per-client"), ("POST /v1/peek", 200, "denied", "per-client")])
        self.assertEqual([(span.name, its["http.status_code"]) for span, its in zip(spans, found)][4:],
                         [("POST /v1/take", 200), ("POST /throttle", 200), ("POST /v1/take", 404), ("POST /v1/take", 400)])
        self.assertEqual([its.get("sluice.rule") for its in found][4:], ["inline", "throttle", None, None])
        self.assertEqual(hex_of(spans[0]), (TRACE, SPAN))
        self.assertEqual({its["http.method"] for its in found}, {"POST"})
        self.assertNotIn("mallory", str(collector.requests))
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(collector.spans), 8)  # neither health nor what is not there

    def test_values_are_sent_if_they_are_asked_for(self) -> None:
        collector = self.collector()
        server = self.native(f'{{ traces: {{ endpoint: "{collector.url}", delay: 100ms, values: true }} }}')
        self.take(server)
        [span] = collector.await_spans(1)
        self.assertEqual(values(span.attributes)["sluice.entries"], "client=mallory")

    def test_a_request_over_http2_is_traced_too(self) -> None:
        collector = self.collector()
        server = self.native(f'{{ traces: {{ endpoint: "{collector.url}", delay: 100ms }} }}')
        done = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--http2-prior-knowledge", "-H",
             "Content-Type: application/json", "-H", f"Traceparent: {PARENT}", "-d", '{"entries": {"client": "a"}}',
             f"http://127.0.0.1:{server.port('http')}/v1/take"], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stdout, "2 200")
        [span] = collector.await_spans(1)
        self.assertEqual((hex_of(span), span.name), ((TRACE, SPAN), "POST /v1/take"))


class Collectors(OtlpTest):
    def test_a_collector_that_does_not_answer_delays_no_decision_and_drops_are_counted(self) -> None:
        collector = self.collector()
        collector.gate.clear()
        queue = 16
        server = self.native(f'{{ traces: {{ endpoint: "{collector.url}", delay: 10ms, queue: {queue} }}, timeout: 60s }}',
                             "workers: 1\n")
        self.take(server)
        wait_until(lambda: len(collector.requests) == 1, "the first message")
        for number in range(100):  # each is answered although the message before it is not
            self.assertEqual(self.take(server, f"c{number}"), 200)
        [state] = self.status(server)["collectors"]
        self.assertEqual((state["signal"], state["sent"], state["failed"]), ("traces", 0, 0))
        self.assertGreaterEqual(state["dropped"], 100 - queue)
        page = self.post(server, "/metrics", None, "admin", "GET")[1].decode()
        self.assertIn(f"sluice_otlp_spans_dropped_total {state['dropped']}\n", page)
        collector.gate.set()
        collector.await_spans(1 + 100 - state["dropped"])
        self.assertEqual(self.take(server, "last"), 200)  # there is room again
        collector.await_spans(2 + 100 - state["dropped"])

    def test_one_that_is_down_is_told_once_and_again_when_it_works(self) -> None:
        gone = Collector()
        port = gone.port
        gone.close()
        server = self.native(f'{{ traces: {{ endpoint: "http://127.0.0.1:{port}", delay: 50ms }} }}')
        self.take(server)
        server.await_line("OTLP: .* does not take traces: .*; what is not taken is dropped and counted")
        for number in range(5):
            self.take(server, f"c{number}")
            wait_until(lambda n=number: self.status(server)["collectors"][0]["failed"] >= 2 + n, "the next span is given up")
        collector = self.collector(port=port)
        self.take(server, "late")
        server.await_line("OTLP: .* takes traces again")
        self.assertEqual(len([line for line in server.said if "does not take" in line]), 1, server.said)
        self.assertEqual(len(collector.await_spans(1)), 1)

    def test_a_message_is_tried_again_if_that_may_help(self) -> None:
        for status, tries in ((503, 3), (400, 1)):
            with self.subTest(status):
                collector = self.collector()
                collector.status = status
                server = self.native(f'{{ traces: {{ endpoint: "{collector.url}", delay: 50ms }} }}')
                self.take(server)
                server.await_line(f"does not take traces: it answered with status {status}")
                self.assertEqual(len(collector.requests), tries)
                self.assertEqual(self.status(server)["collectors"][0]["failed"], 1)

    def test_what_a_collector_rejects_is_counted(self) -> None:
        collector = self.collector()
        collector.rejected = 1
        server = self.native(f'{{ traces: {{ endpoint: "{collector.url}", delay: 50ms }} }}')
        self.take(server)
        server.await_line("rejected a part of traces: too old")
        [state] = self.status(server)["collectors"]
        self.assertEqual((state["sent"], state["failed"]), (0, 1))

    def test_a_connection_is_kept_and_headers_are_sent(self) -> None:
        collector = self.collector()
        server = self.envoy(collector.url + "/", OTEL_EXPORTER_OTLP_HEADERS="x-key=a%2Cb, x-team=shop")
        for number in range(3):
            self.ask(server)
            collector.await_spans(number + 1)
        self.assertEqual(len(collector.connections), 1)
        for path, headers, _ in collector.requests:
            self.assertEqual((path, headers["x-key"], headers["x-team"]), ("/v1/traces", "a,b", "shop"))

    def test_with_tls_and_an_authority_of_its_own(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sluice-otlp-")
        self.addCleanup(folder.cleanup)
        authority, other = (Authority(Path(folder.name), name) for name in ("one", "other"))
        pair = authority.sign("DNS:localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        collector = self.collector(context)
        server = self.envoy(collector.url, OTEL_EXPORTER_OTLP_CERTIFICATE=str(authority.certificate))
        self.ask(server)
        self.assertEqual(len(collector.await_spans(1)), 1)
        wrong = self.envoy(collector.url, OTEL_EXPORTER_OTLP_CERTIFICATE=str(other.certificate))
        self.ask(wrong)
        assert wrong.process is not None
        wrong.process.await_line("does not take traces: .*certificate")
        self.assertEqual(len(collector.spans), 1)

    def test_a_stop_sends_what_waits_and_never_hangs(self) -> None:
        collector = self.collector()
        server = self.native(f'{{ traces: {{ endpoint: "{collector.url}", delay: 600s }} }}')
        for number in range(5):
            self.take(server, f"c{number}")
        self.assertEqual(collector.spans, [])
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(collector.spans), 5)
        silent = self.collector()
        silent.gate.clear()
        server = self.native(f'{{ traces: {{ endpoint: "{silent.url}", delay: 600s }}, timeout: 300s }}')
        self.take(server)
        self.assertEqual(server.stop(), 0)  # within the time of this test, not in 300 s


class Metrics(OtlpTest):
    def test_what_the_page_shows_arrives(self) -> None:
        collector = self.collector()
        server = self.native(f'{{ metrics: {{ endpoint: "{collector.url}", interval: 100ms }}, service: limits }}')
        self.assertEqual([self.take(server) for _ in range(3)], [200, 200, 429])
        page = self.post(server, "/metrics", None, "admin", "GET")[1].decode()
        shown = {line.split()[2]: line.split()[3] for line in page.splitlines() if line.startswith("# TYPE")}
        wait_until(lambda: len(collector.messages("/v1/metrics")) >= 2, "two messages")
        count = len(collector.messages("/v1/metrics"))
        wait_until(lambda: len(collector.messages("/v1/metrics")) > count + 1, "one that began later")
        found = collector.metrics()
        self.assertEqual(set(shown), set(found))
        for name, kind in shown.items():
            metric = found[name]
            field = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[kind]
            self.assertEqual([one.name for one, _ in metric.ListFields() if one.name not in ("name", "description")], [field])
            its = getattr(metric, field)
            self.assertTrue(its.points, name)
            if kind != "gauge":
                self.assertEqual(its.temporality, CUMULATIVE)
                self.assertTrue(all(0 < point.start <= point.time for point in its.points))
            if kind == "counter":
                self.assertTrue(its.is_monotonic)
            if kind == "histogram":
                for point in its.points:
                    self.assertEqual(len(point.bucket_counts), len(point.explicit_bounds) + 1)
                    self.assertEqual(sum(point.bucket_counts), point.count)
        asked = [line for line in page.splitlines() if line.startswith("sluice_decisions_total{") and "per-client" in line]
        self.assertTrue(asked, page)
        wanted = {}
        for line in asked:
            labels, _, value = line.removeprefix("sluice_decisions_total{").rpartition("} ")
            wanted[frozenset(tuple(one.replace('"', "").split("=")) for one in labels.split(","))] = float(value)
        points = {frozenset(values(point.attributes).items()): point.as_double
                  for point in found["sluice_decisions_total"].sum.points}
        for labels, value in wanted.items():
            self.assertEqual(points[labels], value)

    def test_they_are_sent_only_where_an_endpoint_says_so(self) -> None:
        collector = self.collector()
        server = self.envoy(collector.url)
        self.ask(server)
        collector.await_spans(1)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(collector.messages("/v1/metrics"), [])
        server = self.envoy(None, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=collector.url + "/v1/metrics",
                            OTEL_METRIC_EXPORT_INTERVAL="100")
        wait_until(lambda: len(collector.messages("/v1/metrics")) > 0, "a message of metrics")


class Reloads(OtlpTest):
    """A reload changes nothing of what is sent, nor of where it is sent to, and names what it does not apply."""

    RESTART = "was changed since the start, and a reload does not apply it"

    def reload(self, server: Secured, otlp: str, generation: int) -> dict[str, str]:
        """Writes the settings beside a changed rule, and reads them again. Returns the settings that the answer names, with the
        remedy; the log must name the same."""
        config = server.config.read_text(encoding="utf-8").partition("otlp: ")[0]
        rules = re.sub("quota: [0-9]+", f"quota: {generation}", config)
        server.config.write_text(f"{rules}otlp: {otlp}\n", encoding="utf-8")
        # The file's watch may be sooner; then the answer says the same of the policy that is live.
        status, body = self.post(server, "/v1/reload", None, "admin")
        answer = json.loads(body)
        self.assertEqual((status, answer["generation"]), (200, generation), body)
        self.assertNotIn(b"secret", body)
        named = {one["subject"]: one["remedy"] for one in answer["diagnostics"] if one["message"] == self.RESTART}
        for path in named:
            wait_until(lambda its=path: any(f"warning: {its}: {self.RESTART}; restart the server" in line for line in server.said),
                       f"the log names {path}")
        self.assertFalse([line for line in server.said if "secret" in line], server.said)
        return named

    def test_what_is_sent_stays_and_each_setting_that_needs_a_restart_is_named(self) -> None:
        old, new = self.collector(), self.collector()
        server = self.native(f'{{ traces: {{ endpoint: "{old.url}", delay: 100ms }}, headers: ["x-key: secret-1"] }}')
        self.assertEqual(self.take(server), 200)
        old.await_spans(1)
        named = self.reload(server, f'{{ traces: {{ endpoint: "{new.url}", sample: 0, delay: 1ms, values: true, batch: 1, '
                            f'queue: 16 }}, metrics: {{ endpoint: "{new.url}", interval: 100ms }}, service: s, namespace: n, '
                            f'instance: i, headers: ["x-key: secret-2"], timeout: 1s, tls: {{ ca: ca.pem, certificate: c.pem, '
                            f'key: k.pem }} }}', 2)
        self.assertEqual(set(named), {f"otlp.{key}" for key in (
            "traces.endpoint", "traces.sample", "traces.delay", "traces.values", "traces.batch", "traces.queue",
            "metrics.endpoint", "metrics.interval", "service", "namespace", "instance", "headers", "timeout", "tls.ca",
            "tls.certificate", "tls.key")})
        self.assertEqual(set(named.values()), {"restart the server to apply it"})
        self.take(server, "other")
        self.assertNotIn("sluice.entries", values(old.await_spans(2)[1].attributes))
        self.assertEqual({headers["x-key"] for _, headers, _ in old.requests}, {"secret-1"})
        # What is live is what the settings page of the server shows.
        shown = json.loads(self.post(server, "/v1/config", None, "admin", "GET")[1])["settings"]
        self.assertIn(old.url, shown)
        self.assertNotIn(new.url, shown)
        # Off, and as it was.
        self.assertIn("otlp.traces.endpoint", self.reload(server, "{}", 3))
        self.take(server, "third")
        old.await_spans(3)
        self.assertEqual(self.reload(server, f'{{ traces: {{ endpoint: "{old.url}", delay: 100ms }}, '
                                     f'headers: ["x-key: secret-1"] }}', 4), {})
        self.assertEqual(new.requests, [])

    def test_they_are_not_begun_by_a_reload(self) -> None:
        collector = self.collector()
        server = self.native("{}")
        self.assertEqual(set(self.reload(server, f'{{ traces: {{ endpoint: "{collector.url}", delay: 1ms }} }}', 2)),
                         {"otlp.traces.endpoint", "otlp.traces.delay"})
        self.take(server)
        server.stop()
        self.assertEqual(collector.requests, [])


class Off(OtlpTest):
    def test_without_the_variable_nothing_is_sent_and_nothing_shown(self) -> None:
        collector = self.collector()
        server = self.envoy(None, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="10")
        self.ask(server, ("traceparent", PARENT))
        self.assertEqual(server.stop(), 0)
        self.assertEqual(collector.requests, [])
        self.assertTrue([line for line in server.said if "OTEL_EXPORTER_OTLP_ENDPOINT: has no effect" in line], server.said)


if __name__ == "__main__":
    unittest.main()
