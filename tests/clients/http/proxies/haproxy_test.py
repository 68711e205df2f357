"""HAProxy in front of an application, by the files of examples/haproxy."""

from __future__ import annotations

import unittest

import every_proxy
from parts import free_port, wait_until


class HaproxyTest(every_proxy.EveryProxy):
    name = "haproxy"
    command = ["haproxy", "-f", "haproxy.cfg"]
    shows_allowed = True
    passes_body = True
    gone_status = 503
    questions_of_silence = (1, 4)  # from 2.8 on, and before
    silent_status = 503
    open_edits = (("/auth/web closed", "/auth/web open"),)
    unknown_profile_status = 503

    def test_a_field_of_the_client_that_a_rule_looks_at(self) -> None:
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

    def test_the_first_server_that_is_up_is_asked(self) -> None:
        nobody = free_port()
        world = self.start([("server sluice", f"server dead 127.0.0.1:{nobody} check inter 1s fall 1 rise 1\n    server sluice")])
        client = self.client(world)
        wait_until(lambda: world.proxy.process.has_said("sluice/dead is DOWN"), "HAProxy sees that it is down")
        self.assertEqual([client.ask("POST", "/login", body=b"guess").status for _ in range(7)], [200] * 5 + [429] * 2)


if __name__ == "__main__":
    unittest.main()
