"""The proxies of examples/ in front of applications with real routers: no spelling of a limited path that the application
serves passes the limit, but those that docs/proxies.md names, and none with the pattern that the page says to write."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

import caddy_test
import haproxy_test
import nginx_test
from parts import EXAMPLES, ROOT, SECONDS_MAX, PartsTest, Process, replaced

PROXIES = {"nginx": nginx_test.NginxTest, "caddy": caddy_test.CaddyTest, "haproxy": haproxy_test.HaproxyTest}
SPELLINGS = (ROOT / "tests/clients/http/spellings.txt").read_text(encoding="latin-1").splitlines()
PAGE = (ROOT / "docs/proxies.md").read_text(encoding="utf-8")
FRAMEWORKS = {"express": "Express", "flask": "Flask", "fastapi": "FastAPI", "go": "Go, `net/http`"}  # as the page names them
QUOTA = 5
SERVED = b"all there is"
LOGIN = 'method: POST, path: "/login"'


def named(framework: str) -> set[str]:
    """The spellings that the page's table names for an application of that framework, as those of /export."""
    row = re.search(rf"^\| {re.escape(FRAMEWORKS[framework])} \| ([^|]*) \|", PAGE, re.MULTILINE)
    assert row is not None, framework
    names = (("login", "export"), ("Login", "Export"), ("LOGIN", "EXPORT"))
    shown = row[1]
    for name, ours in names:
        shown = shown.replace(name, ours)
    return set(re.findall(r"`([^`]+)`", shown))


def written() -> str:
    """The pattern that the page says to write, for /export."""
    found = re.search(r"^    match: \{ method: POST, (path: \"regex\(.*\)\"), ip: \"\*\" \}$", PAGE, re.MULTILINE)
    assert found is not None
    return replaced(found[1], ("login", "export"))


def ask(port: int, target: str, method: str = "GET") -> bytes:
    """All that is answered to a request with a target that is sent as it is."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as connection:
        connection.sendall(f"{method} {target} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n".encode("latin-1"))
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1 << 16):
                answer += data
    return answer


class SpellingsTest(PartsTest):
    name = ""
    command = ["true"]

    def application(self, framework: str) -> int:
        """The port of the application of examples/ that serves /export. No sluice is there for it, so it lets all pass."""
        scratch = tempfile.TemporaryDirectory(prefix="sluice-spellings-")
        self.addCleanup(scratch.cleanup)
        folder = Path(scratch.name) / framework
        shutil.copytree(EXAMPLES / framework, folder, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        command = [sys.executable, "app.py"]
        if framework == "express":
            (folder / "node_modules").symlink_to(ROOT / "tests/clients/http/node/node_modules")
            command = ["node", "app.mjs"]
        elif framework == "go":
            subprocess.run(["go", "build", "-o", "limited", "."], cwd=folder, check=True, timeout=SECONDS_MAX,
                           env={**os.environ, "GOTOOLCHAIN": "local"})
            command = ["./limited"]
        process = Process(command, folder, PORT="0", SLUICE_URL="http://127.0.0.1:1", PYTHONUNBUFFERED="1")
        self.addCleanup(process.stop)
        return int(process.await_line(r"http://127\.0\.0\.1:(\d+)")[1])

    def passing(self, proxy: str, application_port: int | None, path: str, edits: tuple[tuple[str, str], ...] = (),
                profile: tuple[tuple[str, str], ...] = ()) -> set[str]:
        """The spellings that are served when the limit of /export is used up; `path`: of the rule's `match`."""
        self.name, self.command, self.patience = proxy, PROXIES[proxy].command, PROXIES[proxy].patience
        world = self.start(edits, sluice_edits=[(LOGIN, f"method: GET, {path}"), ("quota: 100,", "quota: 10000,"),
                                                ("burst: 200", "burst: 20000"), *profile],
                           application_port=application_port)
        for _ in range(QUOTA):
            self.assertIn(SERVED, ask(world.proxy.port, "/export"))
        self.assertNotIn(SERVED, ask(world.proxy.port, "/export"))
        return {spelling for spelling in SPELLINGS if SERVED in ask(world.proxy.port, spelling)}

    @contextlib.contextmanager
    def files(self) -> Iterator[str]:
        """A folder with a file `export`, which every user may read."""
        with tempfile.TemporaryDirectory(prefix="sluice-spellings-") as folder:
            Path(folder).chmod(0o755)
            (Path(folder) / "export").write_bytes(SERVED)
            (Path(folder) / "export").chmod(0o644)
            yield folder

    def check(self, framework: str) -> None:
        if framework in ("express", "go") and not shutil.which({"express": "node"}.get(framework, framework)):
            self.skipTest(f"there is nothing that runs {framework}")
        port = self.application(framework)
        remaining = set()
        for proxy in PROXIES:
            with self.subTest(proxy):
                remaining |= self.passing(proxy, port, 'path: "/export"')
                self.assertEqual(self.passing(proxy, port, written()), set())
        self.assertEqual(remaining, named(framework))

    def check_files(self, proxy: str, edit: tuple[str, str], remaining: set[str]) -> None:
        """The proxy serves the file itself; `remaining`: with the example's rule."""
        with self.files() as folder:
            edits = ((edit[0], edit[1].replace("FOLDER", folder)),)
            self.assertEqual(self.passing(proxy, None, 'path: "/export"', edits), remaining)
            first = re.search(r"^ {6}- name: encoded-slash\n(?: {8}.*\n)+", PAGE, re.MULTILINE)
            assert first is not None
            rule = "rules:\n" + re.sub("^    ", "", first[0], flags=re.MULTILINE)
            self.assertEqual(self.passing(proxy, None, written(), edits, (("rules:\n", rule),)), set())

    def test_files_of_nginx(self) -> None:
        self.check_files("nginx", ("proxy_pass http://application;", "root FOLDER;"),
                         {"/%2fexport", "/%2Fexport", "/x%2F..%2Fexport"})

    def test_files_of_caddy(self) -> None:
        self.check_files("caddy", ("reverse_proxy 127.0.0.1:9000", "root * FOLDER\n\tfile_server"),
                         {"/%2fexport", "/%2Fexport", "/x%2F..%2Fexport", "/export/."})

    def test_a_method_in_lower_case(self) -> None:
        """Werkzeug takes it for one in upper case; nginx refuses it, as docs/proxies.md says by leaving it out."""
        port = self.application("flask")
        for proxy, remains in (("nginx", False), ("caddy", True), ("haproxy", True)):
            for rule, passes in (('path: "/export"', remains), ('method: "regex(/^get$/i)", path: "/export"', False)):
                self.name, self.command, self.patience = proxy, PROXIES[proxy].command, PROXIES[proxy].patience
                method = "" if rule.startswith("method") else "method: GET, "
                world = self.start(sluice_edits=[(LOGIN, method + rule)], application_port=port)
                for _ in range(QUOTA):
                    self.assertIn(SERVED, ask(world.proxy.port, "/export"))
                self.assertEqual(SERVED in ask(world.proxy.port, "/export", "get"), passes, (proxy, rule))

    def test_express(self) -> None:
        self.check("express")

    def test_flask(self) -> None:
        self.check("flask")

    def test_fastapi(self) -> None:
        self.check("fastapi")

    def test_go(self) -> None:
        self.check("go")


if __name__ == "__main__":
    unittest.main()
