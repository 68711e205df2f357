"""The Python package, and what is read of libraries and programs: with libraries that the compiler makes here."""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import re
import subprocess
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path

from . import elf, wheel
from .wheel import MACHINES

EPOCH = 1_700_000_001
HERE = {machine: name for name, machine in MACHINES.items()}[platform.machine()]
VERSION = tomllib.loads((wheel.BINDING / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def library(folder: Path, text: str, *flags: str) -> bytes:
    (folder / "x.c").write_text(text, encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostartfiles", "x.c", "-o", "x.so", *flags], cwd=folder, check=True)
    return (folder / "x.so").read_bytes()


class OfLibraries(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_facts_are_those_of_readelf(self) -> None:
        data = library(self.folder, "#include <stdlib.h>\n#include <math.h>\ndouble sluice_x(double x) { return x > 1 ? pow(x, x) : "
                                    "atof(getenv(\"x\")); }\n", "-lm")
        facts = elf.read(data)
        said = subprocess.run(["readelf", "--wide", "-d", "-V", "--dyn-syms", "x.so"], cwd=self.folder, check=True,
                              capture_output=True, text=True).stdout
        self.assertEqual(facts.needed, set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)))
        self.assertEqual(facts.versions, set(re.findall(r"Name: (\S+)  Flags", said)))
        self.assertEqual(facts.exports, {"sluice_x"})
        self.assertFalse(facts.stripped)
        self.assertGreaterEqual(len(facts.versions), 2)

    def test_tells_a_static_program_from_another(self) -> None:
        (self.folder / "m.c").write_text("int main() { return 0; }\n", encoding="utf-8")
        for flags, static, stripped in ((["-static-pie", "-s"], True, True), (["-static"], True, False), ([], False, False)):
            subprocess.run(["gcc", *flags, "m.c", "-o", "m"], cwd=self.folder, check=True)
            facts = elf.read((self.folder / "m").read_bytes())
            self.assertEqual((facts.static, facts.stripped), (static, stripped), flags)

    def test_the_tag_is_of_the_newest_version_that_is_asked_for(self) -> None:
        data = library(self.folder, "#include <stdlib.h>\nunsigned sluice_x(void) { return arc4random(); }\n")
        self.assertEqual(wheel.platform(data, HERE), f"manylinux_2_36_{MACHINES[HERE]}")

    def test_another_export_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "exports other"):
            wheel.platform(library(self.folder, "#include <stdlib.h>\nvoid other(void) { abort(); }\n"), HERE)

    def test_another_library_is_refused(self) -> None:
        data = library(self.folder, "#include <stdlib.h>\nvoid sluice_x(void) { abort(); }\n", "-Wl,--no-as-needed", "-lz")
        with self.assertRaisesRegex(ValueError, "needs libz"):
            wheel.platform(data, HERE)

    def test_another_machine_is_refused(self) -> None:
        data = library(self.folder, "#include <stdlib.h>\nvoid sluice_x(void) { abort(); }\n")
        with self.assertRaisesRegex(ValueError, "not for"):
            wheel.platform(data, next(name for name in MACHINES if name != HERE))

    def test_a_wheel_lists_each_of_its_files(self) -> None:
        data = library(self.folder, "#include <stdlib.h>\nvoid sluice_x(void) { abort(); }\n")
        name, first = wheel.wheel(data, HERE, VERSION, {"LICENSE": b"text"}, EPOCH)
        self.assertEqual(wheel.wheel(data, HERE, VERSION, {"LICENSE": b"text"}, EPOCH), (name, first))
        tag = wheel.platform(data, HERE)
        self.assertEqual(name, f"sluice_limiter-{VERSION}-py3-none-{tag}.whl")
        with zipfile.ZipFile(io.BytesIO(first)) as archive:
            about = f"sluice_limiter-{VERSION}.dist-info"
            record = dict(line.split(",", 1) for line in archive.read(f"{about}/RECORD").decode().splitlines())
            self.assertEqual(set(record), set(archive.namelist()))
            self.assertEqual(archive.namelist()[-1], f"{about}/RECORD")
            for path, told in record.items():
                if path != f"{about}/RECORD":
                    content = archive.read(path)
                    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                    self.assertEqual(told, f"sha256={digest},{len(content)}")
            self.assertIn("sluice_limiter/__init__.py", record)
            self.assertEqual(archive.read("sluice_limiter/libsluice-limiter.so"), data)
            self.assertIn(f"Tag: py3-none-{tag}\n", archive.read(f"{about}/WHEEL").decode())

    def test_another_version_than_that_of_the_binding_is_refused(self) -> None:
        data = library(self.folder, "#include <stdlib.h>\nvoid sluice_x(void) { abort(); }\n")
        with self.assertRaisesRegex(ValueError, "pyproject"):
            wheel.wheel(data, HERE, "9.9.9", {}, EPOCH)


if __name__ == "__main__":
    unittest.main()
