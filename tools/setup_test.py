"""Tests of scripts/setup: what it installs, and where it installs nothing.

It runs in a mount namespace with another /etc/os-release, and finds stand-ins alone in its PATH: a dpkg-query that knows
the packages of a list, and an apt-get that writes down what it is asked. Nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 60
NAMESPACE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
IN_SYSTEM = 'mount --bind "$1" "$(readlink -f /etc/os-release)" && PATH=$2 exec "$3" "$4"'
PROGRAMS_OF_SETUP = ("bash", "cat", "env", "mktemp", "rm")

DPKG_QUERY = """#!/usr/bin/env bash
for name; do
  if [[ $name != -* && " $(<{folder}/installed) " == *" $name "* ]]; then printf '%s installed\\n' "$name"; fi
done
exit 1  # as for an unknown package
"""
APT_GET = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>{folder}/asked
"""
DEBIAN_12, DEBIAN_13, UBUNTU = ("debian", "12"), ("debian", "13"), ("ubuntu", "24.04")


def packages(goal: str) -> set[str]:
    """The packages of a goal by the script's table."""
    groups = {"run": ("run|",), "test": ("run|", "test|")}[goal]
    lines = (ROOT / "scripts/setup").read_text(encoding="utf-8").splitlines()
    return {line.split("|")[1] for line in lines if line.startswith(groups)}


class SetupTest(unittest.TestCase):
    def setUp(self) -> None:
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        for name in PROGRAMS_OF_SETUP:
            (self.programs / name).symlink_to(shutil.which(name) or self.fail(f"there is no {name}"))
        tried = subprocess.run([*NAMESPACE, "bash", "-c", IN_SYSTEM, "-", "/dev/null", "/usr/bin:/bin", "env", "true"],
                               capture_output=True, text=True, timeout=SECONDS_MAX)
        if tried.returncode != 0:
            self.skipTest(f"no mount namespace here: {tried.stderr.strip()}")

    def put(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text.replace("{folder}", str(self.folder)), encoding="utf-8")
        (self.programs / name).chmod(0o755)

    def setup_on(self, system: tuple[str, str], goal: str, installed: Iterable[str] | None) -> tuple[int, str, str]:
        """Status and output of the script, and the packages that it had apt-get install. Without a list of what is
        installed there is neither dpkg nor apt-get."""
        (self.folder / "os-release").write_text('ID={}\nVERSION_ID="{}"\n'.format(*system), encoding="utf-8")
        if installed is not None:
            (self.folder / "installed").write_text(" ".join(installed), encoding="utf-8")
            self.put("dpkg-query", DPKG_QUERY)
            self.put("apt-get", APT_GET)
        asked = self.folder / "asked"
        asked.unlink(missing_ok=True)
        done = subprocess.run(
            [*NAMESPACE, "bash", "-c", IN_SYSTEM, "-", str(self.folder / "os-release"), str(self.programs),
             str(ROOT / "scripts/setup"), goal],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
        lines = asked.read_text(encoding="utf-8").splitlines() if asked.exists() else []
        return done.returncode, done.stdout, " ".join(line.split("--no-install-recommends ")[-1] for line in lines[1:])

    def test_what_is_missing_is_installed(self) -> None:
        for system in (DEBIAN_12, DEBIAN_13, UBUNTU):
            with self.subTest(system=system):
                status, said, asked = self.setup_on(system, "run", packages("run") - {"libcli11-dev"})
                self.assertEqual((status, asked), (0, "libcli11-dev"), said)

    def test_nothing_is_asked_for_where_nothing_is_missing(self) -> None:
        for system in (DEBIAN_12, DEBIAN_13, UBUNTU, ("mint", "22")):
            with self.subTest(system=system):
                status, said, asked = self.setup_on(system, "run", packages("run"))
                self.assertEqual((status, said, asked), (0, "setup: all packages for 'run' are installed\n", ""))

    def test_another_system_is_told_what_is_missing_and_goes_on(self) -> None:
        status, said, asked = self.setup_on(("debian", "11"), "run", packages("run") - {"libcli11-dev"})
        self.assertEqual((status, asked), (0, ""), said)
        self.assertIn("(debian 11)", said)
        self.assertIn("missing here: libcli11-dev\n", said)
        self.assertIn("docs/install.md", said)

    def test_without_dpkg_all_packages_are_named(self) -> None:
        status, said, _ = self.setup_on(("fedora", "42"), "run", None)
        self.assertEqual(status, 0, said)
        self.assertLessEqual(packages("run"), set(said.split()))

    def test_the_tests_take_debian_12(self) -> None:
        for system in (DEBIAN_13, UBUNTU):
            with self.subTest(system=system):
                status, said, asked = self.setup_on(system, "test", packages("test") - {"clang-14"})
                self.assertEqual((status, asked), (1, ""), said)
                self.assertIn("'test' takes Debian 12", said)
        status, said, asked = self.setup_on(DEBIAN_12, "test", packages("test") - {"clang-14"})
        self.assertEqual((status, asked.split()[0]), (0, "clang-14"), said)


if __name__ == "__main__":
    unittest.main()
