"""`tls.name` in native rules is the name in the certificate that the client's connection has shown, and nothing that a client says:
clients with certificates, with TLS alone and in plain text, over HTTP, Redis' protocol and Envoy's, in random order against an
exact model."""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import unittest
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from secure import Secured, TlsTest  # noqa: E402
from started import BINARY, SECONDS_MAX, wait_until  # noqa: E402

YEAR = "window: 365d, algorithm: fixed_window"
QUOTAS = {"named": 12, "nobody": 9, "keyed": 5}
RULES = f"""rules:
  - {{ name: named, match: {{ tls.name: "*.example", queue: "*" }}, actor: tls.name, limit: {{ quota: {QUOTAS['named']}, {YEAR} }} }}
  - {{ name: nobody, match: {{ tls.name: "", queue: "*" }}, actor: queue, limit: {{ quota: {QUOTAS['nobody']}, {YEAR} }} }}
  - {{ name: keyed, match: {{ tls.name: shop.example, key: "*" }}, actor: key, limit: {{ quota: {QUOTAS['keyed']}, {YEAR} }} }}
"""
OF_KEY = 6  # the quota that comes with a key
QUEUES = ("a", "b")
SHOP, APP = "shop.example", "app.example"
SAID = (None, None, SHOP, APP, "", "x")  # what a client says that its name is
STEPS = 300


class Client:
    """One connection. `name`: in its certificate; "": it has none."""

    def __init__(self, test: NamesTest, protocol: str, name: str, secure: bool) -> None:
        self.protocol, self.name, self.secure = protocol, name, secure
        port = test.server.ports[protocol][0 if secure else 1]
        shown = test.pairs.get(name)
        if protocol == "resp":
            self._socket = socket.create_connection(("localhost", port), SECONDS_MAX)
            if secure:
                self._socket = test.context(shown).wrap_socket(self._socket, server_hostname="localhost")
            self._in = self._socket.makefile("rb")
            test.addCleanup(self._in.close)
            test.addCleanup(self._socket.close)
        else:
            self._http = (http.client.HTTPSConnection("localhost", port, timeout=SECONDS_MAX, context=test.context(shown)) if secure
                          else http.client.HTTPConnection("localhost", port, timeout=SECONDS_MAX))
            test.addCleanup(self._http.close)

    def __repr__(self) -> str:
        return f"{self.protocol} {self.name or ('TLS' if self.secure else 'plain')}"

    def post(self, path: str, body: object) -> dict:
        self._http.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(self._http.getresponse().read())

    def command(self, *words: object) -> object:
        texts = [str(word).encode() for word in words]
        self._socket.sendall(b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts))
        return self._read()

    def _read(self) -> object:
        line = self._in.readline()
        kind, number = line[:1], line[1:-2].decode()
        if kind == b":":
            return int(number)
        if kind == b"*":
            return None if number == "-1" else [self._read() for _ in range(int(number))]
        if kind in b"_$":
            return None
        raise AssertionError(line)

    def take(self, queue: str, said: str | None, wait: bool = False) -> tuple[bool, int | None]:
        """Is one unit taken, and how many are left."""
        entries = {"queue": queue, **({} if said is None else {"tls.name": said})}
        if self.protocol == "http":
            answer = self.post("/v1/wait", {"entries": entries, "timeout": 0.001}) if wait else self.post(
                "/v1/take", {"entries": entries})
            return (False, None) if wait and answer.get("status") == 408 else (answer["allowed"], answer["remaining"])
        if self.protocol == "resp":
            words = [f"{key}={value}" for key, value in entries.items()]
            found = self.command("SLUICE.WAIT", "0.001", *words) if wait else self.command("SLUICE.TAKE", *words)
            return (False, None) if found is None else (found[0] == 1, found[2])  # type: ignore[index]
        descriptor = {"entries": [{"key": key, "value": value} for key, value in entries.items()]}
        status = self.post("/json", {"domain": "d", "descriptors": [descriptor]})["statuses"][0]
        return status["code"] == "OK", status.get("limitRemaining", 0)

    def take_key(self, key: str) -> tuple[bool, int]:
        if self.protocol == "http":
            limits = [{"quota": OF_KEY, "window": "365d", "algorithm": "fixed_window"}]
            answer = self.post("/v1/take", {"key": key, "limits": limits})
            return answer["allowed"], answer["remaining"]
        found = self.command("SLUICE.TAKE", "KEY", key, "LIMIT", OF_KEY, "365d", "ALGORITHM", "fixed_window")
        return found[0] == 1, found[2]  # type: ignore[index]

    def take_together(self, asked: list[tuple[str, str | None]]) -> bool:
        every = [{"queue": queue, **({} if said is None else {"tls.name": said})} for queue, said in asked]
        if self.protocol == "http":
            return self.post("/v1/take", {"takes": [{"entries": entries} for entries in every]})["allowed"]
        words: list[object] = []
        for entries in every:
            words += ["ENTRIES", len(entries), *(f"{key}={value}" for key, value in entries.items())]
        return self.command("SLUICE.MTAKE", len(every), *words)[0] == 1  # type: ignore[index]


