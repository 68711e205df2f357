"""grpcio, unchanged, against the real `sluice envoy`: decisions, deadlines, many streams on one connection, compression,
health, and the server's end under traffic. The runner says which grpcio that is."""

from __future__ import annotations

import signal
import threading
import unittest
from collections import Counter

import grpc

from messages import (NOT_SERVING, OK, OVER_LIMIT, SERVING, SHOULD_RATE_LIMIT, HealthCheckRequest, HealthCheckResponse,
                      RateLimitResponse, request)
from sluice_server import SECONDS_MAX, LimitedTest, Server, wait_until

HEALTH = "/grpc.health.v1.Health/"


def connect(test: LimitedTest, server: Server) -> grpc.Channel:
    """A channel with a connection of its own."""
    channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", [("grpc.use_local_subchannel_pool", 1)])
    test.addCleanup(channel.close)
    return channel


class GrpcioTest(LimitedTest):
    def setUp(self) -> None:
        super().setUp()
        self.server = self.serve()
        self.channel = connect(self, self.server)

    @property
    def should_rate_limit(self) -> grpc.UnaryUnaryMultiCallable:
        return self.channel.unary_unary(
            SHOULD_RATE_LIMIT, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=RateLimitResponse.FromString)

    def ask(self, message, **options):
        return self.should_rate_limit(message, timeout=SECONDS_MAX, **options)

    def assert_refused(self, code: grpc.StatusCode, call, *arguments, **options) -> str:
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code(), code, caught.exception)
        return caught.exception.details()


class Decisions(GrpcioTest):
    def test_up_to_the_limit(self) -> None:
        told = [self.ask(request([("user", "a")])) for _ in range(7)]
        self.assertEqual([one.overall_code for one in told], [OK] * 5 + [OVER_LIMIT] * 2)
        self.assertEqual([one.statuses[0].limit_remaining for one in told], [4, 3, 2, 1, 0, 0, 0])
        limit = told[0].statuses[0].current_limit
        self.assertEqual((limit.requests_per_unit, limit.Unit.Name(limit.unit), limit.name), (5, "YEAR", "of_user"))
        self.assertIn(told[0].statuses[0].duration_until_reset.seconds, range(1, 365 * 86_400 + 1))
        self.assertEqual(self.ask(request([("user", "b")])).overall_code, OK)

    def test_several_descriptors(self) -> None:
        both = request([("tenant", "t"), ("path", "/cart")], [("tenant", "t")], [("trusted", "x")], [("none", "x")])
        told = [self.ask(both) for _ in range(3)]
        self.assertEqual([one.overall_code for one in told], [OK, OK, OVER_LIMIT])
        self.assertEqual([status.code for status in told[2].statuses], [OVER_LIMIT, OK, OK, OK])
        # The other descriptors are charged although one is over its limit.
        self.assertEqual([one.statuses[1].limit_remaining for one in told], [599, 598, 597])
        self.assertEqual(told[0].statuses[2].limit_remaining, 2**32 - 1)
        self.assertFalse(told[0].statuses[2].HasField("current_limit"))
        self.assertFalse(told[0].statuses[3].HasField("current_limit"))

    def test_hits(self) -> None:
        self.assertEqual(self.ask(request([("user", "a")], hits=3)).statuses[0].limit_remaining, 2)
        peek = request([("user", "a")])
        peek.descriptors[0].hits_addend.value = 0
        self.assertEqual(self.ask(peek).statuses[0].limit_remaining, 2)
        own = request([("user", "a")], hits=5)
        own.descriptors[0].hits_addend.value = 1
        self.assertEqual(self.ask(own).statuses[0].limit_remaining, 1)
        refund = request([("user", "a")], hits=2)
        refund.descriptors[0].is_negative_hits = True
        self.assertEqual(self.ask(refund).statuses[0].limit_remaining, 3)
        self.assertEqual(self.ask(request([("user", "a")], hits=4)).overall_code, OVER_LIMIT)
        self.assertEqual(self.ask(peek).overall_code, OVER_LIMIT)  # all four were charged

    def test_an_inline_limit(self) -> None:
        override = request([("none", "x")])
        override.descriptors[0].limit.requests_per_unit = 2
        override.descriptors[0].limit.unit = 6
        self.assertEqual([self.ask(override).overall_code for _ in range(3)], [OK, OK, OVER_LIMIT])
        override.descriptors[0].limit.unit = 0
        text = self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT, self.ask, override)
        self.assertEqual(text, "descriptors[0].limit.unit: UNKNOWN is not a unit")

    def test_invalid_requests_are_rejected(self) -> None:
        text = self.assert_refused(grpc.StatusCode.UNKNOWN, self.ask, request([("user", "a")], domain=""))
        self.assertEqual(text, "rate limit domain must not be empty")
        text = self.assert_refused(grpc.StatusCode.UNKNOWN, self.ask, request())
        self.assertEqual(text, "rate limit descriptor list must not be empty")
        raw = self.channel.unary_unary(SHOULD_RATE_LIMIT)
        self.assert_refused(grpc.StatusCode.INTERNAL, raw, b"\xff\xff", timeout=SECONDS_MAX)
        self.assertEqual(self.ask(request([("user", "a")])).statuses[0].limit_remaining, 4)


