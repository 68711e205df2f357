#!/usr/bin/env python3
"""What `make dist` leaves, by judges that are not ours: two runs leave the same bytes, the list of parts is CycloneDX, the wheel runs
where its name says, other tools read the image. Takes the programs that `scripts/dist` has built, some minutes, and PyPI for the judges.

    python3 -m unittest discover -s tests/ship -p dist_test.py
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from run_tests import make_environment  # noqa: E402

BOTH = (ROOT / "build/arm64/dist/sluice").exists()


def said(*command: str | Path, seconds: float = 120) -> str:
    done = subprocess.run(list(map(str, command)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise AssertionError(f"status {done.returncode} of {command}:\n{done.stdout}")
    return done.stdout


def make(into: Path) -> None:
    said(sys.executable, "-m", "tools.dist", "--into", into, *([] if BOTH else ["--only", "amd64"]), seconds=600)


class Dist(unittest.TestCase):
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        if not (ROOT / "build/release/dist/sluice").exists():
            raise unittest.SkipTest("nothing is built: scripts/dist")
        scratch = tempfile.TemporaryDirectory(prefix="sluice-dist-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name) / "dist"
        make(cls.folder)

    def only(self, pattern: str) -> Path:
        [path] = self.folder.glob(pattern)
        return path

    def program(self) -> bytes:
        return self.only("sluice-linux-amd64").read_bytes()

    def test_a_second_run_leaves_the_same_bytes(self) -> None:
        again = self.folder.with_name("again")
        make(again)
        self.assertEqual(*((folder / "SHA256SUMS").read_text(encoding="utf-8") for folder in (self.folder, again)))
        said("sh", "-c", f"cd '{again}' && sha256sum --check --strict --quiet SHA256SUMS")

    def test_the_files_are_those_of_a_release(self) -> None:
        version = said(self.folder / "sluice-linux-amd64", "--version").split()[1]
        wanted = {"SHA256SUMS", "compose.yaml", "compose-envoy.yaml", "compose-sluice.yaml", "kubernetes-disk.yaml",
                  "kubernetes-redis.yaml", f"sluice-{version}.tgz", "sluice-oci.tar", "sluice.cdx.json"}
        for architecture, machine in (("amd64", "x86_64"), ("arm64", "aarch64"))[:1 + BOTH]:
            wanted |= {f"sluice-linux-{architecture}", f"sluice-linux-{architecture}.tar.gz", f"sluice_{version}-1_{architecture}.deb",
                       self.only(f"sluice_limiter-{version}-py3-none-manylinux_*_{machine}.whl").name}
        self.assertEqual({path.name for path in self.folder.iterdir()}, wanted)

    def test_the_pages_of_the_tarball_lead_to_files_in_it(self) -> None:
        with tarfile.open(self.only("sluice-linux-amd64.tar.gz")) as archive:
            files = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames() if archive.getmember(name).isfile()}
            texts = {name: file.read().decode() for name, file in files.items() if file and name.endswith(".md")}
            folders = {str(parent) for name in files for parent in Path(name).parents}
        self.assertLess(self.only("sluice-linux-amd64.tar.gz").stat().st_size - len(gzip.compress(self.program())), 1_000_000)
        checked = 0
        for page, text in texts.items():
            for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?ms)^```.*?^```$", "", text)):
                if "://" not in link and not link.startswith("#"):
                    place = os.path.normpath(Path(page).parent / link.partition("#")[0])
                    self.assertTrue(place in files or place in folders, f"{page}: {link}")
                    checked += page == "README.md"
        self.assertGreater(checked, 20)

    def test_the_parts_are_cyclonedx(self) -> None:
        python = make_environment(HERE / "parts-11.12.requirements.txt")
        judge = ("import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator\n"
                 "wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())\n"
                 "sys.exit(wrong and repr(wrong))")
        path = self.only("sluice.cdx.json")
        said(python, "-c", judge, path)
        text = path.read_text(encoding="utf-8")
        broken = self.folder.with_name("broken.json")
        broken.write_text(text.replace('"bom-ref"', '"bom-reference"', 1), encoding="utf-8")
        with self.assertRaises(AssertionError):
            said(python, "-c", judge, broken)
        self.assertIn("ca-certificates", [part["name"] for part in json.loads(text)["components"]])
        for part in json.loads(text)["components"]:
            self.assertTrue(part["version"] and part["purl"] and part["licenses"], part)

    def test_auditwheel_gives_the_wheel_its_name(self) -> None:
        python = make_environment(HERE / "wheel-6.8.requirements.txt")
        wheel = self.only("sluice_limiter-*_x86_64.whl")
        told = " ".join(said(python, "-m", "auditwheel", "show", wheel).split())  # its lines end anywhere
        tag = re.search(r'is consistent with the following platform tag: "(\w+)"', told)
        self.assertTrue(tag, told)
        self.assertTrue(wheel.name.endswith(f"-{tag[1]}.whl"), told)  # type: ignore[index]

    def test_skopeo_reads_the_image_of_each_architecture_and_that_of_docker(self) -> None:
        if not shutil.which("skopeo"):
            self.skipTest("skopeo is not installed")
        image = self.only("sluice-oci.tar")
        version = said(self.folder / "sluice-linux-amd64", "--version").split()[1]
        for architecture in ("amd64", "arm64")[:1 + BOTH]:
            about = json.loads(said("skopeo", "--override-arch", architecture, "inspect", f"oci-archive:{image}"))
            self.assertEqual(about["Architecture"], architecture)
            self.assertEqual(about["Labels"]["org.opencontainers.image.version"], version)
        json.loads(said("skopeo", "inspect", f"docker-archive:{image}:sluice:{version}"))

    def test_the_service_is_as_closed_as_was_promised(self) -> None:
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        root = self.folder.with_name("root")
        said("dpkg-deb", "--extract", self.only("sluice_*_amd64.deb"), root)
        said("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager",
             root / "usr/lib/systemd/system/sluice.service")

    def test_the_sockets_of_systemd_are_those_of_the_sample(self) -> None:
        root = self.folder.with_name("sockets")
        said("dpkg-deb", "--extract", self.only("sluice_*_amd64.deb"), root)
        sample = (root / "etc/sluice/sluice.yaml").read_text(encoding="utf-8")
        sockets = (root / "usr/lib/systemd/system/sluice.socket").read_text(encoding="utf-8")
        addresses = re.findall(r'^  - \{ protocol: \w+, address: "([^"]+)"', sample, re.MULTILINE)
        self.assertEqual(sorted(re.findall(r"^ListenStream=(.*)$", sockets, re.MULTILINE)), sorted(addresses))
        self.assertGreater(len(addresses), 6)

    def test_everything_starts(self) -> None:
        told = said(sys.executable, ROOT / "deploy/smoke", "--dist", self.folder, seconds=900)
        self.assertRegex(told, r"\nsmoke: \d+ passed, 0 failed, \d+ skipped\n$")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
