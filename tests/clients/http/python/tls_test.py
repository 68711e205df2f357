"""curl and Python's http.client over TLS: HTTP/1.1 and HTTP/2, tokens beside certificates, and rules that see the name in a
client's certificate, which no client can give itself."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from certificates import Authority, Pair  # noqa: E402
from secure import NAME, Secured, TlsTest  # noqa: E402
from started import SECONDS_MAX  # noqa: E402

ALL = "rules:\n  - { name: all, match: { queue: '*' }, actor: queue, limit: { quota: 100, window: 1d } }\n"
BY_NAME = f"""rules:
  - {{ name: known, match: {{ tls.name: {NAME} }}, actor: tls.name, limit: {{ quota: 100, window: 1d }} }}
  - {{ name: each, match: {{ grade: "*" }}, actor: tls.name, limit: {{ quota: 2, window: 1d, algorithm: fixed_window }} }}
  - {{ name: rest, match: {{ queue: "*" }}, actor: queue, limit: {{ quota: 100, window: 1d, algorithm: fixed_window }} }}
http:
  get_takes: true
  auth: {{ trusted_proxies: [127.0.0.0/8], profiles: {{ web: {{ proxy: nginx, headers: [tls.name] }} }} }}
"""
TAKE = {"entries": {"queue": "a"}}
OPS = "o" * 43
OPS_DIGEST = "3907791a831e2e5c383fba601a0f08e0bfae87a56c2f45121101976d874ee3d6"  # its SHA-256


@unittest.skipUnless(shutil.which("curl"), "there is no curl")
class Curl(TlsTest):
    def curl(self, server: Secured, *words: str, shown: Pair | None = None, authority: Authority | None = None,
             host: str = "localhost", body: object = TAKE) -> tuple[str, str, str]:
        """The status, the version of HTTP and the body; or what curl says where it fails, after its exit status."""
        mine = ["--cert", str(shown.certificate), "--key", str(shown.key)] if shown else []
        done = subprocess.run(
            ["curl", "-sS", "-m", str(SECONDS_MAX), "--cacert", str((authority or self.authority).certificate), *mine, *words,
             "-w", "\n%{http_code} %{http_version}", "--json", json.dumps(body),
             f"https://{host}:{server.port('http')}/v1/take"],
            env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX + 10,
            check=False)
        if done.returncode != 0:
            return str(done.returncode), "", done.stderr
        text, _, last = done.stdout.rpartition("\n")
        return *last.split(), text

    def listen(self, pair: Pair | None = None, clients: str = "", rest: str = ALL) -> Secured:
        return self.serve("listen:\n" + self.listener("http", pair, clients) + rest)

    def test_each_version_of_http(self) -> None:
        server = self.listen()
        for flag, version in (("--http1.1", "1.1"), ("--http2", "2"), ("--no-alpn", "1.1")):
            for tls in ("1.2", "1.3"):
                status, spoken, text = self.curl(server, flag, f"--tlsv{tls}", "--tls-max", tls)
                self.assertEqual((status, spoken, json.loads(text)["rule"]), ("200", version, "all"))
        self.assertEqual(self.curl(server, "--tlsv1.1", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0")[0], "35")

    def test_servers_that_are_not_trusted(self) -> None:
        for pair, why in ((self.other.sign("DNS:localhost"), "unable to get local issuer certificate"),
                          (self.authority.sign("DNS:elsewhere.example"), "no alternative certificate subject name matches"),
                          (self.authority.sign("DNS:localhost", expired=True), "certificate has expired"),
                          (self.authority.own("DNS:localhost"), "self-signed certificate")):
            status, _, told = self.curl(self.listen(pair))
            self.assertIn(status, ("35", "60"))
            self.assertIn(why, told)

    def test_a_certificate_that_is_required(self) -> None:
        server = self.listen(clients=self.required)
        for version in ("--http1.1", "--http2"):
            self.assertEqual(self.curl(server, version, shown=self.known())[0], "200")
            for shown in (None, self.other.sign(f"DNS:{NAME}"), self.authority.sign(f"DNS:{NAME}", expired=True)):
                # By TLS 1.3 it is told after its own handshake.
                self.assertIn(self.curl(server, version, shown=shown)[0], ("16", "35", "55", "56", "92"))

    def test_tokens_beside_certificates(self) -> None:
        users = (f"users:\n  - {{ name: app, certificate: {NAME}, rights: [take] }}\n"
                 f"  - {{ name: looker, sha256: {OPS_DIGEST}, rights: [look] }}\n")
        server = self.listen(clients=self.requested, rest=ALL + users)
        good, wrong = f"Authorization: Bearer {OPS}", "Authorization: Bearer " + "x" * 43
        for version in ("--http1.1", "--http2"):
            for shown, fields, status in (
                    (self.known(), [], "200"), (None, [], "401"), (self.authority.sign("DNS:other.example"), [], "401"),
                    (self.known(), [good], "403"),  # as the user of the token, who may only look
                    (None, [good], "403"), (self.known(), [wrong], "401"), (self.known(), ["Authorization: Bearer wrong"], "401"),
                    (self.known(), ["Authorization: Digest x"], "401"),
                    (self.known(), ["Authorization: Basic YXBwOng="], "401")):  # app:x
                words = [word for field in fields for word in ("-H", field)]
                self.assertEqual(self.curl(server, version, *words, shown=shown)[0], status, (version, fields))

    def test_a_connection_that_changes_its_user(self) -> None:
        """A refused token leaves the certificate what it was, for the requests after it."""
        users = (f"users:\n  - {{ name: app, certificate: {NAME}, rights: [take] }}\n"
                 f"  - {{ name: looker, sha256: {OPS_DIGEST}, rights: [look] }}\n")
        server = self.listen(clients=self.requested, rest=ALL + users)
        connection = http.client.HTTPSConnection("localhost", server.port("http"), timeout=SECONDS_MAX,
                                                 context=self.context(self.known()))
        self.addCleanup(connection.close)
        statuses = []
        for token in ("", OPS, "", "x" * 43, "", OPS):
            connection.request("POST", "/v1/take", json.dumps(TAKE), {
                "Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})})
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
        self.assertEqual(statuses, [200, 403, 200, 401, 200, 403])


class NameOfTheCertificate(TlsTest):
    """Rules with `tls.name`, on a listener with TLS and on a plain one beside it."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.serve("listen:\n" + self.listener("http", clients=self.requested) + self.plain("http") + BY_NAME)
        self.secure, self.open = self.server.ports["http"]

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: object = None, **fields: str) -> str:
        """The rule that decided; empty: none did."""
        text = None if body is None else json.dumps(body)
        more = {name.replace("_", "-"): value for name, value in fields.items()}
        connection.request(method, path, text, {**({"Content-Type": "application/json"} if text else {}), **more})
        response = connection.getresponse()
        answer = response.read()
        if path.startswith("/auth"):
            self.assertEqual(response.status, 200)
            return response.getheader("X-Sluice-Rule") or ""
        if response.status == 404:
            self.assertIn(b"no rule of the policy applies", answer)
            return ""
        self.assertEqual(response.status, 200, answer)
        return json.loads(answer)["rule"]

    def connections(self, shown: Pair | None) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection("localhost", self.secure, timeout=SECONDS_MAX, context=self.context(shown))
        self.addCleanup(connection.close)
        return connection

    def plain_one(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost", self.open, timeout=SECONDS_MAX)
        self.addCleanup(connection.close)
        return connection

    def test_a_client_with_the_certificate_meets_the_rule(self) -> None:
        one = self.connections(self.known())
        self.assertEqual(self.ask(one, "POST", "/v1/take", TAKE), "known")
        self.assertEqual(self.ask(one, "GET", "/v1/take?entry=queue=a"), "known")
        self.assertEqual(self.ask(one, "POST", "/v1/peek", {"key": "k", "limits": [{"quota": 1, "window": "1h"}]}), "known")
        # Whatever it says of itself.
        self.assertEqual(self.ask(one, "POST", "/v1/take", {"entries": {"queue": "a", "tls.name": "other.example"}}), "known")
        self.assertEqual(self.ask(one, "GET", "/v1/take?entry=queue=a&entry=tls.name=other"), "known")

    def test_no_other_client_does_whatever_it_sends(self) -> None:
        claims = {"queue": "a", "tls.name": NAME}
        for name, connection in (("another certificate", self.connections(self.authority.sign("DNS:other.example"))),
                                 ("none", self.connections(None)), ("no TLS", self.plain_one())):
            with self.subTest(name):
                ask = lambda *words, **fields: self.ask(connection, *words, **fields)  # noqa: B023, E731
                self.assertEqual(ask("POST", "/v1/take", TAKE), "rest")
                self.assertEqual(ask("POST", "/v1/take", {"entries": claims}), "rest")
                self.assertEqual(ask("POST", "/v1/peek", {"entries": claims}), "rest")
                self.assertEqual(ask("POST", "/v1/take", {"entries": {"tls.name": NAME}}), "")
                self.assertEqual(ask("GET", f"/v1/take?entry=queue=a&entry=tls.name={NAME}"), "rest")
                self.assertEqual(ask("GET", f"/v1/take?entry=tls.name={NAME}&entry=queue=a"), "rest")
                self.assertEqual(ask("POST", "/v1/take", TAKE, **{"tls.name": NAME, "X_SSL_Client_CN": NAME}), "rest")
                self.assertEqual(ask("POST", "/v1/take", {
                    "key": NAME, "limits": [{"quota": 9, "window": "1h", "name": "own"}]}), "own")
                self.assertEqual(ask("GET", "/auth/web", X_Original_Method="GET", X_Original_URI="/", X_Real_IP="10.0.0.1",
                                     **{"tls.name": NAME}), "")
        # No unit of the known client is gone.
        known = self.connections(self.known())
        known.request("POST", "/v1/peek", json.dumps(TAKE), {"Content-Type": "application/json"})
        self.assertEqual(json.loads(known.getresponse().read())["remaining"], 99)

    def test_an_actor(self) -> None:
        """Each name has its own counter; all clients without a certificate share one."""
        grade = {"entries": {"grade": "x", "tls.name": "made.up"}}

        def remaining(connection: http.client.HTTPConnection) -> int:
            connection.request("POST", "/v1/take", json.dumps(grade), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())["remaining"]

        a, b = (self.authority.sign(f"DNS:{name}.example") for name in "ab")
        self.assertEqual([remaining(self.connections(a)), remaining(self.connections(a))], [1, 0])
        self.assertEqual(remaining(self.connections(b)), 1)
        self.assertEqual([remaining(self.connections(None)), remaining(self.plain_one())], [1, 0])


if __name__ == "__main__":
    unittest.main()
