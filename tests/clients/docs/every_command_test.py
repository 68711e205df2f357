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
    r"|ratelimit|python3?|pip|npm|node|go|cmake|ctest|bash|source|export|echo|kill|mkdir|cd|jq|docker|podman|skopeo|dpkg|apt-get|helm|kubectl"
    r"|chmod|install|test|tar|sha256sum|openssl|systemctl|\(umask|for \w+ in [\d ]+;)"
    r"(?=\s|$)(?! at most )")
PAGES = sorted(path.relative_to(ROOT).as_posix() for pattern in ("README.md", "docs/*.md", "docs/compat/*.md", "docs/migrate/*.md",
                                                                 "examples/*/README.md")
               for path in ROOT.glob(pattern))


class Command(NamedTuple):
    page: str
    section: str
    line: str


class Test(NamedTuple):
    file: str
    text: str  # in it


DOCS = "tests/clients/docs"
MIGRATE = Test(f"{DOCS}/migrate_test.py", "test_every_page_is_followed")
PROXIES = Test("tests/clients/http/proxies/docs_test.py", "docs/proxies.md")

# By page and section ("" for all its other sections): the test that types the commands.
TYPED = {
    ("README.md", "Run it"): Test(f"{DOCS}/readme_test.py", "## Run it"),
    ("README.md", "Allow and refuse"): Test(f"{DOCS}/readme_test.py", "## Allow and refuse"),
    ("docs/first-limit.md", ""): Test(f"{DOCS}/first_limit_test.py", "docs/first-limit.md"),
    ("docs/install.md", "Verify"): Test(f"{DOCS}/install_test.py", "## Verify"),
    ("docs/install.md", "The program"): Test(f"{DOCS}/install_test.py", "## The program"),
    ("docs/install.md", "The tarball"): Test(f"{DOCS}/install_test.py", "## The tarball"),
    ("docs/upgrade.md", ""): Test(f"{DOCS}/upgrade_test.py", 'Manual(self, "docs/upgrade.md")'),
    ("docs/migrate/divvy.md", ""): MIGRATE,
    ("docs/migrate/limitd.md", ""): MIGRATE,
    ("docs/migrate/droplet.md", ""): MIGRATE,
    ("docs/migrate/envoy.md", ""): MIGRATE,
    ("docs/migrate/redis-cell.md", ""): MIGRATE,
    ("docs/migrate/throttlecrab.md", ""): MIGRATE,
    ("docs/client.md", ""): Test("tests/client/docs_test.cc", "docs/client.md"),
    ("docs/algorithms.md", ""): Test(f"{DOCS}/algorithms_test.py", 'Manual(self, "docs/algorithms.md")'),
    ("docs/commands.md", ""): Test(f"{DOCS}/commands_test.py", 'Manual(self, "docs/commands.md")'),
    ("docs/concepts.md", ""): Test(f"{DOCS}/concepts_test.py", 'Manual(self, "docs/concepts.md")'),
    ("docs/durability.md", "Try it"): Test("tests/e2e/data_directory_test.cc", "## Try it"),
    ("docs/envoy.md", ""): Test("tests/e2e/envoy_docs_test.cc", "docs/envoy.md"),
    ("docs/http.md", ""): Test("tests/e2e/http_docs_test.cc", "docs/http.md"),
    ("docs/kubernetes.md", ""): Test("tests/ship/page_test.py", "docs/kubernetes.md"),
    ("docs/limiter.md", ""): Test("tests/clients/limiter/library_test.py", "test_commands_of_the_page_work_as_written"),
    ("docs/operating.md", "Reach the admin port"): Test(f"{DOCS}/operating_test.py", "## Reach the admin port"),
    ("docs/operating.md", "Find the limited clients and the reasons"): Test(
        f"{DOCS}/operating_test.py", "## Find the limited clients and the reasons"),
    ("docs/budgets.md", ""): Test(f"{DOCS}/budgets_test.py", 'Manual(self, "docs/budgets.md")'),
    ("docs/recipes.md", ""): Test(f"{DOCS}/recipes_test.py", 'Manual(self, "docs/recipes.md")'),
    ("docs/operating.md", "Give one customer more until Friday"): Test("tests/e2e/operators_test.cc", "TheManualsExampleWorksOnAnyDay"),
    ("docs/operating.md", "Is my config live?"): Test(f"{DOCS}/operating_test.py", "## Is my config live?"),
    ("docs/operating.md", "Logs"): Test(f"{DOCS}/operating_test.py", "## Logs"),
    ("docs/policy.md", ""): Test("src/cli/commands_test.cc", "docs/policy.md"),
    ("docs/proxies.md", "Try it"): PROXIES,
    ("docs/proxies.md", "nginx"): PROXIES,
    ("docs/proxies.md", "Caddy"): PROXIES,
    ("docs/proxies.md", "HAProxy"): PROXIES,
    ("docs/proxies.md", "Troubleshooting"): PROXIES,
    ("docs/proxies.md", "Keep counters, and see which clients are limited"): Test(f"{DOCS}/proxies_test.py", "## Keep counters"),
    ("docs/proxies.md", "Limit by API key and by tenant"): Test(f"{DOCS}/proxies_test.py", "## Limit by API key and by tenant"),
    ("docs/redis.md", "Start"): Test(f"{DOCS}/redis_test.py", "## Start"),
    ("docs/resp.md", "Try it"): Test("tests/e2e/resp_test.cc", "## Try it"),
    ("docs/resp.md", "Places"): Test("tests/e2e/resp_test.cc", "## Places"),
    ("docs/resp.md", "Rules of a policy"): Test(f"{DOCS}/resp_test.py", "## Rules of a policy"),
    ("docs/security.md", ""): Test(f"{DOCS}/security_test.py", 'PAGE = "docs/security.md"'),
    ("docs/tasks.md", ""): Test(f"{DOCS}/tasks_test.py", 'Manual(self, "docs/tasks.md")'),
}




