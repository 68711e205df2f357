#!/usr/bin/env python3
"""The previous release and this one on one Redis, under load, with an exact ledger: servers are replaced one by one, and back.

    tests/redis/upgrade.py [--commit COMMIT] [--seconds N]

COMMIT is built in build/previous. By default it is that of the last release: the last tag, or where a clone has no tags, what
the file `commit` in the last folder of tests/kept says. Without either there is no release, and nothing is tried.
Each counter has a quota that does not come back within the test. In the end all of it has been granted, and not one unit
more. Prints what was granted by which server, and last `upgrade: N passed, M failed`, or that it was skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import itertools
import json
import random
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS_MAX = 3600
SECONDS_MAX = 30.0
ACTORS, QUOTA, RAISED = 6, 400, 500
LIMITD_QUOTA = 40  # few, because each request takes a process
PROTOCOLS = ("divvy", "limitd", "http", "resp", "envoy")
CONFIG = """
listen:
{listeners}
workers: 2
store: {{ redis: {{ nodes: ["127.0.0.1:{redis}"], deadline_ms: 20000 }} }}
policy: [{{ divvy: rules.ini }}, {{ limitd: limitd.yaml }}, {{ envoy: limits }}]
rules:
  - {{ name: window, match: {{ w: "*" }}, actor: w, limit: {{ quota: {quota}, window: 240h }} }}
  - {{ name: bucket, match: {{ b: "*" }}, actor: b, limit: {{ algorithm: token_bucket, quota: 1, window: 240h, burst: {quota} }} }}
  - {{ name: log, match: {{ l: "*" }}, actor: l, limit: {{ algorithm: sliding_log, quota: {quota}, window: 240h }} }}
  - {{ name: seats, match: {{ s: "*" }}, actor: s, limit: {{ algorithm: fixed_bucket, quota: {quota} }} }}
  - name: two
    match: {{ t: "*" }}
    actor: t
    limits: [{{ quota: {quota}, window: 240h }}, {{ algorithm: token_bucket, quota: 1, window: 480h, burst: 100000 }}]
