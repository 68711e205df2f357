"""HAProxy in front of an application, by the files of examples/haproxy."""

from __future__ import annotations

import hashlib
import re
import unittest

import every_proxy
from parts import ROOT, free_port, wait_until


class HaproxyTest(every_proxy.EveryProxy):
    name = "haproxy"
    command = ["haproxy", "-f", "haproxy.cfg"]
    patience = (("timeout_ms = 500", "timeout_ms = 50000"),)
    shows_allowed = True
    passes_body = True
    gone_status = 503
    questions_of_silence = (1, 4)  # from 2.8 on, and before
    silent_status = 503
    open_edits = (("/auth/web closed", "/auth/web open"),)
    unknown_profile_status = 503

    def test_a_rule_may_match_a_field_of_the_client(self) -> None:
        rules = """
  - name: key
    match: { header.x-api-key: "*" }
    actor: header.x-api-key
    limit: { quota: 1, window: 1h }
"""
        sluice_edits = [("deny: 429 }", "deny: 429, headers: [x-api-key] }")]
        world = self.start([('{ "accept" }', '{ "accept", "x-api-key" }')], rules, sluice_edits)
        client = self.client(world)
        statuses = [client.ask("GET", "/", [("X-Api-Key", key)]).status for key in ("a", "a", "b", "b")]
        self.assertEqual(statuses, [200, 429, 200, 429])
        self.assertEqual(client.ask("GET", "/").status, 200)

    def test_an_api_key_is_counted_by_its_digest(self) -> None:
        """With the lines that docs/proxies.md shows."""
        page = (ROOT / "docs/proxies.md").read_text(encoding="utf-8")
        lines = re.findall(r"^    (http-request (?:deny deny_status 400|\w+-header X-Api-Key-Digest).*)$", page, re.MULTILINE)
        self.assertEqual(len(lines), 3)
        rules = """
  - name: key
    match: { header.x-api-key-digest: "*" }
    actor: header.x-api-key-digest
    limit: { quota: 1, window: 1h }
"""
        asks = "    http-request lua.sluice"
        edits = [(asks, "".join(f"    {line}\n" for line in lines) + asks), ('{ "accept" }', '{ "accept", "x-api-key-digest" }')]
        world = self.start(edits, rules, [("deny: 429 }", "deny: 429, headers: [x-api-key-digest] }")])
        client = self.client(world)
        statuses = [client.ask("GET", "/", [("X-Api-Key", key)]).status for key in ("a", "a", "b", "b")]
        self.assertEqual(statuses, [200, 429, 200, 429])
        self.assertEqual(client.ask("GET", "/", [("X-Api-Key", "a"), ("X-Api-Key", "c")]).status, 400)
        made_up = [client.ask("GET", "/", [("X-Api-Key-Digest", "a" * 64)]).status for _ in range(2)]
        self.assertEqual(made_up, [200, 200])
        digests = sorted(hashlib.sha256(key.encode()).hexdigest() for key in ("a", "b"))
        self.assertEqual([re.sub(r".*\b([0-9a-f]{64})\b.*", r"\1", name) for name in world.sluice.counters()], digests)

    def test_requests_that_sluice_cannot_read_do_not_pass(self) -> None:
        """A client must not be able to avoid a decision."""
        for edits in ((), self.open_edits):
            world = self.start(edits)
            client = self.client(world)
            client.begin("GET", "/", host="a b")
            self.assertEqual(client.end().status, 503)
            self.assertEqual(world.application.asked, [])

    def test_all_of_the_server(self) -> None:
        world = self.start(rules=every_proxy.ALL_ENTRIES)
        self.assertEqual(self.client(world).ask("OPTIONS", "*").status, 200)
        self.assertEqual(world.sluice.counters(), [every_proxy.seen("OPTIONS", "*")])

    def test_a_secret(self) -> None:
        edits = [("deny: 429 }", "deny: 429, secret: open-sesame }")]
        forged = [("X-Sluice-Secret", "open-sesame")]
        self.assertEqual(self.client(self.start(sluice_edits=edits)).ask("GET", "/", forged).status, 503)
        world = self.start(sluice_edits=edits, SLUICE_SECRET="open-sesame")
        self.assertEqual(self.client(world).ask("GET", "/").status, 200)

    def test_a_proxy_in_front_of_it(self) -> None:
        """With the line that docs/proxies.md shows."""
        line = "    http-request lua.sluice"
        manual = re.search(r"`(http-request set-src [^`]+)`", (ROOT / "docs/proxies.md").read_text(encoding="utf-8"))
        assert manual is not None
        edit = (line, f"    {manual[1].replace('10.0.0.0/8', '127.0.0.1')}\n{line}")
        world = self.start([edit], every_proxy.ALL_ENTRIES)
        forwarded = [("X-Forwarded-For", "198.51.100.1, 203.0.113.7")]
        self.assertEqual(self.client(world).ask("GET", "/", forwarded).status, 200)
        self.assertEqual(self.client(world, "127.0.0.2").ask("GET", "/", forwarded).status, 200)
        self.assertEqual(world.sluice.counters(), sorted(
            every_proxy.seen("GET", "/", ip=ip) for ip in ("203.0.113.7", "127.0.0.2")))

    def test_the_first_server_that_is_up_is_asked(self) -> None:
        unused_port = free_port()
        dead = f"server dead 127.0.0.1:{unused_port} check inter 1s fall 1 rise 1"
        world = self.start([("server sluice", f"{dead}\n    server sluice")])
        client = self.client(world)
        wait_until(lambda: world.proxy.process.has_said("sluice/dead is DOWN"), "HAProxy sees that it is down")
        self.assertEqual([client.ask("POST", "/login", body=b"guess").status for _ in range(7)], [200] * 5 + [429] * 2)


if __name__ == "__main__":
    unittest.main()
