"""Tests of scripts/configure: what the machine lacks is an error when configuring, and found once it is there.

Packages are hidden in a mount namespace of the test's own (as root, or where users may have namespaces; else these tests are
skipped): there /usr is an overlay without the package's files, and dpkg's list of packages is a copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 300  # for a configuration, which takes two on an idle machine

# By package: the preset that cannot be configured without it, and what it says then.
NEEDED = {
    "libgtest-dev": ("release", "GTest"),
    "protobuf-compiler": ("release", "protoc"),
    "clang-14": ("asan", "clang++-14"),
    "libclang-rt-14-dev": ("asan", "libclang-rt-14-dev"),
    "libbenchmark-dev": ("bench", "benchmark"),
}
# With SLUICE_ALL_PACKAGES also all that the program itself needs.
NEEDED_BY_THE_PROGRAM = (
    "libboost1.81-dev", "libspdlog-dev", "libfmt-dev", "nlohmann-json3-dev", "libxxhash-dev", "libcli11-dev", "libyaml-dev",
    "libprotobuf-dev", "libwslay-dev", "libssl-dev", "libhiredis-dev", "libpcre2-dev", "prometheus-cpp-dev", "librocksdb-dev",
    "libleveldb-dev",
)  # fmt: skip

# In the namespace: an overlay of /usr, whose upper folder is in memory.
HIDING = """
set -eu
mount -t tmpfs none "$1/overlay"
mkdir "$1/overlay/upper" "$1/overlay/work"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$1/overlay/upper,workdir=$1/overlay/work" /usr
mount --bind "$1/status" /var/lib/dpkg/status
hide() { for package; do dpkg -L "$package"; done | while read -r path; do [ -d "$path" ] || rm -f "$path"; done; }
"""


def namespace() -> list[str] | None:
    """A prefix that runs a command with mounts of its own, or None."""
    for prefix in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "overlay").mkdir()
            (Path(folder) / "status").touch()
            try:
                if subprocess.run([*prefix, "bash", "-c", HIDING, "-", folder], capture_output=True).returncode == 0:
                    return prefix
            except OSError:
                pass
    return None


def installed(package: str) -> bool:
    found = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True)
    return found.stdout == "installed"


class ConfigureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("dpkg-query") is None:
            raise unittest.SkipTest("dpkg knows which files are a package's")
        cls.prefix = namespace()
        if cls.prefix is None:
            raise unittest.SkipTest("no mount namespace with an overlay may be made here")

    def setUp(self) -> None:
        """A checkout whose files are those of this one, and whose build folder is its own."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "overlay").mkdir()
        shutil.copy("/var/lib/dpkg/status", self.root / "status")
        self.tree = self.root / "tree"
        (self.tree / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/configure", self.tree / "scripts")
        for path in ROOT.iterdir():
            if path.name not in ("build", "scripts", ".git"):
                (self.tree / path.name).symlink_to(path)

    def run_hidden(self, script: str, packages: tuple[str, ...] = ()) -> str:
        """Runs a script in the tree, where it may hide packages; returns its output, and fails if it does."""
        missing = [package for package in packages if not installed(package)]
        if missing:
            self.skipTest(f"not installed: {' '.join(missing)}")
        body = 'cd "$1/tree"\n' + textwrap.dedent(script)
        environment = {name: value for name, value in os.environ.items() if name not in ("LDFLAGS", "CXXFLAGS")}
        done = subprocess.run([*self.prefix, "bash", "-c", HIDING + body, "-", str(self.root)], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS_MAX, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_make_run_then_make_test_where_only_some_packages_are_there(self) -> None:
        """The program is configured without protoc; once that is installed the tests are as well, in the same folder."""
        said = self.run_hidden("""
            hide protobuf-compiler
            scripts/configure release program
            test -f build/release/.configured
            ! scripts/configure release || { echo 'configured without protoc'; exit 1; }
            umount --lazy /usr                           # it is there again,
            touch /var/lib/dpkg/status                   # as apt would have it
            scripts/configure release
            ninja -C build/release -n proto/droplet.pb.cc    # there is a rule
            """, ("libgtest-dev", "protobuf-compiler"))
        self.assertIn("The tests need protoc", said)

    def test_what_was_installed_since_is_found(self) -> None:
        """Also where nothing failed before: the folder of the program, then packages change."""
        said = self.run_hidden("""
            scripts/configure release program
            scripts/configure release program            # nothing to do
            touch -d '1 minute' /var/lib/dpkg/status
            echo changed
            scripts/configure release program
            """)
        configured = [line for line in said.splitlines() if line.startswith(("build: configuring", "changed"))]
        self.assertEqual(configured, ["build: configuring build/release", "changed", "build: configuring build/release"])

    def test_tests_stay_where_only_the_program_is_wanted(self) -> None:
        self.run_hidden("""
            scripts/configure release
            scripts/configure release program
            grep -q '^SLUICE_TESTS:BOOL=ON' build/release/CMakeCache.txt
            """, ("libgtest-dev", "protobuf-compiler"))

    def test_a_missing_package_is_an_error_of_the_configuration(self) -> None:
        for package, (preset, text) in NEEDED.items():
            with self.subTest(package=package):
                self.hide_and_fail(package, preset, text)

    @unittest.skipUnless(os.environ.get("SLUICE_ALL_PACKAGES"), "SLUICE_ALL_PACKAGES is not set: part of `make test-all`")
    def test_so_is_one_of_the_program(self) -> None:
        for package in NEEDED_BY_THE_PROGRAM:
            with self.subTest(package=package):
                self.hide_and_fail(package, "release program", "")

    def hide_and_fail(self, package: str, preset: str, text: str) -> None:
        said = self.run_hidden(f"""
            hide {package}
            ! scripts/configure {preset} || {{ echo 'configured without {package}'; exit 1; }}
            test ! -e build/{preset.split()[0]}/.configured
            """, (package,))
        self.assertIn("CMake Error", said)
        self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main()
