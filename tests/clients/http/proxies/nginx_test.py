"""nginx in front of an application, by the files of examples/nginx."""

from __future__ import annotations

import unittest

import every_proxy


class NginxTest(every_proxy.EveryProxy):
    name = "nginx"
    command = ["nginx", "-p", "./", "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off;"]
    shows_allowed = True
    passes_body = False
    gone_status = 503
    silent_status = 503
    open_edits = (("#proxy_intercept_errors", "proxy_intercept_errors"), ("#error_page", "error_page"))
    unknown_profile_status = 503

    def test_a_field_of_the_client_that_a_rule_looks_at(self) -> None:
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

    def test_one_path_by_many_names(self) -> None:
        """Which nginx itself takes for one location."""
        paths = ("/login", "//login", "/./login", "/a/../login", "/%6Cogin", "/login?x")
        self.assertTrue(self.all_pass(paths, []))
        self.assertFalse(self.all_pass(paths, [("deny: 403 }", "deny: 403, normalize_path: true }")]))

    def all_pass(self, paths: tuple[str, ...], edits: list[tuple[str, str]]) -> bool:
        client = self.client(self.start(sluice_edits=edits))
        return all(client.ask("POST", path, body=b"guess").status == 200 for path in paths)


if __name__ == "__main__":
    unittest.main()
