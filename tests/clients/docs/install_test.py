"""docs/install.md: a release of this test's own is verified and installed by the page's commands, and the pages name the version
that CMakeLists.txt has. What needs root, a daemon or systemd is tried by deploy/smoke (every_command_test.py)."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
import unittest
from pathlib import Path

from manual import BINARY, ROOT, SECONDS_MAX, Manual

PAGE = "docs/install.md"
PROGRAM = "sluice-linux-amd64"
VERSIONED = ("README.md", PAGE)
NAMES = re.compile(r"sluice(?::|_|-|_limiter-)(\d+\.\d+\.\d+)")


def make_release(folder: Path) -> None:
    """The program, its sums, and their signature by a key that is thrown away."""
    shutil.copy(BINARY, folder / PROGRAM)
    (folder / PROGRAM).chmod(0o644)
    sums = subprocess.run(["sha256sum", PROGRAM], cwd=folder, check=True, capture_output=True, timeout=SECONDS_MAX).stdout
    (folder / "SHA256SUMS").write_bytes(sums + sums.replace(PROGRAM.encode(), b"sluice-oci.tar"))
    for command in (["genpkey", "-algorithm", "ed25519", "-out", "key.pem"],
                    ["pkey", "-in", "key.pem", "-pubout", "-out", "sluice-release.pub"],
                    ["pkeyutl", "-sign", "-inkey", "key.pem", "-rawin", "-in", "SHA256SUMS", "-out", "SHA256SUMS.sig"]):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True, timeout=SECONDS_MAX)


class InstallTest(unittest.TestCase):
    def test_verify(self) -> None:
        with Manual(self, PAGE, "## Verify") as manual:
            make_release(manual.folder)
            manual.follow()
            self.assertEqual(manual.commands, 2)
            signed, summed = (line[2:] for line in manual.lines if line.startswith("$ "))
            with (manual.folder / PROGRAM).open("ab") as program:  # another file than the release's
                program.write(b"x")
            self.assertNotEqual(manual.run(summed)[0], 0)
            with (manual.folder / "SHA256SUMS").open("a", encoding="utf-8") as sums:  # other sums than the signed ones
                sums.write("\n")
            self.assertNotEqual(manual.run(signed)[0], 0)

    def test_the_program(self) -> None:
        """As written, except for the folder, and for ports that other processes may have."""
        with Manual(self, PAGE, "## The program") as manual:
            make_release(manual.folder)
            (manual.folder / "bin/sluice").unlink()
            at = next(number for number, line in enumerate(manual.lines) if line.startswith("    install "))
            line = manual.lines.pop(at)
            here = line.replace("/usr/local/bin", f"{manual.folder}/bin")
            self.assertNotEqual(here, line)
            self.assertEqual(manual.run(here.strip())[0], 0)
            manual.follow()
            self.assertEqual((len(manual.servers), manual.commands), (1, 2))

    def test_the_tarball(self) -> None:
        """Typed twice, as for an upgrade; as written, except for folders."""
        with Manual(self, PAGE, "## The tarball") as manual:
            lines = [line.strip() for line in manual.lines if line.startswith("    ")]
            folder = re.search(r"sluice-[\d.]+(?=/)", "\n".join(lines))
            assert folder
            places = [manual.folder / place for place in ("usr/local/bin", "etc/systemd/system")]
            for place in places:
                place.mkdir(parents=True)
            config = manual.folder / "etc/sluice/sluice.yaml"
            for text in ("first", "second"):
                with tarfile.open(manual.folder / "sluice-linux-amd64.tar.gz", "w:gz") as archive:
                    for name in ("sluice", "sluice.yaml", "sluice.service", "sluice.socket"):
                        member = tarfile.TarInfo(f"{folder[0]}/{name}")
                        member.size = len(text)
                        archive.addfile(member, io.BytesIO(text.encode()))
                for line in lines:
                    self.assertEqual(manual.run(re.sub(r"(?<= )/(?=usr|etc)", f"{manual.folder}/", line))[0], 0, line)
                there = {path.name: path.read_text(encoding="utf-8") for place in places for path in place.iterdir()}
                self.assertEqual(there, dict.fromkeys(("sluice", "sluice.service", "sluice.socket"), text))
                self.assertEqual(config.read_text(encoding="utf-8"), "first")
            self.assertEqual((places[0] / "sluice").stat().st_mode & 0o777, 0o755)

    def test_pages_name_this_version(self) -> None:
        [version] = re.findall(r"^project\(sluice VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)
        for page in VERSIONED:
            named = NAMES.findall((ROOT / page).read_text(encoding="utf-8"))
            self.assertGreater(len(named), 1, page)
            self.assertEqual(set(named), {version}, page)
        texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
        self.assertEqual(set(re.findall(r"^sluice (\d\S+) at ", "\n".join(texts), re.MULTILINE)), {version})


if __name__ == "__main__":
    unittest.main()
