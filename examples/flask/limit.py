"""Rate limits for Flask by sluice: each request is asked about (POST /v1/take) before its view runs.

    limit.by_sluice(app, "http://127.0.0.1:8390")
"""

from __future__ import annotations

import requests
from flask import Flask, Response, current_app, g, request

PASSED_ON = ("RateLimit", "RateLimit-Policy", "Retry-After")


def by_sluice(app: Flask, url: str, seconds_max: float = 0.25, on_failure: str = "open") -> None:
    """`seconds_max`: to connect, and to be answered; `on_failure`: if sluice cannot be reached in that time requests pass
    (`open`) or are refused with 503 (`closed`). An answer that is not a decision never lets a request pass: it comes of a
    mistake, as in a rule (500), or of a sluice that cannot decide (503)."""
    session = requests.Session()  # keeps its connections

    def unreachable(why: str) -> Response | None:
        current_app.logger.warning("sluice cannot be reached (%s): %s", on_failure, why)
        return None if on_failure == "open" else Response("try again later\n", 503, {"Retry-After": "1"})

    def undecided(answer: requests.Response) -> Response:
        current_app.logger.error("sluice does not decide: %s %s", answer.status_code, answer.text)
        return Response("the limits cannot be checked\n", 503 if answer.status_code >= 500 else 500)

    @app.before_request
    def ask() -> Response | None:
        entries = {"method": request.method, "path": request.path, "ip": request.remote_addr or ""}
        try:
            answer = session.post(f"{url}/v1/take", json={"entries": entries}, timeout=seconds_max, allow_redirects=False)
        except (requests.ConnectionError, requests.Timeout) as error:
            return unreachable(str(error))
        if answer.status_code not in (200, 429):
            return undecided(answer)
        g.limit_fields = {name: answer.headers[name] for name in PASSED_ON if name in answer.headers}
        return None if answer.ok else Response(answer.content, 429, content_type=answer.headers["Content-Type"])

    @app.after_request
    def tell(response: Response) -> Response:
        response.headers.update(g.get("limit_fields", {}))
        return response
