"""examples/places, with its own rules: programs that share places. Some are killed, one is stopped, and so is the server; what works
at each moment is counted by the clock that all of them have in common."""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

from sluice_server import BINARY, LISTENING, ROOT, LimitedTest, Program, wait_until

LEASE = 2.0
POOL, OF_TENANT, OF_ALL, CONNECTIONS = 3, 2, 20, 4  # the quotas
RULES = (ROOT / "examples/places/places.yaml").read_text(encoding="utf-8")
# Threads that say when they have a place and when they give it up.
WORKER = """
import json, os, sys, threading, time
from places import place
server, lease, work, turns, entries = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5])
def say(word):
    os.write(1, f"{word} {time.monotonic()}\\n".encode())
def run():
    for _ in range(turns):
        with place(entries, server, lease, 60, "worker") as lost:
            say("has")
            lost.wait(work)
            say("lost" if lost.is_set() else "done")
threads = [threading.Thread(target=run) for _ in range(int(sys.argv[6]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
# Asks its database all the while.
CLIENT = """
import os, socket, sys, time
from connections import connection
server, lease, work, turns, port = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
def say(word):
    os.write(1, f"{word} {time.monotonic()}\\n".encode())
class Opened:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.ask()
    def ask(self):
        self.socket.sendall(b"?")
        if self.socket.recv(1) != b"!": raise OSError("closed")
    def close(self):
        try: self.socket.shutdown(socket.SHUT_RDWR)
        except OSError: pass
        self.socket.close()
for _ in range(turns):
    try:
        with connection(Opened, "acme", server=server, lease=lease) as opened:
            say("has")
            end = time.monotonic() + work
            while time.monotonic() < end:
                opened.ask()
                time.sleep(0.002)
            say("done")
    except OSError:
        say("lost")
