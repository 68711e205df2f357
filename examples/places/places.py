"""A place for as long as a block runs:

    with place({"pool": "gpu"}) as lost:
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


def ask(server: str, path: str, body: dict, seconds: float = 10) -> int:
    connection = http.client.HTTPConnection(server, timeout=body.get("timeout", 0) + seconds)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


@contextlib.contextmanager
def place(entries: dict[str, str], server: str = "localhost:8000", lease: float = 30, timeout: float = 60, holder: str = ""):
    """One of each rule that applies to `entries`, or none. `lease`, `timeout`: in seconds; `timeout`: the longest wait."""
    its_id, until = uuid.uuid4().hex, time.monotonic() + timeout
    while True:
        held = time.monotonic()
        left = max(until - held, 0)
        try:
            status = ask(server, "/v1/acquire", {"entries": entries, "id": its_id, "ttl": lease,
                                                 "timeout": round(left, 3), "holder": holder})
        except (OSError, http.client.HTTPException):
            status = 503  # sent again with its id it is the same place
        if status == 200:
            break
        if status in (409, 410):  # it was granted, and ended before the answer came
            its_id = uuid.uuid4().hex
        elif status not in (429, 503) or left == 0:
            raise NoPlace(f"{entries}: {status}")
        time.sleep(min(left, 0.1))
    lost, done = threading.Event(), threading.Event()

    def renew(held: float) -> None:
        pause = lease / 3
        while not done.wait(min(pause, max(held + lease - time.monotonic(), 0))):
            asked = time.monotonic()
            left = held + lease - asked
            if left <= 0:
                return lost.set()
            try:
                status = ask(server, "/v1/renew", {"id": its_id}, min(10, lease / 3, left))
            except (OSError, http.client.HTTPException):
                status = 503
            if status == 200:
                held, pause = asked, lease / 3
            elif status == 503:
                pause = lease / 10
            else:
                return lost.set()

    # It was granted at some moment since it was asked for, and is renewed within a third of the lease.
    renewing = threading.Thread(target=renew, args=(max(held, time.monotonic() - lease / 3),), daemon=True)
    renewing.start()
    try:
        yield lost
    finally:
        done.set()
        renewing.join()
        with contextlib.suppress(OSError, http.client.HTTPException):  # else its lease ends it
            ask(server, "/v1/release", {"id": its_id})
