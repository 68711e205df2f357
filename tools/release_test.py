"""Tests of scripts/release in a small repository of their own, whose `make dist` leaves a program, files with the names of the
others, and the sums of all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 60
MAKEFILE = """.PHONY: dist
dist:
\t@test ! -e dist -a ! -e build/release/dist -a ! -e build/arm64/dist
\t@test '$(ARGS)' = --strict -a -z "$$SOURCE_DATE_EPOCH"
\t@mkdir -p dist
\t@printf '#!/bin/sh\\necho sluice %s\\n' '{version}' >dist/sluice-linux-amd64
\t@chmod 755 dist/sluice-linux-amd64
\t@cd dist && touch {others}
\t@cd dist && sha256sum * >SHA256SUMS
"""
OTHERS = (
    "compose.yaml compose-envoy.yaml compose-sluice.yaml kubernetes-disk.yaml kubernetes-redis.yaml sluice-1.2.3.tgz "
    "sluice-linux-amd64.tar.gz sluice-linux-arm64 sluice-linux-arm64.tar.gz sluice-oci.tar sluice.cdx.json "
    "sluice_1.2.3-1_amd64.deb sluice_1.2.3-1_arm64.deb sluice_limiter-1.2.3-py3-none-manylinux_2_34_x86_64.whl "
    "sluice_limiter-1.2.3-py3-none-manylinux_2_36_aarch64.whl")
FILES = {
    "CMakeLists.txt": "project(sluice VERSION 1.2.3 LANGUAGES CXX)\n",
    "CHANGELOG.md": "# Changelog\n\n## [1.2.3] - 2026-11-29\n\n- A change.\n\n## [1.2.2] - 2026-01-02\n",
    "deploy/chart/sluice/Chart.yaml": 'name: sluice\nversion: 1.2.3\nappVersion: "1.2.3"\n',
    "README.md": "docker run sluice:1.2.3\n",
    "docs/install.md": "dpkg -i sluice_1.2.3-1_amd64.deb\n",
    ".gitignore": "/dist/\n/build/\n",
    "Makefile": MAKEFILE.format(version="1.2.3", others=OTHERS),
    "deploy/smoke": "#!/bin/sh\ncd dist && sha256sum --check --quiet SHA256SUMS && echo all of it starts\n",
}
ENVIRONMENT = {**os.environ, **{f"GIT_{who}_{what}": "release-test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
               "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)


class ReleaseTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory(prefix="sluice-release-")
        self.addCleanup(place.cleanup)
        self.tree, self.key = Path(place.name) / "tree", Path(place.name) / "key.pem"
        for name, text in FILES.items():
            self.write(name, text)
        (self.tree / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/release", self.tree / "scripts/release")
        self.succeed(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(self.key)])
        self.succeed(["git", "init", "-q"])
        self.commit()

    def write(self, name: str, text: str) -> None:
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text, encoding="utf-8")
        (self.tree / name).chmod(0o755 if text.startswith("#!") else 0o644)

    def succeed(self, command: list[str], folder: str = "") -> str:
        done = run(command, self.tree / folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def commit(self) -> None:
        self.succeed(["git", "add", "."])
        self.succeed(["git", "commit", "-q", "-m", "a commit"])

    def release(self, key: Path | None = None) -> subprocess.CompletedProcess[str]:
        return run(["scripts/release", "--key", str(key or self.key)], self.tree)

    def assert_refused(self, reason: str, key: Path | None = None) -> None:
        done = self.release(key)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"release: {reason}", done.stdout)
        self.assertEqual(self.succeed(["git", "tag", "--list", "v1.2.3"]), "")

    def test_a_release_is_signed_and_tagged(self) -> None:
        for folder in ("dist", "build/release/dist", "build/arm64/dist"):
            self.write(f"{folder}/sluice", "of another commit")
        with mock.patch.dict(ENVIRONMENT, {"ARGS": "--only amd64", "SOURCE_DATE_EPOCH": "1"}):
            done = self.release()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("\nall of it starts\n", done.stdout)
        self.assertEqual(self.succeed(["git", "rev-parse", "v1.2.3^{commit}"]), self.succeed(["git", "rev-parse", "HEAD"]))
        # The commands of the page, which a user types.
        verify, check = re.findall(r"^\$ ((?:openssl|sha256sum) .*)$", (ROOT / "docs/install.md").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(self.succeed(verify.split(), "dist"), "Signature Verified Successfully\n")
        self.assertEqual(self.succeed(check.split(), "dist").count(": OK\n"), len(OTHERS.split()) + 1)
        self.assertNotIn("PRIVATE", "".join(path.read_text(encoding="latin-1") for path in (self.tree / "dist").iterdir()))
        again = self.release()
        self.assertEqual((again.returncode, again.stdout), (1, "release: the tag v1.2.3 exists\n"))

    def test_a_changed_or_new_file_is_refused(self) -> None:
        for name in ("README.md", "new.txt"):
            with self.subTest(name=name):
                self.write(name, FILES.get(name, "") + "more\n")
                self.assert_refused("the tree is not clean")
                self.assertFalse((self.tree / "dist").exists())
                self.commit()

    def test_only_a_key_outside_the_tree_is_taken(self) -> None:
        inside = self.tree / "dist/key.pem"  # which git ignores
        inside.parent.mkdir()
        shutil.copy(self.key, inside)
        self.assert_refused(f"the key {inside} is inside the tree", inside)
        link = self.key.with_name("link.pem")
        link.symlink_to(inside)
        self.assert_refused(f"the key {link} is inside the tree", link)
        self.assert_refused("there is no key /nowhere", Path("/nowhere"))
        public, rsa = self.key.with_name("public.pem"), self.key.with_name("rsa.pem")
        self.succeed(["openssl", "pkey", "-in", str(self.key), "-pubout", "-out", str(public)])
        self.succeed(["openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-out", str(rsa)])
        for other in (public, rsa):
            self.assert_refused(f"{other} is not a private key for ed25519", other)
        self.assertEqual(run(["scripts/release"], self.tree).returncode, 2)

    def test_what_does_not_start_is_not_signed(self) -> None:
        self.write("deploy/smoke", "#!/bin/sh\nexit 1\n")
        self.commit()
        self.assertEqual(self.release().returncode, 1)
        self.assertFalse((self.tree / "dist/SHA256SUMS.sig").exists())
        self.assertEqual(self.succeed(["git", "tag", "--list", "v1.2.3"]), "")

    def test_each_place_must_have_the_version(self) -> None:
        for name, old, new, reason in (
            ("CMakeLists.txt", "1.2.3", "1.2.4", "the latest section of CHANGELOG.md is `[1.2.3] - 2026-11-29`"),
            ("CHANGELOG.md", "[1.2.3] - 2026-11-29", "[1.2.3] - unreleased", "the latest section of CHANGELOG.md is `[1.2.3] - unreleased`"),
            ("deploy/chart/sluice/Chart.yaml", "version: 1.2.3", "version: 1.2.2", "version of deploy/chart/sluice/Chart.yaml is `1.2.2`"),
            ("deploy/chart/sluice/Chart.yaml", '"1.2.3"', '"1.2.2"', "appVersion of deploy/chart/sluice/Chart.yaml is `1.2.2`"),
            ("README.md", "1.2.3", "11.2.3", "README.md names another version than 1.2.3: sluice:11.2.3"),
            ("docs/install.md", "1.2.3", "1.2.2", "docs/install.md names another version than 1.2.3: sluice_1.2.2"),
            ("Makefile", "'1.2.3'", "'1.2.2'", "dist/sluice-linux-amd64 is `sluice 1.2.2`"),
            ("Makefile", "@mkdir", "@touch left-over; mkdir", "make dist changed the tree"),
            ("Makefile", "sluice_1.2.3-1_arm64.deb", "more", "dist/ has not the files of a release:"),
        ):
            with self.subTest(name=name, reason=reason):
                self.assertIn(old, FILES[name])
                self.write(name, FILES[name].replace(old, new))
                self.commit()
                self.assert_refused(reason)
                self.write(name, FILES[name])
                (self.tree / "left-over").unlink(missing_ok=True)
                self.commit()


if __name__ == "__main__":
    unittest.main()
