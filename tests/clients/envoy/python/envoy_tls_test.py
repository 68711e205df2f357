"""A real Envoy that asks `sluice envoy` by mutual TLS: what its clients get with certificates that are right, and with others."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

from envoy_proxy import Envoy, Upstream, configuration

sys.path.append(str(Path(__file__).resolve().parents[2]))

from certificates import Authority, Pair  # noqa: E402
from secure import TlsTest  # noqa: E402
from sluice_server import SECONDS_MAX, Server  # noqa: E402

NAME = "ratelimit.example"
CLIENT = "envoy.example"
LIMITS = "domain: shop\ndescriptors:\n  - { key: user, rate_limit: { unit: year, requests_per_unit: 3 } }\n"
TLS = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"


class EnvoyTlsTest(TlsTest):
    test_seconds_max = SECONDS_MAX

    def setUp(self) -> None:
        super().setUp()
        self.pair = self.authority.sign(f"DNS:{NAME}")
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)

    def serve_limits(self, pair: Pair | None = None, **environment: str) -> Server:
        pair = pair or self.pair
        server = Server(LIMITS, USE_STATSD="false", GRPC_SERVER_USE_TLS="true", GRPC_SERVER_TLS_CERT=str(pair.certificate),
                        GRPC_SERVER_TLS_KEY=str(pair.key), GRPC_CLIENT_TLS_CACERT=str(self.authority.certificate), **environment)
        self.addCleanup(server.close)
        server.start()
        self.addCleanup(lambda: server.process is None or self.assertEqual(server.stop(), 0, server.said))
        return server

    def front(self, server: Server, shown: Pair | None, authority: Authority | None = None) -> Envoy:
        """It fails closed where sluice does not answer: 500."""
        options: dict[str, object] = {"failure_mode_deny": True, "timeout": "10s"}
        config = configuration(server.grpc_port, self.upstream.port, options)
        trusts = {"trusted_ca": {"filename": str((authority or self.authority).certificate)},
                  "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": NAME}}]}
        mine = {"tls_certificates": [{"certificate_chain": {"filename": str(shown.certificate)},
                                      "private_key": {"filename": str(shown.key)}}]} if shown else {}
        [cluster] = [one for one in config["static_resources"]["clusters"] if one["name"] == "sluice"]
        cluster["transport_socket"] = {"name": "tls", "typed_config": {
            "@type": f"type.googleapis.com/{TLS}", "sni": NAME, "common_tls_context": {"validation_context": trusts, **mine}}}
        envoy = Envoy(server.grpc_port, self.upstream.port, json.dumps(config))
        self.addCleanup(envoy.close)
        return envoy

    def statuses(self, envoy: Envoy, times: int = 4) -> list[int]:
        return [envoy.get(user="a").status for _ in range(times)]

    def test_a_limited_route(self) -> None:
        envoy = self.front(self.serve_limits(), self.authority.sign(f"DNS:{CLIENT}"))
        self.assertEqual(self.statuses(envoy), [200, 200, 200, 429])
        self.assertEqual(envoy.get(user="b").status, 200)
        self.assertEqual((envoy.calls(), self.upstream.requests), (5, 4))

    def test_a_name_of_the_client_that_is_wanted(self) -> None:
        server = self.serve_limits(GRPC_CLIENT_TLS_SAN=CLIENT)
        self.assertEqual(self.statuses(self.front(server, self.authority.sign("DNS:other.example")), 1), [500])
        self.assertEqual(self.statuses(self.front(server, self.authority.sign(f"DNS:{CLIENT}"))), [200, 200, 200, 429])

    def test_clients_that_are_not_let_in(self) -> None:
        server = self.serve_limits()
        for shown in (None, self.other.sign(f"DNS:{CLIENT}"), self.authority.sign(f"DNS:{CLIENT}", expired=True)):
            self.assertEqual(self.statuses(self.front(server, shown), 2), [500, 500])
        self.assertEqual(self.upstream.requests, 0)

    def test_servers_that_are_not_trusted(self) -> None:
        mine = self.authority.sign(f"DNS:{CLIENT}")
        for pair in (self.other.sign(f"DNS:{NAME}"), self.authority.sign("DNS:other.example"),
                     self.authority.sign(f"DNS:{NAME}", expired=True)):
            self.assertEqual(self.statuses(self.front(self.serve_limits(pair), mine), 1), [500])
        self.assertEqual(self.upstream.requests, 0)


if __name__ == "__main__":
    unittest.main()
