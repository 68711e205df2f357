"""examples/fastapi: FastAPI and httpx."""

from __future__ import annotations

import unittest

import recipe


class FastapiTest(recipe.Recipe):
    name = "fastapi"
    listening = r"Uvicorn running on http://127\.0\.0\.1:(\d+) "
    same_paths = ("/%65xport", "/exp%6Frt", "/export?", "/export??", "/export%0a")


if __name__ == "__main__":
    unittest.main()
