"""Rate limits for Flask by sluice: each request is asked about (POST /v1/take) before its view runs.

    limit.by_sluice(app, "http://127.0.0.1:8390")
"""

from __future__ import annotations

import requests
from flask import Flask, Response, current_app, g, request

PASSED_ON = ("RateLimit", "RateLimit-Policy", "Retry-After")


def by_sluice(app: Flask, url: str, seconds_max: float = 0.25, on_failure: str = "open") -> None:
    """`seconds_max`: to connect, and to be answered; `on_failure`: without an answer requests pass (`open`) or are refused
    with 503 (`closed`)."""
    session = requests.Session()  # keeps its connections

    def undecided(why: str) -> Response | None:
        current_app.logger.warning("sluice: a request is undecided (%s): %s", on_failure, why)
        return None if on_failure == "open" else Response("try again later\n", 503, {"Retry-After": "1"})

    @app.before_request
    def ask() -> Response | None:
        entries = {"method": request.method, "path": request.path, "ip": request.remote_addr or ""}
        try:
            answer = session.post(f"{url}/v1/take", json={"entries": entries}, timeout=seconds_max)
        except requests.RequestException as error:
            return undecided(str(error))
        if answer.status_code not in (200, 429):
            return undecided(f"{answer.status_code} {answer.text}")
        g.limit_fields = {name: answer.headers[name] for name in PASSED_ON if name in answer.headers}
        return None if answer.ok else Response(answer.content, 429, content_type=answer.headers["Content-Type"])

    @app.after_request
    def tell(response: Response) -> Response:
        response.headers.update(g.get("limit_fields", {}))
        return response
