"""The Debian package: what dpkg reads of it, and its scripts."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from . import package
from .image import DEPLOY

EPOCH = 1_700_000_001
TEXTS = {"LICENSE": (DEPLOY.parent / "LICENSE").read_bytes(), "THIRD-PARTY-LICENSES": b"text"}


def example() -> bytes:
    entries = package.contents(b"\x7fELF", {"sluice.1": b".TH"}, {"bash": b"b", "zsh": b"z", "fish": b"f"},
                               {"sluice.service": b"[Unit]\n"}, b"rules:\n", TEXTS, "1.2.3", EPOCH)
    return package.deb(entries, "1.2.3", "amd64", EPOCH)


class Deb(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.path = self.folder / package.name("1.2.3", "amd64")
        self.path.write_bytes(example())

    def dpkg_deb(self, *words: str) -> str:
        return subprocess.run(["dpkg-deb", *words], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def test_dpkg_reads_its_fields(self) -> None:
        said = self.dpkg_deb("--show", "--showformat=${Package} ${Version} ${Architecture} [${Depends}] ${Installed-Size}", self.path.name)
        fields = said.split()
        self.assertEqual(fields[:4], ["sluice", "1.2.3-1", "amd64", "[]"])
        self.assertGreater(int(fields[4]), 10)

    def test_every_file_of_etc_is_a_conffile_and_every_other_has_its_sum(self) -> None:
        self.dpkg_deb("--raw-extract", self.path.name, "out")
        root = self.folder / "out"
        files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        files = {path for path in files if not path.startswith("DEBIAN/")}
        conffiles = {line[1:] for line in (root / "DEBIAN/conffiles").read_text(encoding="utf-8").splitlines()}
        self.assertEqual(conffiles, {"etc/default/sluice", "etc/sluice/sluice.yaml"})
        sums = dict(line.split("  ")[::-1] for line in (root / "DEBIAN/md5sums").read_text(encoding="utf-8").splitlines())
        self.assertEqual(set(sums), files - conffiles)
        for path, digest in sums.items():
            self.assertEqual(hashlib.md5((root / path).read_bytes()).hexdigest(), digest)
        self.assertEqual((root / "usr/bin/sluice").stat().st_mode & 0o777, 0o755)

    def test_belongs_to_root_and_to_no_one_else(self) -> None:
        owners = {line.split()[1] for line in self.dpkg_deb("--contents", self.path.name).splitlines()}
        self.assertEqual(owners, {"root/root"} if "root/root" in owners else {"0/0"})

    def test_the_same_bytes_twice(self) -> None:
        self.assertEqual(example(), self.path.read_bytes())

    def test_its_scripts_are_for_sh(self) -> None:
        for name in ("postinst", "prerm", "postrm"):
            subprocess.run(["sh", "-n", package.DEBIAN / name], check=True)

    def test_without_systemd_a_removal_does_nothing_and_a_purge_forgets_counters_and_secrets(self) -> None:
        script = (package.DEBIAN / "postrm").read_text(encoding="utf-8")
        here = script.replace("/run/systemd", f"{self.folder}/none")
        for place in ("/var/lib", "/etc/sluice"):
            here = here.replace(place, f"{self.folder}{place}")
        tools, kept, gone = self.folder / "bin", self.folder / "var/lib/other", self.folder / "var/lib/private/sluice/store"
        settings = self.folder / "etc/sluice"
        for path in (tools, kept, gone, settings):
            path.mkdir(parents=True)
        secrets, rules = settings / "environment", settings / "rules.ini"
        secrets.touch()
        rules.touch()
        for name in ("rm", "rmdir"):
            (tools / name).symlink_to(shutil.which(name) or "")  # and none of this machine's deb-systemd-helper
        for word in ("remove", "purge"):
            self.assertTrue(gone.exists() and secrets.exists())
            subprocess.run(["/bin/sh", "-c", here, "postrm", word], check=True, env={"PATH": str(tools)})
        self.assertFalse(gone.exists() or secrets.exists())
        self.assertTrue(kept.exists() and rules.exists())
        rules.unlink()
        subprocess.run(["/bin/sh", "-c", here, "postrm", "purge"], check=True, env={"PATH": str(tools)})
        self.assertFalse(settings.exists())


if __name__ == "__main__":
    unittest.main()
