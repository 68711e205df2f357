"""Forty programs share ten places by HTTP, of which a third are killed or stopped, and with counters on disk so is the server. From
what each was answered, and when, it is counted who has a place at each moment: never more than there are. SLUICE_HOLDERS: for so
many seconds."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import NamedTuple

from sluice_server import BINARY, LISTENING, LimitedTest, Program, wait_until

MILLISECOND = 0.001  # what `waited` is told in
CLIENTS, QUOTA, MOST, TTL = 40, 10, 3, 1.0  # programs, places, the most of one acquire, seconds of a lease
SECONDS = float(os.environ.get("SLUICE_HOLDERS") or "5")
CONFIG = """listen: [{{ protocol: http, address: "127.0.0.1:{port}" }}]
workers: 2
store: {{ {store} }}
rules:
  - name: pool
    match: {{ pool: "*" }}
    actor: pool
    limit: {{ quota: {quota}, algorithm: concurrency, lease: {ttl:g}s }}
"""
# Acquires, renews and releases until its time is over. Says of each request what it was, of which id and how many places, when it
# was sent, when it was answered, the status (0: it was not) and how long the server let it wait.
HOLDER = """
import http.client, json, os, random, sys, time, uuid
port, ttl, most, seconds, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
dice, kept = random.Random(seed), None
def ask(what, hold, units, **body):
    global kept
    sent, said = time.time(), {}
    try:
        kept = kept or http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        kept.request("POST", "/v1/" + what, json.dumps({"id": hold, **body}), {"Content-Type": "application/json"})
        answer = kept.getresponse()
        status, said = answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException):
        status, kept = 0, None
    os.write(1, json.dumps([what, hold, units, sent, time.time(), status, said.get("waited", 0)]).encode() + b"\\n")
    if status in (0, 503): time.sleep(0.05)
    return status
until = time.time() + seconds
while time.time() < until:
    hold, units = uuid.uuid4().hex, dice.randint(1, most)
    for tries in range(20):
        status = ask("acquire", hold, units, entries={"pool": "gpu"}, n=units, ttl=ttl, timeout=2)
        if status not in (0, 503): break
    if status != 200: continue
    for turn in range(dice.randint(0, 4)):
        time.sleep(dice.uniform(0, ttl / 3))
        if ask("renew", hold, units, ttl=ttl) == 410: break
    else:
        if dice.randrange(8) == 0:  # it works past its end
            time.sleep(1.2 * ttl)
            ask("renew", hold, units, ttl=ttl)
        elif dice.randrange(8): ask("release", hold, units)
