"""The admin port with TLS: the commands that ask it, what they say where it cannot be, and a reader of its metrics."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from certificates import Pair  # noqa: E402
from secure import NAME, TlsTest  # noqa: E402
from started import BINARY, SECONDS_MAX  # noqa: E402

RULES = """rules:
  - { name: mails, match: { queue: "*" }, actor: queue, limit: { quota: 2, window: 1d, algorithm: fixed_window } }
"""
TOKEN = "the-token-of-the-administrator"


class AdminTest(TlsTest):
    def listen(self, pair: Pair | None = None, clients: str = "", rest: str = "") -> str:
        """`sluice serve` with an admin port that has TLS: its host and port."""
        self.server = self.serve("listen:\n" + self.listener("admin", pair, clients) + self.plain("http") + RULES + rest)
        return f"localhost:{self.server.port('admin')}"

    def run_sluice(self, *words: str, **environment: str) -> tuple[int, str, str]:
        done = subprocess.run([BINARY, *words], env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        return done.returncode, done.stdout, done.stderr

    @property
    def trusting(self) -> tuple[str, str]:
        return "--ca", str(self.authority.certificate)

    def showing(self, pair: Pair) -> tuple[str, ...]:
        return "--cert", str(pair.certificate), "--key", str(pair.key)

    def assert_told(self, done: tuple[int, str, str], *words: str) -> None:
        """It could not ask, and says why in one line of these words."""
        status, printed, told = done
        self.assertEqual((status, printed, told.strip().count("\n")), (3, "", 0), told)
        for word in words:
            self.assertIn(word, told)

    def test_the_commands(self) -> None:
        where = self.listen()
        for _ in range(3):
            request = urllib.request.Request(f"http://localhost:{self.server.port('http')}/v1/take?status=200",
                                             b'{"entries": {"queue": "a"}}', {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=SECONDS_MAX).close()
        for words, wanted in ((["status"], "ready"), (["top"], "mails"), (["config"], "protocol: admin"), (["rules"], "mails"),
                              (["counters"], "native:mails:a"), (["denials"], "mails"), (["reload"], "unchanged"),
                              (["log"], "info"), (["explain", "queue=a"], "native:mails:a")):
            status, printed, told = self.run_sluice(*words, "--admin", f"https://{where}", *self.trusting)
            self.assertEqual(status, 0, (words, told))
            self.assertIn(wanted, printed)
        status, printed, _ = self.run_sluice("status", "--json", "--admin", f"https://{where}", *self.trusting)
        [admin] = [listener for listener in json.loads(printed)["listeners"] if listener["service"] == "admin"]
        self.assertEqual((status, admin["tls"]["certificate"], admin["tls"]["problem"]), (0, str(self.pair.certificate), None))
        status, printed, _ = self.run_sluice("reset", "native:mails:a:queue", *self.trusting,
                                             SLUICE_ADMIN_SERVER=f"https://{where}")
        self.assertEqual(status, 0, printed)
        for variable in ("SSL_CERT_FILE", "SLUICE_ADMIN_CA"):
            self.assertEqual(self.run_sluice("health", "--admin", f"https://{where}",
                                             **{variable: str(self.authority.certificate)})[0], 0)
        self.assertEqual(self.run_sluice("status", "--admin", f"https://{where}",
                                         SLUICE_ADMIN_CA=str(self.authority.certificate))[0], 0)
        self.assert_told(self.run_sluice("status", "--admin", f"https://{where}", "--ca", str(self.other.certificate),
                                         SLUICE_ADMIN_CA=str(self.authority.certificate)), "not trusted")

    def test_without_the_authority_the_message_names_it(self) -> None:
        where = self.listen()
        for more in ((), ("--ca", str(self.other.certificate))):
            for words in (["status"], ["top"], ["config"]):
                self.assert_told(self.run_sluice(*words, "--admin", f"https://{where}", *more), "not trusted", "by one", "--ca FILE")

    def test_a_certificate_of_another_name_or_time(self) -> None:
        where = self.listen(self.authority.sign("DNS:elsewhere.example"))
        self.assert_told(self.run_sluice("status", "--admin", f"https://{where}", *self.trusting),
                         "not for localhost", "elsewhere.example")
        where = self.listen(self.authority.sign("DNS:localhost", expired=True))
        self.assert_told(self.run_sluice("status", "--admin", f"https://{where}", *self.trusting), "certificate has expired")

    def test_plain_text_towards_it(self) -> None:
        where = self.listen()
        for admin in (where, f"http://{where}"):
            self.assert_told(self.run_sluice("status", "--admin", admin), where)
        status, _, told = self.run_sluice("status", "--admin", where, *self.trusting)
        self.assertEqual(status, 2)
        self.assertIn("https://", told)
        with socket.create_connection(("127.0.0.1", self.server.port("admin")), SECONDS_MAX) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                answer = plain.recv(100)
            except ConnectionResetError:
                answer = b""
        self.assertNotIn(b"HTTP", answer)

    def test_tls_towards_a_plain_port(self) -> None:
        self.listen()
        where = f"localhost:{self.server.port('http')}"
        self.assert_told(self.run_sluice("status", "--admin", f"https://{where}", *self.trusting), "TLS")

    def test_a_certificate_that_is_required(self) -> None:
        where = self.listen(clients=self.required)
        asks = ("status", "--admin", f"https://{where}", *self.trusting)
        self.assertEqual(self.run_sluice(*asks, *self.showing(self.known()))[0], 0)
        self.assertEqual(self.run_sluice("top", *asks[1:], *self.showing(self.known()))[0], 0)
        self.assert_told(self.run_sluice(*asks), where)
        # The reason is lost if the request comes first.
        self.assert_told(self.run_sluice(*asks, *self.showing(self.other.sign("DNS:x"))), where)
        mixed = Pair(self.known().certificate, self.known().key)
        self.assert_told(self.run_sluice(*asks, *self.showing(mixed)), str(mixed.key))
        self.assert_told(self.run_sluice("status", "--admin", f"https://{where}", "--ca", "/nowhere/ca.crt"), "/nowhere/ca.crt")
        status, _, told = self.run_sluice(*asks, "--cert", str(mixed.certificate))
        self.assertEqual(status, 2)
        self.assertIn("--cert and its key go together", told)

    def test_changes_name_the_certificate(self) -> None:
        where = self.listen(clients=self.required)
        asks = ("--admin", f"https://{where}", *self.trusting, *self.showing(self.known()))
        status, _, told = self.run_sluice("override", "set", "--rule", "mails", "--actor", "a", "--deny", *asks)
        self.assertEqual(status, 0, told)
        status, printed, told = self.run_sluice("changes", "--json", *asks)
        self.assertEqual(status, 0, told)
        [change] = json.loads(printed)["changes"]
        self.assertRegex(change["by"], rf"^(127\.0\.0\.1|\[::1\]):[0-9]+, certificate {NAME}$")

    def test_the_token_is_wanted_beside_a_certificate(self) -> None:
        """Also of a certificate that a user has, with the right `admin`."""
        (self.folder / "token").write_text(TOKEN)
        (self.folder / "token").chmod(0o600)
        where = self.listen(clients=self.required, rest=f"admin: {{ token_file: {self.folder / 'token'} }}\n"
                            f"users: [{{ name: app, certificate: {NAME}, rights: [take, put, look, admin] }}]\n")
        asks = ("status", "--admin", f"https://{where}", *self.trusting, *self.showing(self.known()))
        status, _, told = self.run_sluice(*asks)
        self.assertNotEqual(status, 0)
        self.assertIn("token", told)
        self.assertEqual(self.run_sluice(*asks, SLUICE_ADMIN_TOKEN=TOKEN)[0], 0)
        self.assertEqual(self.run_sluice(*asks, "--token-file", str(self.folder / "token"))[0], 0)
        self.assertNotEqual(self.run_sluice(*asks, SLUICE_ADMIN_TOKEN="x" * 20)[0], 0)

    def test_metrics(self) -> None:
        where = self.listen()
        with urllib.request.urlopen(f"https://{where}/metrics", timeout=SECONDS_MAX, context=self.context()) as answer:
            page = answer.read().decode()
        ends = [line for line in page.splitlines() if line.startswith("sluice_tls_certificate_expires_seconds{")]
        self.assertEqual(len(ends), 1)
        self.assertRegex(page, r'(?m)^sluice_tls_certificate_refused\{listener="127\.0\.0\.1:\d+"\} 0$')
        with self.assertRaises(urllib.error.URLError) as refused:
            urllib.request.urlopen(f"https://{where}/metrics", timeout=SECONDS_MAX, context=self.context(authority=self.other))
        self.assertIsInstance(refused.exception.reason, ssl.SSLCertVerificationError)


if __name__ == "__main__":
    unittest.main()
