#!/usr/bin/env python3
"""Debian 13 builds the program from HEAD with `make build`, and the static program of this checkout runs on Debian 13 and
beside musl. Each system is a root that mmdebstrap makes. Takes root, the network, and an hour without a filled ccache.

    tests/ship/source.py [--verbose] [TEST...]

With CCACHE_DIR set the build shares that cache. The static program is SLUICE_STATIC, by default
build/release/dist/sluice; without it its tests are skipped, as are all where a root cannot be made.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATIC = Path(os.environ.get("SLUICE_STATIC") or ROOT / "build/release/dist/sluice")
SECONDS_MAX = 60  # for one command
ROOT_SECONDS_MAX = 900  # for a root
BUILD_SECONDS_MAX = 7200

# By protocol: what is asked, and the status of `sluice ask`: 1 is a refusal.
QUESTIONS = {
    "divvy": ("method=GET", "path=/pantry/cookies", "ip=10.0.0.7"),
    "limitd": ("ping",),
    "droplet": ("take", "jar", "--lh", "100", "--lo", "1000"),
    "resp": ("PING",),
    "envoy": ("shop", "remote_address=10.0.0.7"),
    "http": ("health",),
}
UNKNOWN_HOST = "limits.invalid"  # no file has it, and no server of names is asked but 127.0.0.1
# An openssl.cnf that has OpenSSL load a module of the machine.
LEGACY = "openssl_conf = all\n[all]\nproviders = list\n[list]\ndefault = on\nlegacy = on\n[on]\nactivate = 1\n"

IN_ROOT = """
mount -t tmpfs tmpfs "$0/tmp"; mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"
[ ! -d "$0/ccache" ] || mount --bind "$CCACHE_DIR" "$0/ccache"
exec env CCACHE_DIR=/ccache chroot "$0" "$@"
"""


class System:
    """A root folder with a system, and what runs in it. What it starts ends with it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="utf-8")

    def _start(self, *words: str, namespace: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        here = {name: value for name, value in os.environ.items() if name.endswith("_proxy") or name in ("CCACHE_DIR", "JOBS")}
        return subprocess.Popen(
            ["unshare", "--mount", *namespace, "bash", "-euc", IN_ROOT, str(self.root), *words], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **here})

    def run(self, *words: str, seconds_max: float = SECONDS_MAX) -> tuple[int, str]:
        """Status and output, in a namespace of processes, which ends all that it started."""
        with self._start(*words, namespace=("--pid", "--fork", "--kill-child")) as process:
            late = threading.Timer(seconds_max, process.kill)
            late.start()
            output, _ = process.communicate()
            if not late.is_alive():
                output += f"\n(ended after {seconds_max} s)"
            late.cancel()
        return process.returncode, output

    @contextlib.contextmanager
    def serve(self, program: str, *words: str) -> Iterator[tuple[int, dict[str, int]]]:
        """A server of every protocol and an admin port: its process and its ports. It must end well at SIGTERM."""
        names = ("admin", *QUESTIONS)
        listeners = [word for one in QUESTIONS for word in ("--listen", f"{one}=127.0.0.1:0")]
        with self._start(program, "serve", *listeners, "--admin", "127.0.0.1:0", *words) as process:
            late = threading.Timer(SECONDS_MAX, process.kill)
            late.start()
            try:
                said, ports = "", {}
                assert process.stdout
                while len(ports) < len(names) and (line := process.stdout.readline()):
                    said += line
                    if found := re.match(r"sluice: (\w+) listening on 127\.0\.0\.1:(\d+)", line):
                        ports[found[1]] = int(found[2])
                if len(ports) < len(names):
                    raise AssertionError(f"{program} does not listen: {said}")
                yield process.pid, ports
                process.terminate()
                said += process.communicate()[0]
                if process.returncode != 0:
                    raise AssertionError(f"{program} ended with {process.returncode}: {said}")
            finally:
                process.kill()
                late.cancel()


def source_of_packages() -> Path | None:
    """The list of apt that names this Debian's mirror."""
    lists = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in lists:
        if path.is_file() and re.search(r"^(deb .* |Suites: *)bookworm( |$)", path.read_text(encoding="utf-8"), re.M):
            return path
    return None


def why_not() -> str:
    """Why no root can be made here; empty where one can."""
    if os.geteuid() != 0:
        return "this takes root"
    if shutil.which("mmdebstrap") is None:
        return "mmdebstrap is not installed (scripts/setup bench installs it)"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "no mount namespace may be made here"
    return "" if source_of_packages() else "apt has no source of Debian 12"


