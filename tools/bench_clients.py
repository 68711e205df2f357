#!/usr/bin/env python3
"""The cost of clients that ask for much and read little: lists over a million counters, and the delay of other clients
meanwhile; replies that are not read; waiting requests that are matched again. Exit status 1: a bound was exceeded.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench_common import BUILD, READY_SECONDS_MAX, give_up

TAKE, WAIT, STATUS = 0, 1, 3
COUNTERS, CLIENTS, WAITERS, LISTS = 1_000_000, 100, 32_000, 9
WORKERS = 2
LONG_KEY = 62 << 10  # bytes; what fits into a frame
MIB = 1 << 20
UNREAD_MIB_MAX = 64 * WORKERS + 32  # base::bounds::unsent_bytes_max of each worker, and a reserve
SOCKET_KIB_MAX = 384  # twice base::bounds::socket_send_bytes, and the kernel's own share of the last piece
MATCH_SECONDS_MAX = 1.0
RULES = """
rules:
  - { name: pool, match: { type: pool, key: '*' }, actor: key, limit: { quota: 3, window: 10h, algorithm: fixed_window } }
  - { name: user, match: { type: user, key: '*' }, actor: key, limit: { quota: 10, window: 10h } }
policy:
  - limitd: limitd.yaml
"""
LIMITD = "db: { inMemory: true }\nbuckets: { ip: { size: 10, per_hour: 1 } }\n"


def varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def frame(method: int, kind: bytes, key: bytes, count: int = 1) -> bytes:
    texts = ((1, b"i"), (2, kind), (3, key))
    body = b"".join(bytes([number << 3 | 2]) + varint(len(text)) + text for number, text in texts)
    body += bytes([0x20, method, 0x28]) + varint(count)
    return varint(len(body)) + body


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def reply(self) -> bytes:
        while True:
            size, at = 0, 0
            while at < len(self.rest):
                byte = self.rest[at]
                size |= (byte & 127) << (7 * at)
                at += 1
                if byte < 128:
                    if len(self.rest) < at + size:
                        break
                    whole, self.rest = self.rest[at:at + size], self.rest[at + size:]
                    return whole
            got = self.socket.recv(MIB)
            if not got:
                raise EOFError
            self.rest += got

    def ask(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        return self.reply()


class Server(NamedTuple):
    process: subprocess.Popen[bytes]
    port: int
    admin: int

    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else 0.0

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def override(self, terms: str) -> None:
        body = '{"rule":"pool","actor":"a",' + terms + "}"
        urllib.request.urlopen(urllib.request.Request(
            f"http://127.0.0.1:{self.admin}/v1/overrides", body.encode(), {"Content-Type": "application/json"})).close()

    def waiting(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as page:
            found = re.search(r"^sluice_waiting_requests (\d+)", page.read().decode(), re.MULTILINE)
        return int(found[1]) if found else 0


@contextlib.contextmanager
def serving(protocol: str, workers: int = WORKERS) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        config, told = Path(folder) / "sluice.yaml", Path(folder) / "told"
        (Path(folder) / "limitd.yaml").write_text(LIMITD, encoding="ascii")
        listens = "".join(f'  - {{ protocol: {name}, address: "127.0.0.1:0" }}\n' for name in (protocol, "admin"))
        config.write_text(f"listen:\n{listens}workers: {workers}\n{RULES}", encoding="ascii")
        with told.open("wb") as out:
            process = subprocess.Popen([str(BUILD / "sluice"), "serve", "--config", str(config)], stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + READY_SECONDS_MAX
            while len(ports := re.findall(r"127\.0\.0\.1:(\d+)", told.read_text())) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            if len(ports) < 2:
                give_up(told.read_text())
            yield Server(process, int(ports[0]), int(ports[1]))
        finally:
            process.terminate()
            process.wait()


def milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e3


def lists() -> bool:
    """A STATUS passes through the whole table; a TAKE at the same time measures what other clients notice."""
    with serving("limitd") as server:
        client, other = Client(server.port), Client(server.port)
        for first in range(0, COUNTERS, 500):
            client.socket.sendall(b"".join(frame(TAKE, b"ip", b"k%07d" % n) for n in range(first, first + 500)))
            for _ in range(500):
                client.reply()
        none = frame(STATUS, b"ip", b"none", 0)
        spent, times = server.processor_seconds(), sorted(milliseconds(lambda: client.ask(none)) for _ in range(LISTS))
        print(f"a list over {COUNTERS} counters: {(server.processor_seconds() - spent) / LISTS * 1e3:.0f} ms of processor "
              f"time, {times[LISTS // 2]:.0f} ms elapsed (a thread of low priority)", flush=True)

        def beside(what: str, work: Callable[[], object]) -> None:
            over, took = threading.Event(), list[float]()

            def take() -> None:
                while not over.is_set():
                    took.append(milliseconds(lambda: other.ask(frame(TAKE, b"ip", b"other"))))

            taker = threading.Thread(target=take)
            taker.start()
            elapsed = milliseconds(work)
            over.set()
            taker.join()
            took.sort()
            print(f"another client's TAKE beside {what} ({elapsed:.0f} ms): median {took[len(took) // 2]:.3f} ms, "
                  f"99 of 100 {took[len(took) * 99 // 100]:.2f} ms, longest {took[-1]:.1f} ms", flush=True)

        beside("nothing", lambda: time.sleep(2))
        beside(f"{LISTS} lists, one by one", lambda: [client.ask(none) for _ in range(LISTS)])
        crowd = [Client(server.port) for _ in range(20)]

        def all_at_once() -> None:
            for one in crowd:
                one.socket.sendall(none * 64)
            for one in crowd:
                for _ in range(64):
                    one.reply()

        beside("20 clients with 64 lists each", all_at_once)
    return True


def unread_lists() -> bool:
    with serving("limitd") as server:
        client = Client(server.port)
        for n in range(100):
            client.ask(frame(TAKE, b"ip", b"%03d" % n + b"x" * LONG_KEY))
        request = frame(STATUS, b"ip", b"", 0)
        size, before, most = len(client.ask(request)), server.resident_mib(), 0.0
        crowd = [Client(server.port) for _ in range(CLIENTS)]
        for one in crowd:
            one.socket.sendall(request * 8)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            most = max(most, server.resident_mib())
            time.sleep(0.05)
        kept = most - before <= UNREAD_MIB_MAX
        print(f"{CLIENTS} clients, 8 lists of {size} bytes each, {len(request)} bytes of request, which is not read: "
              f"resident {before:.0f} to {most:.0f} MiB, at most {UNREAD_MIB_MAX} more: "
              f"{'met' if kept else 'MISSED'}", flush=True)
        return kept


def unread_replies() -> bool:
    """The kernel's memory for clients that send as long as they can and read nothing."""
    with serving("divvy") as server:
        crowd = [Client(server.port) for _ in range(CLIENTS)]
        for one in crowd:
            one.socket.setblocking(False)
        lines, sent, quiet = b"HIT type=user key=a\n" * 4096, 0, 0
        while quiet < 20:
            went = 0
            for one in crowd:
                with contextlib.suppress(BlockingIOError):
                    went += one.socket.send(lines)  # where it begins within a line does not matter
            sent, quiet = sent + went, 0 if went > 0 else quiet + 1
            time.sleep(0.02)
        shown = subprocess.run(["ss", "-tmnH", "sport", "=", f":{server.port}"],
                               capture_output=True, text=True, check=True).stdout
        received, to_send = ([int(n) / 1024 for n in re.findall(rf"skmem:\(.*?\b{of}(\d+)", shown)] for of in ("r", "w"))
        kept = max(to_send) <= SOCKET_KIB_MAX
        print(f"{len(to_send)} clients that sent {sent / MIB:.0f} MiB and read nothing, in the kernel: "
              f"{sum(to_send) / CLIENTS:.0f} KiB to be sent and {sum(received) / CLIENTS:.0f} received for each; "
              f"the most to be sent {max(to_send):.0f} KiB, at most {SOCKET_KIB_MAX}: {'met' if kept else 'MISSED'}; "
              f"resident {server.resident_mib():.0f} MiB", flush=True)
        return kept


