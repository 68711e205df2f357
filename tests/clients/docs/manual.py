"""A page of the documentation, or one section of it, as a reader follows it: its files are written, its servers started and
its commands run by a shell, in order, in a new folder where `sluice` is the program under test. Nothing else is typed. What a
command prints must be what the page shows, except for what differs from run to run (VARYING). The page's ports are replaced
by free ones, and `sluice ask` is given more time.

What a page must look like:
  - a line that ends in "`NAME`:" stands in front of a file, which is an indented block;
  - any other indented block has commands, one a line: `make` and comments are not run, `export` holds for what follows,
    everything else is a server that stays until the end of the page and listens on the new ports of its line and files;
  - ```mermaid blocks are pictures;
  - a `X.yaml` that a command writes is a file of the page as well;
  - in ```console blocks lines that begin with "$ " are commands, the others what they print; a `\\` at the end continues one.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice")
SECONDS_MAX = 60  # for one command, and until a server listens
STARTS_MAX = 5  # how often a server is started while other processes take its ports

PORT = re.compile(r"\b(3000|8000|8080|8081|8321|8322|8380|8390|9000|9231|6379|6380|6381)\b")
ASK_PORTS = {"http": 8390, "divvy": 8321, "limitd": 9231, "droplet": 3000, "resp": 6380, "envoy": 8081}  # the default ports of `sluice ask`
FILE = re.compile(r".*`([\w/]+\.\w+)`:")

VARYING = (
    (r'("(?:retry_after|reset_after|waited)": ?)(?!0[,}])[\d.]+', r"\1(time)"),
    (r"(within|resets in|again in|allowed in|more in|them in|of the last) [\dhmsdu]+", r"\1 (time)"),
    (r"\bo-[0-9a-f]{16}\b", "o-(id)"),
    (r"\bhash [0-9a-f]{16}\b", "hash (hash)"),
    (r"(?m)^(?:live|unchanged): (?=generation )", "(live): "),  # the server may read a changed file before `sluice reload`
    (r"(?m)^(up +)[\dhmsdu]+$", r"\1(time)"),
    (r"(?m)^(OK (?:true|false) -?\d+) \d+$", r"\1 (time)"),
    (r"[\d-]{10}T[\d:.]+Z", "(moment)"),
    (r'("durationUntilReset": ?)"\d+s"', r"\1(time)"),
    (r"(?m)_\d{10}$", "_(window)"),  # the start of a window in a key of Envoy's
    (r"(?m)(^|\s)sluice \d+\.\d+\.\d+(?= at )", r"\1sluice (version)"),
    (r"(?im)^date: .*", "date: (moment)"),
)


def settled(text: str) -> str:
    for pattern, by in VARYING:
        text = re.sub(pattern, by, text)
    return text.replace("\r", "").rstrip("\n")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX).close()
    except OSError:
        return False
    return True


def lines_of(page: str, heading: str) -> list[str]:
    """The lines of a section, or of the whole page if the heading is empty."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    if not heading:
        return lines
    begin = lines.index(heading) + 1
    ends = (i for i in range(begin, len(lines)) if lines[i].startswith("## "))
    return lines[begin:next(ends, len(lines))]


