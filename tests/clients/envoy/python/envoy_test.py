"""A real Envoy with its HTTP rate limit filter, asking the real `sluice envoy`: what its clients see, also while the limits
change, and while sluice is away."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from envoy_proxy import FILTER_SECONDS, Answer, Envoy, Upstream, answer_events
from sluice_server import ROOT, SECONDS_MAX, LimitedTest, Server, wait_until

LIMITS = """
domain: shop
descriptors:
  - key: user
    rate_limit: {{ name: of_user, unit: year, requests_per_unit: {of_user} }}
  - key: tenant
    rate_limit: {{ unit: year, requests_per_unit: 100 }}
  - key: shadowed
    shadow_mode: true
    rate_limit: {{ unit: year, requests_per_unit: 1 }}
"""
OPTIONS = {"enable_x_ratelimit_headers": "DRAFT_VERSION_03"}
YEAR = 365 * 86_400


class EnvoyTest(LimitedTest):
    def setUp(self) -> None:
        super().setUp()
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)

    def serve_limits(self, of_user: int = 3, **environment: str) -> Server:
        return self.serve(LIMITS.format(of_user=of_user), **environment)

    def front(self, server: Server, **options: object) -> Envoy:
        envoy = Envoy(server.grpc_port, self.upstream.port, **{**OPTIONS, **options})
        self.addCleanup(envoy.close)
        return envoy


class Answers(EnvoyTest):
    def test_too_many_requests(self) -> None:
        envoy = self.front(self.serve_limits())
        answers = [envoy.get(user="a") for _ in range(5)]
        self.assertEqual([answer.status for answer in answers], [200, 200, 200, 429, 429])
        self.assertEqual([answer.headers.get("x-envoy-ratelimited") for answer in answers], [None] * 3 + ["true"] * 2)
        self.assertEqual([answer.headers["x-ratelimit-remaining"] for answer in answers], ["2", "1", "0", "0", "0"])
        for answer in answers:
            self.assertEqual(answer.headers["x-ratelimit-limit"], f'3, 3;w={YEAR};name="of_user"')
            self.assertIn(int(answer.headers["x-ratelimit-reset"]), range(1, YEAR + 1))
        self.assertEqual(self.upstream.requests, 3)
        self.assertEqual(envoy.get(user="b").status, 200)

    def test_the_strictest_of_several_limits(self) -> None:
        envoy = self.front(self.serve_limits())
        told = [envoy.get(tenant="t", user="a") for _ in range(4)]
        self.assertEqual([answer.status for answer in told], [200, 200, 200, 429])
        self.assertEqual(told[0].headers["x-ratelimit-limit"], f'3, 3;w={YEAR};name="of_user", 100;w={YEAR}')
        # Each limit is charged alone.
        self.assertEqual(envoy.get(tenant="t").headers["x-ratelimit-remaining"], "95")

    def test_requests_without_a_limit_are_allowed(self) -> None:
        envoy = self.front(self.serve_limits())
        self.assertEqual(envoy.get().status, 200)
        self.assertNotIn("x-ratelimit-limit", envoy.get().headers)

    def test_a_shadow_lets_pass(self) -> None:
        envoy = self.front(self.serve_limits())
        answers = [envoy.get(shadowed="s") for _ in range(4)]
        self.assertEqual([answer.status for answer in answers], [200] * 4)
        self.assertEqual([answer.headers["x-ratelimit-remaining"] for answer in answers], ["0"] * 4)
        self.assertEqual(self.upstream.requests, 4)

    def test_headers_of_the_service(self) -> None:
        environment = {"LIMIT_RESPONSE_HEADERS_ENABLED": "true", "LIMIT_REMAINING_HEADER": "X-Left"}
        envoy = self.front(self.serve_limits(**environment))

        def own(answer: Answer) -> list[str]:
            self.assertIn(int(answer.headers["ratelimit-reset"]), range(1, YEAR + 1))
            return [answer.headers["ratelimit-limit"], answer.headers["x-left"]]

        self.assertEqual([own(envoy.get(user="a")) for _ in range(4)], [["3", "2"], ["3", "1"], ["3", "0"], ["3", "0"]])

    def test_dynamic_metadata(self) -> None:
        envoy = self.front(self.serve_limits(RESPONSE_DYNAMIC_METADATA="true"))
        self.assertEqual(envoy.get(user="a").headers.get("x-domain"), "shop")
        plain = self.front(self.serve_limits())
        self.assertNotIn("x-domain", plain.get(user="a").headers)


MANUALS_LIMITS = """
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 5 }
  - key: path
    value: /
    descriptors:
      - key: remote_address
        rate_limit: { unit: year, requests_per_unit: 3 }
