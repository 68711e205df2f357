"""Tests of scripts/configure: what the machine lacks is an error when configuring, and found once it is there.

Packages are hidden, by the first of these that works here or by the one that SLUICE_HIDE_BY names:

    mount    a mount namespace, as root: there /usr is an overlay without the package's files
    user     the same in a user namespace, for others
    prefix   a folder of links to what is in /usr, without the package's files, where CMake, pkg-config and the shell look
             in place of /usr. Compilers still find what is theirs in /usr, so LOOKED_UP_BY_COMPILERS is skipped.

In each of them the script reads a copy of dpkg's list of packages that is the test's own (DPKG_ADMINDIR).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import textwrap
import unittest
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 300  # for a configuration, which takes two on an idle machine

# By package: the preset that cannot be configured without it, and what it says then.
NEEDED = {
    "libgtest-dev": ("release", "GTest"),
    "libboost1.81-dev": ("release", "Boost"),
    "protobuf-compiler": ("release program", "protoc"),
    "clang-14": ("asan", "clang++-14"),
    "libclang-rt-14-dev": ("asan", "libclang-rt-14-dev"),
    "libbenchmark-dev": ("bench", "benchmark"),
}
# With SLUICE_ALL_PACKAGES also all that the program itself needs.
NEEDED_BY_THE_PROGRAM = (
    "libspdlog-dev", "libfmt-dev", "nlohmann-json3-dev", "libxxhash-dev", "libcli11-dev", "libyaml-dev",
    "libprotobuf-dev", "libssl-dev", "libhiredis-dev", "libnghttp2-dev", "zlib1g-dev", "libpcre2-dev",
    "libleveldb-dev",
)  # fmt: skip

LOOKED_UP_BY_COMPILERS = ("libclang-rt-14-dev",)

NAMESPACES = {"mount": ["unshare", "--mount"], "user": ["unshare", "--map-root-user", "--mount"]}
WAYS = (*NAMESPACES, "prefix")

# Begins a script in a namespace, whose $1 is the folder of the test: the upper layer of the overlay is in memory, and
# has a whiteout for each path that the file `hidden` names. (Removing the files instead would need the rights of /usr's
# owner.)
HIDE_BY_MOUNT = """
set -eu
mount -t tmpfs none "$1/overlay"
python3 - "$1" <<'END'
import os, stat, sys
with open(sys.argv[1] + "/hidden") as hidden:
    for line in hidden:
        path = sys.argv[1] + "/overlay/" + os.path.relpath(line.rstrip("\\n"), "/usr")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mknod(path, stat.S_IFCHR)
