"""A service with limits: /export five times in ten minutes for each client, by sluice.yaml."""

import os

from flask import Flask

import limit

app = Flask(__name__)
limit.by_sluice(app, os.environ.get("SLUICE_URL", "http://127.0.0.1:8390"),
                seconds_max=float(os.environ.get("SLUICE_SECONDS", "0.25")), on_failure=os.environ.get("ON_FAILURE", "open"))


@app.get("/export")
def export() -> str:
    return "all there is\n"


@app.get("/")
def index() -> str:
    return "hello\n"


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ.get("PORT", "8080")))