"""


class ManualTest(EnvoyTest):
    """What docs/envoy.md says."""

    def setUp(self) -> None:
        super().setUp()
        self.page = (ROOT / "docs/envoy.md").read_text(encoding="utf-8")

    def file(self, name: str) -> list[str]:
        """The lines of a file of the page."""
        lines = iter(self.page.splitlines())
        self.assertTrue(any(line.endswith(f"`{name}`:") for line in lines), name)
        next(lines)
        text = []
        for line in lines:
            if not line:
                break
            text.append(line.removeprefix("    "))
        return text

    def start(self, configuration: list[str], server: Server, upstream: Upstream) -> Envoy:
        text = "\n".join([*configuration, "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }", ""])
        for of_the_page, here in (
                ("port_value: 10000", "port_value: 0"), ("port_value: 8081", f"port_value: {server.grpc_port}"),
                ("port_value: 9000", f"port_value: {upstream.port}"), ("timeout: 0.1s", f"timeout: {FILTER_SECONDS}s")):
            self.assertEqual(text.count(of_the_page), 1, of_the_page)
            text = text.replace(of_the_page, here)
        envoy = Envoy(server.grpc_port, upstream.port, text)
        self.addCleanup(envoy.close)
        return envoy


class Manual(ManualTest):
    def test_its_configuration_works(self) -> None:
        server = self.serve(MANUALS_LIMITS)
        envoy = self.start(self.file("envoy.yaml"), server, self.upstream)
        answers = [envoy.get() for _ in range(4)]
        self.assertEqual([answer.status for answer in answers], [200, 200, 200, 429])
        # Each of the request's two descriptors has a limit.
        self.assertEqual(answers[0].headers["x-ratelimit-limit"], f"3, 5;w={YEAR}, 3;w={YEAR}")
        self.assertEqual([answer.headers["x-ratelimit-remaining"] for answer in answers], ["2", "1", "0", "0"])
        self.assertEqual(self.upstream.requests, 3)


def index_of(lines: list[str], wanted: str) -> int:
    [at] = [at for at, line in enumerate(lines) if line.strip().startswith(wanted)]
    return at


class Streams(ManualTest):
    """Envoy looks with 0 hits before a stream, and reports the stream's cost when it is done, as the page configures it."""

    def setUp(self) -> None:
        super().setUp()
        self.streams = Upstream(answer_events)
        self.addCleanup(self.streams.close)
        # Each 100,000 a day; days that end during the test would disturb it.
        self.by_unit, self.of_file, self.native = re.findall(r"^\| `((?:rate_)?limit: {.*?})`", self.page, re.MULTILINE)
        self.assertIn("unit: day", self.by_unit)
        self.by_unit = self.by_unit.replace("unit: day", "unit: year")

    def serve_limit(self, limit: str) -> Server:
        if limit.startswith("rate_limit:"):
            return self.serve(f"domain: llm\ndescriptors:\n  - key: user\n    {limit}\n")
        for part in ('match: { domain: llm, user: "*" }', "actor: user"):
            self.assertIn(f"`{part}`", self.page)
        return self.serve(rules=f'  - match: {{ domain: llm, user: "*" }}\n    actor: user\n    {limit}\n')

    def front_of_streams(self, server: Server) -> Envoy:
        lines, filters = self.file("envoy.yaml"), self.file("streams.yaml")
        begin = index_of(lines, "- name: envoy.filters.http.ratelimit")
        end = index_of(lines, "- name: envoy.filters.http.router")
        route, clusters = index_of(lines, "rate_limits:"), index_of(lines, "clusters:")
        indent = lines[begin][:-len(lines[begin].lstrip())]
        indent_of_route = lines[route][:-len(lines[route].lstrip())]
        return self.start(
            [*lines[:begin], *(indent + line for line in filters), *lines[end:route], f"{indent_of_route}timeout: 0s",
             *lines[clusters:]], server, self.streams)

    def send_four(self, envoy: Envoy, user: str, tokens: int) -> list[int]:
        """The statuses of four streams, each begun when the report about the one before it was answered."""
        statuses = []
        for _ in range(4):
            before = envoy.calls()
            statuses.append(envoy.get(user=user, tokens=str(tokens)).status)
            # Before it the look; after one that was admitted the report.
            calls = 2 if statuses[-1] == 200 else 1
            wait_until(lambda: envoy.calls() - before == calls, f"{calls} answers to Envoy about one stream")
        return statuses

    def expect_the_first_over_the_limit_to_be_the_last(self, limit: str) -> None:
        envoy = self.front_of_streams(self.serve_limit(limit))
        self.assertEqual(self.send_four(envoy, "small", 40_000), [200, 200, 200, 429])
        self.assertEqual(self.send_four(envoy, "large", 150_000), [200, 429, 429, 429])
        self.assertEqual(self.send_four(envoy, "half", 60_000), [200, 200, 429, 429])

    def test_a_limit_by_unit_counts_reports_that_do_not_fit(self) -> None:
        self.expect_the_first_over_the_limit_to_be_the_last(self.by_unit)

    def test_a_limit_of_a_file_with_over_count_counts_reports_that_do_not_fit(self) -> None:
        self.expect_the_first_over_the_limit_to_be_the_last(self.of_file)

    def test_a_native_rule_with_over_count_counts_reports_that_do_not_fit(self) -> None:
        self.expect_the_first_over_the_limit_to_be_the_last(self.native)

    def test_without_over_count_all_streams_pass_and_the_log_warns(self) -> None:
        for limit in (self.of_file, self.native):
            with self.subTest(limit):
                self.assertIn(", over: count", limit)
                server = self.serve_limit(limit.replace(", over: count", ""))
                envoy = self.front_of_streams(server)
                self.assertEqual(self.send_four(envoy, "a", 150_000), [200] * 4)
                wait_until(lambda: any("is asked with 0 hits, and refuses reports" in line for line in server.said),
                           "a warning")

    def test_all_streams_that_were_admitted_before_the_first_report_pass(self) -> None:
        """As docs/recipes.md says: ten of 30,000 each on 100,000."""
        together = threading.Barrier(10)

        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            together.wait(SECONDS_MAX)
            answer_events(handler)

        self.streams = Upstream(answer)
        self.addCleanup(self.streams.close)
        server = self.serve_limit(self.native)
        envoy = self.front_of_streams(server)
        with ThreadPoolExecutor(10) as clients:
            statuses = list(clients.map(lambda _: envoy.get(user="a", tokens="30000").status, range(10)))
        self.assertEqual(statuses, [200] * 10)
        wait_until(lambda: envoy.calls() == 20, "all reports")
        self.assertEqual(envoy.get(user="a", tokens="1").status, 429)
        _, told = server.ask_json({"domain": "llm", "descriptors": [
            {"entries": [{"key": "user", "value": "a"}], "hitsAddend": "0"}]})
        self.assertEqual((told["overallCode"], told["statuses"][0].get("limitRemaining", 0)), ("OVER_LIMIT", 0))

    def test_a_stream_that_its_client_ends_costs_what_the_page_sets(self) -> None:
        server = self.serve_limit(self.by_unit)
        envoy = self.front_of_streams(server)
        with contextlib.closing(envoy.connect()) as connection:
            connection.request("GET", "/", headers={"user": "a"})
            with connection.getresponse() as stream:
                self.assertEqual(stream.status, 200)
                self.assertIn(b"well", stream.readline())
        wait_until(lambda: envoy.calls() == 2, "the report")
        self.assertIn("value: { tokens: 1000 }", self.page)
        _, told = server.ask_json({"domain": "llm", "descriptors": [
            {"entries": [{"key": "user", "value": "a"}], "hitsAddend": "0"}]})
        self.assertEqual(told["statuses"][0]["limitRemaining"], 99_000)


