"""redis-py over TLS, unchanged, against the real server: which servers it trusts, which clients the server lets in, and what a
certificate makes of a client beside AUTH."""

from __future__ import annotations

import socket
import ssl
import sys
import unittest
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

sys.path.append(str(Path(__file__).resolve().parents[2]))

from certificates import Pair  # noqa: E402
from secure import NAME, Secured, TlsTest  # noqa: E402
from started import SECONDS_MAX, wait_until  # noqa: E402

RULES = """rules:
  - { name: mails, match: { queue: "*" }, actor: queue, limit: { quota: 9, window: 1d, algorithm: fixed_window } }
"""
OPS = "o" * 43
OPS_DIGEST = "3907791a831e2e5c383fba601a0f08e0bfae87a56c2f45121101976d874ee3d6"  # its SHA-256
APP_USER = f"  - {{ name: app, certificate: {NAME}, rights: [take] }}\n"
OPS_USER = f"  - {{ name: ops, sha256: {OPS_DIGEST}, rights: [put, look] }}\n"
TAKE = ("SLUICE.TAKE", "queue=a")
# Newer clients begin with HELLO.
NOBODY = "Authentication required|HELLO must be called with the client already authenticated"
PUT = ("SLUICE.PUT", "queue=a")


class RespTlsTest(TlsTest):
    def client(self, server: Secured, shown: Pair | None = None, **options: object) -> redis.Redis:
        more = {"ssl_certfile": str(shown.certificate), "ssl_keyfile": str(shown.key)} if shown else {}
        client = redis.Redis(**{
            "host": "localhost", "port": server.port("resp"), "ssl": True, "ssl_ca_certs": str(self.authority.certificate),
            "ssl_check_hostname": True, "socket_timeout": SECONDS_MAX, "retry": Retry(NoBackoff(), 0),
            **more, **options})
        self.addCleanup(client.close)
        return client

    def assert_not_trusted(self, server: Secured, why: str, **options: object) -> None:
        with self.assertRaisesRegex(redis.ConnectionError, why):
            self.client(server, **options).ping()


