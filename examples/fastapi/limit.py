"""Rate limits for FastAPI by sluice: each request is asked about (POST /v1/take) before its route runs.

    limit.by_sluice(app, "http://127.0.0.1:8390")
"""

from __future__ import annotations

import logging

import httpx
from fastapi import FastAPI, Request, Response

PASSED_ON = ("RateLimit", "RateLimit-Policy", "Retry-After")


def by_sluice(app: FastAPI, url: str, seconds_max: float = 0.25, on_failure: str = "open") -> None:
    """`seconds_max`: to connect, and to be answered; `on_failure`: if sluice cannot be reached in that time requests pass
    (`open`) or are refused with 503 (`closed`). An answer that is not a decision never lets a request pass: it comes of a
    mistake, as in a rule (500), or of a sluice that cannot decide (503)."""
    log = logging.getLogger("uvicorn.error")
    client = httpx.AsyncClient(base_url=url, timeout=seconds_max)  # keeps its connections

    @app.middleware("http")
    async def limited(request: Request, call_next) -> Response:
        # The path that the router compares, without a line end, as its expressions end in `$`, which fits in front of one. (In older versions
        # of Starlette `request.url` depends on the client's Host.)
        path = request.scope["path"].removesuffix("\n")
        entries = {"method": request.method, "path": path, "ip": request.client.host if request.client else ""}
        try:
            answer = await client.post("/v1/take", json={"entries": entries})
        except httpx.TransportError as error:
            log.warning("sluice cannot be reached (%s): %r", on_failure, error)
            return await call_next(request) if on_failure == "open" else Response(
                "try again later\n", 503, {"Retry-After": "1"}, "text/plain")
        if answer.status_code not in (200, 429):
            log.error("sluice does not decide: %s %s", answer.status_code, answer.text)
            return Response("the limits cannot be checked\n", 503 if answer.status_code >= 500 else 500, None, "text/plain")
        if answer.status_code == 429:
            response = Response(answer.content, 429, media_type=answer.headers["Content-Type"])
        else:
            response = await call_next(request)
        response.headers.update({name: answer.headers[name] for name in PASSED_ON if name in answer.headers})
        return response