class Changes(EnvoyTest):
    def test_a_reload_under_traffic(self) -> None:
        server = self.serve_limits(of_user=10)
        envoy = self.front(server)
        with envoy.traffic(user="a") as traffic:
            traffic.await_more(20, 429)
            wait_until(lambda: traffic.count(200) == 10, "ten requests have passed")
            new = server.folder / "new"
            new.write_text(LIMITS.format(of_user=1_000_000_000), encoding="utf-8")
            new.replace(server.limits)
            traffic.await_more(20, 200, decided=True)
            # What was counted counts against the new limit.
            limit = envoy.get(user="a").headers
            self.assertTrue(limit["x-ratelimit-limit"].startswith("1000000000, "), limit)
            self.assertLess(int(limit["x-ratelimit-remaining"]), 1_000_000_000 - 30)
        self.assertEqual(traffic.problems, [])
        self.assertEqual(traffic.statuses(), {200, 429})
        self.assertEqual(traffic.count(200, decided=False), 0)

    def test_a_restart_under_traffic(self) -> None:
        """Each request is answered; while sluice is away requests pass."""
        server = self.serve_limits(of_user=50)
        envoy = self.front(server)
        with envoy.traffic(user="a") as traffic:
            traffic.await_more(20, 429)
            wait_until(lambda: traffic.count(200) == 50, "fifty requests have passed")
            self.assertEqual(server.stop(), 0)
            traffic.await_more(20, 200, decided=False)
            server.start()
            traffic.await_more(20, 429)
        self.assertEqual(traffic.problems, [])
        self.assertEqual(traffic.statuses(), {200, 429})
        # Each of the two processes allowed fifty; the others passed without a decision.
        self.assertEqual(traffic.count(200, decided=True), 100)

    def test_restarts_where_nothing_may_pass_undecided(self) -> None:
        server = self.serve_limits(of_user=1_000_000)
        envoy = self.front(server, failure_mode_deny=True)
        with envoy.traffic(user="a") as traffic:
            for _ in range(3):
                traffic.await_more(20, 200)
                self.assertEqual(server.stop(), 0)
                traffic.await_more(5, 500)
                server.start()
            traffic.await_more(20, 200)
        self.assertEqual(traffic.problems, [])
        self.assertEqual(traffic.statuses(), {200, 500})
        self.assertEqual(traffic.count(200, decided=False), 0)
        self.assertEqual(self.upstream.requests, traffic.count(200))


