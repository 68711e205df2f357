"""nginx in front of an application, by the files of examples/nginx."""

from __future__ import annotations

import hashlib
import re
import unittest

import every_proxy
from parts import ROOT


class NginxTest(every_proxy.EveryProxy):
    name = "nginx"
    command = ["nginx", "-p", "./", "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off;"]
    patience = (("proxy_connect_timeout 1s", "proxy_connect_timeout 50s"), ("proxy_read_timeout 2s", "proxy_read_timeout 50s"))
    shows_allowed = True
    passes_body = False
    gone_status = 503
    silent_status = 503
    open_edits = (("#proxy_intercept_errors", "proxy_intercept_errors"), ("#error_page", "error_page"))
    unknown_profile_status = 503

    def test_a_rule_may_match_a_field_of_the_client(self) -> None:
        rules = """
  - name: key
    match: { header.x-api-key: "*" }
    actor: header.x-api-key
    limit: { quota: 1, window: 1h }
  - name: session
    match: { cookie.session: "*" }
    actor: cookie.session
    limit: { quota: 1, window: 1h }
"""
        edits = [("deny: 403 }", "deny: 403, headers: [x-api-key], cookies: [session] }")]
        client = self.client(self.start(rules=rules, sluice_edits=edits))
        statuses = [client.ask("GET", "/", [("X-Api-Key", key)]).status for key in ("a", "a", "b", "b")]
        self.assertEqual(statuses, [200, 429, 200, 429])
        statuses = [client.ask("GET", "/", [("Cookie", f"x=1; session={key}; y=2")]).status for key in ("a", "a", "b", "b")]
        self.assertEqual(statuses, [200, 429, 200, 429])
        self.assertEqual(client.ask("GET", "/").status, 200)

    def test_a_secret(self) -> None:
        edits = [("deny: 403 }", "deny: 403, secret: open-sesame }")]
        line = "proxy_set_header X-Real-IP $remote_addr;"
        wrong = self.client(self.start(sluice_edits=edits))
        self.assertEqual(wrong.ask("GET", "/", [("X-Sluice-Secret", "guess")]).status, 429)
        right = self.client(self.start([(line, f"{line}\n            proxy_set_header X-Sluice-Secret open-sesame;")],
                                       sluice_edits=edits))
        self.assertEqual(right.ask("GET", "/", [("X-Sluice-Secret", "guess")]).status, 200)

    def test_an_api_key_is_counted_by_its_digest(self) -> None:
        """With the lines that docs/proxies.md shows."""
        page = (ROOT / "docs/proxies.md").read_text(encoding="utf-8")
        found = re.search(r"^    (proxy_set_header Authorization .*)\n(?:.*\n)*?    web: (.*)\n(?:.*\n)*?    (match: .*?) +#.*\n"
                          r"    (actor: .*?) +#", page, re.MULTILINE)
        assert found is not None
        field, profile, match, actor = found.groups()
        rules = f"""
  - name: key
    {match}
    {actor}
    limit: {{ quota: 1, window: 1h }}
"""
        line = "proxy_set_header X-Real-IP $remote_addr;"
        world = self.start([(line, f"{line}\n            {field}")], rules, [("{ proxy: nginx, normalize_path: true, deny: 403 }", profile)])
        client = self.client(world)
        own = ("Authorization", "Bearer of-the-client")
        statuses = [client.ask("GET", "/", [("X-Api-Key", key), own]).status for key in ("a", "a", "b", "b")]
        self.assertEqual(statuses, [200, 429, 200, 429])
        self.assertEqual(client.ask("GET", "/").status, 200)
        digests = sorted("sha256:" + hashlib.sha256(key.encode()).hexdigest()[:32] for key in ("a", "b"))
        self.assertEqual([re.sub(r".*(sha256:\w+).*", r"\1", name) for name in world.sluice.counters()], digests)
        self.assertEqual(world.application.asked[0].values("authorization"), [own[1]])

    def test_nothing_of_the_client_for_sluice(self) -> None:
        """With the line that docs/proxies.md shows."""
        line = "proxy_pass_request_headers off;"
        self.assertIn(line, (ROOT / "docs/proxies.md").read_text(encoding="utf-8"))
        world = self.start([("proxy_pass_request_body off;", f"proxy_pass_request_body off; {line}")], every_proxy.ALL_ENTRIES)
        self.assertEqual(self.client(world).ask("GET", "/", [*every_proxy.FORGED, ("Cookie", "a=b")]).status, 200)
        self.assertEqual(world.sluice.counters(), [every_proxy.seen("GET", "/")])
        [question] = world.relay.questions()
        names = sorted(line.partition(":")[0].lower() for line in question.splitlines()[1:])
        self.assertEqual(names, ["host", "x-original-host", "x-original-method", "x-original-proto", "x-original-uri",
                                 "x-real-ip"])

    def test_a_redirection_inside_nginx_is_asked_about_twice(self) -> None:
        """As docs/proxies.md warns."""
        ask, passed = "auth_request /sluice;", "proxy_pass http://application;"
        world = self.start([(ask, f"rewrite ^/again$ /there last; {ask}"),
                            (passed, f"error_page 404 /other; proxy_intercept_errors on; {passed}")])
        client = self.client(world)
        client.ask("GET", "/again")
        self.assertEqual(len(world.relay.questions()), 1)  # rewritten before it was asked about
        client.ask("GET", "/status/404")
        self.assertEqual(len(world.relay.questions()), 3)

    def test_many_spellings_of_a_path_share_one_limit(self) -> None:
        """nginx treats all these paths as one location."""
        paths = ("/login", "//login", "/./login", "/a/../login", "/%6Cogin", "/login?x")
        self.assertTrue(self.all_pass(paths, [("normalize_path: true", "normalize_path: false")]))
        self.assertFalse(self.all_pass(paths, []))

    def all_pass(self, paths: tuple[str, ...], edits: list[tuple[str, str]]) -> bool:
        client = self.client(self.start(sluice_edits=edits))
        return all(client.ask("POST", path, body=b"guess").status == 200 for path in paths)


if __name__ == "__main__":
    unittest.main()
