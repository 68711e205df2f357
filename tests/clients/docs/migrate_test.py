"""The commands of docs/migrate/: each page is followed from its first line to its last, except for a section that another server
of the page's begins."""

from __future__ import annotations

import re
import time
import unittest

from manual import ROOT, Manual, lines_of


class MigrateTest(unittest.TestCase):
    def follow(self, name: str, counts: tuple[int, int, int]) -> None:
        """Files, servers and commands of the page are as many as `counts` says."""
        with Manual(self, f"docs/migrate/{name}.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), counts)

    def test_every_page_is_followed(self) -> None:
        pages = {path.stem for path in (ROOT / "docs/migrate").glob("*.md")}
        typed = {name.removeprefix("test_from_").replace("_", "-") for name in dir(self) if name.startswith("test_from_")}
        self.assertEqual(pages, typed)

    def test_from_divvy(self) -> None:
        section = "## See which clients are limited"
        with Manual(self, "docs/migrate/divvy.md") as manual:
            manual.lines = manual.lines[:manual.lines.index(section)]
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 1, 5))
        with Manual(self, "docs/migrate/divvy.md", section) as manual:
            manual.serve("sluice serve --listen divvy=127.0.0.1:8321 --listen admin=127.0.0.1:8380")
            for _ in range(4):
                manual.run("sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7")
            manual.follow()
            self.assertEqual(manual.commands, 3)

    def test_from_limitd(self) -> None:
        self.follow("limitd", (1, 1, 4))

    def test_from_droplet(self) -> None:
        self.follow("droplet", (0, 1, 3))

    def test_from_envoy(self) -> None:
        with Manual(self, "docs/migrate/envoy.md") as manual:
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 2, 5))
            said = (manual.folder / "server-1.log").read_text(encoding="utf-8")
            told = re.findall(r"(?:prints|say|warns) `([^`]+)`", "\n".join(manual.lines))
            self.assertEqual(len(told), 4)
            for words in told:
                self.assertIn(words, said)
            self.assertEqual(said.count("warning: "), 1, said)
            self.assert_the_window_is_possible(manual.lines)

    def assert_the_window_is_possible(self, lines: list[str]) -> None:
        """The counter's name ends in the start of a year's window, which ends when the answer of the page says."""
        text, year = "\n".join(lines), 365 * 86_400
        [start], [days, *rest] = re.findall(r"_(\d{10})$", text, re.MULTILINE), re.findall(r"resets in (\d+)d(\d+)h(\d+)m(\d+)s", text)[0]
        hours, minutes, seconds = map(int, rest)
        until = ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
        self.assertEqual(int(start) % year, 0)
        self.assertLess(until, year)
        self.assertIn(f'"durationUntilReset":"{until}s"', text)

    def test_from_throttlecrab(self) -> None:
        self.follow("throttlecrab", (1, 1, 4))

    def test_from_redis_cell(self) -> None:
        """With a Redis that holds what the module stores: the theoretical arrival time in nanoseconds, and a life until then."""
        self.assertIn("On this page Redis listens on 127.0.0.1:6379", "\n".join(lines_of("docs/migrate/redis-cell.md", "## Before")))
        with Manual(self, "docs/migrate/redis-cell.md") as manual:
            manual.serve("redis-server --port 6379 --save ''")
            seconds = 4 * 3600  # four units, of which one comes back in an hour
            arrival = time.time_ns() + seconds * 1_000_000_000
            status, _, told = manual.run(f"redis-cli -p 6379 SET throttle:user:17 {arrival} EX {seconds}")
            self.assertEqual(status, 0, told)
            manual.follow()
            self.assertEqual((len(manual.files), len(manual.servers), manual.commands), (1, 3, 5))


if __name__ == "__main__":
    unittest.main()