class Failures(EnvoyTest):
    def test_without_sluice_requests_pass(self) -> None:
        server = self.serve_limits(of_user=0)
        envoy = self.front(server)
        self.assertEqual(envoy.get(user="a").status, 429)
        self.assertEqual(server.stop(), 0)
        self.assertEqual([envoy.get(user="a").status for _ in range(3)], [200] * 3)

    def test_without_sluice_requests_are_denied_if_configured(self) -> None:
        server = self.serve_limits()
        envoy = self.front(server, failure_mode_deny=True)
        self.assertEqual(envoy.get(user="a").status, 200)
        self.assertEqual(server.stop(), 0)
        self.assertEqual([envoy.get(user="a").status for _ in range(3)], [500] * 3)
        server.start()
        # Envoy connects again by itself.
        wait_until(lambda: envoy.get(user="a").status == 200, "Envoy asks sluice again")

    def test_requests_that_sluice_does_not_answer_pass_after_the_timeout(self) -> None:
        server = self.serve_limits(of_user=0)
        envoy = self.front(server, timeout="0.3s")
        wait_until(lambda: envoy.get(user="a").status == 429, "an answer within the timeout")
        with server.held():
            self.assertEqual(envoy.get(user="a").status, 200)
        wait_until(lambda: envoy.get(user="a").status == 429, "an answer within the timeout")


if __name__ == "__main__":
    unittest.main()
