"""Archives: the same bytes for the same content, in the forms that other programs read."""

from __future__ import annotations

import io
import random
import subprocess
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

from . import archive

EPOCH = 1_700_000_001
ENTRIES = [archive.file("b/program", b"\x7fELF", 0o755), archive.file("a", "text\n"), archive.link("b/other", "program"),
           archive.folder("var/own", 0o700, 65532), archive.file("b-c", b"")]


class Tar(unittest.TestCase):
    def test_the_order_of_the_entries_does_not_matter(self) -> None:
        shuffled = ENTRIES[:]
        random.Random(1).shuffle(shuffled)
        self.assertNotEqual(shuffled, ENTRIES)
        self.assertEqual(archive.tar(shuffled, EPOCH), archive.tar(ENTRIES, EPOCH))

    def test_has_what_was_put_in_with_the_one_time_and_owner(self) -> None:
        with tarfile.open(fileobj=io.BytesIO(archive.tar(ENTRIES, EPOCH))) as read:
            members = {member.name: member for member in read}
            self.assertEqual(list(members), ["a", "b", "b-c", "b/other", "b/program", "var", "var/own"])
            self.assertEqual({member.mtime for member in members.values()}, {EPOCH})
            self.assertEqual({(member.uid, member.gid, member.uname) for name, member in members.items() if name != "var/own"},
                             {(0, 0, "")})
            self.assertEqual((members["var/own"].uid, members["var/own"].mode), (65532, 0o700))
            self.assertEqual(members["b/program"].mode, 0o755)
            self.assertEqual(members["b/other"].linkname, "program")
            self.assertEqual(read.extractfile("a").read(), b"text\n")  # type: ignore[union-attr]
            self.assertTrue(members["b"].isdir())

    def test_a_root_is_before_every_path_and_an_entry(self) -> None:
        with tarfile.open(fileobj=io.BytesIO(archive.tar([archive.file("a", b"")], EPOCH, "./"))) as read:
            self.assertEqual([member.path for member in read], [".", "./a"])

    def test_a_path_twice_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            archive.tar([archive.file("a", b""), archive.file("a", b"")], EPOCH)

    def test_is_ustar(self) -> None:
        self.assertEqual(archive.tar(ENTRIES, EPOCH)[257:263], b"ustar\0")


class Others(unittest.TestCase):
    def test_gzip_has_no_time(self) -> None:
        self.assertEqual(archive.gz(b"x")[4:8], b"\0\0\0\0")

    def test_ar_is_read_by_ar(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.a"
            path.write_bytes(archive.ar([("odd", b"abc"), ("even", b"abcd")], EPOCH))
            self.assertEqual(subprocess.check_output(["ar", "t", path]).split(), [b"odd", b"even"])
            self.assertEqual(subprocess.check_output(["ar", "p", path, "even"]), b"abcd")

    def test_zip_keeps_the_order_and_the_time(self) -> None:
        with zipfile.ZipFile(io.BytesIO(archive.zipped([("b", b"1"), ("a", b"2")], EPOCH))) as read:
            self.assertEqual(read.namelist(), ["b", "a"])
            self.assertEqual(read.read("a"), b"2")
            self.assertEqual({info.date_time for info in read.infolist()}, {(2023, 11, 14, 22, 13, 20)})


if __name__ == "__main__":
    unittest.main()