class Calls(GrpcioTest):
    def test_unknown_methods(self) -> None:
        for path, text in {
            "/envoy.service.ratelimit.v3.RateLimitService/Other":
                "unknown method Other for service envoy.service.ratelimit.v3.RateLimitService",
            "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit":
                "unknown service envoy.service.ratelimit.v2.RateLimitService",
        }.items():
            call = self.channel.unary_unary(path)
            self.assertEqual(self.assert_refused(grpc.StatusCode.UNIMPLEMENTED, call, b"", timeout=SECONDS_MAX), text)

    def test_compression(self) -> None:
        much = request(*[[("much", f"value-{i:04}")] for i in range(500)])
        for compression in (grpc.Compression.Gzip, grpc.Compression.NoCompression):
            told = self.ask(much, compression=compression)
            self.assertEqual(len(told.statuses), 500)
            self.assertEqual(told.overall_code, OK)
        self.assertEqual(self.ask(much, compression=grpc.Compression.Gzip).statuses[0].limit_remaining, 999_997)
        self.assert_refused(grpc.StatusCode.UNIMPLEMENTED, self.ask, much, compression=grpc.Compression.Deflate)

    def test_deadline(self) -> None:
        self.ask(request([("user", "a")]))
        with self.server.held():
            self.assert_refused(grpc.StatusCode.DEADLINE_EXCEEDED, self.should_rate_limit, request([("user", "a")]),
                                timeout=0.2)
        # The connection stays open, and a request that has timed out is charged once at most.
        left = self.ask(request([("user", "a")])).statuses[0].limit_remaining
        self.assertIn(left, (2, 3))

    def test_a_thousand_streams_on_one_connection(self) -> None:
        self.ask(request([("tenant", "warm")]))  # so that the client knows how many streams are allowed
        done = threading.Semaphore(0)
        with self.server.held():
            calls = []
            for _ in range(1000):
                calls.append(self.should_rate_limit.future(request([("tenant", "t")]), timeout=SECONDS_MAX))
                calls[-1].add_done_callback(lambda _: done.release())
            self.assertFalse(any(call.done() for call in calls))
        for _ in calls:
            done.acquire()
        self.assertEqual(Counter(call.result().overall_code for call in calls), {OK: 600, OVER_LIMIT: 400})
        left = sorted(call.result().statuses[0].limit_remaining for call in calls)
        self.assertEqual(left, [0] * 400 + list(range(600)))


