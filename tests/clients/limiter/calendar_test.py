#!/usr/bin/env python3
"""Windows of the calendar in all zones of this machine's data, from 1970 to 2100, with Python's zoneinfo as the judge: one second
before each change of a zone's clock, at it and one second after it.

    tests/clients/limiter/calendar_test.py        needs build/release with its public libraries
    SLUICE_CALENDAR_ZONES=all ...                  all zones, not every fortieth
    SLUICE_RECORD=1 ...                            writes tests/conformance/calendar_starts.json
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import unittest
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
os.environ.setdefault("SLUICE_LIMITER_LIBRARY", str(ROOT / "build/release/libsluice-limiter.so"))
sys.path.insert(0, str(ROOT / "bindings/python"))
sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from sluice_limiter import Limit, Limiter  # noqa: E402

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = 0, int((datetime.datetime(2101, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
DAY = 86_400
STARTS = ROOT / "tests/conformance/calendar_starts.json"
RECORDED_FIRST, RECORDED_LAST = 1_767_225_600, 1_956_528_000  # 2026 to 2031
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def local(zone: zoneinfo.ZoneInfo, instant: int) -> datetime.datetime:
    return (EPOCH + datetime.timedelta(seconds=instant)).astimezone(zone)


def offset(zone: zoneinfo.ZoneInfo, instant: int) -> int:
    return int(local(zone, instant).utcoffset().total_seconds())  # type: ignore[union-attr]


def changes(zone: zoneinfo.ZoneInfo) -> Iterator[int]:
    """The instants from which on the offset is another one. No zone changes twice in half a day."""
    step, at = DAY // 2, FIRST
    before = offset(zone, at)
    while at < LAST:
        after = offset(zone, at + step)
        if after != before:
            low, high = at, at + step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
            yield high
        at, before = at + step, after


def instant_of(zone: zoneinfo.ZoneInfo, date: datetime.date, minutes: int) -> int:
    """fold=0 is the first of two, and in a gap the offset before it (PEP 495), as RFC 5545 has it."""
    wall = datetime.datetime(date.year, date.month, date.day, minutes // 60, minutes % 60, tzinfo=zone)
    return int((wall.astimezone(UTC) - EPOCH).total_seconds())


def month_day(year: int, month: int, day: int) -> datetime.date:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    last = (datetime.date(year + month // 12, month % 12 + 1, 1) - datetime.timedelta(days=1)).day
    return datetime.date(year, month, min(day, last))


def candidates(unit: str, today: datetime.date, number: int) -> Iterator[datetime.date]:
    """Dates of starts around a date, the ends that may come next among them."""
    if unit == "day":
        yield from (today + datetime.timedelta(days=n) for n in range(-1, 4))
    elif unit == "week":
        monday = today - datetime.timedelta(days=(today.weekday() - number) % 7)
        yield from (monday + datetime.timedelta(days=7 * n) for n in range(-1, 3))
    elif unit == "month":
        yield from (month_day(today.year, today.month + n, number) for n in range(-1, 3))
    else:
        yield from (month_day(today.year + n, number // 100, number % 100) for n in range(-1, 3))


def end_of(zone: zoneinfo.ZoneInfo, unit: str, number: int, minutes: int, instant: int) -> int:
    if unit == "hour":
        # The first instant behind it at which the clock shows a full hour: offsets near it say which may be.
        offsets = {offset(zone, instant + n * 1800) for n in range(7)}
        near = {(instant + o) // 3600 * 3600 + 3600 * n - o for o in offsets for n in range(-1, 4)}
        shown = {t for t in near if (t + offset(zone, t)) % 3600 == 0}
        return min(t for t in shown if t > instant)
    today = local(zone, instant).date()
    return min(t for t in (instant_of(zone, date, minutes) for date in candidates(unit, today, number)) if t > instant)


class CalendarTest(unittest.TestCase):
    """The limiter's windows end where a naive search by zoneinfo finds the next start."""

    def setUp(self) -> None:
        self.limiter = Limiter()
        self.addCleanup(self.limiter.close)

    def test_every_change_of_every_zone(self) -> None:
        names = sorted(zoneinfo.available_timezones() - {"localtime"})
        self.assertGreater(len(names), 400)
        by_content: dict[bytes, str] = {}
        for name in names:
            path = Path("/usr/share/zoneinfo") / name
            if path.is_file():
                by_content.setdefault(path.read_bytes(), name)
        chosen = sorted(by_content.values())
        if os.environ.get("SLUICE_CALENDAR_ZONES") != "all":
            chosen = sorted({*chosen[::40], "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana",
                             "Africa/Casablanca", "Europe/Dublin", "Pacific/Kwajalein", "America/Sao_Paulo"} & set(names))
        compared = 0
        for place, name in enumerate(chosen):
            compared += self.compare(name, place)
        print(f"{len(chosen)} zones, {compared} instants", file=sys.stderr)
        self.assertGreater(compared, 100 * len(chosen))

    def test_the_recorded_starts(self) -> None:
        """Those that tests in C++ count by. SLUICE_RECORD=1 writes them anew."""
        recorded = json.loads(STARTS.read_text())
        for text, runs in recorded["calendars"].items():
            head, *more = text.split(",")
            unit, name = head.split("@")
            keys = dict(one.split("=") for one in more)
            number = {"week": WEEKDAYS.index(keys.get("week_starts", "monday")), "month": int(keys.get("month_day", 1)),
                      "year": int(keys.get("year_day", "01-01").replace("-", ""))}.get(unit, 0)
            hours, minutes = keys.get("starts_at", "00:00").split(":")
            zone, at = zoneinfo.ZoneInfo(name), RECORDED_FIRST
            found: list[list[int]] = []  # [first, seconds between two, how many] of starts that are as far apart
            while at < RECORDED_LAST:
                at = end_of(zone, unit, number, int(hours) * 60 + int(minutes), at)
                if found and found[-1][2] == 1:
                    found[-1][1] = at - found[-1][0]
                if found and found[-1][0] + found[-1][1] * found[-1][2] == at:
                    found[-1][2] += 1
                else:
                    found.append([at, 0, 1])
            if os.environ.get("SLUICE_RECORD"):
                recorded["calendars"][text] = found
            else:
                self.assertEqual(runs, found, text)
        if os.environ.get("SLUICE_RECORD"):
            lines = ",\n".join(f"  {json.dumps(text)}: {json.dumps(runs)}" for text, runs in recorded.pop("calendars").items())
            rest = json.dumps(recorded, indent=1).removesuffix("\n}")
            STARTS.write_text(f'{rest},\n "calendars": {{\n{lines}\n }}\n}}\n')

    def compare(self, name: str, place: int) -> int:
        zone = zoneinfo.ZoneInfo(name)
        day, weekday = 1 + place % 31, place % 7
        forms = [("hour", "", 0, 0), ("day", "", 0, 0), ("day", ",starts_at=02:30", 0, 150),
                 ("week", f",week_starts={WEEKDAYS[weekday]},starts_at=01:00", weekday, 60),
                 ("month", f",month_day={day}", day, 0), ("month", ",month_day=31,starts_at=23:59", 31, 1439),
                 ("year", ",year_day=02-29,starts_at=12:00", 229, 720), ("year", "", 101, 0)]
        handles = [self.limiter.limits("c", Limit(5, calendar=f"{unit}@{name}{more}")) for unit, more, _, _ in forms]
        instants = sorted({*(t + d for t in changes(zone) for d in (-1, 0, 1)),
                           *range(FIRST + place, LAST, 400 * DAY + 12_345)})
        for instant in instants:
            if instant < 1:
                continue
            for (unit, more, number, minutes), handle in zip(forms, handles):
                told = handle.would_take("key", now=instant * 1_000_000)
                end = end_of(zone, unit, number, minutes, instant)
                if told.reset_after_us != (end - instant) * 1_000_000:
                    self.fail(f"{unit}@{name}{more} at {instant}: ends {instant + told.reset_after_us / 1e6}, not {end}")
        return len(instants) * len(forms)


if __name__ == "__main__":
    unittest.main()
