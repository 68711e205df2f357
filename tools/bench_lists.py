#!/usr/bin/env python3
"""What limits that come with requests cost: processor time of sluice, and of its Redis, for each command of SLUICE.TAKE and
MTAKE over 1,000 keys, in turns:

- same: each key always with the same limit; two keys: each of two limits with a key of its own;
- alternate: one key, whose two limits come in turns, so that each command changes the list of its counter;
- both: one key with both limits; two parts: MTAKE of two keys; joined: MTAKE of one key with a list in each part.

Nothing is held: the figures are for docs/algorithms.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_common import BUILD, SERVER_CORE, Server, pinned, serving

BUCKET, WINDOW = "LIMIT 1000000 60s", "LIMIT 1000000 1h ALGORITHM fixed_window"
KEYS, DEPTH = 1000, 50
WAYS = {  # the commands that take turns from one round of keys to the next
    "same": (f"SLUICE.TAKE KEY %s {BUCKET}",) * 2,
    "two keys": (f"SLUICE.TAKE KEY %s-a {BUCKET}", f"SLUICE.TAKE KEY %s-b {WINDOW}"),
    "alternate": (f"SLUICE.TAKE KEY %s {BUCKET}", f"SLUICE.TAKE KEY %s {WINDOW}"),
    "both": (f"SLUICE.TAKE KEY %s {BUCKET} {WINDOW}",) * 2,
    "two parts": (f"SLUICE.MTAKE 2 KEY %s-a {BUCKET} KEY %s-b {WINDOW}",) * 2,
    "joined": (f"SLUICE.MTAKE 2 KEY %s {BUCKET} KEY %s {WINDOW}",) * 2,
}


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def commands(way: str, count: int, tag: str) -> list[bytes]:
    all_of_them = []
    for i in range(count):
        words = WAYS[way][i // KEYS % 2].replace("%s", f"{tag}{i % KEYS}").split()
        all_of_them.append(f"*{len(words)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words))
    return all_of_them


def ask(server: Server, way: str, count: int, tag: str) -> None:
    all_of_them = commands(way, count, tag)
    lines = 14 if "MTAKE" in WAYS[way][0] else 6
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        for at in range(0, count, DEPTH):
            some = all_of_them[at:at + DEPTH]
            client.sendall(b"".join(some))
            wanted = lines * len(some)
            while wanted > 0:
                heard = client.recv(1 << 16)
                assert heard and b"\r\n-" not in heard and not heard.startswith(b"-"), heard[:200]
                wanted -= heard.count(b"\r\n")


@contextlib.contextmanager
def redis(port: int) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [*pinned(SERVER_CORE), "redis-server", "--port", str(port), "--save", "", "--dir", folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 10
            while time.monotonic() < end:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def measure(server: Server, pids: list[int], count: int, rounds: int) -> None:
    costs: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way, taken in costs.items():
            before = [processor_seconds(pid) for pid in pids]
            ask(server, way, count, f"{way[0]}{number}-")
            taken.append([(processor_seconds(pid) - was) / count * 1e6 for pid, was in zip(pids, before)])
    for way, taken in costs.items():
        medians = [statistics.median(one) for one in zip(*taken)]
        print(f"  {way:<10}" + "".join(f" {name} {cost:6.2f} us" for name, cost in zip(("sluice", "redis"), medians)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What limits that come with requests cost.")
    parser.add_argument("--commands", type=int, default=200_000, help="of a measurement; with Redis a quarter; default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    options = parser.parse_args()
    sluice = [str(BUILD / "sluice"), "resp", "--port", "0"]
    print("lists: in memory, for each command")
    with serving(sluice) as server:
        measure(server, [server.pid], options.commands, options.rounds)
    print("lists: in Redis, for each command")
    port = free_port()
    with redis(port) as pid, serving([*sluice, "--redis", f"127.0.0.1:{port}"]) as server:
        measure(server, [server.pid, pid], options.commands // 4, options.rounds)


if __name__ == "__main__":
    main()
