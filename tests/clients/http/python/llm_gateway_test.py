"""examples/llm/gateway.py: a gateway that reserves, extends and commits, between clients, a model and the real sluice."""

from __future__ import annotations

import random
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from llm import FOLDER, TOKENS_OF_A_CHUNK, Model, Relay, Sluice, Stream, stream
from sluice_server import SECONDS_MAX, HttpTest, Program, ask, wait_until

YEAR = {"window: month": "window: year"}  # no month ends during a test
MANY_A_MINUTE = {"quota: 10k": "quota: 10M"}
STEP, LEAST = 500, 100  # of the gateway


class GatewayTest(HttpTest):
    def start(self, relay: Relay, model: int, hold_seconds: int = 120) -> Program:
        gateway = Program([sys.executable, "gateway.py"], r"^listening on (\d+)$", str(FOLDER), PORT="0",
                          SLUICE_URL=f"http://127.0.0.1:{relay.port}", MODEL_URL=f"http://127.0.0.1:{model}",
                          HOLD_SECONDS=str(hold_seconds), PYTHONDONTWRITEBYTECODE="1")
        self.addCleanup(gateway.kill)
        return gateway

    def await_no_holds(self, sluice: Sluice) -> None:
        wait_until(lambda: sluice.holds() == [], "nothing is held")


class OneStream(GatewayTest):
    def setUp(self) -> None:
        super().setUp()
        self.sluice = Sluice(self, YEAR)
        self.relay = Relay(self, self.sluice)

    def test_an_answer_costs_what_it_came_to(self) -> None:
        gateway = self.start(self.relay, Model(self).port)
        self.assertEqual(stream(gateway.port, "a", 100, 100, 60)[:2] + (True,), (200, 160, True))
        self.await_no_holds(self.sluice)
        self.assertEqual((self.sluice.used("a", "year"), self.sluice.used("a", "1m")), (160, 160))
        [reserve] = self.relay.of("/v1/reserve")
        self.assertEqual((reserve.sent["n"], reserve.answered["reserved"]), (600, 600))
        self.assertEqual(self.relay.of("/v1/extend"), [])

    def test_a_long_answer_is_extended_when_400_of_500_are_used(self) -> None:
        gateway = self.start(self.relay, Model(self, largest=LEAST).port)
        seen = stream(gateway.port, "a", 100, 100, 4_000)
        self.assertEqual((seen.status, seen.used, seen.end, seen.whole), (200, 4_100, "stop", True))
        self.await_no_holds(self.sluice)
        extends = self.relay.of("/v1/extend")
        self.assertEqual([extend.answered["reserved"] for extend in extends], [600 + STEP * n for n in range(1, len(extends) + 1)])
        self.assertGreaterEqual(extends[-1].answered["reserved"], 4_000)
        self.assertEqual(self.sluice.used("a", "year"), 4_100)

    def test_a_budget_that_ends_ends_the_answer(self) -> None:
        gateway = self.start(self.relay, Model(self).port)
        seen = stream(gateway.port, "a", 100, 100, 50_000)
        self.assertEqual((seen.status, seen.end, seen.whole), (200, "length", True))
        self.await_no_holds(self.sluice)
        used = self.sluice.used("a", "1m")
        self.assertEqual(used, seen.used)
        self.assertTrue(10_000 - 2 * STEP < used <= 10_000 + seen.last, used)
        refused = stream(gateway.port, "a", 1_000, 1_000, 10)
        self.assertEqual(refused.status, 429)
        answer = ask(gateway.port, "POST", "/", {"messages": [{"content": "x" * 4_000}]}, X_Tenant="a")
        self.assertIn(int(answer.value("Retry-After") or "0"), range(1, 61))
        self.assertEqual(stream(gateway.port, "b", 100, 100, 60).status, 200)

    def test_a_prompt_beyond_the_largest_part_does_not_reach_the_model(self) -> None:
        model = Model(self)
        gateway = self.start(self.relay, model.port)
        self.assertEqual(stream(gateway.port, "a", 5_001, 5_001, 10).status, 413)
        self.await_no_holds(self.sluice)
        self.assertEqual((self.sluice.used("a", "1m"), model.streamed), (0, {}))

    def test_a_model_that_fails_costs_nothing(self) -> None:
        gateway = self.start(self.relay, Model(self, status=500).port)
        self.assertEqual(stream(gateway.port, "a", 100, 100, 60).status, 502)
        self.await_no_holds(self.sluice)
        self.assertEqual(self.sluice.used("a", "year"), 0)

    def test_a_client_that_goes_away_pays_what_the_model_had_said(self) -> None:
        gone = threading.Event()
        gateway = self.start(self.relay, Model(self, lambda chunk: chunk < 2 or gone.wait(SECONDS_MAX)).port)
        seen = stream(gateway.port, "a", 100, 100, 100_000, chunks_max=2)
        gone.set()
        self.await_no_holds(self.sluice)
        [commit] = self.relay.committed().values()
        self.assertGreaterEqual(commit.sent["n"], seen.used)
        self.assertEqual(self.sluice.used("a", "year"), commit.sent["n"])

    def test_a_slow_answer_is_renewed(self) -> None:
        def slow(chunk: int) -> None:
            begun = time.monotonic()
            if chunk == 1:
                wait_until(lambda: time.monotonic() > begun + 3.1, "a quarter of the time is over")

        gateway = self.start(self.relay, Model(self, slow).port, hold_seconds=12)
        self.assertEqual(stream(gateway.port, "a", 1, 1, 400).end, "stop")
        self.await_no_holds(self.sluice)
        self.assertEqual([renewed.answered["ttl"] for renewed in self.relay.of("/v1/renew")], [12])

    def test_without_sluice_nothing_reaches_the_model(self) -> None:
        model = Model(self)
        gateway = self.start(self.relay, model.port)
        self.assertEqual(self.sluice.program.stop(), 0)
        self.assertEqual(stream(gateway.port, "a", 100, 100, 60).status, 503)
        self.assertEqual(model.streamed, {})