class Excepted(NamedTuple):
    reason: str
    instead: Test  # the test of what the command does


def proxy(name: str) -> Excepted:
    return Excepted("the proxy's test starts it with the same files, on free ports",
                      Test(f"tests/clients/http/proxies/{name}_test.py", f"examples/{name}"))


def service(name: str, file: str, text: str) -> dict[tuple[str, str], Excepted]:
    """The exceptions on the page of an example."""
    page = f"examples/{name}/README.md"
    started = Excepted("the example's test starts it with the same files, on free ports", Test(file, text))
    packages = Excepted("fetches packages; the test has the same ones, from its lock file", Test(file, text))
    lines = {command.line: packages if "install" in command.line else started for command in commands_of(page)}
    return {(page, line): why for line, why in lines.items()}


# Of a release: by the command's first word, or by its section of docs/install.md, the part of deploy/smoke that tries it.
PARTS = {"docker": "image", "podman": "image", "dpkg": "deb", "The image": "image", "The library for Python": "wheel", "In Python": "wheel"}


def release(page: str) -> dict[tuple[str, str], Excepted]:
    """The exceptions on a page that says how to run a release."""
    parts = {command.line: PARTS.get(command.line.split()[0]) or PARTS.get(command.section) for command in commands_of(page)}
    return {(page, line): Excepted("needs a release, and root or a daemon", Test("deploy/smoke", f"def {part}("))
            for line, part in parts.items() if part}


