"""Tests that hold for all services of examples/ that ask sluice before they answer: a class from which each service's
own file derives, with what differs as attributes."""

from __future__ import annotations

import importlib.metadata
import json
import sys

from sluice_server import ROOT, SECONDS_MAX, Answer, Answering, HttpTest, Program, ask, ask_as_written, wait_until

QUOTA = 5  # of GET /export, in ten minutes
POLICY = f'"export";q={QUOTA};w=600'


class Recipe(HttpTest):
    name: str  # of the folder in examples/
    listening: str  # what it prints when it listens
    same_paths: tuple[str, ...]  # spellings of /export that it serves

    def start(self, on_failure: str = "open", seconds: float = SECONDS_MAX,
              limited: str = "*") -> tuple[Program, Program]:
        """sluice by the example's sluice.yaml, and the example in front of it; `seconds`: how long that waits for
        sluice; `limited`: the addresses to which the limit applies."""
        config = (ROOT / "examples" / self.name / "sluice.yaml").read_text(encoding="utf-8")
        self.assertIn('ip: "*"', config)
        sluice = self.serve(config.replace('ip: "*"', f'ip: "{limited}"'))
        return sluice, self.start_in_front_of(sluice.port, on_failure, seconds)

    def start_in_front_of(self, port: int, on_failure: str, seconds: float = SECONDS_MAX) -> Program:
        service = Program([sys.executable, "app.py"], self.listening, str(ROOT / "examples" / self.name), PORT="0",
                          SLUICE_URL=f"http://127.0.0.1:{port}", ON_FAILURE=on_failure,
                          SLUICE_SECONDS=str(seconds), PYTHONDONTWRITEBYTECODE="1")
        self.addCleanup(service.stop)
        return service

    def export(self, service: Program, address: str | None = None) -> Answer:
        """By a client of that address, or of any of this machine."""
        return ask(service.port, "GET", "/export?x=1", source=address)

    def test_its_packages_are_those_of_this_test(self) -> None:
        required = (ROOT / "examples" / self.name / "requirements.txt").read_text(encoding="utf-8").split()
        for requirement in required:
            name, version = requirement.split("==")
            self.assertEqual(importlib.metadata.version(name), version)

    def test_up_to_the_limit(self) -> None:
        _, service = self.start()
        for left in reversed(range(QUOTA)):
            answer = self.export(service)
            self.assertEqual((answer.status, answer.body), (200, b"all there is\n"))
            self.assertEqual(answer.value("RateLimit-Policy"), POLICY)
            self.assertRegex(answer.value("RateLimit") or "", rf'^"export";r={left};t=\d+$')
            self.assertIsNone(answer.value("Retry-After"))
        for _ in range(2):
            answer = self.export(service)
            self.assertEqual((answer.status, answer.value("Content-Type")), (429, "application/problem+json"))
            self.assertEqual(answer.value("RateLimit-Policy"), POLICY)
            self.assertRegex(answer.value("RateLimit") or "", r'^"export";r=0;t=\d+$')
            self.assertTrue(480 < int(answer.value("Retry-After") or "0") <= 600, answer)
            problem = json.loads(answer.body)
            self.assertEqual((problem["status"], problem["allowed"], problem["violated-policies"]), (429, False, ["export"]))
        # A request that no rule limits.
        answer = ask(service.port, "GET", "/")
        self.assertEqual((answer.status, answer.body, answer.value("RateLimit")), (200, b"hello\n", None))

    def test_an_actor_to_which_no_limit_applies(self) -> None:
        """Clients of another address ask for what is limited: they pass, and no limit is reported to them, also when
        the limited client has used up its own."""
        _, service = self.start("closed", limited="127.0.0.2")
        for number in range(QUOTA + 2):
            answer = self.export(service, "127.0.0.1")
            self.assertEqual((answer.status, answer.body), (200, b"all there is\n"))
            for name in ("RateLimit", "RateLimit-Policy", "Retry-After"):
                self.assertIsNone(answer.value(name))
            answer = self.export(service, "127.0.0.2")
            self.assertEqual(answer.status, 200 if number < QUOTA else 429)
            self.assertEqual(answer.value("RateLimit-Policy"), POLICY)

    def test_without_sluice_requests_pass(self) -> None:
        sluice, service = self.start()
        self.assertEqual(sluice.stop(), 0)
        for _ in range(QUOTA + 2):
            answer = self.export(service)
            self.assertEqual((answer.status, answer.body, answer.value("RateLimit")), (200, b"all there is\n", None))

    def test_without_sluice_requests_are_refused_if_configured(self) -> None:
        sluice, service = self.start("closed")
        self.assertEqual(self.export(service).status, 200)
        self.assertEqual(sluice.stop(), 0)
        answer = self.export(service)
        self.assertEqual((answer.status, answer.value("Retry-After")), (503, "1"))
        self.serve((ROOT / "examples" / self.name / "sluice.yaml").read_text(encoding="utf-8"), sluice.port)
        wait_until(lambda: self.export(service).status == 200, "it asks sluice again")

    def test_a_silent_sluice_is_not_waited_for(self) -> None:
        for on_failure, status in (("open", 200), ("closed", 503)):
            sluice, service = self.start(on_failure, 0.25)
            sluice.hold()
            self.assertEqual(self.export(service).status, status)

    def test_malformed_and_long_paths_are_decided(self) -> None:
        """A client must not be able to avoid a decision."""
        _, service = self.start("closed")
        for path in ("/%ff%00%ed%a0%80", "/" + 5000 * "x", "/%22%5c", "//export", "/?" + 5000 * "y"):
            self.assertIn(ask(service.port, "GET", path).status, (200, 308, 404), path)

    def test_all_spellings_of_a_path_that_the_router_takes_for_one_share_its_limit(self) -> None:
        _, service = self.start("closed")
        for _ in range(QUOTA):
            self.assertEqual(self.export(service).status, 200)
        limited = []
        spellings = (ROOT / "tests/clients/http/spellings.txt").read_text(encoding="latin-1").splitlines()
        for target, host in [*((spelling, "h") for spelling in spellings), ("/export", "h/x?"), ("/export", "h?")]:
            status, answer = ask_as_written(service.port, target, host)
            self.assertNotIn(b"all there is", answer, f"{target} of {host} passes the limit")
            if status == 429:
                limited.append(target)
        self.assertLessEqual({*self.same_paths, "/export"}, set(limited))

    def test_an_answer_that_is_not_a_decision_lets_nothing_pass(self) -> None:
        """Whatever happens without an answer."""
        for status, shown in ((302, 500), (400, 500), (401, 500), (404, 500), (421, 500), (503, 503)):
            service = self.start_in_front_of(Answering(self, status).port, "open")
            answer = self.export(service)
            self.assertEqual((answer.status, answer.body), (shown, b"the limits cannot be checked\n"), status)
            wait_until(lambda: any(f"sluice does not decide: {status} " in line and "the reason for it" in line
                                   for line in service.said), "it is logged")
            service.stop()

    def test_it_says_that_sluice_cannot_be_reached(self) -> None:
        sluice, service = self.start()
        self.assertEqual(sluice.stop(), 0)
        self.assertEqual(self.export(service).status, 200)
        wait_until(lambda: any("sluice cannot be reached" in line for line in service.said), "it is logged")

    def test_a_typing_mistake_in_a_rule_is_an_error(self) -> None:
        """If `unmatched` is error; with `allow` the policy says that such requests pass."""
        other, service = self.start()
        config = (ROOT / "examples" / self.name / "sluice.yaml").read_text(encoding="utf-8")
        self.assertEqual(other.stop(), 0)
        config = config.replace("unmatched: allow", "unmatched: error").replace('path: "/export"', 'path: "/none"')
        self.serve(config, other.port)
        wait_until(lambda: self.export(service).status == 500 and any("no-rule" in line for line in service.said), "it is logged")
