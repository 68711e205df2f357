"""`sluice envoy` with limits by xDS, against scripted control planes: what it sends, what is in force, and what its log says
while the control plane refuses, fails, is silent or away."""

from __future__ import annotations

import json
import re
import tempfile
import time
import unittest
from pathlib import Path

import grpc

from ads import Ads, Cache, Relay, Stream, Tls, free_port
from certificates import RSA, Authority
from messages import NOT_SERVING, OK, OVER_LIMIT, SERVING
from redis_server import RedisServer
from sluice_server import BINARY, ROOT, wait_until
from xds_messages import (DAY, RATE_LIMIT_CONFIG, Node, Request, config, descriptor, field, limit_of, policy, response)
from xds_server import NODE, Caller, XdsServer, XdsTest, refused_start

VECTORS = json.loads((ROOT / "tests/conformance/xds.json").read_text(encoding="utf-8"))
BAD = config("a", descriptor(""))
BAD_WORDS = "descriptor has empty key"
NO_LIMITS = (grpc.StatusCode.UNKNOWN, "no rate limit configuration loaded")


class AdsTest(XdsTest):
    """With `self.ads`, a control plane that says what the test tells it to."""

    def setUp(self) -> None:
        super().setUp()
        self.ads = Ads()
        self.addCleanup(self.ads.stop)

    def start(self, *resources: bytes, **environment: str) -> XdsServer:
        """With these limits in force, as version 1 with nonce 1."""
        server = self.sluice(self.ads.address, **environment)
        self.answer(1, "1", *resources)
        return server

    def answer(self, stream: int, version: str, *resources: bytes) -> None:
        """Answers the first request of a stream, which has to take it."""
        self.assert_first(self.ads.await_request(), stream)
        self.tell(version, *resources)

    def tell(self, version: str, *resources: bytes, nonce: str | None = None) -> None:
        """A response that has to be taken; its nonce is the version unless it is told."""
        nonce = version if nonce is None else nonce
        self.ads.stream.send(version, nonce, resources)
        self.assertEqual(self.ads.await_request().told, (version, nonce, None))

    def assert_first(self, request: Request, stream: int) -> None:
        self.assertEqual((request.told, request.stream, request.names, request.type_url),
                         (("", "", None), stream, (), RATE_LIMIT_CONFIG))
        self.assertEqual(request.node, Node(NODE, {}))


def _own_words(refusal: str) -> list[str]:
    """What sluice's refusal has to have of the original's, in lower case: its words, and what it quotes."""
    if refusal.startswith("proto: mismatched"):
        return re.findall(r'"([^"]+)"', refusal.lower())
    _, found, said = refusal.partition(": ")
    if not found or refusal.startswith("proto:"):
        said = refusal
    words = [part.strip() for part in re.split(r"'[^']*'", said.lower())]
    return [word for word in words if word] + [quoted.lower() for quoted in re.findall(r"'([^']*)'", said)]


