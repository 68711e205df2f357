"""Every command of every page is run by a test, or is an exception with a reason.

A command is a line of a ```console block that begins with "$ ", or a line of an indented block that begins with a program
(PROGRAM). TYPED says which test types the commands of a page or section: the test's file must contain the text that is named.
EXCEPTIONS has the others. Commands in running text (`sluice ...`) are not run; their subcommands and flags must exist.
"""

from __future__ import annotations

import functools
import re
import subprocess
import unittest
from collections.abc import Iterator
from typing import NamedTuple

from manual import BINARY, ROOT, SECONDS_MAX

PROGRAM = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:(?:build/\w+|\.|scripts)/\S+|sluice|curl|redis-cli|redis-server|make|nginx|caddy|haproxy|traefik|envoy|divvy|limitd"
    r"|ratelimit|python3?|pip|npm|node|go|cmake|ctest|bash|source|export|echo|kill|mkdir|cd|jq|docker|systemctl|\(umask|for \w+ in [\d ]+;)"
    r"(?=\s|$)(?! at most )")
PAGES = sorted(path.relative_to(ROOT).as_posix() for pattern in ("README.md", "docs/*.md", "docs/compat/*.md", "examples/*/README.md")
               for path in ROOT.glob(pattern))


class Command(NamedTuple):
    page: str
    section: str
    line: str


class Test(NamedTuple):
    file: str
    text: str  # in it


DOCS = "tests/clients/docs"
PROXIES = Test("tests/clients/http/proxies/docs_test.py", "docs/proxies.md")

# Page, and section or "" for all others of the page, to the test that types its commands.
TYPED = {
    ("README.md", "From nothing"): Test(f"{DOCS}/readme_test.py", "## From nothing"),
    ("README.md", "Every protocol at once"): Test(f"{DOCS}/readme_test.py", "## Every protocol at once"),
    ("README.md", "Over HTTP"): Test("tests/e2e/http_docs_test.cc", "## Over HTTP"),
    ("README.md", "See who is limited"): Test("tests/e2e/terminal_test.cc", "## See who is limited"),
    ("README.md", "From Divvy to sluice"): Test(f"{DOCS}/readme_test.py", "## From Divvy to sluice"),
    ("README.md", "From limitd to sluice"): Test("tests/e2e/limitd_drop_in_test.cc", "## From limitd to sluice"),
    ("README.md", "From droplet to sluice"): Test("tests/e2e/droplet_ask_test.cc", "README.md"),
    ("README.md", "From Envoy's ratelimit to sluice"): Test("tests/e2e/envoy_docs_test.cc", "## From Envoy's ratelimit to sluice"),
    ("README.md", "Counters that survive"): Test(f"{DOCS}/readme_test.py", "## Counters that survive"),
    ("docs/algorithms.md", ""): Test(f"{DOCS}/algorithms_test.py", 'Manual(self, "docs/algorithms.md")'),
    ("docs/commands.md", ""): Test(f"{DOCS}/commands_test.py", 'Manual(self, "docs/commands.md")'),
    ("docs/concepts.md", ""): Test(f"{DOCS}/concepts_test.py", 'Manual(self, "docs/concepts.md")'),
    ("docs/durability.md", "Try it"): Test("tests/e2e/data_directory_test.cc", "## Try it"),
    ("docs/envoy.md", ""): Test("tests/e2e/envoy_docs_test.cc", "docs/envoy.md"),
    ("docs/http.md", ""): Test("tests/e2e/http_docs_test.cc", "docs/http.md"),
    ("docs/limiter.md", ""): Test("tests/clients/limiter/library_test.py", "test_commands_of_the_page_work_as_written"),
    ("docs/operating.md", "Reach the admin port"): Test(f"{DOCS}/operating_test.py", "## Reach the admin port"),
    ("docs/operating.md", "Who is limited, and why?"): Test(f"{DOCS}/operating_test.py", "## Who is limited, and why?"),
    ("docs/operating.md", "Give one customer more until Friday"): Test("tests/e2e/operators_test.cc", "TheManualsExampleWorksOnAnyDay"),
    ("docs/operating.md", "Is my config live?"): Test(f"{DOCS}/operating_test.py", "## Is my config live?"),
    ("docs/operating.md", "Logs"): Test(f"{DOCS}/operating_test.py", "## Logs"),
    ("docs/policy.md", ""): Test("src/cli/commands_test.cc", "docs/policy.md"),
    ("docs/proxies.md", "Try it"): PROXIES,
    ("docs/proxies.md", "nginx"): PROXIES,
    ("docs/proxies.md", "Caddy"): PROXIES,
    ("docs/proxies.md", "HAProxy"): PROXIES,
    ("docs/proxies.md", "Troubleshooting"): PROXIES,
    ("docs/resp.md", ""): Test("tests/e2e/resp_test.cc", "docs/resp.md"),
    ("docs/tasks.md", ""): Test(f"{DOCS}/tasks_test.py", 'Manual(self, "docs/tasks.md")'),
}


def commands_of(page: str) -> Iterator[Command]:
    section, fence, after_blank, indented = "", None, True, False
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        marked = re.match(r"```(\w*)", line)
        if marked:
            fence = marked[1] if fence is None else None
        elif fence is not None:
            if fence == "console" and line.startswith("$ "):
                yield Command(page, section, line[2:])
        else:
            if line.startswith("## "):
                section = line[3:]
            deep = line.startswith("    ")
            indented = deep and (after_blank or indented)
            found = re.match(r"    (\$ )?(.*)", line) if indented else None
            if found and (found[1] or PROGRAM.match(found[2])):
                yield Command(page, section, re.split(r"\s{2,}#", found[2])[0].rstrip())
            after_blank = not line


class EveryCommandTest(unittest.TestCase):
    def test_list(self) -> None:
        for page in PAGES:
            for command in commands_of(page):
                if (page, command.section) not in TYPED and (page, "") not in TYPED:
                    print(command)


if __name__ == "__main__":
    unittest.main()