class SystemTest(unittest.TestCase):
    """What follows has one system, made of the packages of Debian 13."""

    VARIANT = "minbase"
    PACKAGES: tuple[str, ...] = ()
    system: System
    missing = ""  # why there is none

    @classmethod
    def setUpClass(cls) -> None:
        cls.missing = why_not()
        if not cls.missing:
            cls.make_system()

    def setUp(self) -> None:
        if self.missing:
            self.skipTest(self.missing)

    @classmethod
    def make_system(cls) -> None:
        held = tempfile.TemporaryDirectory(prefix="sluice-source-")
        cls.addClassCleanup(held.cleanup)
        folder = Path(held.name)
        source = source_of_packages()
        assert source
        sources = folder / f"mirror{source.suffix}"
        sources.write_text(source.read_text(encoding="utf-8").replace("bookworm", "trixie"), encoding="utf-8")
        made = subprocess.run(
            ["mmdebstrap", "--quiet", f"--variant={cls.VARIANT}", f"--include={','.join(cls.PACKAGES)}",
             "--dpkgopt=force-unsafe-io", "trixie", str(folder / "root"), str(sources)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=ROOT_SECONDS_MAX)
        if made.returncode != 0:
            cls.missing = f"mmdebstrap failed: {made.stdout[-500:]}"
            return
        cls.system = System(folder / "root")
        if STATIC.exists():
            shutil.copyfile(STATIC, folder / "root/static")
            (folder / "root/static").chmod(0o755)

    def expect_service(self, program: str, *words: str) -> str:
        """The program says its version, serves every protocol, and ends well. Returns the list of what the server mapped."""
        status, said = self.system.run(program, "--version")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"^sluice \d+\.\d+\.\d+\ntime zones: .+\n$")
        with self.system.serve(program, *words) as (pid, ports):
            for protocol, question in QUESTIONS.items():
                with self.subTest(protocol=protocol):
                    status, said = self.system.run(program, "ask", protocol, "--server", f"127.0.0.1:{ports[protocol]}", *question)
                    self.assertEqual(status, 0, said)
            status, said = self.system.run(program, "health", "--admin", f"127.0.0.1:{ports['admin']}")
            self.assertEqual(status, 0, said)
            return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


class Debian13Test(SystemTest):
    # libzstd-dev: OpenSSL's own need there, for the static program.
    PACKAGES = ("git", "make", "ca-certificates", "ccache", "libzstd-dev")

    def test_make_build_leaves_a_program_that_serves(self) -> None:
        with tempfile.TemporaryDirectory(prefix="sluice-ccache-") as cache:
            os.environ.setdefault("CCACHE_DIR", cache)
            Path(os.environ["CCACHE_DIR"]).mkdir(parents=True, exist_ok=True)
            (self.system.root / "ccache").mkdir()
            shutil.copyfile("/etc/resolv.conf", self.system.root / "etc/resolv.conf")  # for apt
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.system.root / "sluice")], check=True, timeout=SECONDS_MAX)
            for name, command in (("program", "make build"),
                                  ("static program", "cmake --build build/release --parallel ${JOBS:-$(nproc)} --target sluice_static")):
                status, said = self.system.run("sh", "-c", f"cd /sluice && {command}", seconds_max=BUILD_SECONDS_MAX)
                self.assertEqual(status, 0, f"{name}: {said[-5000:]}")
            self.expect_service("/sluice/build/release/sluice")
            self.assertNotIn(".so", self.expect_service("/sluice/build/release/dist/sluice"))


@unittest.skipUnless(STATIC.exists(), f"there is no {STATIC}")
class StaticTest(SystemTest):
    """Of a machine with modules of another C library and another OpenSSL, which a program built elsewhere must not load."""

    PACKAGES = ("libnss-myhostname", "openssl", "openssl-provider-legacy")

    def test_serves(self) -> None:
        self.assertNotIn(".so", self.expect_service("/static"))

    def test_loads_no_module_of_the_name_service(self) -> None:
        names = (self.system.root / "etc/nsswitch.conf").read_text(encoding="utf-8")
        self.assertRegex(names, r"(?m)^hosts: +files myhostname dns$")
        status, said = self.system.run("/static", "ask", "http", "--server", f"{UNKNOWN_HOST}:80", "health")
        self.assertEqual(status, 3, said)
        self.assertIn(f"cannot find the host `{UNKNOWN_HOST}`", said)

    def test_loads_no_provider_of_openssl(self) -> None:
        file = self.system.root / "etc/ssl/openssl.cnf"
        self.addCleanup(file.write_bytes, file.read_bytes())
        file.write_text(LEGACY, encoding="utf-8")
        _, said = self.system.run("openssl", "list", "-providers")
        self.assertIn("legacy", said)  # the machine's own program loads it
        with self.system.serve("/static", "--redis", "127.0.0.1:1", "--redis-tls") as (pid, _):
            self.assertNotIn(".so", Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"))


@unittest.skipUnless(STATIC.exists(), f"there is no {STATIC}")
class MuslTest(SystemTest):
    """The same in a root whose C library is musl."""

    VARIANT = "extract"
    PACKAGES = ("musl", "busybox-static")

    def test_serves(self) -> None:
        for name in ("dev", "proc", "tmp"):
            (self.system.root / name).mkdir(exist_ok=True)
        self.assertFalse(list(self.system.root.rglob("libc.so.6")))
        self.assertNotIn(".so", self.expect_service("/static"))


if __name__ == "__main__":
    unittest.main()
