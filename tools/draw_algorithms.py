#!/usr/bin/env python3
"""Draws docs/algorithms.svg: what each algorithm of limits allows of the same requests, over three minutes.

    tools/draw_algorithms.py [FILE]      FILE: by default docs/algorithms.svg of this checkout

The decisions are the limiter library's own (`bindings/python`; SLUICE_LIMITER_LIBRARY names the shared library, by default that of
build/release), with times that the script gives, so that the picture is the same in every run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bindings/python"))
os.environ.setdefault("SLUICE_LIMITER_LIBRARY", str(ROOT / "build/release/libsluice-limiter.so"))

from sluice_limiter import Handle, Limit, Limiter  # noqa: E402

SECOND = 1_000_000
QUOTA, WINDOW = 6, 60  # units, seconds
BEGIN = 1_767_225_600 + 20  # Unix time: 20 s after a whole minute
LENGTH, EVERY = 180, 3  # seconds: of the picture, and from one request to the next
HELD = 40  # seconds until a unit of the fixed bucket is put back
LEASE = 30  # seconds of a place, which nobody puts back

LEFT, TOP, WIDTH, PANEL, GAP = 150, 46, 720, 62, 34  # pixels
ALLOWED, DENIED, LINE, GRID = "#1a7f37", "#cf222e", "#0550ae", "#d0d7de"


class Panel(NamedTuple):
    name: str
    algorithm: str
    burst: int
    about: str


PANELS = (
    Panel("fixed window", "fixed_window", 0, "a window begins with the first unit, and all units are back at its end"),
    Panel("aligned window", "aligned_window", 0, "windows begin with the minute of the clock"),
    Panel("token bucket", "token_bucket", 3, "burst 3: at most 3 at once, then one each 10 s"),
    Panel("sliding window", "sliding_window", 0, "two counters: what the last minute of the clock used still counts in part"),
    Panel("sliding log", "sliding_log", 0, "each unit is back exactly a minute after it was taken"),
    Panel("fixed bucket", "fixed_bucket", 0, f"no window: a unit is back when it is put back, here after {HELD} s"),
    Panel("concurrency", "concurrency", 0, f"a place is back at the end of its lease, {LEASE} s, or when it is put back: here none is"),
)


class Course(NamedTuple):
    """What one algorithm did."""

    remaining: list[int]  # at each second
    requests: list[tuple[int, bool]]  # second, allowed?


def handle_of(limiter: Limiter, panel: Panel) -> Handle:
    window = {"fixed_bucket": 0, "concurrency": LEASE * SECOND}.get(panel.algorithm, WINDOW * SECOND)
    return limiter.limits(panel.algorithm, Limit(quota=QUOTA, window_us=window, algorithm=panel.algorithm, burst=panel.burst))


def course_of(limiter: Limiter, panel: Panel) -> Course:
    handle = handle_of(limiter, panel)
    remaining, requests, due = [], [], []
    for second in range(LENGTH + 1):
        now = (BEGIN + second) * SECOND
        if panel.algorithm == "fixed_bucket":
            for _ in range(due.count(second)):
                handle.put("a", 1, now)
        if second % EVERY == 0:
            allowed = handle.take("a", 1, now).allowed
            requests.append((second, allowed))
            if allowed:
                due.append(second + HELD)
        remaining.append(handle.peek("a", now).remaining)
    return Course(remaining, requests)


def x_of(second: float) -> str:
    return f"{LEFT + WIDTH * second / LENGTH:.1f}"


def text(x: str, y: float, words: str, size: int, more: str = "") -> str:
    return f'<text x="{x}" y="{y:.0f}" font-size="{size}"{more}>{words}</text>'


def drawing_of(panel: Panel, course: Course, top: int) -> list[str]:
    most = panel.burst or QUOTA
    height = PANEL - 14

    def y_of(units: int) -> str:
        return f"{top + 14 + height - height * units / most:.1f}"

    points = [f"{x_of(0)},{y_of(course.remaining[0])}"]
    for second in range(1, LENGTH + 1):
        if course.remaining[second] != course.remaining[second - 1]:
            points += [f"{x_of(second)},{y_of(course.remaining[second - 1])}", f"{x_of(second)},{y_of(course.remaining[second])}"]
    points.append(f"{x_of(LENGTH)},{y_of(course.remaining[-1])}")
    allowed = sum(was for _, was in course.requests)
    lines = [
        text("8", top + 26, panel.name, 14, ' font-weight="bold"'),
        text("8", top + 44, f"{allowed} of {len(course.requests)} allowed", 12),
        text(x_of(0), top + 4, panel.about, 12),
        f'<path d="M{x_of(0)} {y_of(0)}H{x_of(LENGTH)}M{x_of(0)} {y_of(most)}H{x_of(LENGTH)}" stroke="{GRID}" fill="none"/>',
        text(f"{LEFT - 6}", float(y_of(most)) + 4, str(most), 10, ' text-anchor="end"'),
        text(f"{LEFT - 6}", float(y_of(0)) + 4, "0", 10, ' text-anchor="end"'),
        f'<polyline points="{" ".join(points)}" stroke="{LINE}" stroke-width="1.5" fill="none"/>',
    ]
    for second, was in course.requests:
        look = f'fill="{ALLOWED}"' if was else f'fill="#ffffff" stroke="{DENIED}"'
        lines.append(f'<circle cx="{x_of(second)}" cy="{top + PANEL + 8}" r="3" {look}/>')
    return lines


def draw() -> str:
    height = TOP + len(PANELS) * (PANEL + GAP) + 30
    bottom = height - 34
    title = f"One request each {EVERY} s against {QUOTA} units a minute"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" font-family="sans-serif" role="img">',
        f"<title>{title}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        text("8", 22, title + ": units that remain (line), requests allowed (full) and denied (hollow)", 14),
    ]
    for second in range(0, LENGTH + 1, 20):
        lines.append(f'<path d="M{x_of(second)} {TOP}V{bottom}" stroke="{GRID}" stroke-dasharray="2 3"/>')
        lines.append(text(x_of(second), bottom + 16, f"{second} s", 11, ' text-anchor="middle"'))
    limiter = Limiter()
    for number, panel in enumerate(PANELS):
        lines += drawing_of(panel, course_of(limiter, panel), TOP + number * (PANEL + GAP) + 6)
    lines.append(text("8", height - 4, "The clock's minutes begin at 40, 100 and 160 s.", 11))
    return "\n".join([*lines, "</svg>", ""])


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    file = Path(arguments[0]) if arguments else ROOT / "docs/algorithms.svg"
    file.write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