class Health(GrpcioTest):
    def check(self, service: str):
        call = self.channel.unary_unary(HEALTH + "Check", request_serializer=HealthCheckRequest.SerializeToString,
                                        response_deserializer=HealthCheckResponse.FromString)
        return call(HealthCheckRequest(service=service), timeout=SECONDS_MAX).status

    def watch(self, service: str):
        call = self.channel.unary_stream(HEALTH + "Watch", request_serializer=HealthCheckRequest.SerializeToString,
                                         response_deserializer=HealthCheckResponse.FromString)
        return call(HealthCheckRequest(service=service))

    def test_check(self) -> None:
        for service in ("", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"):
            self.assertEqual(self.check(service), SERVING)
        self.assertEqual(self.assert_refused(grpc.StatusCode.NOT_FOUND, self.check, "other"), "unknown service")

    def test_watch_until_the_server_ends(self) -> None:
        watch = self.watch("ratelimit")
        self.assertEqual(next(watch).status, SERVING)
        # Others are served meanwhile, on the same connection.
        self.assertEqual(self.ask(request([("user", "a")])).overall_code, OK)
        self.server.signal(signal.SIGTERM)
        try:
            self.assertEqual([told.status for told in watch], [NOT_SERVING])
        except grpc.RpcError as error:
            self.assertIn(error.code(), (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), error)
        self.assertEqual(self.server.await_end(), 0)

    def test_a_watcher_may_disconnect(self) -> None:
        watch = self.watch("")
        self.assertEqual(next(watch).status, SERVING)
        watch.cancel()
        self.assertEqual(self.check(""), SERVING)

    def test_watch_of_an_unknown_service(self) -> None:
        watch = self.watch("other")
        told = next(watch)
        self.assertEqual(HealthCheckResponse.ServingStatus.Name(told.status), "SERVICE_UNKNOWN")
        watch.cancel()


class TheEnd(LimitedTest):
    """The server ends under traffic: each call has an answer, or was not charged and may be sent to another server."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.serve(durable=True)

    def connect(self) -> grpc.UnaryUnaryMultiCallable:
        channel = connect(self, self.server)
        return channel.unary_unary(SHOULD_RATE_LIMIT, request_serializer=lambda message: message.SerializeToString(),
                                   response_deserializer=RateLimitResponse.FromString)

    def assert_charged(self, calls: int) -> None:
        """Compares with the counter, which a new process reads."""
        self.server.start()
        peek = request([("much", "a")])
        peek.descriptors[0].hits_addend.value = 0
        left = self.connect()(peek, timeout=SECONDS_MAX).statuses[0].limit_remaining
        self.assertEqual(1_000_000 - left, calls)

    def test_with_calls_that_it_has_not_read(self) -> None:
        call = self.connect()
        call(request([("much", "a")]), timeout=SECONDS_MAX)
        with self.server.held():
            calls = [call.future(request([("much", "a")]), timeout=SECONDS_MAX) for _ in range(300)]
            self.server.signal(signal.SIGTERM)
        codes = Counter(one.code() for one in calls)
        answered = codes.pop(grpc.StatusCode.OK, 0)
        self.assertLessEqual(codes.keys(), {grpc.StatusCode.UNAVAILABLE})
        self.assertEqual(self.server.await_end(), 0)
        self.assert_charged(1 + answered)

    def test_with_calls_one_after_another(self) -> None:
        codes: Counter[grpc.StatusCode] = Counter()
        problems: list[BaseException] = []

        def ask_until_refused() -> None:
            call = self.connect()
            try:
                while True:
                    call(request([("much", "a")]), timeout=SECONDS_MAX)
                    codes[grpc.StatusCode.OK] += 1
            except grpc.RpcError as error:
                codes[error.code()] += 1
            except BaseException as error:
                problems.append(error)

        clients = [threading.Thread(target=ask_until_refused, daemon=True) for _ in range(4)]
        for client in clients:
            client.start()
        wait_until(lambda: codes[grpc.StatusCode.OK] >= 200, "traffic")
        self.assertEqual(self.server.stop(), 0)
        for client in clients:
            client.join(SECONDS_MAX)
        self.assertEqual(problems, [])
        self.assertEqual(codes, {grpc.StatusCode.OK: codes[grpc.StatusCode.OK], grpc.StatusCode.UNAVAILABLE: 4})
        self.assert_charged(codes[grpc.StatusCode.OK])


if __name__ == "__main__":
    unittest.main()
