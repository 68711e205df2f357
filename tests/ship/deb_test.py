#!/usr/bin/env python3
"""The package in fresh systems of Debian 12 and 13, which mmdebstrap makes once in build/ship: installed, upgraded, removed and
purged. Takes root, the network for the first run, and some minutes.

    SLUICE_DIST=dist python3 -m unittest discover -s tests/ship -p deb_test.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = Path(os.environ.get("SLUICE_DIST") or ROOT / "dist").resolve()
KEPT = ROOT / "build/ship"
UNITS = ("usr/lib/systemd/system/sluice.service", "usr/lib/systemd/system/sluice.socket")
# Recorded in place of systemd, which does not run in a chroot: the service is active, and every call is a line.
RECORDER = """#!/bin/sh
echo "$(basename "$0") $*" >>/calls
"""


def package() -> Path:
    found = sorted(DIST.glob("sluice_*_amd64.deb"))
    if not found:
        raise unittest.SkipTest(f"there is no sluice_*_amd64.deb in {DIST}: make dist")
    return found[0]


def sources() -> str | None:
    """The address of this machine's Debian mirror."""
    texts = [path.read_text(encoding="utf-8") for folder in (Path("/etc/apt"), Path("/etc/apt/sources.list.d"))
             for path in sorted(folder.glob("*.sources")) + sorted(folder.glob("*.list"))]
    found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) +(\S+)(?= +bookworm |\nSuites: *bookworm)", "\n".join(texts), re.MULTILINE)
    return found[1] if found else None


def system(suite: str) -> Path:
    """The archive of a fresh system, made if it is not there."""
    path = KEPT / f"{suite}.tar"
    mirror = sources()
    if os.geteuid() != 0:
        raise unittest.SkipTest("this takes root")
    if not path.exists():
        if not shutil.which("mmdebstrap") or not mirror:
            raise unittest.SkipTest("mmdebstrap is not installed, or apt has no source of Debian 12")
        KEPT.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.tar")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", suite, str(fresh),
                        f"deb {mirror} {suite} main"], check=True, timeout=1200, stdin=subprocess.DEVNULL)
        fresh.rename(path)
    return path


class Systems:
    """The tests of one suite of Debian; the order of the steps is that of a package's life."""

    suite: str

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="sluice-deb-")
        self.addCleanup(scratch.cleanup)
        self.deb = package()
        self.root = Path(scratch.name) / "root"
        self.root.mkdir()
        subprocess.run(["tar", "-xf", system(self.suite), "-C", self.root, "--exclude=./dev/*"], check=True)
        (self.root / "dev/null").touch()
        shutil.copy(self.deb, self.root / "sluice.deb")

    def inside(self, *command: str, status: int | None = 0) -> str:
        """What a command in the system writes."""
        clean = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                 "LC_ALL": "C"}
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", str(self.root), *command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean,
                              timeout=120, check=False)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def newer(self) -> None:
        """Leaves the package once more, with a later version, as newer.deb."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "--raw-extract", self.deb, f"{folder}/x"], check=True)
            control = Path(folder) / "x/DEBIAN/control"
            text, changes = re.subn(r"^Version: .*$", "Version: 99.0-1", control.read_text(encoding="utf-8"), flags=re.MULTILINE)
            self.assertEqual(changes, 1)
            control.write_text(text, encoding="utf-8")
            subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", f"{folder}/x", self.root / "newer.deb"],
                           check=True, stdout=subprocess.DEVNULL)

    def left(self) -> list[str]:
        """The paths with the package's name."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*sluice*")
                      if not path.is_relative_to(self.root / "proc") and path.name != "sluice.deb")

    def test_from_installation_to_purge(self) -> None:
        version = self.deb.name.split("_")[1]
        self.inside("dpkg", "--install", "/sluice.deb")
        self.assertEqual(self.inside("sluice", "--version").split()[:2], ["sluice", version.rsplit("-", 1)[0]])
        self.assertIn("ok", self.inside("sluice", "check", "/etc/sluice/sluice.yaml"))
        for unit in UNITS:
            self.assertTrue((self.root / unit).is_file(), unit)
        self.assertEqual(list(self.root.glob("etc/systemd/system/**/sluice*")), [], "a unit is enabled")

        edited = self.root / "etc/sluice/sluice.yaml"
        edited.write_text(edited.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
        self.newer()
        self.inside("dpkg", "--install", "/newer.deb")
        self.assertTrue(edited.read_text(encoding="utf-8").endswith("# mine\n"))
        self.assertIn("99.0-1", self.inside("dpkg-query", "--show", "sluice"))

        counters = self.root / "var/lib/private/sluice/store"
        counters.mkdir(parents=True)
        secrets = self.root / "etc/sluice/environment"
        secrets.touch()
        self.inside("dpkg", "--remove", "sluice")
        self.assertFalse((self.root / "usr/bin/sluice").exists())
        self.assertTrue(edited.exists() and counters.exists() and secrets.exists(), "a removal took what is the owner's")
        self.inside("dpkg", "--purge", "sluice")
        self.assertEqual(self.left(), [])

    def test_a_purge_leaves_files_that_are_not_of_the_service(self) -> None:
        self.inside("dpkg", "--install", "/sluice.deb")
        rules = self.root / "etc/sluice/rules.ini"
        rules.touch()
        self.inside("dpkg", "--purge", "sluice")
        self.assertEqual(list((self.root / "etc/sluice").iterdir()), [rules])

    def test_an_upgrade_restarts_the_service_and_a_removal_stops_it(self) -> None:
        self.inside("dpkg", "--install", "/sluice.deb")
        (self.root / "run/systemd/system").mkdir(parents=True)
        for name in ("systemctl", "deb-systemd-invoke"):
            tool = self.root / "usr/local/bin" / name
            tool.write_text(RECORDER, encoding="utf-8")
            tool.chmod(0o755)
        calls = self.root / "calls"
        self.newer()
        self.inside("dpkg", "--install", "/newer.deb")
        said = calls.read_text(encoding="utf-8").splitlines()
        self.assertIn("deb-systemd-invoke restart sluice.service", said)
        self.assertFalse([line for line in said if " stop " in line or " enable " in line], "an upgrade stops or enables nothing")
        calls.unlink()
        self.inside("dpkg", "--remove", "sluice")
        self.assertIn("deb-systemd-invoke stop sluice.socket sluice.service", calls.read_text(encoding="utf-8").splitlines())

    def test_an_installation_starts_nothing(self) -> None:
        (self.root / "run/systemd/system").mkdir(parents=True)
        tool = self.root / "usr/local/bin/systemctl"
        tool.write_text(RECORDER, encoding="utf-8")
        tool.chmod(0o755)
        self.inside("dpkg", "--install", "/sluice.deb")
        self.assertEqual((self.root / "calls").read_text(encoding="utf-8").splitlines(), ["systemctl --system daemon-reload"])


class Debian12(Systems, unittest.TestCase):
    suite = "bookworm"


class Debian13(Systems, unittest.TestCase):
    suite = "trixie"


class Lintian(unittest.TestCase):
    def test_finds_nothing(self) -> None:
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning,info", package()], check=False,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
