"""examples/flask: Flask and requests."""

from __future__ import annotations

import unittest

import recipe


class FlaskTest(recipe.Recipe):
    name = "flask"
    listening = r"Running on http://127\.0\.0\.1:(\d+)$"


if __name__ == "__main__":
    unittest.main()
