"""examples/flask: Flask and requests."""

from __future__ import annotations

import unittest

import recipe


class FlaskTest(recipe.Recipe):
    name = "flask"
    listening = r"Running on http://127\.0\.0\.1:(\d+)$"
    same_paths = ("//export", "/%65xport", "/%2Fexport", "http://h//export", "export", "h:/export", "/export#f")


if __name__ == "__main__":
    unittest.main()