def exceptions() -> dict[tuple[str, str], Excepted]:
    """By page and command."""
    whole = Excepted("builds and tests the whole checkout", Test("scripts/bare_debian", "make test"))
    measures = Excepted("measures for many minutes", Test("tools/run_tests.py", "`make bench` runs them"))
    installs = Excepted("installs under /usr/local", Test("tests/client/package.sh", "cmake --install"))
    systemd = Excepted("needs systemd; the test makes and passes the sockets as it does", Test("tests/e2e/restart_test.cc", "class HeldSocket"))
    found = release("README.md") | release("docs/install.md") | release("docs/limiter.md") | {
        ("docs/install.md", "make install"): installs,
        ("docs/install.md", "sluice check /etc/sluice/sluice.yaml"):
            Excepted("the file of the package", Test("deploy/smoke", "def deb(")),
        ("docs/install.md", "systemctl daemon-reload && systemctl enable --now sluice"): systemd,
        ("docs/install.md", "systemctl stop sluice.socket sluice.service && systemctl enable --now sluice.socket sluice"): systemd,
        ("README.md", "make run"): whole,
        ("README.md", "make test"): whole,
        ("docs/client.md", "make install"): installs,
        ("docs/commands.md", "sluice man check | man -l -"):
            Excepted("opens a pager", Test("src/cli/definitions_test.cc", '"man"')),
        ("docs/gateways.md", "kubectl -n envoy-gateway-system exec deployment/envoy-ratelimit -- sluice status"):
            Excepted("needs a cluster; the tests ask with the same command beside Envoy Gateway's environment",
                     Test("tests/clients/envoy/python/xds_server.py", '"status", "--json", "--admin"')),
        ("docs/performance.md", "make bench"): measures,
        ("docs/performance.md", "scripts/bench server"): measures,
        ("docs/proxies.md", "sluice serve --config examples/nginx/sluice.yaml"): proxy("nginx"),
        ("docs/proxies.md", "mkdir -p /tmp/sluice-nginx"): proxy("nginx"),
        ("docs/proxies.md", "nginx -p /tmp/sluice-nginx/ -e stderr -c \"$PWD/examples/nginx/nginx.conf\" -g 'daemon off;'"): proxy("nginx"),
        ("docs/proxies.md", "python3 -c 'from http.server import *"):
            Excepted("the tests have an application of their own", Test("tests/clients/http/proxies/parts.py", "class Application")),
        ("docs/proxies.md", "sluice serve --config examples/caddy/sluice.yaml"): proxy("caddy"),
        ("docs/proxies.md", "caddy run --config examples/caddy/Caddyfile"): proxy("caddy"),
        ("docs/proxies.md", "sluice serve --config examples/haproxy/sluice.yaml"): proxy("haproxy"),
        ("docs/proxies.md", "cd examples/haproxy && haproxy -f haproxy.cfg"): proxy("haproxy"),
        ("docs/proxies.md", "sluice serve --config examples/traefik/sluice.yaml"): proxy("traefik"),
        ("docs/proxies.md", "cd examples/traefik && traefik --configFile=traefik.yaml"): proxy("traefik"),
    }
    for name in ("flask", "fastapi"):
        found |= service(name, f"tests/clients/http/python/{name}_test.py", f"examples/{name}")
    found |= service("express", "tests/clients/http/node/express.test.mjs", "examples/express")
    found |= service("go", "tests/clients/http/go/example_test.go", "examples/go")
    return found | service("shell", "tests/clients/http/python/shell_test.py", "examples/shell")


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


@functools.cache
def help_of(command: str) -> str:
    """The help of a subcommand such as `store dump`; empty if it does not exist."""
    done = subprocess.run([BINARY, *command.split(), "--help"], capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                          stdin=subprocess.DEVNULL)
    return done.stdout if done.returncode == 0 else ""


class EveryCommandTest(unittest.TestCase):
    def test_each_is_typed_or_an_exception(self) -> None:
        excepted, typed, used = exceptions(), set(), set()
        for page in PAGES:
            for command in commands_of(page):
                if (page, command.line) in excepted:
                    used.add((page, command.line))
                    continue
                by = next((place for place in ((page, command.section), (page, "")) if place in TYPED), None)
                self.assertIsNotNone(by, f"no test types it, and it is not an exception: {command}")
                typed.add(by)
        self.assertEqual(set(excepted) - used, set(), "exceptions that no page has")
        self.assertEqual(set(TYPED) - typed, set(), "places without commands")
        self.assertGreater(len(typed), 25)

    def test_the_tests_exist(self) -> None:
        named = [*TYPED.values(), *(exception.instead for exception in exceptions().values())]
        for test in named:
            self.assertTrue(test.text in (ROOT / test.file).read_text(encoding="utf-8"), test)
        self.assertTrue(all(exception.reason for exception in exceptions().values()))

    def test_flags_in_running_text_exist(self) -> None:
        checked = 0
        for page in PAGES:
            text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
            for line in re.findall(r"`sluice ([^`]+)`", text):
                words = line.replace("\n", " ").split()
                command = " ".join(words[:2]) if words[0] in ("ask", "store", "override") and len(words) > 1 else words[0]
                for alone in re.split(r"[|,]", command):
                    with self.subTest(page=page, line=line):
                        usage = help_of(alone) or help_of(words[0])
                        self.assertTrue(usage, f"no such command: {alone}")
                        for flag in re.findall(r"(?<=\s)--[a-z][\w-]*", line):
                            self.assertIn(flag, usage)
                        checked += 1
        self.assertGreater(checked, 100)


if __name__ == "__main__":
    unittest.main()
