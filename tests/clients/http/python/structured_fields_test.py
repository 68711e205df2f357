"""RateLimit, RateLimit-Policy and what the other styles of `http.headers` send, by the real server, as a parser of RFC 9651
by other authors reads them. The runner says which one that is."""

from __future__ import annotations

import itertools
import json
import math
import random
import time
import unittest

from http_sfv import InnerList, Item, List

from sluice_server import Answer, HttpTest, Program, ask

INTEGER_MAX = 999_999_999_999_999
WINDOWS = {"1us": 1, "250ms": 1, "1s": 1, "1500ms": 2, "1m": 60, "36500d": 36_500 * 86_400}
ALGORITHMS = ("sliding_log", "token_bucket", "fixed_window", "aligned_window", "sliding_window", "fixed_bucket")
QUOTAS = (1, 7, 100, INTEGER_MAX, INTEGER_MAX + 1, (1 << 53) - 1)
NAMES = ("a", "A.b_c-9:d/e", "0", "-", "..", "x" * 64, "default", "_", "q", "r:t")

RULES = """
listen: [{ protocol: http, address: "127.0.0.1:8390" }]
rules:
  - name: of.a_rule-1
    match: { k: two }
    actor: user
    limits:
      - { quota: 3, window: 1d, algorithm: fixed_window }
      - { quota: 5, window: 90m, burst: 9 }
    then: continue
  - match: { k: two }
    limit: { quota: 1000, window: 1h, algorithm: fixed_window }
    then: continue
  - name: in-shadow
    match: { k: two }
    limit: { quota: 1, window: 1h }
    mode: shadow
  - name: 0
    match: { k: two }
    limit: { quota: 9007199254740991, algorithm: fixed_bucket }
  - name: never
    match: { k: never }
    deny: true
  - name: always
    match: { k: always }
    unlimited: true
http: { headers: [%s], ratelimit: %s }
"""


def members(text: str | None) -> list[tuple[object, dict[str, object]]]:
    """The members of a List, each with its parameters. The text must be the canonical one."""
    parsed = List()
    parsed.parse((text or "").encode("ascii"))
    assert str(parsed) == text, f"{text} in place of {parsed}"
    for item in parsed:
        assert isinstance(item, Item) and not isinstance(item, InnerList), text
    return [(item.value, dict(item.params)) for item in parsed]


def number(text: str | None) -> int:
    """The value of an Integer without parameters."""
    parsed = Item()
    parsed.parse((text or "").encode("ascii"))
    assert type(parsed.value) is int and not parsed.params and str(parsed) == text, text
    return parsed.value


class StructuredFields(HttpTest):
    def serve_styles(self, styles: str = "ietf, retry-after", ratelimit: str = "shown") -> Program:
        return self.serve(RULES % (styles, ratelimit))

    def take(self, server: Program, n: int = 1, k: str = "two") -> Answer:
        return ask(server.port, "POST", "/v1/take", {"entries": {"k": k, "user": "u"}, "n": n})


