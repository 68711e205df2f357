"""A service with limits: /export five times in ten minutes for each client, by sluice.yaml."""

import os

import uvicorn
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

import limit

app = FastAPI(default_response_class=PlainTextResponse)
limit.by_sluice(app, os.environ.get("SLUICE_URL", "http://127.0.0.1:8390"),
                seconds_max=float(os.environ.get("SLUICE_SECONDS", "0.25")), on_failure=os.environ.get("ON_FAILURE", "open"))


@app.get("/export")
async def export() -> str:
    return "all there is\n"


@app.get("/")
async def index() -> str:
    return "hello\n"


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8080")))