class Vectors(AdsTest):
    def test_each_case_in_order_on_one_stream(self) -> None:
        base = [bytes.fromhex(each) for each in VECTORS["base"]]
        server = self.start()
        self.assertEqual(len(VECTORS["cases"]), 28)
        for number, case in enumerate(VECTORS["cases"]):
            with self.subTest(case["name"]):
                self.tell("base", *base, nonce=f"base{number}")
                self.ads.stream.send(
                    case["version"], case["nonce"], [bytes.fromhex(each) for each in case["resources"]],
                    type_url=case.get("outer", RATE_LIMIT_CONFIG), resource_type=case.get("inner", RATE_LIMIT_CONFIG))
                answer = self.ads.await_told(case["nonce"])
                self.assertEqual((answer.node, answer.type_url), (Node(NODE, {}), RATE_LIMIT_CONFIG))
                if case["expect"] == "ack":
                    self.assertEqual((answer.version, answer.error), (case["version"], None))
                else:
                    self.assertEqual(answer.version, "base")
                    assert answer.error is not None
                    code, told = answer.error
                    self.assertEqual(code, 3)
                    for words in _own_words(case["expect"]["nack"]):
                        self.assertIn(words, told.lower())
                self.assertEqual(server.rlconfig(), case["rlconfig"])
        self.assertEqual({request.stream for request in self.ads.requests}, {1})

    def test_a_refusal_names_the_resource_and_the_path(self) -> None:
        self.start(limit_of(1))
        below = [descriptor("deep", "", policy(9, 1))]
        self.ads.stream.send("2", "2", [config("d", descriptor("over", "it", below=below), name="the-name")])
        told = self.ads.await_request().told[2]
        assert told is not None
        self.assertTrue(told.startswith("the-name: "), told)
        self.assertIn("d.over_it.deep", told)

    def test_a_refusal_has_the_errors_of_all_resources(self) -> None:
        self.start(limit_of(1))
        bad = [config(f"d{number}", descriptor(""), name=f"r{number}") for number in range(3)]
        self.ads.stream.send("2", "2", [bad[0], limit_of(2), *bad[1:]])
        told = self.ads.await_request().told[2]
        assert told is not None
        for number in range(3):
            self.assertIn(f"r{number}: ", told)
        self.assertEqual(told.count(BAD_WORDS), 3)

    def test_a_refusal_is_bounded(self) -> None:
        self.start(limit_of(1))
        bad = [config(f"d{number}", descriptor("k", str(number), policy(9, 1))) for number in range(1_000)]
        self.ads.stream.send("2", "2", bad)
        told = self.ads.await_request().told[2]
        assert told is not None
        self.assertLessEqual(len(told.encode()), 4_096)
        self.assertIn("invalid rate limit unit '9'", told.lower())

    def test_the_order_of_resources_does_not_matter(self) -> None:
        resources = [config("a", descriptor("k", "v*", policy(DAY, 1)), name="1"),
                     config("a", descriptor("k", "*w", policy(DAY, 2)), name="2")]
        server = self.start(*resources, MERGE_DOMAIN_CONFIG="true")
        caller = Caller(self, server)
        self.assertEqual(caller.ask(value="vw").statuses[0].current_limit.requests_per_unit, 1)
        self.tell("2", *reversed(resources))
        self.assertEqual(caller.ask(value="vw").statuses[0].current_limit.requests_per_unit, 1)
        # By name, not by how they arrive: now the other one has the first name.
        self.tell("3", *(config("a", descriptor("k", value, policy(DAY, number)), name=str(3 - number))
                         for number, value in ((1, "v*"), (2, "*w"))))
        self.assertEqual(caller.ask(value="vw").statuses[0].current_limit.requests_per_unit, 2)

    def test_one_domain_in_two_resources_merged(self) -> None:
        server = self.start(config("a", descriptor("k", "v", policy(DAY, 1)), name="1"),
                            config("a", descriptor("q", "", policy(DAY, 2)), name="2"), MERGE_DOMAIN_CONFIG="true")
        self.assertEqual(server.requests_per_day(), [1, 2])


# The snapshots of the sequences, as they were given to the control plane.
_LIMIT = re.compile(r'- \{key: "(?P<key>[^"]*)", value: "(?P<value>[^"]*)", '
                    r"rate_limit: \{requests_per_unit: (?P<requests>\d+), unit: (?P<unit>day|minute)\}\}\n")


def _snapshot(text: str) -> list[bytes]:
    resources = []
    for document in filter(None, text.split("---\n")):
        head = re.match(r'domain: "(\w+)"\ndescriptors:\n', document)
        assert head, document
        rest = document[head.end():]
        found = _LIMIT.fullmatch(rest)
        assert found or rest == '- key: ""\n', rest
        resources.append(config(head[1], descriptor("") if found is None else descriptor(
            found["key"], found["value"], policy({"day": DAY, "minute": 2}[found["unit"]], int(found["requests"])))))
    return resources