class Manual:
    """Use it as a context: its servers end with it."""

    def __init__(self, test: unittest.TestCase, page: str, heading: str = "") -> None:
        self.test = test
        self.lines = lines_of(page, heading)
        self.files: dict[str, str] = {}  # as on the page
        self.ports: dict[str, str] = {}  # the page's ports and the real ones, of running servers
        self.exports = ""
        self.servers: list[subprocess.Popen[bytes]] = []
        self.commands = 0
        self._place = tempfile.TemporaryDirectory(prefix="sluice-docs-")
        self.folder = Path(self._place.name)
        for name in ("bin", "build/release"):
            (self.folder / name).mkdir(parents=True)
            (self.folder / name / "sluice").symlink_to(BINARY)

    def __enter__(self) -> Manual:
        return self

    def __exit__(self, *_: object) -> None:
        for server in reversed(self.servers):
            server.terminate()
        for server in self.servers:
            try:
                server.wait(SECONDS_MAX)
            finally:
                server.kill()
        self._place.cleanup()

    def here(self, text: str) -> str:
        """The text with the ports of this run."""
        for protocol, port in ASK_PORTS.items():
            server = f" --server localhost:{port}" if "--server" not in text else ""
            text = text.replace(f"sluice ask {protocol}", f"sluice ask {protocol} --timeout 20000{server}")
        return PORT.sub(lambda port: self.ports.get(port[0], port[0]), text)

    def as_on_the_page(self, text: str) -> str:
        back = {own: page for page, own in self.ports.items()}
        text = text.replace(str(self.folder), "/srv")  # where the page's reader is
        return re.sub(r"\b\d{4,5}\b", lambda port: back.get(port[0], port[0]), text)

    def environment(self, asks: bool = False) -> dict[str, str]:
        # The tester's own environment must not change what is served.
        variables = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}:/usr/sbin", "HOME": str(self.folder)}
        if asks and "8380" in self.ports:
            variables["SLUICE_ADMIN_SERVER"] = f"127.0.0.1:{self.ports['8380']}"
        return variables

    def write(self, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(self.files[name]), encoding="utf-8")

    @staticmethod
    def decides(text: str, log: Path) -> bool:
        """A server whose line or files name a Redis listens at once, and decides when it has a connection."""
        return not re.search(r"REDIS_|--redis|redis:", text) or ": connected" in log.read_text(encoding="utf-8", errors="replace")

    def serve(self, line: str) -> None:
        named = [name for name in self.files if name in line]
        text = "\n".join([line, *(self.files[name] for name in named)])
        new = sorted(set(PORT.findall(text)) - set(self.ports))
        self.test.assertTrue(new, f"listens on no port of its own: {line}")
        for _ in range(STARTS_MAX):
            self.ports.update((port, str(free_port())) for port in new)
            for name in named:
                self.write(name)
            log = self.folder / f"server-{len(self.servers)}.log"
            with log.open("wb") as said:
                server = subprocess.Popen(["bash", "-c", f"{self.exports}exec env {self.here(line)}"], cwd=self.folder,
                                          env=self.environment(), stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            end = time.monotonic() + SECONDS_MAX
            while server.poll() is None and time.monotonic() < end:
                if all(listens(int(self.ports[port])) for port in new) and server.poll() is None and self.decides(text, log):
                    self.servers.append(server)
                    return
                time.sleep(0.01)
            server.kill()
            server.wait()
        self.test.fail(f"does not serve: {line}\n{log.read_text(encoding='utf-8', errors='replace')}")

    def type(self, line: str) -> None:
        if line.startswith("export "):
            self.exports += f"{line}\n"
        elif not line.startswith(("#", "make ")):
            self.serve(line)

    def run(self, command: str) -> tuple[int, str, str]:
        """Runs a command. Returns its exit status, its output with the page's ports, and its standard error."""
        done = subprocess.run(["bash", "-c", self.exports + self.here(command)], cwd=self.folder, env=self.environment(True),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=SECONDS_MAX, check=False)
        return done.returncode, self.as_on_the_page(done.stdout), done.stderr

    def compare(self, command: str, shown: str) -> None:
        self.commands += 1
        status, printed, told = self.run(command)
        self.test.assertEqual(settled(printed), settled(shown), f"{command}\n{told}")
        refused = shown.startswith(("denied", "over: "))  # which are answers, with a status of their own
        self.test.assertEqual(status, 1 if refused else 0, f"{command}\n{told}")
        for path in set(self.folder.glob("*.yaml")) - {self.folder / name for name in self.files}:
            self.files[path.name] = path.read_text(encoding="utf-8")

    def follow(self) -> None:
        at = 0

        def block(begin: int) -> tuple[str, int]:
            """The indented block, without what follows its last line."""
            end = begin
            while end < len(self.lines) and (not self.lines[end] or self.lines[end].startswith("    ")):
                end += 1
            return "\n".join(line[4:] for line in self.lines[begin:end]).rstrip("\n") + "\n", end

        while at < len(self.lines):
            line = self.lines[at]
            at += 1
            if line == "```console":
                end = self.lines.index("```", at)
                text = "\n".join(self.lines[at:end]) + "\n"
                for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                    command, shown = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", step, re.DOTALL).groups()
                    self.compare(command, shown)
                at = end + 1
            elif line == "```mermaid":
                at = self.lines.index("```", at) + 1
            elif line.startswith("    "):
                self.type(line[4:])
            elif (named := FILE.fullmatch(line)) and at + 1 < len(self.lines) and self.lines[at + 1].startswith("    "):
                self.files[named[1]], at = block(at + 1)
                self.write(named[1])
