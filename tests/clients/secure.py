"""Tests of clients that come by TLS: `sluice serve` with several listeners, an authority and certificates by it."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from certificates import Authority, Pair
from started import BINARY, LimitedTest, Started

LISTENING = r"^sluice: (\w+) (?:listening )?on .*:(\d+)$"
NAME = "app.example"  # in the certificate of the client that is known


class Secured(Started):
    """`sluice serve` by a sluice.yaml in a folder of its own. `ports`: of each protocol, in the order of the file."""

    def __init__(self, folder: Path, config: str, *words: str, **environment: str) -> None:
        self.folder, self.config = folder, folder / "sluice.yaml"
        self.config.write_text(config, encoding="utf-8")
        super().__init__([BINARY, "serve", "--config", str(self.config), *words], **environment)
        self.ports: dict[str, list[int]] = {}
        for _ in range(config.count("protocol:")):
            found = self.await_line(LISTENING)
            self.ports.setdefault(found[1], []).append(int(found[2]))

    def port(self, protocol: str) -> int:
        """Of its only listener of this protocol."""
        [port] = self.ports[protocol]
        return port


class TlsTest(LimitedTest):
    """A test with an authority of its own, another one, and a certificate for a server on localhost."""

    test_seconds_max = 120

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="sluice-tls-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.authority, self.other = Authority(self.folder, "one"), Authority(self.folder, "other")
        self.pair = self.authority.sign("DNS:localhost", "IP:127.0.0.1")

    def listener(self, protocol: str, pair: Pair | None = None, clients: str = "") -> str:
        """An item of `listen` with TLS; `clients`: more keys of `tls`, with a comma before each."""
        pair = pair or self.pair
        return (f'  - {{ protocol: {protocol}, address: "127.0.0.1:0", '
                f"tls: {{ certificate: {pair.certificate}, key: {pair.key}{clients} }} }}\n")

    def plain(self, protocol: str) -> str:
        return f'  - {{ protocol: {protocol}, address: "127.0.0.1:0" }}\n'

    @property
    def required(self) -> str:
        """Clients must show a certificate by the authority."""
        return f", client_ca: {self.authority.certificate}"

    @property
    def requested(self) -> str:
        """They may."""
        return f"{self.required}, client: request"

    def serve(self, config: str, *words: str, **environment: str) -> Secured:
        """It must end cleanly, with the test at the latest."""
        folder = tempfile.TemporaryDirectory(prefix="sluice-served-")
        self.addCleanup(folder.cleanup)
        server = Secured(Path(folder.name), config, *words, **environment)
        self.addCleanup(lambda: server.process.returncode is not None or self.assertEqual(server.stop(), 0, server.said))
        return server

    def known(self) -> Pair:
        """A client's certificate with NAME."""
        return self.authority.sign(f"DNS:{NAME}")

    def context(self, shown: Pair | None = None, authority: Authority | None = None) -> ssl.SSLContext:
        """Of a client that trusts the authority; `shown`: its own certificate."""
        context = ssl.create_default_context(cafile=str((authority or self.authority).certificate))
        if shown:
            context.load_cert_chain(shown.certificate, shown.key)
        return context
