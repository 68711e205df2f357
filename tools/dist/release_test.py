"""The folder dist/: sums, modes, and no half of it; and the lock between what is packed and its version."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import __main__ as release


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_is_what_sha256sum_says(self) -> None:
        into = self.folder / "dist"
        release.leave({"old": b"1"}, into)
        release.leave({"b": b"\x7fELF", "a.txt": b"2"}, into)
        self.assertEqual(sorted(path.name for path in into.iterdir()), ["SHA256SUMS", "a.txt", "b"])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["dist"])
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=into, check=True)
        self.assertEqual([line.split()[1] for line in (into / "SHA256SUMS").read_text(encoding="utf-8").splitlines()], ["a.txt", "b"])
        self.assertEqual([(into / name).stat().st_mode & 0o777 for name in ("b", "a.txt")], [0o755, 0o644])

    def test_a_program_that_is_missing_leaves_the_old_one(self) -> None:
        into = self.folder / "dist"
        release.leave({"old": b"1"}, into)
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            status = release.main(["--only", "amd64", "--into", str(into), "--amd64", str(self.folder)])
        self.assertEqual(status, 1)
        self.assertIn("sluice", said.getvalue())
        self.assertTrue((into / "old").exists())

    def test_a_program_that_is_not_static_is_refused(self) -> None:
        (self.folder / "sluice").write_bytes(Path("/bin/true").read_bytes())
        with self.assertRaises(release.Refused):
            release.read_built("amd64", self.folder)


class Versions(unittest.TestCase):
    def test_of_chart_and_compose_file_have_to_be_the_program_s(self) -> None:
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(release, "ROOT", Path(folder)):
            top = Path(folder) / "deploy/chart/sluice"
            top.mkdir(parents=True)
            (top / "Chart.yaml").write_text('name: sluice\nversion: 1.2.3\nappVersion: "1.2.3"\n', encoding="utf-8")
            (Path(folder) / "deploy/compose.yaml").write_text("    image: sluice:1.2.3\n", encoding="utf-8")
            self.assertTrue(release.chart("1.2.3", 0))
            self.assertEqual(list(release.compose("1.2.3")), ["compose.yaml"])
            for one in (release.chart, release.compose):
                with self.assertRaises(release.Refused):
                    one("1.2.4", *([0] if one is release.chart else []))


if __name__ == "__main__":
    unittest.main()
