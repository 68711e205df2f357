"""`sluice ask` over TLS, of each protocol: what it asks, and what it says where it cannot."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from certificates import Pair  # noqa: E402
from secure import NAME, Secured, TlsTest  # noqa: E402
from started import BINARY, SECONDS_MAX  # noqa: E402

RULES = """store: { memory: 16MiB }
policy: [{ limitd: FOLDER/limitd.yaml }, { envoy: FOLDER/envoy.yaml }]
rules:
  - { name: by-ip, match: { ip: "*" }, actor: ip, limit: { quota: 100, window: 1d, algorithm: fixed_window } }
"""
LIMITD = "buckets:\n  ip: { size: 100 }\n"
ENVOY = "domain: edge\ndescriptors:\n  - { key: ip, rate_limit: { unit: day, requests_per_unit: 100 } }\n"
# Of each protocol: how an address asks for TLS, and a question.
PROTOCOLS = {
    "divvy": (("divvys",), ("ip=10.0.0.1",)),
    "limitd": (("limitds",), ("take", "ip", "10.0.0.1")),
    "droplet": (("wss",), ("--lm", "100", "take", "bar")),
    "resp": (("rediss", "resps"), ("take", "ip=10.0.0.1")),
    "http": (("https",), ("take", "ip=10.0.0.1")),
    "envoy": (("https", "grpcs"), ("edge", "ip=10.0.0.1")),
}


class AsksTest(TlsTest):
    def listen(self, pair: Pair | None = None, clients: str = "", plain: bool = False) -> Secured:
        (self.folder / "limitd.yaml").write_text(LIMITD)
        (self.folder / "envoy.yaml").write_text(ENVOY)
        made = (self.plain(protocol) if plain else self.listener(protocol, pair, clients) for protocol in PROTOCOLS)
        return self.serve("listen:\n" + "".join(made) + RULES.replace("FOLDER", str(self.folder)))

    def ask(self, protocol: str, server: str, *more: str) -> tuple[int, str, str]:
        done = subprocess.run([BINARY, "ask", protocol, "--server", server, *more, *PROTOCOLS[protocol][1]],
                              env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False)
        return done.returncode, done.stdout, done.stderr

    @property
    def trusting(self) -> tuple[str, ...]:
        return "--ca", str(self.authority.certificate), "--timeout", "20000"

    def showing(self, pair: Pair) -> tuple[str, ...]:
        return "--cert", str(pair.certificate), "--cert-key", str(pair.key)

    def each(self, server: Secured, host: str = "localhost") -> Iterator[tuple[str, str]]:
        """Of each protocol: its name, and how its listener is asked by TLS."""
        for protocol, (schemes, _) in PROTOCOLS.items():
            for scheme in schemes:
                with self.subTest(protocol, scheme=scheme):
                    yield protocol, f"{scheme}://{host}:{server.port(protocol)}"

    def assert_told(self, done: tuple[int, str, str], *words: str) -> None:
        """There is no decision, and one line with these words says why."""
        status, printed, told = done
        self.assertEqual((status, printed, told.strip().count("\n")), (3, "", 0), told)
        for word in words:
            self.assertIn(word, told)

    def test_each_is_answered(self) -> None:
        server = self.listen()
        for host in ("localhost", "127.0.0.1"):
            for protocol, where in self.each(server, host):
                status, printed, told = self.ask(protocol, where, *self.trusting)
                self.assertEqual((status, told), (0, ""), printed)
                self.assertIn("allowed", printed)

    def test_options_come_before_the_protocol_too(self) -> None:
        server = self.listen()
        done = subprocess.run([BINARY, "ask", "--ca", str(self.authority.certificate), "--server",
                               f"rediss://localhost:{server.port('resp')}", "resp", "take", "ip=10.0.0.9"],
                              env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_authority_that_is_not_trusted(self) -> None:
        server = self.listen()
        for protocol, where in self.each(server):
            for more in ((), ("--ca", str(self.other.certificate))):
                self.assert_told(self.ask(protocol, where, "--timeout", "20000", *more), "certificate is not trusted", "by one",
                                 "--ca FILE")

    def test_a_certificate_of_another_name(self) -> None:
        server = self.listen(self.authority.sign("DNS:elsewhere.example"))
        for protocol, where in self.each(server):
            self.assert_told(self.ask(protocol, where, *self.trusting), "not for localhost", "elsewhere.example",
                             "name the server as its certificate does")

    def test_a_certificate_that_has_ended(self) -> None:
        server = self.listen(self.authority.sign("DNS:localhost", expired=True))
        for protocol, where in self.each(server):
            self.assert_told(self.ask(protocol, where, *self.trusting), "certificate has expired", "a new certificate")

    def test_a_certificate_that_the_server_wants(self) -> None:
        server = self.listen(clients=f"{self.required}, names: [{NAME}]")
        for protocol, where in self.each(server):
            status, printed, told = self.ask(protocol, where, *self.trusting, *self.showing(self.known()))
            self.assertEqual((status, told), (0, ""), printed)
            self.assert_told(self.ask(protocol, where, *self.trusting))
            self.assert_told(self.ask(protocol, where, *self.trusting, *self.showing(self.other.sign(f"DNS:{NAME}"))))

    def test_what_a_server_of_openssl_says_of_a_certificate_that_it_wants(self) -> None:
        """It waits for the client's end, so that its reason arrives."""
        words = ["openssl", "s_server", "-quiet", "-accept", "0", "-Verify", "1", "-verify_return_error", "-CAfile",
                 str(self.authority.certificate), "-cert", str(self.pair.certificate), "-key", str(self.pair.key)]
        del words[2]
        for version, wanted in (("-tls1_2", "perhaps it wants a certificate"), ("-tls1_3", "it wants a certificate")):
            with subprocess.Popen([*words, version], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True) as server:
                try:
                    assert server.stdout
                    port = next(line.rpartition(":")[2].strip() for line in server.stdout if line.startswith("ACCEPT"))
                    self.assert_told(self.ask("divvy", f"divvys://localhost:{port}", *self.trusting), wanted, "--cert FILE")
                finally:
                    server.kill()

    def test_plain_text_towards_tls(self) -> None:
        server = self.listen()
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                self.assert_told(self.ask(protocol, f"localhost:{server.port(protocol)}", "--timeout", "5000"), "TLS", "https://")

    def test_tls_towards_plain_text(self) -> None:
        server = self.listen(plain=True)
        for protocol, where in self.each(server):
            # Some wait for more of what they take for a request.
            self.assert_told(self.ask(protocol, where, "--ca", str(self.authority.certificate), "--timeout", "2000"), "TLS")

    def test_a_handshake_that_is_not_finished(self) -> None:
        with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=50)) as silent:
            for protocol, (schemes, _) in PROTOCOLS.items():
                with self.subTest(protocol):
                    begun = time.monotonic()
                    told = self.ask(protocol, f"{schemes[0]}://127.0.0.1:{silent.getsockname()[1]}", "--timeout", "200")
                    self.assert_told(told, "no answer in time", "does that port have TLS?")
                    self.assertLess(time.monotonic() - begun, 20)

    def test_words_that_do_not_fit(self) -> None:
        files = self.showing(self.known())
        for protocol, (schemes, _) in PROTOCOLS.items():
            for server, more, word in ((f"{schemes[0]}://localhost", files[:2], "--cert and its key go together"),
                                       ("localhost", files, f"--server {schemes[-1] if protocol == 'resp' else schemes[0]}://"),
                                       ("ftp://localhost", (), "ftp://"), (f"{schemes[0]}s://localhost", (), "ss://")):
                status, _, told = self.ask(protocol, server, *more)
                self.assertEqual(status, 2, told)
                self.assertIn(word, told)
        for more, name in ((("--ca", "/nowhere/ca.crt"), "/nowhere/ca.crt"), (("--cert", "/nowhere/c", "--cert-key", "/nowhere/k"),
                                                                           "/nowhere/c")):
            for protocol, (schemes, _) in PROTOCOLS.items():
                with self.subTest(protocol):
                    self.assert_told(self.ask(protocol, f"{schemes[0]}://localhost", *more), name)


if __name__ == "__main__":
    unittest.main()