class Failures(GatewayTest):
    """What docs/recipes.md says of lost connections and killed processes."""

    def test_a_lost_answer_is_asked_for_again_and_counts_once(self) -> None:
        sluice = Sluice(self, YEAR)
        relay = Relay(self, sluice, lambda number: number % 2 == 0)  # so each request is sent twice
        gateway = self.start(relay, Model(self).port)
        self.assertEqual(stream(gateway.port, "a", 100, 100, 1_500).used, 1_600)
        self.await_no_holds(sluice)
        wait_until(lambda: len(relay.of("/v1/commit")) == 2, "the commit is sent again")
        first, again = relay.of("/v1/reserve")
        self.assertEqual((first.sent, first.answered["reserved"], again.answered["reserved"]), (again.sent, 600, 600))
        # An extension may be taken twice, which the commit gives back.
        extends = relay.of("/v1/extend")
        self.assertEqual([extend.sent for extend in extends[::2]], [extend.sent for extend in extends[1::2]])
        self.assertEqual(extends[1].answered["reserved"] - 600, 2 * extends[1].sent["n"])
        self.assertEqual([commit.answered["repeated"] for commit in relay.of("/v1/commit")], [False, True])
        self.assertEqual(sluice.used("a", "year"), 1_600)

    def paused_model(self) -> tuple[Model, threading.Event, threading.Event]:
        """A model that stops behind its first chunk; what happens when it does, and what makes it go on."""
        paused, over = threading.Event(), threading.Event()
        self.addCleanup(over.set)

        def pause(chunk: int) -> None:
            if chunk == 1:
                paused.set()
                over.wait(SECONDS_MAX)

        return Model(self, pause, largest=LEAST), paused, over

    def killed(self, on_expiry: str) -> int:
        """Kills a gateway while a stream that has reserved 600 has used some. Returns what counts when nothing is held."""
        sluice = Sluice(self, {**YEAR, "on_expiry: keep": f"on_expiry: {on_expiry}"})
        relay = Relay(self, sluice)
        model, paused, _ = self.paused_model()
        gateway = self.start(relay, model.port, hold_seconds=2)
        with ThreadPoolExecutor() as clients:
            seen = clients.submit(stream, gateway.port, "a", 100, 100, 200)
            self.assertTrue(paused.wait(SECONDS_MAX))
            gateway.kill()
            self.assertFalse(seen.result(SECONDS_MAX).whole)
        self.await_no_holds(sluice)
        self.assertEqual(relay.of("/v1/commit"), [])
        return sluice.used("a", "year")

    def test_a_reservation_of_a_killed_process_ends_by_itself(self) -> None:
        self.assertEqual(self.killed("release"), 0)

    def test_with_keep_it_then_counts_as_used(self) -> None:
        self.assertEqual(self.killed("keep"), 600)


    def test_what_a_killed_server_held_is_charged_by_the_commit(self) -> None:
        sluice = Sluice(self, YEAR)
        relay = Relay(self, sluice)
        model, paused, over = self.paused_model()
        gateway = self.start(relay, model.port)
        with ThreadPoolExecutor() as clients:
            seen = clients.submit(stream, gateway.port, "a", 100, 100, 200)
            self.assertTrue(paused.wait(SECONDS_MAX))
            sluice.program.kill()
            relay.sluice = Sluice(self, YEAR)
            over.set()
            self.assertEqual(seen.result(SECONDS_MAX).end, "stop")
        wait_until(lambda: len(relay.of("/v1/commit")) == 1, "the commit")
        self.assertTrue(relay.of("/v1/commit")[0].answered["late"])
        self.assertEqual(relay.sluice.used("a", "year"), 300)