"""
DIVVY = "[method=GET ip=*]\ncreditLimit = {quota}\nresetSeconds = 864000\nactorField = ip\n\n[default]\ncreditLimit = 1\nresetSeconds = 864000\n"
LIMITD = "db: {{ inMemory: true }}\nbuckets:\n  fixed:\n    size: {quota}\n"
ENVOY = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {{ unit: year, requests_per_unit: {quota} }}\n"
NATIVE = {"window": "w", "bucket": "b", "log": "l", "seats": "s", "two": "t"}
KINDS = ("divvy", "envoy", "cell", "limitd", *NATIVE)
Counted = tuple[str, str]  # kind and actor


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def previous_commit() -> str | None:
    with contextlib.suppress(subprocess.CalledProcessError):
        return git("rev-parse", git("describe", "--tags", "--abbrev=0") + "^{commit}")

    def version(path: Path) -> list[int]:
        return [int(number) for number in path.parent.name.split(".")]

    releases = sorted((ROOT / "tests/kept").glob("*/commit"), key=version)
    return releases[-1].read_text(encoding="utf-8").strip() if releases else None


def build_previous(commit: str) -> Path:
    folder = ROOT / "build/previous" / commit[:12]
    binary = folder / "build/release/sluice"
    if not binary.exists():
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder)
        print(f"upgrade: building {commit[:12]}", flush=True)
        subprocess.run(["scripts/build", "release", "sluice"], cwd=folder, check=True, timeout=BUILD_SECONDS_MAX,
                       stdout=subprocess.DEVNULL)
    return binary


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """A sluice, ready when it is made."""

    def __init__(self, name: str, binary: Path, redis_port: int) -> None:
        self.name, self._binary = name, binary
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-upgrade-")
        path = Path(self._folder.name)
        (path / "limits").mkdir()
        for file, text in (("rules.ini", DIVVY), ("limitd.yaml", LIMITD), ("limits/shop.yaml", ENVOY)):
            (path / file).write_text(text.format(quota=LIMITD_QUOTA if text is LIMITD else QUOTA), encoding="utf-8")
        listeners = "\n".join(f'  - {{ protocol: {one}, address: "127.0.0.1:0" }}' for one in PROTOCOLS)
        (path / "sluice.yaml").write_text(CONFIG.format(listeners=listeners, redis=redis_port, quota=QUOTA), encoding="utf-8")
        self.ports: dict[str, int] = {}
        self._log = (path / "log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen([binary, "serve", "--config", path / "sluice.yaml", "--admin", "127.0.0.1:0"],
                                         stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout
        late = threading.Timer(SECONDS_MAX, self._process.kill)
        late.start()
        for line in self._process.stdout:
            words = line.split()
            if "listening on" in line:
                self.ports[words[1]] = int(words[4].rsplit(":", 1)[1])
            if {"admin", *PROTOCOLS} <= set(self.ports):
                break
        late.cancel()
        if len(self.ports) <= len(PROTOCOLS):
            raise RuntimeError(f"{name} does not listen: {(path / 'log').read_text(encoding='utf-8')}")

    def stop(self) -> None:
        """Ends it as an upgrade does: requests under way are answered."""
        self._process.terminate()
        status = self._process.wait(SECONDS_MAX)
        if status != 0:
            raise RuntimeError(f"{self.name} ended with status {status}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def admin(self, method: str, target: str, body: str = "") -> dict[str, object]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["admin"], timeout=SECONDS_MAX)
        connection.request(method, target, body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{self.name}: {method} {target} is answered {answer.status}: {text!r}")
        return json.loads(text)

    def ask_limitd(self, actor: str) -> bool:
        status = subprocess.run([self._binary, "ask", "limitd", "take", "fixed", actor, "--timeout", "20000", "--server",
                                 f"127.0.0.1:{self.ports['limitd']}"], capture_output=True, timeout=SECONDS_MAX).returncode
        if status not in (0, 1):  # 2 in earlier releases, 3 in this one: the server has ended
            raise ConnectionError(f"ask ended with status {status}")
        return status == 0


class Client:
    """A connection of each protocol to one server, made when it is needed. Raises OSError where the server has ended."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._lines: dict[str, tuple[socket.socket, io.BufferedReader]] = {}
        self._http: dict[str, http.client.HTTPConnection] = {}

    def close(self) -> None:
        for connection, reader in self._lines.values():
            reader.close()
            connection.close()
        for one in self._http.values():
            one.close()

    def _ask(self, protocol: str, line: str) -> io.BufferedReader:
        if protocol not in self._lines:
            connection = socket.create_connection(("127.0.0.1", self.server.ports[protocol]), SECONDS_MAX)
            self._lines[protocol] = connection, connection.makefile("rb")
        connection, reader = self._lines[protocol]
        connection.sendall(line.encode())
        return reader

    def _line(self, reader: io.BufferedReader) -> str:
        line = reader.readline().decode()
        if not line.endswith("\n"):
            raise ConnectionError("the connection ended")
        return line.strip()

    def _post(self, protocol: str, path: str, body: object) -> int:
        if protocol not in self._http:
            self._http[protocol] = http.client.HTTPConnection("127.0.0.1", self.server.ports[protocol], timeout=SECONDS_MAX)
        connection = self._http[protocol]
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.will_close:
            connection.close()
        return answer.status

    def take(self, counted: Counted) -> bool:
        """Takes one unit. Returns whether it was granted, and raises on anything but a decision."""
        kind, actor = counted
        if kind == "limitd":
            return self.server.ask_limitd(actor)
        if kind == "divvy":
            line = self._line(self._ask("divvy", f"HIT method=GET ip={actor}\n"))
            if not line.startswith(("OK true", "OK false")):
                raise RuntimeError(line)
            return line.startswith("OK true")
        if kind == "cell":
            reader = self._ask("resp", f"CL.THROTTLE {actor} {QUOTA - 1} 1 864000 1\r\n")
            if self._line(reader) != "*5":
                raise RuntimeError("CL.THROTTLE is answered otherwise")
            return [self._line(reader) for _ in range(5)][0] == ":0"
        if kind == "envoy":
            entries = [{"key": "user", "value": actor}]
            status = self._post("envoy", "/json", {"domain": "shop", "descriptors": [{"entries": entries}]})
        else:
            status = self._post("http", "/v1/take", {"entries": {NATIVE[kind]: actor}})
        if status not in (200, 429):
            raise RuntimeError(f"{kind}: status {status}")
        return status == 200