class Servers(RespTlsTest):
    def listen(self, pair: Pair | None = None, more: str = "") -> Secured:
        return self.serve("listen:\n" + self.listener("resp", pair, more) + RULES)

    def test_commands_are_answered(self) -> None:
        server = self.listen()
        for protocol in (2, 3):
            client = self.client(server, protocol=protocol)
            self.assertIs(client.ping(), True)
            self.assertEqual(client.execute_command("CL.THROTTLE", f"user:{protocol}", 1, 1, 60), [0, 2, 1, -1, 60])
            self.assertEqual(client.execute_command("SLUICE.TAKE", f"queue={protocol}")[:3], [1, 9, 8])
        with self.client(server).pipeline(transaction=False) as pipeline:
            for _ in range(2_000):  # many records of TLS
                pipeline.execute_command("SLUICE.TAKE", "queue=many")
            allowed = [reply[0] for reply in pipeline.execute()]
        self.assertEqual(allowed, [1] * 9 + [0] * 1_991)

    def test_a_server_of_another_authority_is_not_trusted(self) -> None:
        server = self.listen(self.other.sign("DNS:localhost"))
        self.assert_not_trusted(server, "unable to get local issuer certificate")
        self.assertIs(self.client(server, ssl_ca_certs=str(self.other.certificate)).ping(), True)

    def test_a_server_of_another_name_is_not_trusted(self) -> None:
        server = self.listen(self.authority.sign("DNS:elsewhere.example"))
        self.assert_not_trusted(server, "Hostname mismatch, certificate is not valid for 'localhost'")
        self.assertIs(self.client(server, ssl_check_hostname=False).ping(), True)

    def test_a_server_whose_certificate_has_ended_is_not_trusted(self) -> None:
        self.assert_not_trusted(self.listen(self.authority.sign("DNS:localhost", expired=True)), "certificate has expired")

    def test_a_self_signed_server_is_not_trusted(self) -> None:
        self.assert_not_trusted(self.listen(self.authority.own("DNS:localhost")), "self-signed certificate")

    def test_versions(self) -> None:
        """Down to 1.2, or to what the listener says."""
        versions = {"1.1": ssl.TLSVersion.TLSv1_1, "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
        for at_least, refused in (("1.2", ["1.1"]), ("1.3", ["1.1", "1.2"])):
            server = self.listen(more=f', min_version: "{at_least}"')
            for version, number in versions.items():
                context = self.context()
                context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else OpenSSL itself refuses 1.1
                context.minimum_version = context.maximum_version = number
                with socket.create_connection(("localhost", server.port("resp")), SECONDS_MAX) as plain:
                    if version in refused:
                        with self.assertRaisesRegex(ssl.SSLError, "ALERT_PROTOCOL_VERSION"):
                            context.wrap_socket(plain, server_hostname="localhost")
                        continue
                    with context.wrap_socket(plain, server_hostname="localhost") as secure:
                        secure.sendall(b"PING\r\n")
                        self.assertEqual((secure.version(), secure.recv(100)), (f"TLSv{version}", b"+PONG\r\n"))

    def test_plain_text_is_not_answered(self) -> None:
        with self.assertRaises(redis.ConnectionError):
            self.client(self.listen(), ssl=False, ssl_ca_certs=None).ping()


class Clients(RespTlsTest):
    def test_a_required_certificate(self) -> None:
        server = self.serve("listen:\n" + self.listener("resp", clients=self.required) + RULES)
        self.assertEqual(self.client(server, self.known()).execute_command(*TAKE)[:3], [1, 9, 8])
        for shown in (None, self.other.sign(f"DNS:{NAME}"), self.authority.sign(f"DNS:{NAME}", expired=True),
                      self.authority.own(f"DNS:{NAME}"), self.authority.sign(f"DNS:{NAME}", usage="serverAuth")):
            with self.assertRaises(redis.ConnectionError):
                self.client(server, shown).ping()
        self.assertEqual(self.client(server, self.known()).execute_command(*TAKE)[:3], [1, 9, 7])

    def test_names_that_may_connect(self) -> None:
        server = self.serve("listen:\n" + self.listener("resp", clients=f"{self.required}, names: [a.shop.example]") + RULES)
        self.assertIs(self.client(server, self.authority.sign("DNS:x", "DNS:a.shop.example")).ping(), True)
        self.assertIs(self.client(server, self.authority.sign("DNS:*.shop.example")).ping(), True)
        for shown in (self.authority.sign("DNS:b.shop.example"), self.authority.sign("DNS:x", subject="a.shop.example")):
            with self.assertRaises(redis.ConnectionError):
                self.client(server, shown).ping()


class Users(RespTlsTest):
    """`app` has a certificate and may take, `ops` has a token and may do everything else."""

    def setUp(self) -> None:
        super().setUp()
        self.rest = "listen:\n" + self.listener("resp", clients=self.requested) + RULES + "users:\n"
        self.server = self.serve(self.rest + APP_USER + OPS_USER)

    def single(self, shown: Pair | None = None, **options: object) -> redis.Redis:
        """All commands by one connection."""
        return self.client(self.server, shown, single_connection_client=True, **options)

    def user(self, client: redis.Redis) -> str:
        line = client.execute_command("CLIENT", "INFO")
        text = line if isinstance(line, str) else line.decode()
        return dict(field.split("=", 1) for field in text.split())["user"]

    def assert_is_app(self, client: redis.Redis) -> None:
        self.assertEqual(client.execute_command(*TAKE)[0], 1)
        self.assertEqual(self.user(client), "app")
        for words in (PUT, ("SLUICE.PEEK", "queue=a"), ("DEL", "k"), ("CL.THROTTLE", "k", 1, 1, 60, -1)):
            with self.assertRaisesRegex(redis.exceptions.NoPermissionError, "User app has no permissions"):
                client.execute_command(*words)

    def test_one_with_the_certificate_needs_no_auth(self) -> None:
        self.assert_is_app(self.single(self.known()))
        self.assert_is_app(self.single(self.known(), protocol=3))

    def test_the_name_is_a_uri_before_a_dns_name_before_the_common_name(self) -> None:
        self.assert_is_app(self.single(self.authority.sign(f"DNS:{NAME}", "DNS:other.example", subject="other")))
        self.assert_is_app(self.single(self.authority.sign(subject=NAME)))
        for shown in (self.authority.sign("DNS:other.example", f"DNS:{NAME}"), self.authority.sign("DNS:x", subject=NAME),
                      self.authority.sign(f"DNS:{NAME}", "URI:spiffe://example/other"), self.authority.sign("DNS:*.example"),
                      self.authority.sign("DNS:App.example")):
            with self.assertRaisesRegex(redis.AuthenticationError, NOBODY):
                self.single(shown).execute_command(*TAKE)

    def test_without_a_certificate_or_a_token_nothing_is_answered(self) -> None:
        with self.assertRaisesRegex(redis.AuthenticationError, NOBODY):
            self.single().execute_command(*TAKE)

    def test_one_by_another_authority_is_not_let_in(self) -> None:
        """Though it need not show any."""
        with self.assertRaises(redis.ConnectionError) as refused:
            self.single(self.other.sign(f"DNS:{NAME}")).ping()
        self.assertNotIsInstance(refused.exception, redis.AuthenticationError)

    def test_a_token_wins(self) -> None:
        client = self.single(self.known(), username="ops", password=OPS)
        self.assertEqual(self.user(client), "ops")
        self.assertEqual(client.execute_command("SLUICE.PEEK", "queue=a")[:3], [1, 9, 8])
        client.execute_command(*PUT)
        with self.assertRaisesRegex(redis.exceptions.NoPermissionError, "User ops has no permissions"):
            client.execute_command(*TAKE)
        client.execute_command("RESET")
        self.assert_is_app(client)

    def test_a_token_does_without_a_certificate(self) -> None:
        self.assertEqual(self.single(password=OPS).execute_command("SLUICE.PEEK", "queue=a")[:3], [1, 9, 8])

    def test_a_wrong_token_is_refused_beside_the_right_certificate(self) -> None:
        for options in ({"password": "wrong"}, {"username": "app", "password": "wrong"}, {"username": "app", "password": OPS},
                        {"password": "wrong", "protocol": 3}):
            with self.subTest(options), self.assertRaisesRegex(redis.AuthenticationError, "invalid"):
                self.single(self.known(), **options).execute_command(*TAKE)
        client = self.single(self.known())
        self.assert_is_app(client)
        with self.assertRaisesRegex(redis.AuthenticationError, "invalid"):
            client.execute_command("AUTH", "app", "wrong")
        self.assert_is_app(client)  # who it was before

    def test_a_reload_without_the_user_shuts_it_out(self) -> None:
        client, ops = self.single(self.known()), self.single(password=OPS)
        self.assert_is_app(client)
        self.server.config.write_text(self.rest + OPS_USER, encoding="utf-8")

        def is_out() -> bool:
            try:
                client.execute_command(*TAKE)
            except redis.AuthenticationError:
                return True
            return False

        wait_until(is_out, "the reload")
        self.assertEqual(self.user(ops), "ops")


if __name__ == "__main__":
    unittest.main()