"""


class Database:
    """Answers each byte of at most `most` connections at a time, and refuses more: it closes them. What has been closed is seen
    before what was opened after it."""

    def __init__(self, test: unittest.TestCase, most: int) -> None:
        self.most, self.seen, self.refused = most, 0, 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._open: set[socket.socket] = set()
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        test.addCleanup(self._close)

    def count(self) -> int:
        return len(self._open)

    def _run(self) -> None:
        while not self._ended:
            ready = [key.fileobj for key, _ in self._selector.select(0.1)]
            for one in ready:
                if one is not self._listener:
                    self._answer(one)
            if self._listener in ready:
                self._accept()

    def _accept(self) -> None:
        one, _ = self._listener.accept()
        if len(self._open) == self.most:
            self.refused += 1
            one.close()
            return
        self._open.add(one)
        self.seen = max(self.seen, len(self._open))
        self._selector.register(one, selectors.EVENT_READ)

    def _answer(self, one: socket.socket) -> None:
        try:
            asked = one.recv(1000)
            one.sendall(b"!" * len(asked))
        except OSError:
            asked = b""
        if not asked:
            self._selector.unregister(one)
            self._open.discard(one)
            one.close()

    def _close(self) -> None:
        self._ended = True
        self._thread.join(10)
        for one in [self._listener, *self._open]:
            one.close()
        self._selector.close()


class Worker:
    """A process that runs one of the programs above. `said`: what it has said, with the moments."""

    def __init__(self, test: unittest.TestCase, program: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT / "examples/places")})
        self.said: list[tuple[str, float]] = []
        self.killed_at = float("inf")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self.end)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            word, at = line.split()
            self.said.append((word, float(at)))

    def awaits(self, count: int, what: str) -> str:
        """The last word, once there are so many."""
        wait_until(lambda: len(self.said) >= count, what)
        return self.said[count - 1][0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.killed_at = time.monotonic()

    def finish(self, seconds_max: float) -> int:
        status = self.process.wait(seconds_max)
        self._reader.join(10)
        return status

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        if self.process.stdout:
            self.process.stdout.close()

    def moments(self) -> list[tuple[float, int]]:
        """When it has one more at work, and one less; a process that was killed has none any more."""
        changes = [(at, 1 if word == "has" else -1) for word, at in self.said]
        return changes + [(self.killed_at, -1)] * sum(change for _, change in changes)


def most_at_a_time(workers: list[Worker]) -> int:
    working = most = 0
    for _, change in sorted(moment for worker in workers for moment in worker.moments()):
        working += change
        most = max(most, working)
    return most


class Places(LimitedTest):
    """With counters on disk."""

    test_seconds_max = 150
    STORE = "path: {folder}/data, durability: always"
    lease = LEASE

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.port = 0
        self.server = self.start()
        self.addCleanup(lambda: self.server.kill())

    def start(self) -> Program:
        text = RULES
        for was, now in (("127.0.0.1:8000", f"127.0.0.1:{self.port}"), ("path: places, durability: always", self.STORE.format(folder=self.folder)),
                         ("lease: 30s", f"lease: {self.lease:g}s"), ("quota: 40", f"quota: {CONNECTIONS}"),
                         ('  - { protocol: admin, address: "127.0.0.1:8081" }\n', "")):
            self.assertIn(was, text)
            text = text.replace(was, now)
        config = self.folder / "places.yaml"
        config.write_text(text, encoding="utf-8")
        server = Program([BINARY, "serve", "--config", str(config), "--admin", "off"], LISTENING)
        self.port = server.port
        return server

    def restart(self) -> None:
        self.server.kill()
        self.server = self.start()

    def work(self, seconds: float, turns: int, entries: dict[str, str] | None = None, threads: int = 1) -> Worker:
        return Worker(self, WORKER, f"127.0.0.1:{self.port}", self.lease, seconds, turns, json.dumps(entries or {"pool": "gpu"}), threads)


class Pool(Places):
    def test_no_more_than_the_quota_work_at_a_time(self) -> None:
        workers = [self.work(0.02, 15) for _ in range(10)]
        for worker in workers:
            self.assertEqual(worker.finish(100), 0)
            self.assertEqual([word for word, _ in worker.said], ["has", "done"] * 15)
        self.assertEqual(most_at_a_time(workers), POOL)

    def test_places_of_the_killed_come_back_and_no_sooner(self) -> None:
        killed = [self.work(60, 1) for _ in range(POOL)]
        for worker in killed:
            self.assertEqual(worker.awaits(1, "it has a place"), "has")
        time.sleep(LEASE)  # they renew
        began = time.monotonic()
        for worker in killed:
            worker.kill()
        others = [self.work(0, 1) for _ in range(POOL)]
        for worker in others:
            worker.finish(60)
            word, at = worker.said[0]
            self.assertEqual(word, "has")
            # The last renewal was at most a third of a lease before, or somewhat more on a busy machine.
            self.assertGreater(at - began, 0)

    def test_who_is_stopped_for_longer_than_its_lease_is_told(self) -> None:
        stopped = self.work(60, 1)
        self.assertEqual(stopped.awaits(1, "it has a place"), "has")
        stopped.process.send_signal(signal.SIGSTOP)
        for worker in [self.work(0, 1) for _ in range(POOL)]:
            self.assertEqual(worker.awaits(1, "it has a place"), "has")
        time.sleep(LEASE)
        stopped.process.send_signal(signal.SIGCONT)
        self.assertEqual(stopped.awaits(2, "it is told"), "lost")

    def test_a_server_that_is_killed_keeps_its_places(self) -> None:
        workers = [self.work(30, 1) for _ in range(POOL)]
        for worker in workers:
            self.assertEqual(worker.awaits(1, "it has a place"), "has")
        self.restart()
        late = self.work(0, 1)
        time.sleep(2 * LEASE)
        self.assertEqual(late.said, [])
        for worker in workers:
            self.assertEqual(len(worker.said), 1, "it has its place still")
        workers[0].kill()
        self.assertEqual(late.awaits(1, "the place of the killed worker goes to the one that waits"), "has")
        self.assertEqual(late.finish(20), 0)

    def test_a_server_that_does_not_answer_costs_its_holders_their_places_in_time(self) -> None:
        worker = self.work(60, 1)
        self.assertEqual(worker.awaits(1, "it has a place"), "has")
        self.server.hold()
        stopped = time.monotonic()
        self.assertEqual(worker.awaits(2, "it is told"), "lost")
        # Its last renewal was answered before the server was stopped.
        self.assertLess(worker.said[1][1] - stopped, LEASE + 1)
        self.server.go_on()


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in listeners]
    finally:
        for one in listeners:
            one.close()


class BehindSentinel(Places):
    """A primary of Redis, a replica and a sentinel. The lease is longer than a replica needs to take over."""

    lease = 12.0

    def setUp(self) -> None:
        redis = tempfile.TemporaryDirectory()
        self.addCleanup(redis.cleanup)
        primary, replica, sentinel = free_ports(3)
        watch = Path(redis.name) / "sentinel.conf"
        watch.write_text(f"port {sentinel}\nbind 127.0.0.1\nsentinel monitor places 127.0.0.1 {primary} 1\n"
                         "sentinel down-after-milliseconds places 1000\nsentinel failover-timeout places 3000\n", encoding="utf-8")
        common = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", redis.name]
        self.primary = self.run_redis(primary, ["--port", str(primary), *common])
        self.run_redis(replica, ["--port", str(replica), "--replicaof", "127.0.0.1", str(primary), "--repl-diskless-sync-delay", "0", *common])
        wait_until(lambda: "master_link_status:up" in self.ask(replica, "INFO", "replication"), "the replica follows")
        self.run_redis(sentinel, [str(watch), "--sentinel"])
        wait_until(lambda: "slaves=1" in self.ask(sentinel, "INFO", "sentinel"), "the sentinel knows both")
        self.STORE = f"redis: {{{{ sentinel: {{{{ master: places, nodes: [\"127.0.0.1:{sentinel}\"] }}}} }}}}"
        self.replica = replica
        super().setUp()

    def run_redis(self, port: int, arguments: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["redis-server", *arguments], stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: self.ask(port, "PING") == "PONG", "it answers")
        return process

    @staticmethod
    def ask(port: int, *words: str) -> str:
        done = subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True, timeout=30, check=False)
        return done.stdout.strip()

    def test_holders_keep_their_places_when_the_primary_is_killed(self) -> None:
        workers = [self.work(100, 1) for _ in range(POOL)]
        for worker in workers:
            self.assertEqual(worker.awaits(1, "it has a place"), "has")
        late = self.work(0, 1)
        # All that was granted has reached the replica.
        wait_until(lambda: self.ask(self.replica, "ZCARD", "sluice:held_places") == str(POOL), "the replica has the places")
        self.primary.kill()
        wait_until(lambda: "role:master" in self.ask(self.replica, "INFO", "replication"), "the replica takes over")
        wait_until(lambda: int(self.ask(self.replica, "INFO", "commandstats").count("cmdstat_evalsha")) > 0, "servers ask it")
        time.sleep(self.lease)  # all that are still there have renewed
        self.assertEqual([len(worker.said) for worker in workers], [1] * POOL)
        self.assertEqual(late.said, [])
        workers[0].kill()
        self.assertEqual(late.awaits(1, "the place of the killed worker goes to the one that waits"), "has")
        self.assertEqual(late.finish(20), 0)


class Exports(Places):
    TENANTS, THREADS, TURNS = 12, 3, 8

    def test_both_limits_hold_while_exporters_and_the_server_are_killed(self) -> None:
        exporters = {tenant: self.work(0.3, self.TURNS, {"tenant": f"t{tenant}", "what": "exports"}, self.THREADS)
                     for tenant in range(self.TENANTS)}
        everything = list(exporters.values())
        wait_until(lambda: sum(len(one.said) for one in everything) > 2 * OF_ALL, "exports go on")
        for tenant in random.Random(1).sample(range(self.TENANTS), self.TENANTS // 3):
            exporters[tenant].kill()
        self.restart()
        for one in everything:
            if one.killed_at == float("inf"):
                self.assertEqual(one.finish(100), 0)
                self.assertEqual(len(one.said), 2 * self.THREADS * self.TURNS)
        for one in everything:
            self.assertLessEqual(most_at_a_time([one]), OF_TENANT)
        self.assertLessEqual(most_at_a_time(everything), OF_ALL)
        self.assertGreater(most_at_a_time(everything), OF_TENANT)

    def test_what_one_limit_refuses_takes_nothing_of_the_other(self) -> None:
        holders = [self.work(60, 1, {"tenant": f"t{tenant}", "what": "exports"}, OF_TENANT) for tenant in range(OF_ALL // OF_TENANT)]
        for one in holders:
            one.awaits(OF_TENANT, "it has both")
        self.assertEqual(most_at_a_time(holders), OF_ALL)
        late = self.work(0, 1, {"tenant": "late", "what": "exports"}, 1)
        same = self.work(0, 1, {"tenant": "t0", "what": "exports"}, 1)
        time.sleep(LEASE)
        self.assertEqual((late.said, same.said), ([], []))
        # Twenty are out of all, and it waits without a place of its own.
        self.assertEqual(self.left("late"), [OF_TENANT, 0])
        holders[1].kill()
        self.assertEqual(late.awaits(1, "it has the place of one that was killed"), "has")
        self.assertEqual(same.said, [], "its tenant has two")
        holders[0].kill()
        self.assertEqual(same.awaits(1, "it has the place of one that was killed"), "has")

    def left(self, tenant: str) -> list[int]:
        body = json.dumps({"entries": {"tenant": tenant, "what": "exports"}, "n": 0, "detail": True}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/peek", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return [one["remaining"] for one in json.load(answer)["limits"]]


class Connections(Places):
    def client(self, database: Database, seconds: float, turns: int) -> Worker:
        return Worker(self, CLIENT, f"127.0.0.1:{self.port}", LEASE, seconds, turns, database.port)

    def test_there_are_never_more_than_the_database_allows(self) -> None:
        database = Database(self, CONNECTIONS)
        clients = [self.client(database, 0.1, 12) for _ in range(9)]
        wait_until(lambda: sum(len(one.said) for one in clients) > 30, "they work")
        for one in clients[:3]:
            one.kill()
        wait_until(lambda: sum(len(one.said) for one in clients[3:]) > 60, "the others go on")
        self.restart()
        for one in clients[3:]:
            self.assertEqual(one.finish(100), 0)
            self.assertEqual(len(one.said), 2 * 12, one.said)
        self.assertEqual((database.seen, database.refused), (CONNECTIONS, 0))

    def test_one_that_is_stopped_has_its_connection_until_it_goes_on(self) -> None:
        database = Database(self, CONNECTIONS + 1)
        stopped = self.client(database, 60, 1)
        self.assertEqual(stopped.awaits(1, "it has a connection"), "has")
        stopped.process.send_signal(signal.SIGSTOP)
        others = [self.client(database, 60, 1) for _ in range(CONNECTIONS)]
        for one in others:
            self.assertEqual(one.awaits(1, "it has a connection"), "has")
        # This is what no lease prevents, and why a quota is below the database's own limit.
        self.assertEqual((database.count(), database.refused), (CONNECTIONS + 1, 0))
        stopped.process.send_signal(signal.SIGCONT)
        self.assertEqual(stopped.awaits(2, "its connection was closed"), "lost")
        wait_until(lambda: database.count() == CONNECTIONS, "the connection is closed")
        self.assertEqual([len(one.said) for one in others], [1] * CONNECTIONS)


if __name__ == "__main__":
    unittest.main()
