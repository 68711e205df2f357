"""One of the places of a pool, for as long as a block runs:

    with place("pool") as lost:
        while work and not lost.is_set(): ...

`lost` is set when the place has ended although the block still runs: stop, as another may have it."""

import contextlib
import http.client
import json
import threading
import time
import uuid


class NoPlace(Exception):
    """There was none in time."""


def ask(server: str, path: str, body: dict) -> int:
    connection = http.client.HTTPConnection(server, timeout=body.get("timeout", 0) + 10)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


@contextlib.contextmanager
def place(pool: str, server: str = "localhost:8390", lease: float = 30, timeout: float = 60, holder: str = ""):
    its_id, until = uuid.uuid4().hex, time.monotonic() + timeout
    while True:
        left = max(until - time.monotonic(), 0)
        try:
            status = ask(server, "/v1/acquire", {"entries": {"pool": pool}, "id": its_id, "ttl": lease,
                                                 "timeout": round(left, 3), "holder": holder})
        except (OSError, http.client.HTTPException):
            status = 503  # sent again with its id it is the same place
        if status == 200:
            break
        if status not in (429, 503) or left == 0:
            raise NoPlace(f"{pool}: {status}")
        time.sleep(min(left, 0.1))
    lost, done = threading.Event(), threading.Event()

    def renew() -> None:
        held = time.monotonic()
        while not done.wait(lease / 3):
            asked = time.monotonic()
            try:
                status = ask(server, "/v1/renew", {"id": its_id})
            except (OSError, http.client.HTTPException):
                status = 503
            if status == 200:
                held = asked
            elif status != 503 or time.monotonic() - held >= lease:
                return lost.set()

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield lost
    finally:
        done.set()
        renewing.join()
        with contextlib.suppress(OSError, http.client.HTTPException):  # else its lease ends it
            ask(server, "/v1/release", {"id": its_id})
