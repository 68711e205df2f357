#!/usr/bin/env python3
"""Measures what the death of the pod of deploy/kubernetes/disk.yaml costs: its command line, with its folder of counters, is
killed (SIGKILL) under load again and again, for each durability. Prints for how long nothing was answered, and how many
units that were granted are forgotten. What Kubernetes itself needs to start a container is not in it.

    tests/ship/restart_cost.py [--rounds N]       N kills for each durability, by default 50; needs PyYAML
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/clients/ship"))

from kubelet import MANIFESTS, SECONDS_MAX, TOKEN, Pod, read_all  # noqa: E402

QUOTA = 1_000_000_000
RULES = f"""\
rules:
  - name: counted
    match: {{ key: one }}
    actor: key
    limit: {{ quota: {QUOTA}, window: 30d, algorithm: fixed_window }}
"""
FIELDS = {"Content-Type": "application/json"}


class Cost(NamedTuple):
    silent: float  # seconds from the kill to the next answer
    forgotten: int  # units that were granted before it, and are there again
    granted: int  # units since the start before it
    rate: float  # a second


class Client:
    """One after the other on one connection, which is made again when it breaks."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)

    def close(self) -> None:
        self._connection.close()

    def used(self, units: int) -> int:
        """Takes so many units; returns how many are used then."""
        body = json.dumps({"entries": {"key": "one"}, "n": units})
        try:
            self._connection.request("POST", "/v1/take", body, FIELDS)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {text.decode(errors='replace')}")
        return QUOTA - json.loads(text)["remaining"]


def kill_once(pod: Pod, client: Client, seconds: float) -> Cost:
    """Takes units for so long, kills the server meanwhile, and starts it again at once."""
    assert pod.process is not None
    process = pod.process.process
    killed_at = 0.0

    def kill() -> None:
        nonlocal killed_at
        killed_at = time.monotonic()
        process.kill()

    before = client.used(0)
    granted, begin = before, time.monotonic()
    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        while True:
            granted = client.used(1)
    except (OSError, http.client.HTTPException):
        pass
    timer.join(SECONDS_MAX)
    pod.kill()
    pod.start()
    kept = client.used(0)
    return Cost(time.monotonic() - killed_at, max(0, granted - kept), granted - before, (granted - before) / (killed_at - begin))


def measure(durability: str, rounds: int, dice: random.Random) -> list[Cost]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    objects = read_all((MANIFESTS / "disk.yaml").read_text(encoding="utf-8"))
    [config] = [one for one in objects if one["kind"] == "ConfigMap"]
    settings = config["data"]["sluice.yaml"].partition("rules:")[0]
    for old, new in (("durability: interval", f"durability: {durability}"), ('"[::]:8390"', f'"127.0.0.1:{port}"')):
        if old not in settings:
            raise RuntimeError(f"disk.yaml has no {old}")
        settings = settings.replace(old, new)
    config["data"]["sluice.yaml"] = settings + RULES
    with tempfile.TemporaryDirectory(prefix="sluice-restart-") as folder:
        pod = Pod(objects, Path(folder), {"sluice-admin": {"token": TOKEN}})
        try:
            pod.start()
            with contextlib.closing(Client(port)) as client:
                return [kill_once(pod, client, dice.uniform(0.5, 1.0)) for _ in range(rounds)]
        finally:
            pod.kill()


def wrong(durability: str, costs: list[Cost]) -> str:
    """What a folder of counters does not promise; empty if there is nothing."""
    if durability == "always" and any(cost.forgotten for cost in costs):
        return "always: units that were answered are forgotten"
    if durability == "interval" and any(cost.forgotten >= cost.granted for cost in costs):
        return "interval: a start found nothing of what the server before it had written"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50, help="kills for each durability")
    rounds = parser.parse_args().rounds
    dice = random.Random(1)
    print(f"{rounds} kills each           seconds without an answer     units forgotten      as milliseconds of the load")
    print("durability    load         median   longest           median    most        median    most")
    for durability in ("none", "interval", "always"):
        costs = measure(durability, rounds, dice)
        silent = [cost.silent for cost in costs]
        forgotten = [cost.forgotten for cost in costs]
        late = [1000 * cost.forgotten / cost.rate for cost in costs]
        print(f"{durability:<10} {statistics.median(cost.rate for cost in costs):>6.0f}/s      {statistics.median(silent):>9.3f} "
              f"{max(silent):>9.3f}        {statistics.median(forgotten):>9.0f} {max(forgotten):>7}     "
              f"{statistics.median(late):>9.0f} {max(late):>7.0f}", flush=True)
        if problem := wrong(durability, costs):
            print(problem, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