class NamesTest(TlsTest):
    def setUp(self) -> None:
        super().setUp()
        self.pairs = {name: self.authority.sign(f"DNS:{name}") for name in (SHOP, APP)}
        listeners = "".join(self.listener(protocol, clients=self.requested) + self.plain(protocol)
                            for protocol in ("http", "resp", "envoy"))
        self.server: Secured = self.serve(f"listen:\n{listeners}{self.plain('admin')}{RULES}")
        self.clients = [Client(self, protocol, name, secure) for protocol in ("http", "resp", "envoy")
                        for name, secure in ((SHOP, True), (APP, True), ("", True), ("", False))]
        self.used: Counter[tuple[str, str]] = Counter()
        self.of_shop = QUOTAS["named"]

    def override(self, quota: int) -> None:
        """Of the shop's counter."""
        done = subprocess.run(
            [BINARY, "override", "set", "--rule", "named", "--actor", f"tls.name={SHOP}", "--quota", str(quota), "--window", "365d",
             "--algorithm", "fixed_window", "--admin", f"http://127.0.0.1:{self.server.port('admin')}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.of_shop = quota

    # The model: units used of each counter.

    def counter(self, client: Client, queue: str) -> tuple[str, str]:
        return ("named", client.name) if client.name else ("nobody", queue)

    def quota(self, counter: tuple[str, str]) -> int:
        return self.of_shop if counter == ("named", SHOP) else QUOTAS.get(counter[0], OF_KEY)

    def takes(self, *counters: tuple[str, str]) -> bool:
        """All of them, or none."""
        wanted = Counter(counters)
        if any(self.used[one] + count > self.quota(one) for one, count in wanted.items()):
            return False
        self.used.update(wanted)
        return True

    def left(self, counter: tuple[str, str]) -> int:
        return max(0, self.quota(counter) - self.used[counter])

    # What can happen.

    def one(self, client: Client) -> None:
        queue, said, wait = self.dice.choice(QUEUES), self.dice.choice(SAID), self.dice.random() < 0.3
        counter = self.counter(client, queue)
        wanted = self.takes(counter)
        found, left = client.take(queue, said, wait and client.protocol != "envoy")
        self.assertEqual(found, wanted, (client, queue, said, wait, self.used))
        if left is not None:
            self.assertEqual(left, self.left(counter), (client, queue, said, wait, self.used))

    def key(self, client: Client) -> None:
        if client.protocol == "envoy":
            return
        key = f"{client.protocol}-{self.dice.choice(QUEUES)}"
        counter = ("keyed" if client.name == SHOP else "own", key)
        wanted = self.takes(counter)
        self.assertEqual(client.take_key(key), (wanted, self.left(counter)), (client, key, self.used))

    def together(self, client: Client) -> None:
        if client.protocol == "envoy":
            return
        asked = [(self.dice.choice(QUEUES), self.dice.choice(SAID)) for _ in range(self.dice.randint(2, 4))]
        wanted = self.takes(*(self.counter(client, queue) for queue, _ in asked))
        self.assertEqual(client.take_together(asked), wanted, (client, asked, self.used))

    def batch(self, client: Client) -> None:
        if client.protocol != "http":
            return
        asked = [(self.dice.choice(QUEUES), self.dice.choice(SAID)) for _ in range(self.dice.randint(2, 4))]
        wanted = [self.takes(self.counter(client, queue)) for queue, _ in asked]
        takes = [{"entries": {"queue": queue, **({} if said is None else {"tls.name": said})}} for queue, said in asked]
        found = client.post("/v1/batch", {"takes": takes})
        self.assertEqual([one["allowed"] for one in found["takes"]], wanted, (client, asked, self.used))

    def reset(self, client: Client) -> None:
        if client.protocol != "resp":
            return
        queue = self.dice.choice(QUEUES)
        counter = self.counter(client, queue)
        self.assertEqual(client.command("SLUICE.RESET", f"queue={queue}", f"tls.name={APP}"), int(self.used[counter] > 0))
        self.used[counter] = 0

    def cross(self, seed: int) -> None:
        self.dice = random.Random(seed)
        for _ in range(STEPS):
            client = self.dice.choice(self.clients)
            if self.dice.random() < 0.02:
                self.override(self.dice.choice([2, 12, 30]))
            self.dice.choice([self.one, self.one, self.one, self.key, self.together, self.batch, self.reset])(client)

    def test_seed_1(self) -> None:
        self.cross(1)

    def test_seed_2(self) -> None:
        self.cross(2)

    def test_nobody_can_say_a_name(self) -> None:
        """The shop's counter has no unit left, and nobody else meets it; nor has the shop others by another name."""
        shop = next(client for client in self.clients if client.name == SHOP)
        for _ in range(QUOTAS["named"]):
            self.assertTrue(shop.take("a", APP)[0])
        for client in self.clients:
            with self.subTest(client=client):
                self.assertEqual(client.take("a", SHOP)[0], client.name != SHOP)

    def test_one_that_waits_is_still_itself(self) -> None:
        """It is matched again when the override has come, by the name in its certificate."""
        for protocol in ("http", "resp"):
            with self.subTest(protocol=protocol):
                self.override(1)
                self.used.clear()
                shop = next(client for client in self.clients if (client.protocol, client.name) == (protocol, SHOP))
                resetting = next(client for client in self.clients if (client.protocol, client.name) == ("resp", SHOP))
                resetting.command("SLUICE.RESET", "queue=a")
                self.assertEqual(shop.take("a", None), (True, 0))
                answers: list[object] = []

                def wait(shop: Client = shop, answers: list[object] = answers) -> None:
                    if shop.protocol == "http":
                        answers.append(shop.post("/v1/wait", {"entries": {"queue": "a", "tls.name": APP}, "timeout": 9})["remaining"])
                    else:
                        answers.append(shop.command("SLUICE.WAIT", "60", "queue=a", f"tls.name={APP}")[2])  # type: ignore[index]

                thread = threading.Thread(target=wait, daemon=True)
                thread.start()
                wait_until(lambda: self.waiting() == 1, "it waits")
                self.override(5)
                thread.join(SECONDS_MAX)
                self.assertEqual(answers, [3])

    def waiting(self) -> int:
        connection = http.client.HTTPConnection("localhost", self.server.port("admin"), timeout=SECONDS_MAX)
        try:
            connection.request("GET", "/v1/status")
            return json.loads(connection.getresponse().read())["waiting"]
        finally:
            connection.close()


if __name__ == "__main__":
    unittest.main()