END
mount -t overlay overlay -o "lowerdir=$1/overlay:/usr" /usr
reveal() { umount --lazy /usr; }
"""
# Begins a script that finds packages in $1/prefix/usr.
HIDE_BY_PREFIX = """
set -eu
export PATH="$1/prefix/usr/bin:$(tr : '\\n' <<<"$PATH" | grep -vxE '(/usr)?/s?bin/?' | paste -sd:)"
export CMAKE_TOOLCHAIN_FILE="$1/prefix/find.cmake"
export PKG_CONFIG_LIBDIR=$(pkg-config --variable=pc_path pkg-config | sed "s|/usr/|$1/prefix&|g")
cat >"$CMAKE_TOOLCHAIN_FILE" <<END
set(CMAKE_IGNORE_PREFIX_PATH / /usr)
set(CMAKE_PREFIX_PATH "$1/prefix/usr")
END
usr=$1/prefix/usr
reveal() { /bin/rm -r "$usr"; /bin/ln -s /usr "$usr"; }
"""


def files_of(packages: Iterable[str]) -> list[Path]:
    """The files that dpkg installed below /usr, without folders and without documentation (thousands of links)."""
    files = []
    for package in packages:
        listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            path = Path(line)
            path = path.parent.resolve() / path.name  # where /lib is /usr/lib
            below = path.is_relative_to("/usr") and not any(map(path.is_relative_to, ("/usr/share/doc", "/usr/share/man")))
            if below and (path.is_symlink() or path.is_file()):
                files.append(path)
    return files


def link_all_but(hidden: Iterable[Path], source: Path, target: Path) -> None:
    """Makes `target` a folder that shows what is in `source`, by links, without the hidden files."""
    inside = {path for path in hidden if path.is_relative_to(source)}
    on_the_way = {source / path.relative_to(source).parts[0] for path in inside}
    target.mkdir()
    for path in source.iterdir():
        if path in inside:
            continue
        if path in on_the_way:
            link_all_but(inside, path, target / path.name)
        else:
            (target / path.name).symlink_to(path)


def why_not(way: str) -> str:
    """Why packages cannot be hidden in this way here; empty where they can."""
    if way not in NAMESPACES:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "overlay").mkdir()
        (Path(folder) / "hidden").write_text("/usr/bin/dpkg\n")
        try:
            done = subprocess.run([*NAMESPACES[way], "bash", "-c", HIDE_BY_MOUNT, "-", folder], capture_output=True, text=True)
        except OSError as error:
            return str(error)
        return "" if done.returncode == 0 else f"no {way} namespace with an overlay of /usr: {done.stderr.strip()}"


def way_to_hide() -> str:
    named = os.environ.get("SLUICE_HIDE_BY")
    if not named:
        return next(way for way in WAYS if not why_not(way))
    if named not in WAYS:
        raise ValueError(f"SLUICE_HIDE_BY={named}: {', '.join(WAYS)}")
    if reason := why_not(named):
        raise unittest.SkipTest(reason)
    return named


def installed(package: str) -> bool:
    found = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True)
    return found.stdout == "installed"


class ConfigureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("dpkg-query") is None:
            raise unittest.SkipTest("only dpkg knows which files are a package's")
        cls.way = way_to_hide()

    def setUp(self) -> None:
        """A checkout whose files are those of this one, and whose build folder is its own."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("overlay", "dpkg"):
            (self.root / name).mkdir()
        shutil.copyfile("/var/lib/dpkg/status", self.root / "dpkg/status")
        self.tree = self.root / "tree"
        (self.tree / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/configure", self.tree / "scripts")
        for path in ROOT.iterdir():
            if path.name not in ("build", "scripts", ".git"):
                (self.tree / path.name).symlink_to(path)

    def run_hidden(self, script: str, *packages: str, needs: tuple[str, ...] = ()) -> str:
        """Runs a script in the tree, from which the packages are hidden until it says `reveal`. Returns its output; the
        test fails if the script fails."""
        missing = [package for package in (*packages, *needs) if not installed(package)]
        if missing:
            self.skipTest(f"not installed: {' '.join(missing)}")
        beyond = set(packages) & set(LOOKED_UP_BY_COMPILERS)
        if self.way == "prefix" and beyond:
            self.skipTest(f"without a mount namespace a compiler finds {' '.join(beyond)} in /usr")
        hidden = files_of(packages)
        if self.way == "prefix":
            shutil.rmtree(self.root / "prefix", ignore_errors=True)
            (self.root / "prefix").mkdir()
            link_all_but(hidden, Path("/usr"), self.root / "prefix/usr")
            command, begin = [], HIDE_BY_PREFIX
        else:
            (self.root / "hidden").write_text("".join(f"{path}\n" for path in hidden))
            command, begin = NAMESPACES[self.way], HIDE_BY_MOUNT
        body = begin + 'cd "$1/tree"\n' + textwrap.dedent(script)
        environment = {name: value for name, value in os.environ.items() if name not in ("LDFLAGS", "CXXFLAGS")}
        environment["DPKG_ADMINDIR"] = str(self.root / "dpkg")
        done = subprocess.run([*command, "bash", "-c", body, "-", str(self.root)], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS_MAX, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_each_way_hides_and_reveals(self) -> None:
        for way in WAYS:
            with self.subTest(way=way):
                if reason := why_not(way):
                    self.skipTest(reason)
                self.way = way
                self.run_hidden("""
                    ! command -v protoc || { echo 'protoc is there'; exit 1; }
                    command -v pkg-config
                    reveal
                    protoc --version
                    """, "protobuf-compiler", needs=("pkg-config",))

    def test_make_run_then_make_test_where_only_some_packages_are_there(self) -> None:
        """The program is configured without GoogleTest; once that is installed the tests are as well, in the same folder."""
        said = self.run_hidden("""
            scripts/configure release program
            test -f build/release/.configured
            ! scripts/configure release || { echo 'configured without GoogleTest'; exit 1; }
            reveal                                       # it is there again,
            touch "$DPKG_ADMINDIR/status"                # as apt would have it
            scripts/configure release
            ninja -C build/release -n proto/droplet.pb.cc    # there is a rule
            """, "libgtest-dev", needs=("protobuf-compiler",))
        self.assertIn("GTest", said)

    def test_packages_installed_since_are_found(self) -> None:
        """The same if nothing failed before: the program is configured, then packages change."""
        said = self.run_hidden("""
            scripts/configure release program
            scripts/configure release program            # nothing to do
            touch -d '1 minute' "$DPKG_ADMINDIR/status"
            echo changed
            scripts/configure release program
            """)
        configured = [line for line in said.splitlines() if line.startswith(("build: configuring", "changed"))]
        self.assertEqual(configured, ["build: configuring build/release", "changed", "build: configuring build/release"])

    def test_building_only_the_program_keeps_the_tests_setting(self) -> None:
        self.run_hidden("""
            scripts/configure release
            scripts/configure release program
            grep -q '^SLUICE_TESTS:BOOL=ON' build/release/CMakeCache.txt
            touch -d '1 minute' "$DPKG_ADMINDIR/status"    # packages have changed
            scripts/configure release program
            grep -q '^SLUICE_TESTS:BOOL=ON' build/release/CMakeCache.txt
            """, needs=("libgtest-dev", "protobuf-compiler"))

    def test_a_missing_package_is_an_error_of_the_configuration(self) -> None:
        for package, (preset, text) in NEEDED.items():
            with self.subTest(package=package):
                self.hide_and_fail(package, preset, text)

    @unittest.skipUnless(os.environ.get("SLUICE_ALL_PACKAGES"), "SLUICE_ALL_PACKAGES is not set: part of `make test-all`")
    def test_a_missing_package_of_the_program_is_an_error(self) -> None:
        for package in NEEDED_BY_THE_PROGRAM:
            with self.subTest(package=package):
                self.hide_and_fail(package, "release program", "")

    def hide_and_fail(self, package: str, preset: str, text: str) -> None:
        said = self.run_hidden(f"""
            ! scripts/configure {preset} || {{ echo 'configured without {package}'; exit 1; }}
            test ! -e build/{preset.split()[0]}/.configured
            """, package)
        self.assertIn("CMake Error", said)
        self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main()
