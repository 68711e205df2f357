"""Caddy in front of an application, by the files of examples/caddy."""

from __future__ import annotations

import unittest

import every_proxy


class CaddyTest(every_proxy.EveryProxy):
    name = "caddy"
    command = ["caddy", "run", "--config", "Caddyfile"]
    shows_allowed = False
    passes_body = True
    gone_status = 502
    silent_status = 504
    open_edits = (
        ("forward_auth 127.0.0.1:8390 {", "forward_auth 127.0.0.1:8390 127.0.0.1:8391 {"), ("#lb_", "lb_"), ("#fail_", "fail_"))
    waits_for_body = True  # as Go's servers do
    unknown_profile_status = 404

    def test_a_proxy_in_front_of_it(self) -> None:
        """Its X-Forwarded-For is passed on, and sluice goes through it from the right."""
        world = self.start([("uri /auth/web", "uri /auth/web\n\t\ttrusted_proxies 127.0.0.1")], every_proxy.ALL_ENTRIES)
        client = self.client(world)
        for forwarded in ("203.0.113.7", "198.51.100.1, 203.0.113.7", "198.51.100.1,203.0.113.7, 127.0.0.9", "x, 203.0.113.7"):
            self.assertEqual(client.ask("GET", "/", [("X-Forwarded-For", forwarded)]).status, 200, forwarded)
        self.assertEqual(world.sluice.counters(), [every_proxy.seen("GET", "/", ip="203.0.113.7")])
        self.assertEqual(self.client(world, "127.0.0.2").ask("GET", "/", [("X-Forwarded-For", "203.0.113.8")]).status, 200)
        self.assertEqual(world.sluice.counters(), sorted(
            (every_proxy.seen("GET", "/", ip="203.0.113.7"), every_proxy.seen("GET", "/", ip="127.0.0.2"))))


if __name__ == "__main__":
    unittest.main()