class Ledger:
    """What was granted, by which server, and what had no answer."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.granted: Counter[Counted] = Counter()
        self.unknown: Counter[Counted] = Counter()
        self.by_server: dict[str, Counter[str]] = defaultdict(Counter)
        self.wrong: list[str] = []

    def note(self, server: str, counted: Counted, granted: bool | None) -> None:
        with self._mutex:
            self.by_server[server]["unknown" if granted is None else "granted" if granted else "refused"] += 1
            if granted is None:
                self.unknown[counted] += 1
            elif granted:
                self.granted[counted] += 1


class Load:
    """Threads that ask the servers of `serving`, each one counter after the other, while the block lasts."""

    def __init__(self, ledger: Ledger, serving: list[Server], threads: int = 4) -> None:
        self._ledger, self._serving, self._stops = ledger, serving, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(threads)]

    def __enter__(self) -> Load:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        for one in self._threads:
            one.join()

    def _run(self, seed: int) -> None:
        dice = random.Random(seed)
        clients: dict[str, Client] = {}
        while not self._stops.is_set():
            server = dice.choice(list(self._serving))
            client = clients.setdefault(server.name, Client(server))
            # Each request of limitd's takes a process, so there are few.
            kind = dice.choice(KINDS if dice.random() < 0.05 else [one for one in KINDS if one != "limitd"])
            counted = kind, f"a{dice.randrange(ACTORS)}"
            try:
                self._ledger.note(server.name, counted, client.take(counted))
            except (OSError, http.client.HTTPException):
                # The server is ending; what was asked of it may have been charged.
                self._ledger.note(server.name, counted, None)
                clients.pop(server.name).close()
            except RuntimeError as error:
                self._ledger.wrong.append(f"{server.name}: {error}")
                clients.pop(server.name).close()
        for client in clients.values():
            client.close()


@contextlib.contextmanager
def redis_server() -> Iterator[int]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="sluice-upgrade-redis-") as folder:
        process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
                                   stdout=subprocess.DEVNULL)
        try:
            await_true(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, "redis-server does not listen")
            yield port
        finally:
            process.terminate()
            process.wait()


def await_true(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if is_true():
                return
        time.sleep(0.02)
    raise RuntimeError(what)


def raise_limit(by: Server, seen_by: list[Server], rule: str, actor: str) -> None:
    """Sets an override at one server, and waits until the others know it."""
    limit = {"algorithm": "fixed_bucket", "quota": RAISED} if rule == "seats" else {"quota": RAISED, "window": "240h"}
    by.admin("POST", "/v1/overrides", json.dumps({"rule": rule, "actor": actor, "limit": limit}))
    for server in seen_by:
        def shows() -> bool:
            found = server.admin("GET", "/v1/overrides?rule=" + rule)["overrides"]
            return any(one["actor"] == actor for one in found)  # type: ignore[attr-defined]
        await_true(shows, f"{server.name} does not know the override of {rule} that {by.name} set")


def drain(ledger: Ledger, servers: list[Server]) -> None:
    """Takes what is left of every counter, from each server in turn, until all of them refuse."""
    clients = [Client(server) for server in servers]
    for kind in KINDS:
        for number in range(ACTORS):
            counted = kind, f"a{number}"
            refused = 0
            for client in itertools.cycle(clients):
                granted = client.take(counted)
                ledger.note(client.server.name, counted, granted)
                refused = 0 if granted else refused + 1
                if refused == len(clients) or ledger.granted[counted] > 2 * RAISED:
                    break
    for client in clients:
        client.close()


def compare(ledger: Ledger, raised: set[Counted]) -> list[str]:
    """What is wrong in the ledger."""
    wrong = list(ledger.wrong)
    for kind in KINDS:
        for number in range(ACTORS):
            counted = kind, f"a{number}"
            quota = RAISED if counted in raised else LIMITD_QUOTA if kind == "limitd" else QUOTA
            granted, unknown = ledger.granted[counted], ledger.unknown[counted]
            if not quota - unknown <= granted <= quota:
                wrong.append(f"{kind} {counted[1]}: {granted} granted of {quota}, {unknown} without an answer")
    return wrong


def run(old: Path, seconds: float) -> tuple[Ledger, list[str]]:
    ledger = Ledger()
    raised = {("window", "a1"), ("seats", "a2")}
    servers: list[Server] = []
    with redis_server() as port:
        def start(name: str, binary: Path) -> Server:
            servers.append(Server(name, binary, port))
            return servers[-1]

        this = ROOT / "build/release/sluice"
        try:
            serving = [start("previous 1", old), start("previous 2", old)]
            with Load(ledger, serving):
                time.sleep(seconds)
                serving.append(start("this 1", this))
                raise_limit(serving[0], serving[1:], "window", "a1")
                raise_limit(serving[2], serving[:2], "seats", "a2")
                time.sleep(seconds)
                serving.pop(0).stop()
                time.sleep(seconds)
                serving.append(start("this 2", this))
                serving.pop(0).stop()
                time.sleep(seconds)
                # And back, as after an upgrade that did not work out.
                serving.append(start("previous 3", old))
                time.sleep(seconds)
            drain(ledger, serving)
        finally:
            for server in servers:
                server.kill()
    return ledger, compare(ledger, raised)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--commit", help="the previous release")
    parser.add_argument("--seconds", type=float, default=2.0, help="the length of each phase")
    arguments = parser.parse_args()
    commit = git("rev-parse", arguments.commit + "^{commit}") if arguments.commit else previous_commit()
    if commit is None:
        print("upgrade: 1 skipped, as no release has a tag; name one by --commit")
        return 0
    ledger, wrong = run(build_previous(commit), arguments.seconds)
    for name, counts in ledger.by_server.items():
        print(f"{name}: " + ", ".join(f"{counts[what]} {what}" for what in ("granted", "refused", "unknown")))
    total = sum(ledger.granted.values())
    print(f"{commit[:12]} and this one: {total} units granted of {len(KINDS) * ACTORS} counters")
    for one in wrong:
        print(f"wrong: {one}")
    print(f"upgrade: {0 if wrong else 1} passed, {1 if wrong else 0} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
