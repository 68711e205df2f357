"""The control planes of the tests, asked by grpcio."""

from __future__ import annotations

import queue
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

import grpc

from ads import METHOD, Ads, Cache, Tls
from certificates import Authority, pem
from sluice_server import LimitedTest
from xds_messages import RATE_LIMIT_CONFIG, Node, field, limit_of, read, response, text


def _request(version: str, nonce: str, error: str = "") -> bytes:
    """From a node with metadata k=v."""
    value = field(1, "k") + field(2, field(3, "v"))
    node = field(1, "me") + field(3, field(1, value))
    refusal = field(6, field(1, 3) + field(2, error)) if error else b""
    return field(1, version) + field(2, node) + field(4, RATE_LIMIT_CONFIG) + field(5, nonce) + refusal


class Client:
    def __init__(self, test: LimitedTest, ads: Ads, credentials: grpc.ChannelCredentials | None = None) -> None:
        """In plain text it waits for the server."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        channel = (grpc.secure_channel(ads.address, credentials, options) if credentials
                   else grpc.insecure_channel(ads.address, options))
        test.addCleanup(channel.close)
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call = channel.stream_stream(METHOD)(self._all(), metadata=[("x-a", "b:c")], wait_for_ready=credentials is None,
                                                         timeout=60)

    def _all(self) -> Iterator[bytes]:
        while (request := self._requests.get()) is not None:
            yield request

    def ask(self, version: str, nonce: str, error: str = "") -> None:
        self._requests.put(_request(version, nonce, error))

    def hear(self) -> tuple[str, str, int]:
        """Version, nonce and size of the next response."""
        message = next(self.call)
        fields = read(message)
        return text(fields, 1), text(fields, 5), len(message)

    def close(self) -> None:
        self._requests.put(None)
        self.call.cancel()


class AdsTest(LimitedTest):
    def ads(self, tls: Tls | None = None) -> Ads:
        ads = Ads(tls)
        self.addCleanup(ads.stop)
        return ads

    def cache(self) -> Cache:
        cache = Cache()
        self.addCleanup(cache.ads.stop)
        return cache

    def client(self, ads: Ads, credentials: grpc.ChannelCredentials | None = None) -> Client:
        client = Client(self, ads, credentials)
        self.addCleanup(client.close)
        return client

    def assert_ends(self, client: Client, code: grpc.StatusCode) -> None:
        with self.assertRaises(grpc.RpcError) as caught:
            next(client.call)
        self.assertEqual(caught.exception.code(), code)


class Scripted(AdsTest):
    def test_a_request_is_recorded_as_it_was_sent(self) -> None:
        ads = self.ads()
        client = self.client(ads)
        client.ask("", "")
        first = ads.await_request()
        self.assertEqual((first.told, first.node, first.names, first.type_url, first.stream),
                         (("", "", None), Node("me", {"k": "v"}), (), RATE_LIMIT_CONFIG, 1))
        self.assertEqual(ads.stream.metadata["x-a"], "b:c")
        ads.stream.send("1", "n", [limit_of(5)])
        self.assertEqual(client.hear(), ("1", "n", len(response("1", "n", [limit_of(5)]))))
        client.ask("1", "n", "it is bad")
        self.assertEqual(ads.await_request().error, (3, "it is bad"))

    def test_a_stream_ends_by_any_status_and_another_one_begins(self) -> None:
        ads = self.ads()
        for number, code in enumerate((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.PERMISSION_DENIED), 1):
            client = self.client(ads)
            ads.await_stream(number).end(code)
            self.assert_ends(client, code)
        client = self.client(ads)
        ads.await_stream(3).end(grpc.StatusCode.OK)
        with self.assertRaises(StopIteration):
            next(client.call)

    def test_a_large_message_arrives(self) -> None:
        ads = self.ads()
        client = self.client(ads)
        large = b"\0" * 6_000_000
        ads.await_stream(1).send("1", "n", [large])
        self.assertGreater(client.hear()[2], 6_000_000)

    def test_it_stops_and_starts_on_its_port(self) -> None:
        ads = self.ads()
        client = self.client(ads)
        stream = ads.await_stream(1)
        ads.stop()
        self.assert_ends(client, grpc.StatusCode.UNAVAILABLE)
        ads.await_end(stream)
        ads.start()
        self.client(ads).ask("", "")
        self.assertEqual(ads.await_request().stream, 2)

    def test_a_client_that_goes_is_noticed(self) -> None:
        ads = self.ads()
        client = self.client(ads)
        stream = ads.await_stream(1)
        self.assertIsNone(stream.ended_at)
        client.close()
        ads.await_end(stream)


class Caching(AdsTest):
    def test_a_snapshot_is_sent_once_until_it_changes(self) -> None:
        cache = self.cache()
        client = self.client(cache.ads)
        client.ask("", "")
        cache.ads.await_request()
        cache.set("1", limit_of(1))
        self.assertEqual(client.hear()[:2], ("1", "1"))
        client.ask("1", "1")
        cache.ads.await_request()
        cache.set("2")
        self.assertEqual(client.hear()[:2], ("2", "2"))
        self.assertEqual([event[0] for event in cache.events], ["recv", "send", "recv", "send"])

    def test_a_refusal_gets_the_same_again_at_once(self) -> None:
        cache = self.cache()
        cache.set("1", limit_of(1))
        client = self.client(cache.ads)
        client.ask("", "")
        for number in range(1, 50):
            self.assertEqual(client.hear()[:2], ("1", str(number)))
            client.ask("", str(number), "no")

    def test_a_new_stream_gets_it_whatever_version_it_tells(self) -> None:
        cache = self.cache()
        cache.set("1", limit_of(1))
        for _ in range(2):
            client = self.client(cache.ads)
            client.ask("1", "7")
            self.assertEqual(client.hear()[:2], ("1", "1"))
            client.close()


class Secured(AdsTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="sluice-ads-")
        self.addCleanup(folder.cleanup)
        self.authority = Authority(Path(folder.name), "one")
        self.other = Authority(Path(folder.name), "other")
        server = self.authority.sign("IP:127.0.0.1")
        self.tls = Tls(*server.texts, self.authority.certificate.read_text())

    def credentials(self, authority: Authority) -> grpc.ChannelCredentials:
        self.shown = authority.sign("DNS:client")
        certificate, key = self.shown.texts
        return grpc.ssl_channel_credentials(self.authority.certificate.read_bytes(), key.encode(), certificate.encode())

    def test_it_sees_the_certificate_of_its_client(self) -> None:
        ads = self.ads(self.tls)
        self.client(ads, self.credentials(self.authority))
        self.assertEqual(pem(ads.await_stream(1).certificate), pem(self.shown.texts[0]))

    def test_another_authority_is_refused(self) -> None:
        ads = self.ads(self.tls)
        client = self.client(ads, self.credentials(self.other))
        self.assert_ends(client, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(ads.streams, [])


if __name__ == "__main__":
    unittest.main()
