"""Tests that hold for every proxy in front of an application that asks sluice by /auth: a class from which each proxy's
own file derives, with what differs as attributes."""

from __future__ import annotations

import hashlib
import json

from parts import Answer, Client, PartsTest, wait_until

QUOTA = 5  # of the rule `login` in each example, for each client in ten minutes
WINDOW = 600
POLICY = f'"login";q={QUOTA};w={WINDOW}'

# Each request has a counter whose name shows all entries that sluice made of it.
ALL_ENTRIES = """
  - name: seen
    match: {}
    actor: [method, path, query, host, scheme, ip]
    limit: { quota: 1000, window: 1h }
"""
THREE = """
  - name: three
    match: { ip: "*" }
    actor: ip
    limit: { quota: 3, window: 10m, algorithm: sliding_log }
"""

# Headers that a client may forge, of the kinds that all proxies use.
FORGED = (
    ("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Method", "PURGE"), ("X-Forwarded-Uri", "/forged?q=forged"),
    ("X-Forwarded-Host", "forged.example"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Port", "443"),
    ("X-Original-Method", "PURGE"), ("X-Original-URI", "/forged?q=forged"),
    ("X-Original-URL", "https://forged.example/forged?q=forged"), ("X-Original-Host", "forged.example"),
    ("X-Original-Proto", "https"), ("X-Real-IP", "203.0.113.7"), ("X-Sent-From", "nginx-ingress-controller"),
    ("X-Client-IP", "203.0.113.7"), ("True-Client-IP", "203.0.113.7"), ("CF-Connecting-IP", "203.0.113.7"),
    ("Forwarded", "for=203.0.113.7;host=forged.example;proto=https"), ("Via", "1.1 forged"),
    ("X-HTTP-Method-Override", "PURGE"), ("X-Rewrite-URL", "/forged"), ("X-Sluice-Secret", "forged"),
    ("X-Sluice-Remaining", "1000"), ("X-Sluice-Rule", "forged"),
)


def seen(method: str, path: str, query: str = "", host: str = "shop.example", ip: str = "127.0.0.1") -> str:
    """The counter of a request by ALL_ENTRIES."""
    actor = "method,path,query,host,scheme,ip"
    return f"native:seen:{method}|{path}|{query}|{host}|http|{ip}:{actor}"


class EveryProxy(PartsTest):
    shows_allowed: bool  # do clients see the fields of allowed answers?
    passes_body: bool  # do clients see the body of sluice's refusal?
    gone_status: int  # what clients get while sluice is gone
    silent_status: int  # what they get when it does not answer in time
    open_edits: tuple[tuple[str, str], ...] | None  # edits of the example that let requests pass then
    questions_of_silence: tuple[int, ...] = (1,)  # how often sluice is asked about a request when it does not answer
    waits_for_body = False  # does the proxy read the body before it passes on a refusal?
    unknown_profile_status: int
    connections_max = 1  # to sluice, for one client that sends one request after the other

    def assert_allowed(self, answer: Answer, remaining: int | None = None) -> None:
        self.assertEqual((answer.status, answer.value("x-application")), (200, "yes"), answer)
        self.assertEqual(answer.values("retry-after"), [])
        if remaining is not None and self.shows_allowed:
            self.assertEqual(answer.value("ratelimit-policy"), POLICY)
            self.assertRegex(answer.value("ratelimit") or "", rf'^"login";r={remaining};t=\d+$')
        if not self.shows_allowed:
            self.assertEqual(answer.values("ratelimit"), [])

    def assert_denied(self, answer: Answer, rule: str = "login", quota: int = QUOTA) -> None:
        self.assertEqual((answer.status, answer.values("x-application")), (429, []), answer)
        retry_after = int(answer.value("retry-after") or "0")
        self.assertTrue(WINDOW - 2 * 60 < retry_after <= WINDOW, answer)
        self.assertEqual(answer.value("ratelimit-policy"), f'"{rule}";q={quota};w={WINDOW}')
        self.assertRegex(answer.value("ratelimit") or "", rf'^"{rule}";r=0;t=\d+$')
        self.assertEqual(answer.value("cache-control"), "no-store")

    def assert_problem(self, answer: Answer) -> None:
        self.assertEqual(answer.value("content-type"), "application/problem+json")
        problem = json.loads(answer.body)
        self.assertEqual((problem["status"], problem["title"]), (429, "Quota exceeded"))
        self.assertEqual(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded")
        if self.passes_body:
            self.assertEqual((problem["allowed"], problem["limit"], problem["remaining"]), (False, QUOTA, 0))

    def use_up(self, client: Client) -> None:
        """Uses up what this client has of POST /login."""
        for left in reversed(range(QUOTA)):
            self.assert_allowed(client.ask("POST", "/login", body=b"guess"), remaining=left)

    def test_allowed_and_denied(self) -> None:
        world = self.start()
        client = self.client(world)
        self.use_up(client)
        for _ in range(3):
            answer = client.ask("POST", "/login", body=b"guess")
            self.assert_denied(answer)
            self.assert_problem(answer)
        self.assertEqual(len(world.application.asked), QUOTA)
        # Another rule, and another client.
        self.assert_allowed(client.ask("GET", "/login"))
        self.assert_allowed(self.client(world, "127.0.0.2").ask("POST", "/login", body=b"guess"), remaining=QUOTA - 1)

    def test_the_application_receives_the_clients_request(self) -> None:
        world = self.start()
        client = self.client(world)
        self.assert_allowed(client.ask("PUT", "/a%20b/c?x=1&y=%2F", [("X-Own", "own")], b"some text"))
        [asked] = world.application.asked
        self.assertEqual((asked.method, asked.target, asked.body_bytes), ("PUT", "/a%20b/c?x=1&y=%2F", 9))
        self.assertEqual(asked.values("x-own"), ["own"])
        self.assertEqual(asked.values("host"), ["shop.example"])
        for name in ("x-original-uri", "x-original-method", "x-sluice-rule", "x-sluice-remaining"):
            self.assertEqual(asked.values(name), [])

    def test_refusals_and_errors_of_the_application_pass_unchanged(self) -> None:
        client = self.client(self.start())
        for status in (201, 401, 403, 404, 429, 500, 503):
            answer = client.ask("GET", f"/status/{status}")
            self.assertEqual((answer.status, answer.value("x-application")), (status, "yes"), answer)
            self.assertEqual(answer.body, b"the application\n")
            self.assertEqual(answer.values("retry-after"), [])

    def test_entries_describe_the_original_request(self) -> None:
        world = self.start(rules=ALL_ENTRIES)
        client = self.client(world)
        for target in ("/", "/a?x=1", "/p%20q/r?x=1&y=%2F", "/a?", "/a?x=1&x=2?/"):
            self.assertEqual(client.ask("GET", target).status, 200, target)
        client.ask("DELETE", "/a")
        client.begin("GET", "/a", host="Shop.Example:8080")
        client.end()
        self.assertEqual(client.ask("GET", "http://shop.example/absolute?x=1").status, 200)
        self.client(world, "127.0.0.2").ask("GET", "/a")
        self.assertEqual(world.sluice.counters(), sorted((
            seen("GET", "/"), seen("GET", "/a", "x=1"), seen("GET", "/p%20q/r", "x=1&y=%2F"), seen("GET", "/a"),
            seen("GET", "/absolute", "x=1"), seen("GET", "/a", "x=1&x=2?/"), seen("DELETE", "/a"), seen("GET", "/a", ip="127.0.0.2"))))

    def test_a_long_target(self) -> None:
        client = self.client(self.start())
        for target in ("/" + 5000 * "x", "/?" + 5000 * "x"):
            self.assertEqual(client.ask("GET", target).status, 200)

    def test_forged_fields_are_ignored(self) -> None:
        world = self.start(rules=ALL_ENTRIES)
        client = self.client(world)
        for field in FORGED:
            self.assertEqual(client.ask("GET", "/true?x=1", [field]).status, 200, field)
            self.assertEqual(client.ask("GET", "/true?x=1", [field, field]).status, 200, field)
        self.assertEqual(client.ask("GET", "/true?x=1", FORGED).status, 200)
        self.assertEqual(client.ask("GET", "/true?x=1", [(name.lower(), value) for name, value in FORGED]).status, 200)
        self.assertEqual(world.sluice.counters(), [seen("GET", "/true", "x=1")])

    def test_a_forged_address_for_each_request_does_not_help(self) -> None:
        world = self.start()
        client = self.client(world)

        def forged(number: int) -> list[tuple[str, str]]:
            address = f"203.0.113.{number}"
            return [("X-Forwarded-For", address), ("X-Forwarded-For", f"{address}, 127.0.0.1"), ("X-Real-IP", address),
                    ("Forwarded", f"for={address}"), ("X-Original-URI", "/"), ("X-Forwarded-Uri", "/")]

        statuses = [client.ask("POST", "/login", forged(i), b"guess").status for i in range(QUOTA + 3)]
        self.assertEqual(statuses, [200] * QUOTA + [429] * 3)

    def test_a_query_of_the_client_is_ignored(self) -> None:
        client = self.client(self.start())
        queries = ("n=0", "deny=200", "ok=200&deny=200", "profile=none", "status=200", "entry=ip=203.0.113.7", "ip=203.0.113.7",
                   "%3Fn=0", "key=x&limit=100&window=1m")
        statuses = [client.ask("POST", f"/login?{query}", body=b"guess").status for query in queries]
        self.assertEqual(statuses, [200] * QUOTA + [429] * (len(queries) - QUOTA))

    def test_ten_megabytes(self) -> None:
        world = self.start()
        client = self.client(world)
        body = bytes(range(256)) * (10 * (1 << 20) // 256)
        self.assert_allowed(client.ask("POST", "/login", body=body), remaining=QUOTA - 1)
        [asked] = world.application.asked
        self.assertEqual((asked.body_bytes, asked.body_digest), (len(body), hashlib.sha256(body).hexdigest()))
        # None of it went to sluice.
        self.assertLess(len(world.relay.sent), 4096)
        self.assertTrue(world.relay.sent.endswith(b"\r\n\r\n"))
        self.assertEqual(len(world.relay.questions()), 1)

    def test_a_body_that_does_not_come(self) -> None:
        """sluice is asked, and answers, before the announced body is there."""
        world = self.start()
        client = self.client(world)
        client.begin("POST", "/login", [("Content-Length", "5")])
        wait_until(lambda: b"\r\n\r\n" in world.relay.answered, "sluice answers")
        client.send(b"guess")
        self.assert_allowed(client.end(), remaining=QUOTA - 1)
        for _ in range(QUOTA - 1):
            client.ask("POST", "/login", body=b"guess")
        questions = len(world.relay.questions())
        client.begin("POST", "/login", [("Content-Length", "5")])
        wait_until(lambda: len(world.relay.questions()) > questions, "sluice is asked")
        if self.waits_for_body:
            client.send(b"guess")
        self.assert_denied(client.end())

    def test_a_body_in_chunks(self) -> None:
        world = self.start()
        client = self.client(world)
        for _ in range(2):
            client.begin("POST", "/login", [("Transfer-Encoding", "chunked")])
            client.send(b"5\r\nguess\r\n0\r\n\r\n")
            self.assertEqual(client.end().status, 200)
        self.assertEqual([asked.body_bytes for asked in world.application.asked], [5, 5])
        self.assertEqual(len(world.relay.questions()), 2)

    def test_head_and_options(self) -> None:
        world = self.start(rules=THREE)
        client = self.client(world)
        self.assertEqual([client.ask(method, "/").status for method in ("HEAD", "OPTIONS", "GET")], [200] * 3)
        self.assertEqual([asked.method for asked in world.application.asked], ["HEAD", "OPTIONS", "GET"])
        head = client.ask("HEAD", "/")
        self.assert_denied(head, "three", 3)
        self.assertEqual(head.body, b"")
        self.assert_denied(client.ask("OPTIONS", "/"), "three", 3)
        self.assert_denied(client.ask("GET", "/"), "three", 3)  # the answer to HEAD has left nothing behind it
        self.assertEqual(len(world.application.asked), 3)

    def test_a_browser(self) -> None:
        client = self.client(self.start())
        self.use_up(client)
        answer = client.ask("POST", "/login", [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")], b"guess")
        self.assert_denied(answer)
        if self.passes_body:
            self.assertEqual(answer.value("content-type"), "text/plain; charset=utf-8")
            self.assertEqual(answer.body, b"rate limit exceeded\n")
        else:
            self.assert_problem(answer)

    def test_a_page_of_another_origin(self) -> None:
        """sluice refuses such requests on its own paths; behind /auth the application decides about them."""
        client = self.client(self.start())
        fields = [("Origin", "https://elsewhere.example"), ("Sec-Fetch-Site", "cross-site"), ("Authorization", "Basic eDp5")]
        self.assert_allowed(client.ask("POST", "/login", fields, b"guess"), remaining=QUOTA - 1)

    def test_connections_to_sluice_are_kept(self) -> None:
        world = self.start()
        client = self.client(world)
        for i in range(40):
            self.assertIn(client.ask("POST" if i % 2 else "GET", "/login").status, (200, 429))
        self.assertEqual(len(world.relay.questions()), 40)
        self.assertLessEqual(world.relay.connections, self.connections_max)

    def test_without_sluice_nothing_passes(self) -> None:
        world = self.start()
        client = self.client(world)
        self.assert_allowed(client.ask("GET", "/"))
        self.assertEqual(world.sluice.stop(), 0)
        world.relay.close()
        answers = [client.ask("POST", "/", body=b"some text") for _ in range(3)]
        self.assertEqual([answer.status for answer in answers], [self.gone_status] * 3)
        self.assertEqual(len(world.application.asked), 1)
        world.sluice.start()
        world.relay.open()
        wait_until(lambda: client.ask("GET", "/").status == 200, "the proxy asks sluice again")

    def test_a_silent_sluice_lets_nothing_pass(self) -> None:
        world = self.start(patient=False)
        world.relay.silent = True
        self.assertEqual(self.client(world).ask("GET", "/").status, self.silent_status)
        self.assertEqual(world.application.asked, [])
        self.assertIn(len(world.relay.questions()), self.questions_of_silence)

    def test_a_silent_sluice_lets_all_pass_if_configured(self) -> None:
        world = self.start(self.edits_of_open(), patient=False)
        world.relay.silent = True
        self.assertEqual(self.client(world).ask("POST", "/login").status, 200)
        self.assertEqual(len(world.application.asked), 1)

    def test_without_sluice_all_passes_if_configured(self) -> None:
        world = self.start(self.edits_of_open())
        client = self.client(world)
        self.use_up(client)
        self.assert_denied(client.ask("POST", "/login"))
        self.assertEqual(world.sluice.stop(), 0)
        world.relay.close()
        answers = [client.ask("POST", "/login", body=b"guess") for _ in range(3)]
        self.assertEqual([answer.status for answer in answers], [200] * 3)
        self.assertEqual(answers[0].values("ratelimit"), [])

    def edits_of_open(self) -> tuple[tuple[str, str], ...]:
        if self.open_edits is None:
            self.skipTest(f"{self.name} cannot")
        return self.open_edits

    def test_a_profile_that_is_not_there(self) -> None:
        world = self.start([("/auth/web", "/auth/wob")])
        answer = self.client(world).ask("GET", "/")
        self.assertEqual((answer.status, answer.values("x-application")), (self.unknown_profile_status, []), answer)
        process = world.sluice.process
        assert process is not None
        wait_until(lambda: process.has_said("/auth/wob"), "sluice tells which one")
        self.assertEqual(world.application.asked, [])

    def test_a_proxy_that_is_not_trusted(self) -> None:
        world = self.start(sluice_edits=[('trusted_proxies: [127.0.0.0/8, "::1"]', "trusted_proxies: [192.0.2.0/24]")])
        answer = self.client(world).ask("GET", "/")
        self.assertGreaterEqual(answer.status, 400)
        self.assertEqual(answer.values("x-application"), [])
        process = world.sluice.process
        assert process is not None
        wait_until(lambda: process.has_said("trusted_proxies"), "sluice tells why")
        self.assertEqual(world.application.asked, [])