class Sequences(XdsTest):
    """Each as it was recorded; a new stream tells nothing of those before it."""

    def replay(self, name: str) -> tuple[Cache, XdsServer]:
        [sequence] = [each for each in VECTORS["sequences"] if each["name"].startswith(name)]
        events = sequence["events"]
        cache = Cache()
        self.addCleanup(cache.ads.stop)
        force = "false" if "without FORCE_START" in sequence["name"] else "true"
        server = self.make(cache.ads.address, CONFIG_GRPC_XDS_NODE_ID="envoy-ratelimit",
                           FORCE_START_WITHOUT_INITIAL_CONFIG=force)
        wanted: list[tuple[str, int, str, str, str | None]] = []
        storm = False
        for event in events:
            if "do" in event:
                wait_until(lambda: len(cache.events) >= len(wanted), f"{wanted}")
                self.act(event["do"], cache, server)
            elif event.get("what") in ("send", "recv") and not storm:
                told = event.get("version", ""), event.get("nonce", "")
                stream = event["stream"]
                if event["what"] == "recv" and not any(what == "recv" and at == stream for what, at, *_ in wanted):
                    told = "", ""  # which the original does only at its start
                wanted.append((event["what"], stream, *told, event.get("nack")))
            elif "and so on" in event:
                storm = True  # from here on only its end is held to the recording
        wait_until(lambda: len(cache.events) >= len(wanted), f"{wanted}")
        for event, expected in zip(cache.events, wanted, strict=False):
            self.assertEqual(event[:4], expected[:4])
            self.assertEqual(event[4] is None, expected[4] is None, event)
            if expected[4] is not None:
                for words in _own_words(expected[4]):
                    self.assertIn(words, str(event[4]).lower())
        for request in cache.ads.requests:
            self.assertEqual(request.node, Node("envoy-ratelimit", {}))
        wait_until(lambda: server.rlconfig() == events[-1]["rlconfig"], "the limits of the end")
        self.assertEqual(server.health(), events[-1]["health"])
        return cache, server

    def act(self, words: str, cache: Cache, server: XdsServer) -> None:
        command, _, quoted = words.partition(" ")
        arguments = dict(pair.split("=") for pair in command.partition("?")[2].split("&") if pair)
        resources = _snapshot(json.loads(quoted)) if quoted.startswith('"') else []
        if words == "start of the server":
            self.begin(server)
            cache.ads.await_stream(1)
        elif command.startswith("/snapshot"):
            self.before_snapshot(cache, server)
            cache.set(arguments["version"], *resources)
        elif command.startswith("/inject"):
            cache.inject(arguments["version"], arguments["nonce"], *resources)
        elif command.startswith("/cut"):
            cache.ads.stream.end(grpc.StatusCode.UNAVAILABLE)
        elif command == "/stop":
            cache.ads.stop()
        elif command.startswith("/start"):
            cache.forget()
            cache.ads.start()
        else:
            self.fail(words)

    def before_snapshot(self, cache: Cache, server: XdsServer) -> None:
        pass

    def test_the_first_limits_come_late(self) -> None:
        healths = []

        def look(cache: Cache, server: XdsServer) -> None:
            cache.ads.await_request()
            healths.append((server.health(), Caller(self, server).health()))

        self.before_snapshot = look  # type: ignore[method-assign]
        self.replay("first limits come late")
        self.assertEqual(healths, [(500, NOT_SERVING)])

    def test_updates_until_nothing_is_left(self) -> None:
        self.replay("update, two domains")

    def test_bad_limits_in_a_cache(self) -> None:
        self.replay("bad limits in the cache")

    def test_a_stream_is_cut_then_limits_change(self) -> None:
        self.replay("stream cut, then an update")

    def test_a_control_plane_starts_anew_with_other_limits(self) -> None:
        self.replay("control plane stops; starts anew with the same")

    def test_a_control_plane_starts_anew_without_limits(self) -> None:
        cache, server = self.replay("control plane stops; starts anew without")
        self.assertEqual(server.ask(), "OK")
        self.assertEqual(cache.events[-1][0], "recv")

    def test_limits_are_refused_then_the_stream_is_cut(self) -> None:
        self.replay("refused, then cut")

    def test_all_are_here(self) -> None:
        self.assertEqual(len(VECTORS["sequences"]), len(unittest.TestLoader().getTestCaseNames(type(self))) - 1)


class FirstRequest(XdsTest):
    def first(self, url: str = "127.0.0.1", **environment: str) -> tuple[Request, Stream]:
        ads = Ads()
        self.addCleanup(ads.stop)
        server = self.make(f"{url}:{ads.port}", **environment)
        if environment.get("CONFIG_GRPC_XDS_NODE_ID") == "":
            server.unset("CONFIG_GRPC_XDS_NODE_ID")
        self.begin(server)
        return ads.await_request(), ads.stream

    def test_it_tells_the_node_and_nothing_else(self) -> None:
        request, _ = self.first()
        self.assertEqual((request.told, request.node, request.names, request.type_url, request.error),
                         (("", "", None), Node(NODE, {}), (), RATE_LIMIT_CONFIG, None))

    def test_the_node_is_called_default(self) -> None:
        self.assertEqual(self.first(CONFIG_GRPC_XDS_NODE_ID="")[0].node, Node("default", {}))

    def test_metadata_of_the_node(self) -> None:
        request, _ = self.first(CONFIG_GRPC_XDS_NODE_METADATA="k=v,plain,k2=a=b,k3:c,empty=")
        self.assertEqual(request.node, Node(NODE, {"k": "v", "k2": "a=b", "empty": ""}))

    def test_additional_headers(self) -> None:
        _, stream = self.first(CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS="x-one:1,k:v:w")
        self.assertEqual((stream.metadata["x-one"], stream.metadata["k"]), ("1", "v:w"))

    def test_forms_of_the_url(self) -> None:
        for form in ("localhost", "dns:///127.0.0.1", "dns:///localhost"):
            with self.subTest(form):
                self.assertEqual(self.first(form)[0].told, ("", "", None))


