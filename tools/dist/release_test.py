"""The folder dist/: sums, modes, and no half of it; what is packed of a checkout, and the lock between that and its version."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import __main__ as release, parts, tree


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


class Parts(unittest.TestCase):
    def test_that_differ_or_are_not_the_latest_are_told_and_refused_in_a_release(self) -> None:
        same = {"amd64": {parts.Part("zlib", "1")}, "arm64": {parts.Part("zlib", "1")}}
        other = {**same, "arm64": {parts.Part("zlib", "2")}}
        for by_architecture, upgrades, told in ((same, [], ""), (other, [], "differ: zlib: 1 for amd64, 2 for arm64"),
                                                (same, ["libz: 1, and apt has 2"], "not the latest: libz")):
            with self.subTest(told), mock.patch.object(parts, "outdated", return_value=upgrades):
                for lists in (None, Path("lists")):
                    with contextlib.redirect_stderr(io.StringIO()) as said, \
                            self.assertRaises(release.Refused) if told and lists else contextlib.nullcontext():
                        release.judge_parts(by_architecture, {"libz"}, lists)
                    self.assertIn(told, said.getvalue())


class Checkout(unittest.TestCase):
    """A small one, with a commit of all its files."""

    FILES = {
        "README.md": "[pages](docs/a.md#x), [elsewhere](https://example.org/), [example](examples/one)\n",
        "docs/a.md": "[back](../README.md), [picture](b.svg)\n```\n[no](link.md)\n```\n",
        "docs/b.svg": "<svg/>",
        "docs/c.md": "nothing leads here\n",
        "examples/one/x": "1",
        "deploy/chart/sluice/Chart.yaml": 'name: sluice\nversion: 1.2.3\nappVersion: "1.2.3"\n',
        "deploy/compose.yaml": "    image: sluice:1.2.3\n",
    }

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name).resolve()
        patched = mock.patch.object(release, "ROOT", self.root)
        patched.start()
        self.addCleanup(patched.stop)
        for name, text in self.FILES.items():
            self.write(name, text)
        for words in (["init", "--quiet"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "-m", "a"]):
            subprocess.run(["git", *words], cwd=self.root, check=True)

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def test_the_versions_of_chart_and_compose_file_have_to_be_the_program_s(self) -> None:
        self.assertTrue(release.chart("1.2.3", 0))
        self.assertEqual(list(release.compose("1.2.3")), ["compose.yaml"])
        for one in (release.chart, release.compose):
            with self.assertRaises(release.Refused):
                one("1.2.4", *([0] if one is release.chart else []))

    def test_a_file_beside_the_commit_is_not_packed_and_marks_the_revision(self) -> None:
        clean, revision = release.chart("1.2.3", 0), release.commit()[0]
        self.assertRegex(revision, "^[0-9a-f]{40}$")
        self.write("notes.txt", "where nothing is packed")
        self.assertEqual(release.commit()[0], revision)
        self.write("deploy/chart/sluice/templates/draft.yaml", "kind: Draft\n")
        self.assertEqual(release.chart("1.2.3", 0), clean)
        self.assertEqual(release.commit()[0], f"{revision}-modified")
        (self.root / "deploy/chart/sluice/templates/draft.yaml").unlink()
        self.write("README.md", "changed\n")
        self.assertEqual(release.commit()[0], f"{revision}-modified")

    def test_the_guide_is_what_the_links_lead_to(self) -> None:
        guide = tree.linked(self.root, "README.md")
        self.assertEqual(set(guide), {"README.md", "docs/a.md", "docs/b.svg", "examples/one/x"})
        self.write("README.md", "[gone](docs/d.md)\n")
        with self.assertRaisesRegex(ValueError, "docs/d.md"):
            tree.linked(self.root, "README.md")


class Guide(unittest.TestCase):
    def test_files_that_the_pages_use_lie_together_as_in_the_checkout(self) -> None:
        guide = tree.linked(release.ROOT, "README.md")
        for pattern in ("deploy/compose*.yaml", "deploy/kubernetes/*.yaml", "examples/*/*.yaml", "examples/example-config.ini"):
            files = {path.relative_to(release.ROOT).as_posix() for path in release.ROOT.glob(pattern)}
            self.assertTrue(files and files <= set(guide), pattern)


if __name__ == "__main__":
    unittest.main()
