"""Kuadrant's service by grpcio, unchanged, against the real server, as its gateway calls it: a client that knows nothing of the
service but its name learns it by reflection, holds an estimate, and commits what it came to."""

from __future__ import annotations

import threading
import unittest
from collections import Counter

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from messages import OK, OVER_LIMIT, message_of, request
from sluice_server import SECONDS_MAX, LimitedTest, Server

SERVICE = "kuadrant.service.ratelimit.v1.RateLimitService"
REFLECTION = "grpc.reflection.v1.ServerReflection"
# A native rule, and beside it the limits of limits.yaml.
CONFIG = """  - { name: plans, match: { plan: "*" }, actor: plan, limit: { quota: 50, window: 1h, algorithm: sliding_log } }
policy: [{ envoy: limits }]
envoy: { reflection: true, holds: { max_ttl: 30s } }
"""


class Client:
    """The four methods, with the messages that the server's reflection tells of."""

    def __init__(self, test: LimitedTest, server: Server) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", [("grpc.use_local_subchannel_pool", 1)])
        test.addCleanup(self.channel.close)
        told = self._reflect(file_containing_symbol=SERVICE).file_descriptor_response.file_descriptor_proto
        files = {file.name: file for file in map(descriptor_pb2.FileDescriptorProto.FromString, told)}
        pool = descriptor_pool.DescriptorPool()

        def add(name: str) -> None:
            """What it imports comes before it."""
            if (file := files.pop(name, None)) is not None:
                for imported in file.dependency:
                    add(imported)
                pool.Add(file)

        while files:
            add(next(iter(files)))
        self.service = pool.FindServiceByName(SERVICE)

    def _reflect(self, **asked):
        asks = message_of("grpc.reflection.v1.ServerReflectionRequest")
        answers = message_of("grpc.reflection.v1.ServerReflectionResponse")
        call = self.channel.stream_stream(f"/{REFLECTION}/ServerReflectionInfo", request_serializer=asks.SerializeToString,
                                          response_deserializer=answers.FromString)
        return next(call(iter([asks(**asked)]), timeout=SECONDS_MAX))

    def services(self) -> set[str]:
        return {one.name for one in self._reflect(list_services="").list_services_response.service}

    def call(self, name: str, message, **fields):
        """Fills the method's message with the domain and descriptors of `message`, and `fields`."""
        method = self.service.methods_by_name[name]
        asked = message_factory.GetMessageClass(method.input_type)()
        asked.MergeFromString(message.SerializeToString())
        for field, value in fields.items():
            if field == "ttl":
                asked.ttl.seconds = value
            else:
                setattr(asked, field, value)
        answer = message_factory.GetMessageClass(method.output_type)
        call = self.channel.unary_unary(f"/{SERVICE}/{name}", request_serializer=lambda one: one.SerializeToString(),
                                        response_deserializer=answer.FromString)
        return call(asked, timeout=SECONDS_MAX)

    def check(self, message) -> int:
        told = self.call("CheckRateLimit", message)
        assert not told.statuses
        return told.overall_code

    def report(self, message) -> int:
        told = self.call("Report", message)
        assert not told.statuses
        return told.overall_code

    def reserve(self, message, amount: int, **fields) -> tuple[int, str]:
        told = self.call("Reserve", message, amount=amount, **fields)
        return told.code, told.reservation_id

    def commit(self, message, reservation: str, amount: int) -> bool:
        return self.call("Commit", message, reservation_id=reservation, actual_amount=amount).reservation_released