class Ietf(StructuredFields):
    def test_several_limits_of_several_rules(self) -> None:
        server = self.serve_styles()
        answer = self.take(server)
        self.assertEqual(answer.status, 200)
        self.assertEqual(members(answer.value("RateLimit-Policy")), [
            ("of.a_rule-1", {"q": 3, "w": 86_400}), ("of.a_rule-1-2", {"q": 5, "w": 5400, "sluice-burst": 9}),
            ("default", {"q": 1000, "w": 3600}), ("0", {"q": INTEGER_MAX})])
        [(name, told)] = members(answer.value("RateLimit"))
        self.assertEqual((name, told["r"], sorted(told)), ("of.a_rule-1", 2, ["r", "t"]))
        self.assertTrue(86_400 - 60 < told["t"] <= 86_400, told)
        self.assertIsNone(answer.value("Retry-After"))

        self.assertEqual(self.take(server, 2).status, 200)
        denied = self.take(server)
        self.assertEqual(denied.status, 429)
        self.assertEqual(denied.value("RateLimit-Policy"), answer.value("RateLimit-Policy"))
        [(name, told)] = members(denied.value("RateLimit"))
        self.assertEqual((name, told["r"]), ("of.a_rule-1", 0))
        self.assertTrue(86_400 - 60 < told["t"] <= number(denied.value("Retry-After")) <= 86_400, denied)

    def test_all_limits(self) -> None:
        server = self.serve_styles(ratelimit="all")
        answer = self.take(server)
        policy, told = members(answer.value("RateLimit-Policy")), members(answer.value("RateLimit"))
        self.assertEqual([name for name, _ in told], [name for name, _ in policy])
        self.assertEqual([one["r"] for _, one in told], [2, 8, 999, INTEGER_MAX])
        self.assertEqual([sorted(one) for _, one in told], [["r", "t"]] * 3 + [["r"]])

    def test_rules_without_a_counter_have_no_member(self) -> None:
        server = self.serve_styles(ratelimit="all")
        for k, status in (("never", 429), ("always", 200)):
            answer = self.take(server, k=k)
            self.assertEqual(answer.status, status)
            for name in ("RateLimit", "RateLimit-Policy", "Retry-After"):
                self.assertIsNone(answer.value(name), answer)

    def test_limits_that_come_along(self) -> None:
        """Every kind of limit, several of them together, in random order."""
        server = self.serve_styles(ratelimit="all")
        seed = time.time_ns()
        chance = random.Random(seed)
        logs, others = (list(itertools.product(algorithms, QUOTAS, WINDOWS)) for algorithms in (ALGORITHMS[:1], ALGORITHMS[1:]))
        chance.shuffle(logs)
        chance.shuffle(others)
        # A counter has room for two logs.
        for i, log in enumerate(logs):
            kinds = [log, *others[i::len(logs)]]
            chance.shuffle(kinds)
            with self.subTest(seed=seed, i=i):
                self.check_inline(server, f"key{i}", kinds, chance)

    def check_inline(self, server: Program, key: str, kinds: list[tuple[str, int, str]], chance: random.Random) -> None:
        names = chance.sample(NAMES, len(kinds))
        limits, expected = [], []
        for name, (algorithm, quota, window) in zip(names, kinds):
            limit: dict[str, object] = {"name": name, "quota": quota, "algorithm": algorithm}
            policy = {"q": min(quota, INTEGER_MAX)}
            if algorithm != "fixed_bucket":
                limit["window"] = window
                policy["w"] = WINDOWS[window]
            if algorithm == "token_bucket" and chance.random() < 0.5:
                limit["burst"] = quota + 1 if quota < (1 << 53) - 1 else 5
                policy["sluice-burst"] = min(limit["burst"], INTEGER_MAX)
            limits.append(limit)
            expected.append((name, policy))
        answer = ask(server.port, "POST", "/v1/take", {"key": key, "limits": limits})
        self.assertEqual(answer.status, 200, (answer, limits))
        self.assertEqual(members(answer.value("RateLimit-Policy")), expected)
        told = members(answer.value("RateLimit"))
        self.assertEqual([name for name, _ in told], names)
        for (_, one), limit in zip(told, limits):
            most = min(int(limit.get("burst", limit["quota"])), INTEGER_MAX)
            self.assertTrue(0 <= one["r"] <= most, (one, limit))
            if limit["algorithm"] == "fixed_bucket":
                self.assertNotIn("t", one)
            elif "t" in one:  # a window of a microsecond may be over already
                self.assertTrue(0 <= one["t"] <= 2 * math.ceil(WINDOWS[limit["window"]]) + 1, (one, limit))

    def test_names_that_were_not_given(self) -> None:
        server = self.serve_styles()
        limits = [{"quota": 5, "window": "1m"}, {"quota": 6, "window": "1h"}]
        one = ask(server.port, "POST", "/v1/take", {"key": "k", "limits": limits[:1]})
        self.assertEqual(members(one.value("RateLimit-Policy")), [("default", {"q": 5, "w": 60})])
        two = ask(server.port, "POST", "/v1/take", {"key": "l", "limits": limits})
        self.assertEqual([name for name, _ in members(two.value("RateLimit-Policy"))], ["1", "2"])

    def test_at_forward_auth(self) -> None:
        profile = "auth: { profiles: { web: { proxy: nginx, deny: 403, entries: { k: two, user: u } } } }"
        config = RULES.replace("ratelimit: %s }", f"ratelimit: %s, {profile} }}")
        server = self.serve(config % ("ietf, retry-after", "shown"))
        fields = {"X_Original_Method": "GET", "X_Original_URI": "/", "X_Real_IP": "192.0.2.1"}
        answers = [ask(server.port, "GET", "/auth/web", **fields) for _ in range(4)]
        self.assertEqual([answer.status for answer in answers], [200, 200, 200, 403])
        for left, answer in zip((2, 1, 0, 0), answers):
            self.assertEqual(len(members(answer.value("RateLimit-Policy"))), 4)
            [(name, told)] = members(answer.value("RateLimit"))
            self.assertEqual((name, told["r"]), ("of.a_rule-1", left))
        self.assertTrue(86_400 - 60 < number(answers[-1].value("Retry-After")) <= 86_400, answers[-1])


class OtherStyles(StructuredFields):
    def denied(self, server: Program) -> Answer:
        self.assertEqual(self.take(server, 3).status, 200)
        denied = self.take(server)
        self.assertEqual(denied.status, 429)
        return denied

    def test_x_ratelimit(self) -> None:
        server = self.serve_styles("x-ratelimit")
        for answer, left in ((self.take(server), 2), (self.take(server, 2), 0), (self.take(server), 0)):
            self.assertEqual(number(answer.value("X-RateLimit-Limit")), 3)
            self.assertEqual(number(answer.value("X-RateLimit-Remaining")), left)
            self.assertTrue(86_400 - 60 < number(answer.value("X-RateLimit-Reset")) <= 86_400, answer)
            self.assertIsNone(answer.value("RateLimit"))
            self.assertIsNone(answer.value("Retry-After"))

    def test_all_styles_together(self) -> None:
        answer = self.denied(self.serve_styles("ietf, retry-after, x-ratelimit", "all"))
        self.assertEqual(len(members(answer.value("RateLimit"))), 4)
        self.assertEqual(number(answer.value("X-RateLimit-Limit")), 3)

    def test_retry_after_alone(self) -> None:
        answer = self.denied(self.serve_styles("retry-after"))
        self.assertEqual([name for name, _ in answer.fields if "limit" in name], [])
        self.assertTrue(86_400 - 60 < number(answer.value("Retry-After")) <= 86_400)
        self.assertEqual(json.loads(answer.body)["remaining"], 0)


if __name__ == "__main__":
    unittest.main()
