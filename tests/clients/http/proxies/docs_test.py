"""The commands of docs/proxies.md print what the page shows, except for times, versions and ports. The lines of
configurations that it explains are those of examples/."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import caddy_test
import haproxy_test
import nginx_test
from parts import BINARY, EXAMPLES, ROOT, SECONDS_MAX, Client, PartsTest, Sluice, replaced

PAGE = (ROOT / "docs/proxies.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)}
COMMANDS = {"nginx": nginx_test.NginxTest.command, "caddy": caddy_test.CaddyTest.command,
            "haproxy": haproxy_test.HaproxyTest.command}

# What differs from run to run.
VARIABLE = (
    (r"(?im)^(date|server): .*\n", ""), (r"\b(t=|retry-after: )\d+", r"\1N"), (r'("(?:retry|reset)_after": )[\d.]+', r"\1N"),
    (r"(?i)(retry-after: )\d+", r"\1N"), (r"(?im)^content-length: .*\n", ""))


def steps(section: str) -> list[tuple[str, str]]:
    """The commands of its console blocks, each with what it prints."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", SECTIONS[section], re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            found.append((command, printed))
    return found


def settled(text: str) -> str:
    for pattern, by in VARIABLE:
        text = re.sub(pattern, by, text)
    return text


class DocsTest(PartsTest):
    name = ""
    command = ["true"]

    def run_steps(self, section: str, ports: dict[str, int]) -> None:
        """`ports`: the real ports by those of the page."""
        found = steps(section)
        self.assertGreater(len(found), 0)
        with tempfile.TemporaryDirectory(prefix="sluice-docs-") as folder:
            (Path(folder) / "sluice").symlink_to(BINARY)
            for command, printed in found:
                here = re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda port: str(ports[port[0]]), command)
                done = subprocess.run(["bash", "-c", here], cwd=ROOT, env={"PATH": f"{folder}:/usr/bin:/bin"}, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX, check=False)
                got = done.stdout.replace("\r", "")
                for port, real in ports.items():
                    got = got.replace(f"127.0.0.1:{real}", f"127.0.0.1:{port}")
                self.assertEqual(settled(printed).strip(), settled(got).strip(), command)

    def run_proxy(self, name: str, section: str) -> None:
        self.name, self.command = name, COMMANDS[name]
        PartsTest.setUp(self)
        world = self.start()
        self.run_steps(section, {"8080": world.proxy.port, "8390": world.sluice.port})

    def test_sluice_alone(self) -> None:
        self.name = "nginx"
        for section in ("Try it", "Troubleshooting"):
            with tempfile.TemporaryDirectory(prefix="sluice-docs-") as folder:
                sluice = Sluice((EXAMPLES / "nginx/sluice.yaml").read_text(encoding="utf-8"), Path(folder)).start()
                try:
                    self.run_steps(section, {"8390": sluice.port})
                finally:
                    self.assertEqual(sluice.stop(), 0)

    def test_nginx(self) -> None:
        self.run_proxy("nginx", "nginx")

    def test_caddy(self) -> None:
        self.run_proxy("caddy", "Caddy")

    def test_haproxy(self) -> None:
        self.run_proxy("haproxy", "HAProxy")

    def test_lines_that_are_explained_are_there(self) -> None:
        for name, section in (("nginx", "nginx"), ("caddy", "Caddy"), ("haproxy", "HAProxy"), ("traefik", "Traefik")):
            files = " ".join(" ".join(path.read_text(encoding="utf-8").split()) for path in (EXAMPLES / name).iterdir())
            explained = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", SECTIONS[section].split("### What each line is for")[1],
                                   re.MULTILINE)
            self.assertGreater(len(explained), 3, section)
            for cell in explained:
                for line in re.findall(r"`([^`]+)`", cell):
                    self.assertIn(line, files, section)

    def test_the_addresses_that_are_shown(self) -> None:
        """The table of X-Forwarded-For."""
        rows = re.findall(r"^\| `([\w., ]+)` \| `([\d.]+)`", SECTIONS["Trusted proxies and the client's address"], re.MULTILINE)
        self.assertEqual(len(rows), 5)
        config = (EXAMPLES / "caddy/sluice.yaml").read_text(encoding="utf-8")
        config = replaced(config, ("[127.0.0.0/8", "[10.0.0.0/8, 127.0.0.0/8"), ("deny: 429 }", "deny: 429, n: 0 }"))
        with tempfile.TemporaryDirectory(prefix="sluice-docs-") as folder:
            for forwarded, ip in rows:
                rules = config.replace('path: "/login", ip: "*"', f'path: "/login", ip: "{ip}"')
                sluice = Sluice(rules, Path(folder)).start()
                try:
                    fields = [("X-Forwarded-Method", "POST"), ("X-Forwarded-Uri", "/login"), ("X-Forwarded-Proto", "http"),
                              ("X-Forwarded-Host", "shop.example"), ("X-Forwarded-For", forwarded)]
                    with contextlib.closing(Client(sluice.port)) as client:
                        answer = client.ask("GET", "/auth/web", fields)
                    self.assertEqual((answer.status, answer.value("x-sluice-rule")), (200, "login"), forwarded)
                finally:
                    self.assertEqual(sluice.stop(), 0)

    def test_the_policy_that_is_shown_is_that_of_the_example(self) -> None:
        shown = re.search(r"`examples/nginx/sluice\.yaml`:\n\n((?:    .*\n|\n)+)", PAGE)
        assert shown is not None
        text = re.sub(r"^    ", "", shown[1], flags=re.MULTILINE).strip()
        self.assertIn(text, (EXAMPLES / "nginx/sluice.yaml").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