class Broken(AdsTest):
    """Streams that end."""

    def test_by_any_status_limits_stay_and_a_new_stream_begins(self) -> None:
        server = self.start(limit_of(1_000))
        codes = (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.PERMISSION_DENIED,
                 grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INTERNAL)
        for number, code in enumerate(codes, 1):
            with self.subTest(code):
                self.ads.stream.end(code)
                self.ads.await_end(self.ads.stream)
                self.assertEqual((server.ask(), server.health(), server.requests_per_day()), ("OK", 200, [999 + number]))
                self.answer(number + 1, f"v{number}", limit_of(1_000 + number))
                self.assertEqual(server.requests_per_day(), [1_000 + number])

    def test_by_a_lost_connection(self) -> None:
        relay = Relay(self.ads.port)
        self.addCleanup(relay.close)
        server = self.sluice(f"127.0.0.1:{relay.port}")
        self.answer(1, "1", limit_of(1_000))
        for number in (2, 3):
            relay.cut()
            self.assertEqual((server.ask(), server.health()), ("OK", 200))
            self.answer(number, str(number), limit_of(number))
            self.assertEqual(server.requests_per_day(), [number])

    def test_goaway_alone_does_not_end_a_stream(self) -> None:
        server = self.start(limit_of(1))
        self.ads.go_away()
        self.tell("2", limit_of(2))
        self.assertEqual(server.requests_per_day(), [2])
        self.ads.stop()
        self.ads.start()
        self.answer(2, "3", limit_of(3))

    def test_a_control_plane_that_is_away_for_a_while(self) -> None:
        server = self.start(limit_of(1_000))
        self.ads.stop()
        line = server.await_said(self.ads.address, " warning ")
        for _ in range(20):
            self.assertEqual((server.ask(), server.health()), ("OK", 200))
            time.sleep(0.05)
        self.ads.start()
        self.answer(2, "2", limit_of(7))
        self.assertEqual(server.requests_per_day(), [7])
        # It was told once, though several connections failed meanwhile.
        self.assertEqual(server.warnings(), [line])
        wait_until(lambda: len(server.said_with(self.ads.address)) >= 2, "a line that it works again")

    def test_limits_in_force_stay_when_nothing_comes_after_a_new_start(self) -> None:
        server = self.start(limit_of(3))
        self.ads.stop()
        self.ads.start()
        self.assert_first(self.ads.await_request(), 2)
        self.assertEqual((server.requests_per_day(), server.ask(), server.health()), ([3], "OK", 200))


class Waits(AdsTest):
    """Before new streams. Upper bounds would fail on a busy machine, so only great ones are held."""

    def waits(self, number: int) -> list[float]:
        """Ends so many streams at once; the seconds until the next one."""
        self.ads.on_request = lambda stream, request: stream.end(grpc.StatusCode.UNAVAILABLE)
        first = len(self.ads.streams)
        self.ads.stream.end(grpc.StatusCode.UNAVAILABLE)
        self.ads.await_stream(first + number)
        waits = []
        self.ads.await_end(self.ads.streams[first + number - 1])
        for one, other in zip(self.ads.streams[first - 1:], self.ads.streams[first:first + number], strict=False):
            assert one.ended_at is not None
            waits.append(other.opened - one.ended_at)
        return waits

    def assert_at_least(self, waits: list[float], wanted: list[float]) -> None:
        self.assertEqual(len(waits), len(wanted))
        for wait, least in zip(waits, wanted, strict=True):
            self.assertGreater(wait, 0.8 * least - 0.01, waits)

    def test_they_grow(self) -> None:
        self.start(limit_of(1))
        self.assert_at_least(self.waits(6), [0.2 * 1.6 ** number for number in range(6)])

    def test_the_first_is_a_second_without_the_variable(self) -> None:
        server = self.make(self.ads.address)
        server.unset("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL")
        self.begin(server)
        self.answer(1, "1", limit_of(1))
        self.assert_at_least(self.waits(2), [1, 1.6])

    def test_they_grow_by_the_factor_up_to_the_bound(self) -> None:
        self.start(limit_of(1), XDS_CLIENT_BACKOFF_RANDOM_FACTOR="100", XDS_CLIENT_BACKOFF_MAX_INTERVAL="500ms")
        waits = self.waits(5)
        self.assert_at_least(waits, [0.2, 0.5, 0.5, 0.5, 0.5])
        self.assertLess(min(waits[1:]), 15)  # 20 without a bound

    def test_a_bound_below_the_first_wins(self) -> None:
        self.start(limit_of(1), XDS_CLIENT_BACKOFF_INITIAL_INTERVAL="100s", XDS_CLIENT_BACKOFF_MAX_INTERVAL="300ms")
        self.assert_at_least(self.waits(3), [0.3] * 3)

    def test_they_begin_anew_after_a_response_was_taken(self) -> None:
        self.start(limit_of(1), XDS_CLIENT_BACKOFF_RANDOM_FACTOR="5")
        self.assert_at_least(self.waits(2), [0.2, 1])
        self.ads.on_request = None
        self.ads.pass_over()
        self.ads.await_stream(4)  # after 5 s
        self.assert_first(self.ads.await_request(), 4)
        self.tell("2", limit_of(2))
        [wait] = self.waits(1)
        self.assertLess(wait, 15)  # 25 if they went on, less a fifth