def matched_again() -> bool:
    with serving("limitd", workers=1) as server:
        client = Client(server.port)
        client.ask(frame(TAKE, b"pool", b"a", 3))
        crowd = [Client(server.port) for _ in range(WAITERS // 1000)]
        for one in crowd:
            one.socket.sendall(frame(WAIT, b"pool", b"a", 2) * 1000)
        while server.waiting() < WAITERS:
            time.sleep(0.1)
        spent = server.processor_seconds()
        server.override('"limit":{"quota":4,"window":"10h","algorithm":"fixed_window"}')  # which grants none of them
        last, quiet = spent, 0
        while quiet < 5:
            time.sleep(0.1)
            now = server.processor_seconds()
            last, quiet = now, quiet + 1 if now - last < 0.02 else 0
        kept = last - spent <= MATCH_SECONDS_MAX and server.waiting() == WAITERS
        begun = time.perf_counter()
        server.override('"unlimited":true')
        for one in crowd:
            for _ in range(1000):
                one.reply()
        print(f"{WAITERS} that wait in one queue, matched again: {last - spent:.2f} s of processor time, at most "
              f"{MATCH_SECONDS_MAX}: {'met' if kept else 'MISSED'}; set free, all were answered after "
              f"{time.perf_counter() - begun:.2f} s", flush=True)
        return kept


def main() -> int:
    return 0 if all([lists(), unread_lists(), unread_replies(), matched_again()]) else 1


if __name__ == "__main__":
    sys.exit(main())
