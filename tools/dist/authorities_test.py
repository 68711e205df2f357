"""The bundle of certificates: all of the package, and nothing of this machine."""

from __future__ import annotations

import hashlib
import ssl
import tempfile
import unittest
from pathlib import Path

from . import authorities


class Bundle(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        (self.root / authorities.FOLDER).mkdir(parents=True)

    def write(self, name: str, text: str) -> str:
        """Returns its line of the package's sums."""
        path = self.root / authorities.FOLDER / name
        path.write_text(text, encoding="utf-8")
        return f"{hashlib.md5(text.encode()).hexdigest()}  {authorities.FOLDER}{name}\n"

    def test_has_the_files_of_the_package_in_order_and_no_other(self) -> None:
        sums = self.write("b.crt", "2\n") + self.write("a.crt", "1") + f"{'0' * 32}  usr/sbin/update-ca-certificates\n"
        self.write("private.crt", "of this machine\n")
        self.assertEqual(authorities.of(sums, self.root), b"1\n2\n")

    def test_a_changed_file_is_an_error(self) -> None:
        sums = self.write("a.crt", "1\n")
        self.write("a.crt", "another\n")
        with self.assertRaisesRegex(ValueError, "a.crt is not the file of the package"):
            authorities.of(sums, self.root)

    def test_no_file_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "no certificate"):
            authorities.of("", self.root)

    def test_openssl_reads_each_certificate_of_this_machine_s_package(self) -> None:
        text = authorities.bundle().decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=text)
        self.assertEqual(len(context.get_ca_certs()), text.count("BEGIN CERTIFICATE"))
        self.assertGreater(text.count("BEGIN CERTIFICATE"), 100)


if __name__ == "__main__":
    unittest.main()