class Refused(XdsTest):
    """Bad limits in a control plane that sends them again at once."""

    def test_a_refusal_becomes_no_storm(self) -> None:
        cache = Cache()
        self.addCleanup(cache.ads.stop)
        cache.set("1", limit_of(5))
        server = self.sluice(cache.ads.address)
        wait_until(lambda: server.rlconfig() != [], "the first limits")
        cache.set("2", BAD)

        def refusals() -> list[Request]:
            return [request for request in cache.ads.requests if request.error]

        cache.ads.wait(lambda: bool(refusals()), "refusal")
        first = refusals()[0].at
        cache.ads.wait(lambda: refusals()[-1].at > first + 3, "refusal after three seconds")
        times = [request.at - first for request in refusals()]
        self.assertLessEqual(len([at for at in times if at <= 3]), 4, times)
        gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
        for gap, least in zip(gaps, (0.25, 0.5, 1, 2), strict=False):
            self.assertGreater(gap, 0.8 * least - 0.02, gaps)
        self.assertEqual((server.requests_per_day(), server.ask(), server.health()), ([5], "OK", 200))
        self.assertEqual(len(server.said_with("xDS", BAD_WORDS)), 1, server.said)
        self.assertLessEqual(len(server.said_with(BAD_WORDS)), 3, server.said)  # one refusal's, with those of any reload
        cache.set("3", limit_of(4))
        begin = time.monotonic()
        wait_until(lambda: server.requests_per_day() == [4], "the mended limits")
        self.assertLess(time.monotonic() - begin, 30)  # 5 if the machine is idle

    def test_other_bad_limits_are_refused_at_once(self) -> None:
        ads = Ads()
        self.addCleanup(ads.stop)
        self.sluice(ads.address)
        ads.await_request()
        begin = time.monotonic()
        for number in range(100):
            ads.stream.send("2", str(number), [config("a", descriptor("k", str(number), policy(9, 1)))])
            self.assertIsNotNone(ads.await_request().error)
        self.assertLess(time.monotonic() - begin, 20)  # 25 with waits of 0.25 s

    def test_each_text_is_told_once(self) -> None:
        ads = Ads()
        self.addCleanup(ads.stop)
        server = self.sluice(ads.address)
        ads.await_request()
        for number, name in enumerate(("one", "two", "one")):
            ads.stream.send("2", str(number), [config("a", descriptor(""), name=name)])
            self.assertIsNotNone(ads.await_request().error)
        server.await_said("two: ", BAD_WORDS)
        lines = server.said_with("xDS", BAD_WORDS)
        self.assertEqual(["one: " in line for line in lines], [True, False])