class KuadrantTest(LimitedTest):
    def setUp(self) -> None:
        super().setUp()
        self.server = self.serve(rules=CONFIG)
        self.client = Client(self, self.server)

    def assert_refused(self, code: grpc.StatusCode, call, *arguments, **fields) -> str:
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **fields)
        self.assertEqual(caught.exception.code(), code, caught.exception)
        return caught.exception.details()

    def test_reflection_tells_of_both_services(self) -> None:
        self.assertLessEqual({SERVICE, "envoy.service.ratelimit.v3.RateLimitService"}, self.client.services())
        self.assertEqual([method.name for method in self.client.service.methods],
                         ["CheckRateLimit", "Report", "Reserve", "Commit"])

    def test_look_before_and_report_after(self) -> None:
        user = request([("user", "a")])
        self.assertEqual([self.client.check(user) for _ in range(10)], [OK] * 10)
        self.assertEqual(self.client.report(request([("user", "a")], hits=4)), OK)
        self.assertEqual(self.client.check(user), OK)
        self.assertEqual(self.client.report(user), OK)
        self.assertEqual(self.client.check(user), OVER_LIMIT)
        self.assertEqual(self.client.report(request([("user", "a")], hits=1000)), OK)
        self.assertEqual(self.client.check(user), OVER_LIMIT)

    def test_reserve_and_commit(self) -> None:
        tenant = request([("tenant", "t")])
        code, first = self.client.reserve(tenant, 300)
        self.assertEqual(code, OK)
        self.assertRegex(first, r"\A[A-Za-z0-9_-]{16,64}\Z")
        code, second = self.client.reserve(tenant, 1_000_000, ttl=30)  # it is cut to half of the limit
        self.assertEqual(code, OK)
        self.assertEqual(self.client.reserve(tenant, 1), (OVER_LIMIT, ""))
        self.assertEqual(self.client.check(tenant), OVER_LIMIT)
        self.assertTrue(self.client.commit(tenant, first, 100))
        self.assertFalse(self.client.commit(tenant, first, 100))
        text = self.assert_refused(grpc.StatusCode.FAILED_PRECONDITION, self.client.commit, tenant, first, 101)
        self.assertEqual(text, "the reservation is committed with another amount; nothing was charged")
        self.assertEqual(self.client.reserve(tenant, 201), (OVER_LIMIT, ""))
        self.assertTrue(self.client.commit(tenant, second, 350))
        self.assertFalse(self.client.commit(tenant, "", 149))  # without a reservation it is a report
        self.assertEqual(self.client.check(tenant), OK)
        self.assertFalse(self.client.commit(tenant, "no-reservation-of-this-server", 1))
        self.assertEqual(self.client.check(tenant), OVER_LIMIT)

    def test_native_rules_hold_as_well(self) -> None:
        plan = request([("plan", "small")], [("user", "b")])
        code, reservation = self.client.reserve(plan, 2)
        self.assertEqual(code, OK)
        self.assertEqual(self.client.report(request([("plan", "small")], hits=48)), OK)
        self.assertEqual(self.client.reserve(plan, 1), (OVER_LIMIT, ""))
        self.assertTrue(self.client.commit(plan, reservation, 0))
        self.assertEqual(self.client.reserve(plan, 2)[0], OK)

    def test_streams_at_one_time_hold_no_more_than_there_is(self) -> None:
        tenant = request([("tenant", "many")])
        codes: Counter[int] = Counter()
        lock = threading.Lock()

        def stream() -> None:
            client = Client(self, self.server)
            for _ in range(20):
                code, reservation = client.reserve(tenant, 10)
                with lock:
                    codes[code] += 1
                if code == OK:
                    assert client.commit(tenant, reservation, 9)

        threads = [threading.Thread(target=stream) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS_MAX)
        # 600 in all: each that was admitted has used 9.
        self.assertEqual(codes.total(), 160)
        left = 600 - 9 * codes[OK]
        self.assertGreaterEqual(left, 0)
        self.assertLess(left, 10 + 9 * 8)
        self.assertEqual(self.client.report(request([("tenant", "many")], hits=left)) if left else OK, OK)
        self.assertEqual(self.client.check(tenant), OVER_LIMIT)

    def test_a_message_without_a_domain_has_no_answer(self) -> None:
        nowhere = request([("user", "a")], domain="")
        self.assertEqual((self.client.check(nowhere), self.client.report(nowhere)), (0, 0))
        self.assertEqual(self.client.reserve(nowhere, 1), (0, ""))
        self.assertFalse(self.client.commit(nowhere, "", 1))

    def test_a_reservation_on_disk_outlives_the_server(self) -> None:
        server = self.serve(rules=CONFIG, durable=True)
        tenant = request([("tenant", "kept")])
        code, reservation = Client(self, server).reserve(tenant, 300)
        self.assertEqual(code, OK)
        self.assertEqual(server.stop(), 0)
        server.start()
        client = Client(self, server)
        self.assertTrue(client.commit(tenant, reservation, 100))
        self.assertFalse(client.commit(tenant, reservation, 100))
        self.assertEqual(client.report(request([("tenant", "kept")], hits=500)), OK)
        self.assertEqual(client.check(tenant), OVER_LIMIT)


if __name__ == "__main__":
    unittest.main()