"""


class Said(NamedTuple):
    what: str
    hold: str
    units: int
    sent: float
    answered: float
    status: int
    waited: float


class Holder:
    def __init__(self, test: unittest.TestCase, port: int, seconds: float, seed: int) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, str(port), str(TTL), str(MOST), str(seconds), str(seed)],
                                        stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]})
        self.said: list[Said] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self.end)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if line.endswith("\n"):
                self.said.append(Said(*json.loads(line)))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        if self.process.stdout:
            self.process.stdout.close()


class Held(NamedTuple):
    """Of one id: when it has its places for certain, and since when it may have some."""

    units: int
    begin: float
    end: float


def waited_at_least(of_one: list[Said]) -> float:
    """Between the first sending of an acquire and its grant."""
    return max(of_one[0].waited - MILLISECOND, 0) if of_one[0].status == 200 else 0


def certain(of_one: list[Said]) -> Held | None:
    """From its first answer on. Until it sent a release, or as long as the last acquire or renewal that was answered is good for,
    counted from when it was first sent."""
    granted = [one for one in of_one if one.what == "acquire" and one.status == 200]
    if not granted:
        return None
    # One that was sent again may have been granted at once when it was sent first.
    end = of_one[0].sent + TTL + waited_at_least(of_one)
    for one in of_one:
        if one.what == "renew" and one.status == 200:
            end = max(end, one.sent + TTL)
        elif one.what == "release":
            end = min(end, one.sent)
    return Held(granted[0].units, granted[0].answered, end)


def most_at_a_time(held: list[Held]) -> int:
    changes = [change for one in held if one.begin < one.end for change in ((one.begin, one.units), (one.end, -one.units))]
    out = most = 0
    for _, change in sorted(changes):
        out += change
        most = max(most, out)
    return most


class InMemory(LimitedTest):
    test_seconds_max = int(SECONDS) + 120
    STORE = "path: null"
    KILLS = 0

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.port = 0
        self.server = self.start()
        self.addCleanup(lambda: self.server.kill())

    def start(self) -> Program:
        config = self.folder / "sluice.yaml"
        text = CONFIG.format(port=self.port, quota=QUOTA, ttl=TTL, store=self.STORE.format(folder=self.folder))
        config.write_text(text.replace("store: { path: null }\n", ""), encoding="utf-8")
        server = Program([BINARY, "serve", "--config", str(config), "--admin", "off"], LISTENING)
        self.port = server.port
        return server

    def disturb(self, holders: list[Holder]) -> tuple[int, int]:
        """Kills or stops a third of them, one after the other, and the server meanwhile. Returns how many of each."""
        restarts = set(random.Random(43).sample(range(CLIENTS // 3), self.KILLS))
        left = list(holders)
        killed = stopped = 0
        for number in range(CLIENTS // 3):
            time.sleep(SECONDS / (CLIENTS // 3 + 2))
            # One that has places, if there is one.
            one = next((one for one in left if one.said[-1].what != "release" and one.said[-1].status == 200), left[0])
            left.remove(one)
            if number % 2 == 0:
                one.process.kill()
                killed += 1
            else:
                one.process.send_signal(signal.SIGSTOP)
                stopped += 1
                threading.Timer(1.5 * TTL, one.process.send_signal, [signal.SIGCONT]).start()
            if number in restarts:
                self.server.kill()
                self.server = self.start()
        return killed, stopped

    def test_never_more_places_are_out_than_there_are(self) -> None:
        holders = [Holder(self, self.port, SECONDS, number) for number in range(CLIENTS)]
        wait_until(lambda: sum(bool(one.said) for one in holders) == CLIENTS, "all have begun")
        killed, stopped = self.disturb(holders)
        self.assertEqual(killed + stopped, CLIENTS // 3)
        for one in holders:
            one.process.wait(SECONDS + 60)
        ended = time.time()
        by_id: dict[str, list[Said]] = {}
        for one in holders:
            one._reader.join(10)
            for said in one.said:
                by_id.setdefault(said.hold, []).append(said)
        held = [found for of_one in by_id.values() if (found := certain(of_one))]
        most = most_at_a_time(held)
        self.assertLessEqual(most, QUOTA)
        # It can be seen that they were used up.
        self.assertGreaterEqual(most, QUOTA - MOST + 1)
        told = self.see_renewals(by_id)
        print(f"{type(self).__name__}: {len(held)} acquires of {CLIENTS} programs, {killed} killed, {stopped} stopped, "
              f"at most {most} of {QUOTA} places at a time, {told} renewals after the end")
        self.assertGreater(told, 0)
        # What nobody gave back has ended.
        time.sleep(max(ended + TTL + 0.1 - time.time(), 0))
        self.assertEqual(self.left(), QUOTA)

    def see_renewals(self, by_id: dict[str, list[Said]]) -> int:
        """What was renewed in time for certain was renewed, and what was too late for certain was refused. Returns how many of the
        second there were."""
        told = 0
        for of_one in by_id.values():
            earliest = latest = None  # of its end
            for one in of_one:
                if one.what == "acquire" and one.status == 200:
                    earliest, latest = of_one[0].sent + TTL + waited_at_least(of_one), one.answered + TTL
                if one.what != "renew" or earliest is None:
                    continue
                if one.answered < earliest:
                    self.assertIn(one.status, (0, 200, 503), of_one)
                if one.sent > latest:
                    self.assertIn(one.status, (0, 410, 503), of_one)
                    told += one.status == 410
                if one.status == 200:
                    earliest, latest = one.sent + TTL, one.answered + TTL
                elif one.status in (0, 503):
                    latest = one.answered + TTL  # it may have been renewed
        return told

    def left(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", "/v1/peek", json.dumps({"entries": {"pool": "gpu"}, "n": 0}), {"Content-Type": "application/json"})
        answer = json.load(connection.getresponse())
        connection.close()
        return answer["remaining"]


class OnDisk(InMemory):
    STORE = "path: {folder}/data, durability: always"
    KILLS = 2


class Ends(InMemory):
    """By the server's clock: a look and an acquire that wait in one segment are decided in one batch, by one reading of the clock.
    The look says when the lease of the only other holder ends, and the acquire how long it waited."""

    test_never_more_places_are_out_than_there_are = None

    def ask(self, connection: socket.socket, *requests: tuple[str, dict[str, object]]) -> list[dict[str, object]]:
        bodies = [(path, json.dumps(body).encode()) for path, body in requests]
        connection.sendall(b"".join(b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                                    % (path.encode(), len(body), body) for path, body in bodies))
        answers = []
        for _ in bodies:
            answers.append(self.read(connection))
        return answers

    @staticmethod
    def read(connection: socket.socket) -> dict[str, object]:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = connection.recv(1)
            if not byte:
                raise ConnectionError(head.decode())
            head += byte
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        body = b""
        while len(body) < length:
            body += connection.recv(length - len(body))
        return json.loads(body)

    def test_a_place_ends_at_its_moment(self) -> None:
        entries, late = {"pool": "one"}, []
        with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
            for turn in range(20):
                ttl = round(0.1 + turn / 1000, 3)
                holder, = self.ask(connection, ("acquire", {"entries": entries, "n": QUOTA, "ttl": ttl}))
                self.assertTrue(holder.get("allowed"), holder)
                looked, granted = self.ask(connection, ("peek", {"entries": entries, "n": 0}),
                                           ("acquire", {"entries": entries, "n": QUOTA, "ttl": 5, "timeout": 5, "id": f"waits-until-then-{turn}"}))
                self.assertTrue(granted.get("allowed"), granted)
                late.append(round(float(granted["waited"]) - float(looked["reset_after"]), 6))
                released, = self.ask(connection, ("release", {"id": granted["id"]}))
                self.assertEqual(released["returned"], QUOTA)
        print(f"{type(self).__name__}: granted {min(late) * 1000:.3f} to {max(late) * 1000:.3f} ms after the end")
        self.assertGreaterEqual(min(late), -MILLISECOND, "no place ends early")
        self.assertLessEqual(min(late), MILLISECOND, "one at least is granted at once, also where the machine is busy")


if __name__ == "__main__":
    unittest.main()