class Updates(AdsTest):
    def test_the_same_bytes_are_not_loaded_again(self) -> None:
        server = self.start(limit_of(5), limit_of(6, "b"))
        generation, said = server.generation(), len(server.said)
        for version in ("2", "3", "2"):
            self.tell(version, limit_of(5), limit_of(6, "b"))
        self.assertEqual((server.generation(), server.said[said:]), (generation, []))
        self.tell("4", limit_of(5), limit_of(7, "b"))
        self.assertEqual((server.generation(), server.requests_per_day()), (generation + 1, [5, 7]))

    def test_counters_live_on(self) -> None:
        server = self.start(limit_of(5))
        caller = Caller(self, server)
        self.assertEqual([caller.ask().statuses[0].limit_remaining for _ in range(3)], [4, 3, 2])
        self.tell("2", limit_of(4))
        self.assertEqual(caller.ask().statuses[0].limit_remaining, 0)
        self.assertEqual(caller.ask().overall_code, OVER_LIMIT)
        self.tell("3", limit_of(9, "b"))
        self.assertEqual(caller.ask().overall_code, OK)  # without a limit
        self.tell("4", limit_of(7))
        told = caller.ask()
        # The refused one may have been counted, or not.
        self.assertEqual(told.overall_code, OK)
        self.assertIn(told.statuses[0].limit_remaining, (1, 2))

    def test_a_response_of_several_megabytes(self) -> None:
        """More than HTTP/2's windows, less than the bound."""
        server = self.start(limit_of(5))
        self.tell("2", _many(40_000))
        self.assertEqual(server.ask("k", f"{39_999:086}"), "OK")
        self.assertEqual(len(server.rlconfig()), 40_000)

    def test_a_message_past_the_bound_ends_the_stream(self) -> None:
        server = self.start(limit_of(5))
        large = _many(60_000)
        self.assertGreater(len(large), 4_194_304)
        self.ads.stream.send("2", "2", [large])
        server.await_said("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")
        self.answer(2, "3", limit_of(6))
        self.assertEqual(server.requests_per_day(), [6])

    def test_a_greater_bound(self) -> None:
        server = self.start(limit_of(5), XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES="10000000")
        self.tell("2", _many(60_000))
        self.assertEqual(len(server.rlconfig()), 60_000)

    def test_a_lesser_bound(self) -> None:
        """The bound is that of the message: one byte more than it ends the stream."""
        exact = len(response("2", "2", [_many(100)]))
        server = self.start(limit_of(5), XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=str(exact))
        self.tell("2", _many(100))
        self.ads.stream.send("2+", "2", [_many(100)])
        server.await_said("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")
        self.assert_first(self.ads.await_request(), 2)

    def test_bytes_that_are_no_response_end_the_stream(self) -> None:
        server = self.start(limit_of(5))
        self.ads.stream.send_bytes(b"\xff\xff\xff")
        self.answer(2, "2", limit_of(6))
        self.assertEqual(server.requests_per_day(), [6])


def _many(number: int) -> bytes:
    return config("a", *(descriptor("k", f"{each:086}", policy(DAY, 1)) for each in range(number)))


