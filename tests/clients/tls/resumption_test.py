"""Sessions that clients resume: who they are is who they were, and a ticket opens nothing that a new handshake would not."""

from __future__ import annotations

import socket
import ssl
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from certificates import Pair  # noqa: E402
from secure import NAME, TlsTest  # noqa: E402
from started import SECONDS_MAX, wait_until  # noqa: E402

RULES = f"""rules:
  - {{ name: known, match: {{ tls.name: {NAME} }}, actor: tls.name, limit: {{ quota: 1000, window: 1d }} }}
  - {{ name: rest, match: {{ queue: "*" }}, actor: queue, limit: {{ quota: 1000, window: 1d }} }}
"""
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class Client:
    """It has one certificate and resumes its last session when it can."""

    def __init__(self, test: TlsTest, shown: Pair | None, version: ssl.TLSVersion) -> None:
        self._context = test.context(shown)
        self._context.minimum_version = self._context.maximum_version = version
        self.session: ssl.SSLSession | None = None

    def ask(self, port: int, session: ssl.SSLSession | None = None) -> str:
        """The rule that decided, resumed or not; empty: the server lets it not in."""
        try:
            with (socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as plain,
                  self._context.wrap_socket(plain, server_hostname="localhost", session=session) as secure):
                secure.sendall(b"SLUICE.TAKE queue=a WITHNAME\r\n")
                reply = secure.recv(1000)
                if reply:
                    self.session = secure.session
                return reply.split(b"\r\n")[-2].decode() if reply else ""
        except (ssl.SSLError, ConnectionError):
            return ""


class ResumptionTest(TlsTest):
    def test_one_is_who_it_was(self) -> None:
        port = self.serve("listen:\n" + self.listener("resp", clients=self.requested) + RULES).port("resp")
        for version in VERSIONS:
            for shown, rule in ((self.known(), "known"), (self.authority.sign("DNS:other.example"), "rest"), (None, "rest")):
                client = Client(self, shown, version)
                self.assertEqual(client.ask(port), rule)
                for _ in range(2):
                    self.assertEqual(client.ask(port, client.session), rule)

    def test_a_ticket_is_of_one_listener(self) -> None:
        """Also of one that trusts the same clients, and of one that asks for none."""
        other = f", client_ca: {self.other.certificate}"
        listeners = [self.listener("resp", clients=clients) for clients in (self.required, other, self.required, "")]
        first, of_others, same, of_nobody = self.serve("listen:\n" + "".join(listeners) + RULES).ports["resp"]
        for version in VERSIONS:
            client = Client(self, self.known(), version)
            self.assertEqual(client.ask(first), "known")
            session = client.session
            self.assertEqual(client.ask(of_others, session), "")
            self.assertEqual(client.ask(same, session), "known")
            self.assertEqual(client.ask(of_nobody, session), "rest")
            self.assertEqual(client.ask(first, session), "known")
            nobody = Client(self, None, version)
            self.assertEqual(nobody.ask(of_nobody), "rest")
            self.assertEqual(nobody.ask(first, nobody.session), "")

    def test_a_ticket_ends_with_its_authority(self) -> None:
        trusted = self.folder / "trusted.crt"
        trusted.write_text(self.authority.certificate.read_text())
        port = self.serve("listen:\n" + self.listener("resp", clients=f", client_ca: {trusted}") + RULES).port("resp")
        clients = [Client(self, self.known(), version) for version in VERSIONS]
        for client in clients:
            self.assertEqual(client.ask(port), "known")
        successor = Client(self, self.other.sign("DNS:other.example"), ssl.TLSVersion.TLSv1_3)
        new = trusted.with_suffix(".new")
        new.write_text(self.other.certificate.read_text())
        new.replace(trusted)
        wait_until(lambda: successor.ask(port) == "rest", "the new authority")
        for client in clients:
            self.assertEqual(client.ask(port, client.session), "")


if __name__ == "__main__":
    unittest.main()
