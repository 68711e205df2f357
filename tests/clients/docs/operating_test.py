"""The commands of docs/operating.md that ask a running server, typed in the page's order, against the server that the page
names: the built-in example after three cookies. tests/e2e/operators_test.cc types the one that sets an override."""

from __future__ import annotations

import json
import re
import shutil
import unittest

from manual import ROOT, Manual, lines_of, settled

PAGE = "docs/operating.md"
SECTIONS = ("## Reach the admin port", "## Find the limited clients and the reasons", "## Is my config live?", "## Logs")
TOKEN = "0123456789abcdef"


def commands_of(heading: str) -> list[str]:
    """The commands of a section. A command ends with its line, or where its quotes and pipes end."""
    found: list[str] = []
    goes_on = False
    for line in lines_of(PAGE, heading):
        if not line.startswith("    "):
            goes_on = False
        elif goes_on or re.match(r" {4}(curl|sluice|\(umask)\b", line):
            found[-1:] = [f"{found[-1]}\n{line[4:]}"] if goes_on else found[-1:] + [line[4:]]
            goes_on = found[-1].count("'") % 2 == 1 or found[-1].endswith("|")
    return found


def shown_after(command: str) -> str:
    """The block after the command's own, which shows what the command prints."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    rest = page[page.index(command.replace("\n", "\n    ")) + len(command.replace("\n", "\n    ")):]
    return re.search(r"\n\n((?:    .*\n)+)", rest)[1].replace("    ", "")


@unittest.skipUnless(shutil.which("jq"), "there is no jq")
class OperatingTest(unittest.TestCase):
    def follow(self, manual: Manual, heading: str) -> list[tuple[str, str]]:
        done = []
        for command in commands_of(heading):
            line = command.replace("sluice top", "sluice top --over 0s")  # as there is no rate to show
            status, printed, told = manual.run(line)
            self.assertEqual(status, 0, f"{command}\n{printed}{told}")
            done.append((command, printed))
        return done

    def serve(self, manual: Manual, more: str = "") -> None:
        manual.serve(f"{more} sluice serve --listen divvy=127.0.0.1:8321 --listen admin=127.0.0.1:8380".strip())

    def test_the_limited_actors_and_their_rules(self) -> None:
        with Manual(self, PAGE) as manual:
            self.serve(manual)
            for left in (2, 1, 0):
                manual.compare("sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7",
                               f"allowed: {left} left, all of them again in 1h")
            self.assertEqual(manual.run("sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7")[0], 1)  # for the list
            done = self.follow(manual, "## Find the limited clients and the reasons")
            self.assertEqual(len(done), 11)
            self.assertIn('"actor": "10.0.0.7"', done[1][1])
            explained = next((command, printed) for command, printed in done if "explain --live" in command)
            self.assertEqual(settled(explained[1]), settled(shown_after(explained[0])))
            key = "divvy:ip=* method=GET path=/pantry/cookies:10.0.0.7:3:3600"
            self.assertEqual(json.loads(done[6][1])["counter"], key)
            self.assertIn("10.0.0.7", done[7][1])
            self.assertEqual(json.loads(done[8][1])["limits"][0]["remaining"], 3)
            self.assertIn('"pattern"', done[10][1])

    def test_a_token(self) -> None:
        with Manual(self, PAGE) as manual:
            self.serve(manual, f"SLUICE_ADMIN_TOKEN={TOKEN}")
            (manual.folder / "admin.token").write_text(f"{TOKEN}\n", encoding="utf-8")
            done = self.follow(manual, "## Reach the admin port")
            self.assertEqual(len(done), 2)
            self.assertEqual(json.loads(done[1][1])["generation"], 1)
            self.assertNotIn("generation", manual.run(done[1][0].replace("-H @header", ""))[1])

    def test_an_edit_is_checked_before_it_is_served(self) -> None:
        with Manual(self, PAGE) as manual:
            self.serve(manual)
            example = (ROOT / "examples/example-config.ini").read_text(encoding="utf-8")
            lacking, count = re.subn(r"(\[method=GET path=/status\]\n)creditLimit = .*\n", r"\1", example)
            self.assertEqual(count, 1)
            (manual.folder / "rules.ini").write_text(lacking, encoding="utf-8")
            [(command, printed)] = self.follow(manual, "## Is my config live?")
            self.assertEqual(printed, shown_after(command))
            (manual.folder / "rules.ini").write_text(example, encoding="utf-8")
            self.assertIn('"ok":true', manual.run(command)[1])

    def test_the_log(self) -> None:
        with Manual(self, PAGE) as manual:
            self.serve(manual)
            done = self.follow(manual, "## Logs")
            self.assertEqual(len(done), 3)
            self.assertEqual(json.loads(done[1][1])["modules"]["requests"], "debug")
            self.assertEqual(json.loads(done[2][1])["denials"]["every"], 100)

    def test_the_sections_are_all(self) -> None:
        """No other section has a command (the one that sets an override is typed elsewhere)."""
        typed = [command for heading in SECTIONS for command in commands_of(heading)]
        every = re.findall(r"^    (?:curl|sluice|\(umask)\b.*", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
        others = [line for line in every if not any(command.startswith(line[4:]) for command in typed)]
        self.assertEqual([line for line in others if "/v1/overrides -d '{" not in line and " at most " not in line], [])


if __name__ == "__main__":
    unittest.main()