class BeforeTheFirstLimits(AdsTest):
    def told(self, server: XdsServer) -> tuple[int, int]:
        return server.health(), Caller(self, server).health()

    def refuse(self, version: str = "bad") -> None:
        self.ads.stream.send(version, version, [BAD])
        self.assertIsNotNone(self.ads.await_request().error)

    def test_it_is_not_healthy_until_good_ones_come(self) -> None:
        server = self.sluice(self.ads.address, FORCE_START_WITHOUT_INITIAL_CONFIG="false")
        self.ads.await_request()
        self.assertEqual(self.told(server), (500, NOT_SERVING))
        self.assertEqual(Caller(self, server).refusal(), NO_LIMITS)
        self.refuse()
        self.assertEqual(self.told(server), (500, NOT_SERVING))
        self.assertEqual(Caller(self, server).refusal(), NO_LIMITS)
        self.tell("1", limit_of(1))
        self.assertEqual(self.told(server), (200, SERVING))
        self.assertEqual(Caller(self, server).ask().overall_code, OK)
        self.refuse("later")
        self.assertEqual(self.told(server), (200, SERVING))

    def test_status_says_for_whom_it_waits(self) -> None:
        for forced in ("false", "true"):
            with self.subTest(forced):
                ads = self.ads = Ads()
                self.addCleanup(ads.stop)
                server = self.sluice(ads.address, FORCE_START_WITHOUT_INITIAL_CONFIG=forced)
                ads.await_request()
                waits = f"it waits for the first limits from {ads.address} for node {NODE}"
                for _ in range(2):
                    told = server.status()
                    self.assertEqual((told["ready"], told["degraded"]), (True, True))
                    self.assertIn(waits, " ".join(told["reasons"]))
                    self.assertEqual(server.words_of_status()[0], 1)
                    self.assertRegex(server.words_of_status()[1], f"(?s): degraded\n.*{re.escape(waits)}")
                    self.refuse()
                self.tell("1")  # no limits are limits too
                self.assertEqual((server.status()["degraded"], server.status()["reasons"]), (False, []))
                status, text = server.words_of_status()
                self.assertEqual((status, "waits for" in text), (0, False), text)

    def test_it_is_healthy_at_once_if_forced(self) -> None:
        server = self.sluice(self.ads.address)
        self.ads.await_request()
        self.assertEqual(self.told(server), (200, SERVING))
        self.assertEqual(Caller(self, server).refusal(), NO_LIMITS)
        self.refuse()
        self.assertEqual(self.told(server), (200, SERVING))
        self.assertEqual(Caller(self, server).refusal(), NO_LIMITS)
        self.tell("1")  # no limits at all, which is not the same
        self.assertEqual(Caller(self, server).ask().overall_code, OK)

    def test_it_may_need_a_domain(self) -> None:
        for forced in ("true", "false"):
            with self.subTest(forced):
                ads = self.ads = Ads()
                self.addCleanup(ads.stop)
                server = self.sluice(ads.address, FORCE_START_WITHOUT_INITIAL_CONFIG=forced,
                                     HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED="true")
                ads.await_request()
                self.assertEqual(self.told(server), (500, NOT_SERVING))
                self.tell("1")
                self.assertEqual(self.told(server), (500, NOT_SERVING))
                self.tell("2", config("a"))
                self.assertEqual(self.told(server), (200, SERVING))
                self.tell("3")
                self.assertEqual(self.told(server), (500, NOT_SERVING))
                self.tell("4", limit_of(1))
                self.assertEqual(self.told(server), (200, SERVING))

    def test_ports_are_open_while_there_is_no_control_plane(self) -> None:
        server = self.sluice(f"127.0.0.1:{free_port()}", FORCE_START_WITHOUT_INITIAL_CONFIG="false")
        self.assertEqual(self.told(server), (500, NOT_SERVING))
        self.assertEqual(Caller(self, server).refusal(), NO_LIMITS)
        server.await_said(" warning ", "xDS")

    def test_silence_is_told(self) -> None:
        begin = time.monotonic()
        server = self.sluice(self.ads.address)
        self.ads.await_request()
        server.await_said(" warning ", f"no limits from {self.ads.address} for node {NODE} yet")
        self.assertGreater(time.monotonic() - begin, 14)
        self.tell("1", limit_of(1))
        self.assertEqual(server.requests_per_day(), [1])


