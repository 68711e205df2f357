"""Caddy in front of an application, by the files of examples/caddy."""

from __future__ import annotations

import unittest

import every_proxy
from parts import ROOT


class CaddyTest(every_proxy.EveryProxy):
    name = "caddy"
    command = ["caddy", "run", "--config", "Caddyfile"]
    patience = (("dial_timeout 1s", "dial_timeout 50s"), ("response_header_timeout 2s", "response_header_timeout 50s"))
    shows_allowed = False
    passes_body = True
    gone_status = 502
    silent_status = 504
    open_edits = (
        ("forward_auth 127.0.0.1:8390 {", "forward_auth 127.0.0.1:8390 127.0.0.1:8391 {"), ("#lb_", "lb_"), ("#fail_", "fail_"))
    waits_for_body = True  # as Go's servers do
    unknown_profile_status = 404

    def test_a_proxy_in_front_of_it(self) -> None:
        """Its X-Forwarded-For is passed on, and sluice reads it from the right."""
        world = self.start([("uri /auth/web", "uri /auth/web\n\t\ttrusted_proxies 127.0.0.1")], every_proxy.ALL_ENTRIES)
        client = self.client(world)
        for forwarded in ("203.0.113.7", "198.51.100.1, 203.0.113.7", "198.51.100.1,203.0.113.7, 127.0.0.9", "x, 203.0.113.7"):
            self.assertEqual(client.ask("GET", "/", [("X-Forwarded-For", forwarded)]).status, 200, forwarded)
        self.assertEqual(world.sluice.counters(), [every_proxy.seen("GET", "/", ip="203.0.113.7")])
        self.assertEqual(self.client(world, "127.0.0.2").ask("GET", "/", [("X-Forwarded-For", "203.0.113.8")]).status, 200)
        self.assertEqual(world.sluice.counters(), sorted(
            (every_proxy.seen("GET", "/", ip="203.0.113.7"), every_proxy.seen("GET", "/", ip="127.0.0.2"))))

    def test_limits_of_answers_that_pass(self) -> None:
        """With the lines that docs/proxies.md shows."""
        copied, shown = "copy_headers RateLimit", "header ?RateLimit {http.request.header.RateLimit}"
        for line in (copied, shown):
            self.assertIn(line, (ROOT / "docs/proxies.md").read_text(encoding="utf-8"))
        client = self.client(self.start([
            ("uri /auth/web", f"uri /auth/web\n\t\t{copied}"), ("\tbind 127.0.0.1\n\n", f"\tbind 127.0.0.1\n\t{shown}\n\n")]))
        for left in range(every_proxy.QUOTA - 1, -1, -1):
            answer = client.ask("POST", "/login", body=b"guess")
            self.assertEqual(answer.status, 200)
            self.assertRegex(answer.value("ratelimit") or "", rf'^"login";r={left};t=\d+$')
        self.assert_denied(client.ask("POST", "/login", body=b"guess"))

    def test_a_secret(self) -> None:
        """With the line that docs/proxies.md shows."""
        edits = [("deny: 429 }", "deny: 429, secret: open-sesame }")]
        line = "header_up X-Sluice-Secret {$SLUICE_SECRET}"
        self.assertIn(line, (ROOT / "docs/proxies.md").read_text(encoding="utf-8"))
        forged = [("X-Sluice-Secret", "open-sesame")]
        world = self.start([("uri /auth/web", f"uri /auth/web\n\t\t{line}")], sluice_edits=edits, SLUICE_SECRET="open-sesame")
        self.assertEqual(self.client(world).ask("GET", "/").status, 200)
        world = self.start([("uri /auth/web", f"uri /auth/web\n\t\t{line}")], sluice_edits=edits, SLUICE_SECRET="other")
        self.assertEqual(self.client(world).ask("GET", "/", forged).status, 403)

    def test_names_of_rules_that_no_client_sees(self) -> None:
        """With the line that docs/proxies.md shows."""
        line = "header -X-Sluice-*"
        self.assertIn(line, (ROOT / "docs/proxies.md").read_text(encoding="utf-8"))
        client = self.client(self.start([("\tbind 127.0.0.1\n\n", f"\tbind 127.0.0.1\n\t{line}\n\n")]))
        self.use_up(client)
        answer = client.ask("POST", "/login", body=b"guess")
        self.assert_denied(answer)
        self.assertEqual([name for name, _ in answer.fields if name.startswith("x-sluice")], [])


if __name__ == "__main__":
    unittest.main()
