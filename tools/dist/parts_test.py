"""The parts of the programs: read from maps of both linkers, and known for everything that CMakeLists.txt finds."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from pathlib import Path

from . import parts

ROOT = Path(__file__).resolve().parents[2]
MOLD = """\
          0x27b6ce        228     1         libsluice_base.a(memory_size.cc.o):(.gcc_except_table)
          0x2d5f00         11     1         /usr/lib/x86_64-linux-gnu/libz.a(adler32.o):(.text)
          0x2d6000         11     1         /usr/lib/x86_64-linux-gnu/crt1.o:(.text)
"""
LD = """\
Archive member included to satisfy reference by file (symbol)

/usr/lib/gcc/x86_64-linux-gnu/12/../../../x86_64-linux-gnu/libz.a(adler32.o)
                              libsluice_wire.a(gzip.cc.o) (adler32)
LOAD /usr/lib/x86_64-linux-gnu/libyaml.a
"""
# Names that CMakeLists.txt finds and that are no part: tools, the system's threads, what only tests and benchmarks link.
NOT_LINKED = {"Threads", "PkgConfig", "Protobuf", "GTest", "Boost", "benchmark", "wslay", "prometheus-cpp-core"}
# The others, by the source package of Debian.
SOURCES = {
    "CLI11": "cli11", "libcrypto": "openssl", "libhiredis": "hiredis", "hiredis": "hiredis",
    "leveldb": "leveldb", "libnghttp2": "nghttp2", "libnghttp2.a": "nghttp2", "libpcre2-8": "pcre2", "libssl": "openssl",
    "libxxhash": "xxhash", "nlohmann_json": "nlohmann-json3", "protobuf-lite": "protobuf", "spdlog": "spdlog", "yaml-0.1": "libyaml",
    "zlib": "zlib",
}


class Maps(unittest.TestCase):
    def test_of_both_linkers_name_the_archives_that_something_was_taken_from(self) -> None:
        for link_map in (MOLD, LD):
            self.assertEqual(parts.packages(link_map, parts.Machine(), ROOT, ROOT) - set(parts.HEADERS.values()), {"zlib1g-dev"})

    def test_an_archive_of_no_package_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, "no package"):
            parts.packages(f" {folder}/libx.a(y.o)\n", parts.Machine(), ROOT, ROOT)

    def test_a_map_without_archives_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            parts.packages("", parts.Machine(), ROOT, ROOT)

    def test_a_sysroot_names_its_own_packages(self) -> None:
        with tempfile.TemporaryDirectory(dir=ROOT) as folder:
            root = Path(folder) / "sysroot"
            (root / "dpkg").mkdir(parents=True)
            (root / "dpkg/libx-dev").write_text("x 1.0-1\n/\n/usr/lib/libx.a\n", encoding="utf-8")
            system = parts.Sysroot(root)
            for archive in (f"{root}/usr/lib/libx.a", "sysroot/usr/lib/libx.a"):
                found = parts.packages(f" {archive}(y.o)\n libsluice_base.a(z.o)\n", system, ROOT, Path(folder))
                self.assertEqual(found - set(parts.HEADERS.values()), {"libx-dev"})
            self.assertEqual(system.part("libx-dev"), parts.Part("x", "1.0-1"))


class Table(unittest.TestCase):
    def test_knows_everything_that_the_build_finds(self) -> None:
        text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        found = set(re.findall(r"find_package\((\w+)", text))
        found |= set(re.findall(r"pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET ([^\s)]+)", text))
        found |= set(re.findall(r"find_library\(\w+ ([^\s)]+)", text))
        self.assertGreater(len(found), 10)
        self.assertEqual(found - NOT_LINKED - set(SOURCES), set(), "new: a part, or not linked?")
        self.assertEqual({SOURCES[name] for name in found if name in SOURCES} - set(parts.LICENCES), set())
        machine = parts.Machine()
        for package in parts.HEADERS.values():
            self.assertIn(machine.part(package).source, parts.LICENCES)


class Components(unittest.TestCase):
    PARTS = {parts.Part("zlib", "1:1.2"), parts.Part("gcc-12", "12+1"), parts.Part("openssl", "3")}

    def test_have_version_purl_and_licence(self) -> None:
        document = json.loads(parts.components({"amd64": self.PARTS}, "1.2.3", 0))
        by_name = {one["name"]: one for one in document["components"]}
        self.assertEqual(list(by_name), ["gcc-12", "openssl", "zlib"])
        self.assertEqual(by_name["zlib"]["purl"], "pkg:deb/debian/zlib@1%3A1.2?arch=source&distro=debian-12")
        self.assertEqual(by_name["zlib"]["licenses"], [{"license": {"id": "Zlib"}}])
        self.assertEqual(by_name["gcc-12"]["licenses"], [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}])

    def test_the_serial_number_follows_from_the_parts(self) -> None:
        first, same = (parts.components({"amd64": self.PARTS}, "1", 0) for _ in range(2))
        other = parts.components({"amd64": {parts.Part("zlib", "2")}}, "1", 0)
        self.assertEqual(first, same)
        self.assertNotEqual(json.loads(first)["serialNumber"], json.loads(other)["serialNumber"])

    def test_an_unknown_licence_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "unheard"):
            parts.components({"amd64": {parts.Part("unheard", "1")}}, "1", 0)

    def test_tell_versions_of_architectures_apart(self) -> None:
        by = {"amd64": {parts.Part("zlib", "1")}, "arm64": {parts.Part("zlib", "2")}}
        properties = [one["properties"] for one in json.loads(parts.components(by, "1", 0))["components"]]
        self.assertEqual([one[0]["value"] for one in properties], ["amd64", "arm64"])
        self.assertEqual(parts.differences(by), ["zlib: 1 for amd64, 2 for arm64"])
        self.assertEqual(parts.differences({"amd64": self.PARTS, "arm64": self.PARTS}), [])


class Upgrades(unittest.TestCase):
    def test_are_what_apt_would_replace(self) -> None:
        said = ("Inst libssl3 [3.0.1-1] (3.0.2-1~deb12u1 Debian-Security:12/x [amd64]) []\nInst new (1 Debian:12/x [amd64])\n"
                "Conf libssl3 (3.0.2-1~deb12u1 Debian-Security:12/x [amd64])\n")
        self.assertEqual(parts.upgrades(said), ["libssl3: 3.0.1-1, and apt has 3.0.2-1~deb12u1"])
        self.assertEqual(parts.upgrades(""), [])

    def test_are_found_without_root_or_a_change_of_the_machine(self) -> None:
        self.assertIsInstance(parts.outdated({"zlib1g-dev"}, None), list)


class Licences(unittest.TestCase):
    def test_have_each_text_once_and_those_that_are_only_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in (("a", "see /usr/share/common-licenses/GPL."), ("b", "free"), ("c", "free")):
                (root / "doc" / name).mkdir(parents=True)
                (root / "doc" / name / "copyright").write_text(text, encoding="utf-8")
            (root / "common").mkdir()
            (root / "common/GPL-3").write_text("the long text", encoding="utf-8")
            (root / "common/GPL").symlink_to("GPL-3")
            text = parts.third_party_licences({"c", "b", "a"}, root / "doc", root / "common").decode()
            self.assertEqual([text.count(word) for word in ("free", "b, c", "The licence GPL-3", "the long text")],
                             [1, 1, 1, 1])


if __name__ == "__main__":
    unittest.main()
