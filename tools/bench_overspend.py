#!/usr/bin/env python3
"""The same calls through each way to keep a budget: how much is spent beyond it, and what the counter has wrong in the end.

A call has an estimate, costs 0.1 to 10 times as much, and comes in chunks; calls come a hundred at a time, all of which ask
before any of them spends. The callers of a third of them are killed on the way. The ways:

  look, then report     a take of 0 units before the call and a charge after it: what Envoy's rate limit service can do
  LiteLLM BudgetManager the same in a process, by LiteLLM's class; left out where there is no `litellm`
  take, then correct    the estimate is taken, and the difference put back or charged afterwards
  reserve (release)     sluice's reservations, with on_expiry: release
  reserve (keep)        the same with on_expiry: keep

Exit status 1: a reservation did not keep what docs/recipes.md says of it, or a counter is not the sum of what was counted.

    tools/bench_overspend.py [--calls N] [--ttl SECONDS] [--sluice PROGRAM]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import logging
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 60
AT_A_TIME = 100
CHUNK, STEP, LEAST = 20, 500, 100  # tokens
RULE = """
  - name: {name}
    match: {{ tenant: {name} }}
    limit: {{ quota: {budget}, window: year }}
    reserve: {{ on_expiry: {on_expiry} }}
"""


class Call(NamedTuple):
    number: int
    estimate: int
    actual: int
    dies_at: int | None  # tokens, of one whose caller is killed


def calls_of(number: int, seed: int = 1) -> list[Call]:
    chance, calls = random.Random(seed), []
    for n in range(number):
        estimate = chance.randint(100, 1000)
        actual = max(1, int(estimate * 10 ** chance.uniform(-1, 1)))
        calls.append(Call(n, estimate, actual, chance.randint(0, actual) if chance.random() < 1 / 3 else None))
    return calls


class Sluice:
    """A server with a rule for each way. Each thread has a connection of its own."""

    def __init__(self, ports: list[int]) -> None:
        self.port, self.admin = ports
        self.own = threading.local()

    def ask(self, path: str, port: int | None = None, **body: object) -> tuple[int, dict]:
        for last in (False, True):
            connection = getattr(self.own, "connection", None) if port is None else None
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=SECONDS_MAX)
            try:
                connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                                   {"Content-Type": "application/json"} if body else {})
                answer = connection.getresponse()
                status, text = answer.status, json.loads(answer.read())
                if port is None:
                    self.own.connection = connection
                return status, text
            except (OSError, http.client.HTTPException):
                self.own.connection = None
                if last:
                    raise
        raise AssertionError

    def used(self, tenant: str) -> int:
        """Units of the tenant, those beyond the budget included."""
        _, told = self.ask("/v1/charge", entries={"tenant": tenant}, n=0)
        return told["limit"] - told["remaining"] + told["debt"]

    def await_no_holds(self) -> None:
        end = time.monotonic() + SECONDS_MAX
        while self.ask("/v1/holds", self.admin)[1]["holds"]:
            if time.monotonic() > end:
                raise TimeoutError("reservations that do not end")
            time.sleep(0.05)


@contextlib.contextmanager
def serving(program: str, budget: int) -> Iterator[Sluice]:
    with tempfile.TemporaryDirectory(prefix="sluice-overspend-") as folder:
        config, log = Path(folder) / "sluice.yaml", Path(folder) / "log"
        rules = "".join(RULE.format(name=way.tenant, budget=budget, on_expiry=way.on_expiry)
                        for way in (Report, Correct, Release, Keep))
        config.write_text('listen: [{ protocol: http, address: "127.0.0.1:0" }, { protocol: admin, address: "127.0.0.1:0" }]\n'
                          f"rules:{rules}", encoding="utf-8")
        with log.open("wb") as out:
            server = subprocess.Popen([program, "serve", "--config", str(config)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            end = time.monotonic() + SECONDS_MAX
            while len(found := re.findall(r"(http|admin) listening on \S+:(\d+)\n", log.read_text())) < 2:
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit(f"bench: sluice does not serve: {log.read_text()}")
                time.sleep(0.01)
            ports = dict(found)
            yield Sluice([int(ports["http"]), int(ports["admin"])])
        finally:
            server.terminate()
            server.wait(SECONDS_MAX)


class Report:
    """`begin`: may the call begin? `spends`: may it go on, after that many tokens? `counts`: what the counter has of it when it
    is over; of one whose caller was killed nothing is said any more."""

    name, tenant, on_expiry = "look, then report", "report", "release"

    def __init__(self, sluice: Sluice) -> None:
        self.sluice = sluice
        self.entries = {"tenant": self.tenant}

    def begin(self, call: Call) -> bool:
        return self.sluice.ask("/v1/take", entries=self.entries, n=0)[0] == 200

    def spends(self, call: Call, used: int) -> bool:
        return True

    def end(self, call: Call, used: int) -> None:
        self.sluice.ask("/v1/charge", entries=self.entries, n=used)

    def counts(self, call: Call, used: int) -> int:
        return 0 if call.dies_at is not None else used

    def counted(self) -> int:
        return self.sluice.used(self.tenant)


class LiteLlm(Report):
    name = "LiteLLM BudgetManager"

    def __init__(self, budget: int) -> None:
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices
        import litellm
        litellm.suppress_debug_info = True
        logging.getLogger("LiteLLM").setLevel("ERROR")
        self.litellm, self.lock = litellm, threading.Lock()
        price = {"input_cost_per_token": 1.0, "output_cost_per_token": 1.0, "litellm_provider": "openai", "mode": "chat"}
        litellm.register_model({"bench": price})
        self.manager = litellm.BudgetManager("bench")
        self.manager.create_budget(total_budget=float(budget), user="bench")

    def begin(self, call: Call) -> bool:
        return self.manager.get_current_cost("bench") <= self.manager.get_total_budget("bench")

    def end(self, call: Call, used: int) -> None:
        usage = self.litellm.Usage(prompt_tokens=0, completion_tokens=used, total_tokens=used)
        with self.lock:  # it adds without one
            self.manager.update_cost("bench", self.litellm.ModelResponse(model="bench", usage=usage))

    def counted(self) -> int:
        return round(self.manager.get_current_cost("bench"))


class Correct(Report):
    name, tenant = "take, then correct", "correct"

    def begin(self, call: Call) -> bool:
        return self.sluice.ask("/v1/take", entries=self.entries, n=call.estimate)[0] == 200

    def end(self, call: Call, used: int) -> None:
        if used != call.estimate:
            self.sluice.ask("/v1/put" if used < call.estimate else "/v1/charge", entries=self.entries, n=abs(used - call.estimate))

    def counts(self, call: Call, used: int) -> int:
        return call.estimate if call.dies_at is not None else used


class Release(Report):
    name, tenant = "reserve (release)", "release"

    def __init__(self, sluice: Sluice, ttl: int) -> None:
        super().__init__(sluice)
        self.ttl = ttl
        self.reserved: dict[int, int] = {}
        self.late: list[int] = []  # units of commits after the end of their reservation, as a busy machine has them

    def hold(self, call: Call) -> str:
        return f"{self.tenant}-call-{call.number:09}"

    def begin(self, call: Call) -> bool:
        status, told = self.sluice.ask("/v1/reserve", entries=self.entries, n=call.estimate, ttl=self.ttl, id=self.hold(call))
        if status == 200:
            self.reserved[call.number] = told["reserved"]
        return status == 200

    def spends(self, call: Call, used: int) -> bool:
        if used <= self.reserved[call.number] - LEAST or used == call.actual:
            return True
        status, told = self.sluice.ask("/v1/extend", id=self.hold(call), n=STEP, ttl=self.ttl)
        if status == 200:
            self.reserved[call.number] = told["reserved"]
        return status == 200

    def end(self, call: Call, used: int) -> None:
        _, told = self.sluice.ask("/v1/commit", entries=self.entries, n=used, id=self.hold(call))
        if told["late"]:
            self.late.append(used)

    def counted(self) -> int:
        self.sluice.await_no_holds()
        return super().counted()


class Keep(Release):
    name, tenant, on_expiry = "reserve (keep)", "keep", "keep"

    def counts(self, call: Call, used: int) -> int:
        return self.reserved[call.number] if call.dies_at is not None else used


def drive(way: Report, calls: list[Call], budget: int) -> bool:
    """Prints what came of it. Did the way keep what is promised?"""
    spent: dict[int, int] = {}

    def run(call: Call, asked: threading.Barrier) -> None:
        begun = way.begin(call)
        asked.wait(SECONDS_MAX)
        if not begun:
            return
        used, ends = 0, call.actual if call.dies_at is None else call.dies_at
        while used < ends:
            used = min(used + CHUNK, ends)
            if used == call.dies_at or not way.spends(call, used):
                break
        spent[call.number] = used
        if call.dies_at is None:
            way.end(call, used)

    with ThreadPoolExecutor(AT_A_TIME) as callers:
        for first in range(0, len(calls), AT_A_TIME):
            wave = calls[first:first + AT_A_TIME]
            asked = threading.Barrier(len(wave))
            for done in [callers.submit(run, call, asked) for call in wave]:
                done.result(SECONDS_MAX)
    total, counted = sum(spent.values()), way.counted()
    each = [(way.counts(calls[number], used), used) for number, used in spent.items()]
    sums = sum(counts for counts, _ in each)
    uncounted = sum(max(0, used - counts) for counts, used in each)
    leaked = sum(max(0, counts - used) for counts, used in each)
    over = max(0, total - budget)
    kept = counted == sums
    if isinstance(way, Release):
        # What the killed had used is free with `release`, and is the only thing beyond.
        kept &= over <= uncounted + sum(way.late) and (uncounted if isinstance(way, Keep) else leaked) == 0
    print(f"{way.name:<22} {len(spent):>4} of {len(calls)} calls, {total:>7} spent of {budget}: {over:>7} beyond it "
          f"({over / budget:.1%}), {uncounted:>6} never counted, {leaked:>6} never given back"
          f"{'' if kept else f'; MISSED: the counter has {counted}, the calls {sums}'}", flush=True)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=500, help="default %(default)s")
    parser.add_argument("--ttl", type=int, default=10, help="seconds that a reservation outlives its caller; default %(default)s")
    parser.add_argument("--sluice", default=os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice"),
                        metavar="PROGRAM")
    asked = parser.parse_args()
    calls = calls_of(asked.calls)
    budget = sum(call.actual for call in calls) // 5
    kept = True
    with serving(os.path.abspath(asked.sluice), budget) as sluice, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # BudgetManager writes a file where it is
        kept &= drive(Report(sluice), calls, budget)
        try:
            kept &= drive(LiteLlm(budget), calls, budget)
        except ImportError as error:
            print(f"{LiteLlm.name:<22} left out: {error}")
        kept &= drive(Correct(sluice), calls, budget)
        kept &= drive(Release(sluice, asked.ttl), calls, budget)
        kept &= drive(Keep(sluice, asked.ttl), calls, budget)
        os.chdir(ROOT)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