class ManyStreams(GatewayTest):
    def test_a_hundred_streams_on_one_budget_end_at_most_one_chunk_beyond_it(self) -> None:
        budget, streams = 100_000, 100
        sluice = Sluice(self, {**YEAR, **MANY_A_MINUTE, "quota: 1M": f"quota: {budget}"})
        relay, admitted = Relay(self, sluice), threading.Barrier(streams)
        # No model says a word before all are admitted.
        gateway = self.start(relay, Model(self, lambda chunk: chunk > 0 or admitted.wait(SECONDS_MAX)).port)
        with ThreadPoolExecutor(streams) as clients:
            seen = list(clients.map(lambda seed: stream(gateway.port, "a", 50, 50, 5_000, seed), range(streams)))
        self.await_no_holds(sluice)
        self.assertEqual({(one.status, one.end, one.whole) for one in seen}, {(200, "length", True)})
        used = sluice.used("a", "year")
        self.assertEqual(used, sum(one.used for one in seen))
        # What each used beyond what it had reserved is less than its last chunk.
        reserved, committed = relay.reserved(), relay.committed()
        last: dict[int, int] = {}
        for one in seen:
            last[one.used] = max(one.last, last.get(one.used, 0))
        for hold, commit in committed.items():
            self.assertLess(commit.sent["n"] - int(reserved[hold].answered["reserved"]), last[commit.sent["n"]])
        self.assertLess(used, budget + sum(one.last for one in seen))
        # Nothing is left unused, but for what each still had when it was refused.
        self.assertGreater(used, budget - streams * LEAST - STEP - TOKENS_OF_A_CHUNK)

    def ledger(self, on_expiry: str) -> None:
        """102 streams of 20 tenants through three gateways, of which one is killed. Of the other streams every second is left by
        its client. Estimates are wrong by 0.1 to 10 times, and every fifth answer of sluice is lost."""
        quota, gateways, of_each = 10_000, 3, 34
        sluice = Sluice(self, {**YEAR, **MANY_A_MINUTE, "quota: 1M": f"quota: {quota}",
                               "on_expiry: keep": f"on_expiry: {on_expiry}"})
        relays = [Relay(self, sluice, lambda number: number % 5 == 0) for _ in range(gateways)]
        lock, begun, killed = threading.Lock(), [0], threading.Event()
        self.addCleanup(killed.set)

        def pause(chunk: int) -> None:
            if chunk == 1:
                with lock:
                    begun[0] += 1
                killed.wait(SECONDS_MAX)

        model = Model(self, pause)
        programs = [self.start(relay, model.port, hold_seconds=5) for relay in relays]

        def client(number: int) -> Stream:
            chance = random.Random(number)
            prompt, wrong = chance.randint(50, 500), 10 ** chance.uniform(-1, 1)
            gateway = number % gateways
            leaves = gateway < gateways - 1 and number % 2 == 0
            tokens = chance.randint(2 * TOKENS_OF_A_CHUNK, 4_000)
            return stream(programs[gateway].port, f"t{number % 20}", prompt, int(prompt * wrong), tokens, number,
                          chance.randint(1, 8) if leaves else None)

        with ThreadPoolExecutor(gateways * of_each) as clients:
            seen = [clients.submit(client, number) for number in range(gateways * of_each)]
            # All that were admitted stand behind their first chunk.
            wait_until(lambda: begun[0] + sum(one.done() for one in seen) >= len(seen), "all streams have begun")
            programs[-1].kill()
            killed.set()
            self.assertEqual([one.exception(SECONDS_MAX) for one in seen], [None] * len(seen))
        self.await_no_holds(sluice)
        for relay in relays:
            relay.await_quiet()
        holds = {hold: asked for relay in relays for hold, asked in relay.reserved().items()}
        commits = {hold: asked for relay in relays for hold, asked in relay.committed().items()}
        tenants = {asked.sent["id"]: asked.sent["entries"]["tenant"] for relay in relays for asked in relay.of("/v1/reserve")}
        self.assertGreater(len(set(holds) - set(commits)), of_each // 2)  # those of the killed
        for tenant in sorted(set(tenants.values())):
            spent = sum(int(commit.sent["n"]) for hold, commit in commits.items() if tenants[hold] == tenant)
            kept = sum(int(asked.answered["reserved"]) for hold, asked in holds.items()
                       if tenants[hold] == tenant and hold not in commits)
            used = sluice.used(tenant, "year")
            self.assertEqual(used, spent + (kept if on_expiry == "keep" else 0), tenant)
            too_low = sum(int(commit.answered["charged"]) for hold, commit in commits.items() if tenants[hold] == tenant)
            self.assertLessEqual(used, quota + too_low, tenant)

    def test_the_counters_are_what_was_committed(self) -> None:
        self.ledger("release")

    def test_with_keep_also_what_the_killed_had_reserved(self) -> None:
        self.ledger("keep")


if __name__ == "__main__":
    unittest.main()
