"""What the tests of gateways to language models share: sluice by examples/llm/sluice.yaml, a model, and a relay to sluice that
counts what was committed and can lose answers."""

from __future__ import annotations

import http.client
import http.server
import json
import random
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sluice_server import BINARY, LISTENING, ROOT, SECONDS_MAX, Program, ask, wait_until

FOLDER = ROOT / "examples/llm"
TOKENS_OF_A_CHUNK = 250  # at most; more than the gateway has left when it extends


class Serving(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))


def serve(test: unittest.TestCase, handler: type[Serving]) -> int:
    """Serves until the end of the test. Returns the port."""
    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 1000

        def handle_error(self, *_: object) -> None:  # a client that is gone
            pass

    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    test.addCleanup(thread.join, SECONDS_MAX)
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return server.server_port


class Sluice:
    """By the example's policy, of which each text in `changes` occurs once and is replaced."""

    def __init__(self, test: unittest.TestCase, changes: dict[str, str] | None = None) -> None:
        config = (FOLDER / "sluice.yaml").read_text(encoding="utf-8")
        for old, new in {"127.0.0.1:8390": "127.0.0.1:0", "127.0.0.1:8380": "127.0.0.1:0", **(changes or {})}.items():
            test.assertEqual(config.count(old), 1, old)
            config = config.replace(old, new)
        folder = tempfile.TemporaryDirectory(prefix="sluice-llm-")
        test.addCleanup(folder.cleanup)
        path = Path(folder.name) / "sluice.yaml"
        path.write_text(config, encoding="utf-8")
        self.program = Program([BINARY, "serve", "--config", str(path)], LISTENING)
        test.addCleanup(self.program.stop)
        self.port = self.program.port
        self.admin = int(self.program.await_line(r"^sluice: admin listening on 127\.0\.0\.1:(\d+)$")[1])

    def used(self, tenant: str, window: str) -> int:
        """Units of the limit with that window, those that are held and those beyond it included."""
        found = [counter for counter in ask(self.admin, "GET", "/v1/counters").json()["counters"] if counter["actor"] == tenant]
        limits = [limit for counter in found for limit in counter["limits"] if window in (limit.get("calendar"), limit["window"])]
        return sum(limit["quota"] - limit["remaining"] for limit in limits)

    def holds(self) -> list[dict[str, object]]:
        return ask(self.admin, "GET", "/v1/holds").json()["holds"]


class Asked(NamedTuple):
    path: str
    status: int
    sent: dict[str, object]
    answered: dict[str, object]


class Relay:
    """Passes requests on to sluice. The client gets no answer to a request whose number `lose` accepts, though sluice has
    answered it."""

    def __init__(self, test: unittest.TestCase, sluice: Sluice, lose: Callable[[int], bool] = lambda number: False) -> None:
        relay = self

        class Handler(Serving):
            def do_POST(self) -> None:
                sent = self.body()
                with relay.lock:
                    relay.under_way += 1
                try:
                    answer = ask(relay.sluice.port, "POST", self.path, json.loads(sent))
                finally:
                    with relay.lock:
                        relay.under_way -= 1
                with relay.lock:
                    lost = lose(len(relay.asked))
                    relay.asked.append(Asked(self.path, answer.status, json.loads(sent), answer.json()))
                if not lost:
                    self.send_response(answer.status)
                    self.send_header("Content-Length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)

        self.sluice = sluice
        self.lock = threading.Lock()
        self.asked: list[Asked] = []
        self.under_way = 0
        self.port = serve(test, Handler)

    def of(self, path: str, status: int = 200) -> list[Asked]:
        with self.lock:
            return [asked for asked in self.asked if (asked.path, asked.status) == (path, status)]

    def await_quiet(self) -> None:
        """Until nothing is under way: what a client that was killed had sent may still be."""
        wait_until(lambda: self.under_way == 0, "sluice has answered all that was asked")

    def committed(self) -> dict[str, Asked]:
        """The first commit of each reservation, by its id."""
        return {asked.sent["id"]: asked for asked in reversed(self.of("/v1/commit"))}

    def reserved(self) -> dict[str, Asked]:
        """The last that was reserved or extended of each reservation, by its id."""
        with self.lock:
            return {asked.sent["id"]: asked for asked in self.asked
                    if asked.path in ("/v1/reserve", "/v1/extend") and asked.status == 200}


class Model:
    """Streams answers of as many tokens as `max_tokens` asks for, in chunks of up to `largest` that say what was used so far. In
    front of each it calls `pause`, with the number of the chunk."""

    def __init__(self, test: unittest.TestCase, pause: Callable[[int], object] = lambda chunk: None, status: int = 200,
                 largest: int = TOKENS_OF_A_CHUNK) -> None:
        model = self

        class Handler(Serving):
            def do_POST(self) -> None:
                asked = json.loads(self.body())
                tenant = asked["user"]
                chance = random.Random(asked.get("seed", 1))
                self.send_response(status)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                done, number = asked["prompt"], 0
                while status == 200 and done < asked["prompt"] + asked["max_tokens"]:
                    pause(number)
                    tokens = min(chance.randint(1, largest), asked["prompt"] + asked["max_tokens"] - done)
                    done, number = done + tokens, number + 1
                    last = done == asked["prompt"] + asked["max_tokens"]
                    chunk = {"choices": [{"delta": {"content": "well"}, "finish_reason": "stop" if last else None}],
                             "usage": {"total_tokens": done}}
                    with model.lock:
                        model.streamed[tenant] = model.streamed.get(tenant, 0) + tokens
                    self.wfile.write(b"data: %s\n\n" % json.dumps(chunk).encode())
                self.wfile.write(b"data: [DONE]\n\n")

        self.lock = threading.Lock()
        self.streamed: dict[str, int] = {}
        self.port = serve(test, Handler)


class Stream(NamedTuple):
    """What a client of the gateway saw."""

    status: int
    used: int  # tokens by the last chunk that says so
    last: int  # tokens of that chunk
    end: str | None  # `finish_reason`
    whole: bool  # the stream has its end


def stream(port: int, tenant: str, prompt: int, said: int, tokens: int, seed: int = 1, chunks_max: int | None = None) -> Stream:
    """Asks for so many tokens with a prompt of `prompt` tokens, of which the gateway sees `said`. Reads `chunks_max` chunks and
    goes away, or all."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
    body = {"messages": [{"role": "user", "content": "x" * 4 * said}], "max_tokens": tokens, "prompt": prompt, "user": tenant,
            "seed": seed}
    used, last, end, whole, chunks, status = prompt, 0, None, False, 0, 0
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"X-Tenant": tenant, "Content-Type": "application/json"})
        response = connection.getresponse()
        status = response.status
        for line in response if status == 200 else ():
            if line == b"data: [DONE]\n":
                whole = True
            elif line.startswith(b"data: "):
                chunk = json.loads(line[6:])
                end = chunk["choices"][0]["finish_reason"] or end
                if "usage" in chunk:
                    used, last, chunks = chunk["usage"]["total_tokens"], chunk["usage"]["total_tokens"] - used, chunks + 1
                if chunks == chunks_max:
                    break
    except (OSError, http.client.HTTPException):  # the gateway is gone
        pass
    finally:
        connection.close()
    return Stream(status, used, last, end, whole)