class Starts(XdsTest):
    def test_what_cannot_work_is_refused(self) -> None:
        xds = {"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "127.0.0.1:1"}
        with tempfile.TemporaryDirectory(prefix="sluice-envoy-") as folder:
            for words, environment, named in (
                    ([], {**xds, "CONFIG_GRPC_XDS_SERVER_URL": "http://localhost:18000"}, "CONFIG_GRPC_XDS_SERVER_URL"),
                    ([], {**xds, "CONFIG_GRPC_XDS_SERVER_URL": "localhost:no"}, "CONFIG_GRPC_XDS_SERVER_URL"),
                    ([folder], xds, "CONFIG_TYPE"),
                    ([], {"CONFIG_TYPE": "OTHER"}, "CONFIG_TYPE"),
                    ([], {**xds, "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a:b,none"},
                     "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"),
                    ([], {**xds, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "soon"}, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL"),
                    ([], {**xds, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "much"}, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")):
                with self.subTest(environment=environment, words=words):
                    status, said = refused_start(*words, **environment)
                    self.assertIn(status, (1, 2), said)
                    self.assertIn(named, said)

    def test_folders_in_the_environment_do_not_matter(self) -> None:
        ads = Ads()
        self.addCleanup(ads.stop)
        self.sluice(ads.address, RUNTIME_ROOT="/nowhere", RUNTIME_SUBDIRECTORY="ratelimit")
        self.assertEqual(ads.await_request().told, ("", "", None))

    def redis(self) -> str:
        redis = RedisServer()
        self.addCleanup(redis.close)
        return f"127.0.0.1:{redis.port}"

    def test_in_the_place_of_envoy_gateways_service(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sluice-certs-")
        self.addCleanup(folder.cleanup)
        certs = Path(folder.name)
        authority = Authority(certs, "envoy-gateway")
        own = authority.sign("DNS:*.envoy-gateway-system", subject="*", key=RSA)
        (certs / "tls.crt").write_text(own.texts[0])
        (certs / "tls.key").write_text(own.texts[1])
        (certs / "ca.crt").write_text(authority.certificate.read_text())
        server_pair = authority.sign("DNS:envoy-gateway", "DNS:localhost", subject="envoy-gateway", key=RSA)
        for redis in (self.redis(), "memory", ""):
            with self.subTest(redis):
                ads = Ads(Tls(*server_pair.texts, authority.certificate.read_text()))
                self.addCleanup(ads.stop)
                port = free_port()
                server = self.make(
                    f"localhost:{ads.port}", CONFIG_GRPC_XDS_NODE_ID="envoy-ratelimit", RUNTIME_ROOT="/data",
                    RUNTIME_SUBDIRECTORY="ratelimit", RUNTIME_IGNOREDOTFILES="true", RUNTIME_WATCH_ROOT="false",
                    LOG_LEVEL="info", USE_STATSD="false", CONFIG_GRPC_XDS_SERVER_USE_TLS="true",
                    CONFIG_GRPC_XDS_CLIENT_TLS_CERT=f"{certs}/tls.crt", CONFIG_GRPC_XDS_CLIENT_TLS_KEY=f"{certs}/tls.key",
                    CONFIG_GRPC_XDS_SERVER_TLS_CACERT=f"{certs}/ca.crt", GRPC_SERVER_USE_TLS="true",
                    GRPC_SERVER_TLS_CERT=f"{certs}/tls.crt", GRPC_SERVER_TLS_KEY=f"{certs}/tls.key",
                    GRPC_SERVER_TLS_CA_CERT=f"{certs}/ca.crt", REDIS_SOCKET_TYPE="tcp", REDIS_URL=redis,
                    USE_PROMETHEUS="true", PROMETHEUS_ADDR=f"127.0.0.1:{port}",
                    PROMETHEUS_MAPPER_YAML="/etc/statsd-exporter/conf.yaml")
                server.unset("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL")
                server.call_itself("ratelimit")
                self.begin(server)
                ads.await_request()
                self.assertEqual(server.health(), 200)
                ads.stream.send("1", "1", [limit_of(1)])
                self.assertEqual(ads.await_request().told, ("1", "1", None))
                credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
                caller = Caller(self, server, credentials, "pod.envoy-gateway-system")  # without a certificate of its own
                self.assertEqual([caller.ask().overall_code for _ in range(2)], [OK, OVER_LIMIT])
                self.assertEqual(server.get(port, "/metrics")[0], 200)
                self.assertEqual(server.stop(), 0)
                told = [line for line in server.warnings() if redis not in ("memory", "") or "REDIS_URL" not in line]
                self.assertEqual(told, [])

    def test_in_the_place_of_agent_routers_service(self) -> None:
        ads = Ads()
        self.addCleanup(ads.stop)
        server = self.make(
            f"localhost:{ads.port}", LOG_LEVEL="debug", REDIS_SOCKET_TYPE="tcp", REDIS_URL=self.redis(), RUNTIME_ROOT="/data",
            RUNTIME_SUBDIRECTORY="ratelimit", USE_STATSD="false", CONFIG_GRPC_XDS_NODE_ID="envoy-ai-gateway-ratelimit")
        server.unset("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "FORCE_START_WITHOUT_INITIAL_CONFIG")
        server.call_itself("ratelimit", "--quotaRateLimitServiceAddr=ratelimit.default.svc:8081")
        self.begin(server)
        self.assertEqual(ads.await_request().node, Node("envoy-ai-gateway-ratelimit", {}))
        self.assertEqual(server.health(), 500)
        [case] = [each for each in VECTORS["cases"] if each["name"] == "as Agent Router makes it"]
        ads.stream.send("1", "1", [bytes.fromhex(each) for each in case["resources"]])
        self.assertEqual(ads.await_request().told, ("1", "1", None))
        self.assertEqual((server.health(), server.rlconfig()), (200, case["rlconfig"]))
        self.assertEqual(server.stop(), 0)
        [line] = server.warnings()
        self.assertIn("--quotaRateLimitServiceAddr", line)

    def test_a_name_alone_needs_no_command(self) -> None:
        """`ratelimit` is `sluice envoy`: its limits may come from files as well."""
        server = self.make("127.0.0.1:1")
        server.unset("CONFIG_TYPE", "CONFIG_GRPC_XDS_SERVER_URL", "CONFIG_GRPC_XDS_NODE_ID")
        server.limits.write_text("domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n")
        server.change(RUNTIME_ROOT=str(server.folder), RUNTIME_SUBDIRECTORY="", RUNTIME_APPDIRECTORY="limits")
        server.call_itself("ratelimit")
        self.begin(server)
        self.assertEqual([server.ask(), server.ask()], ["OK", "OVER_LIMIT"])


if __name__ == "__main__":
    unittest.main()
