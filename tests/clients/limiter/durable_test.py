#!/usr/bin/env python3
"""libsluice-durable as programs use it: counters outlive the process, also a killed one; errors of the directory are values.

    tests/clients/limiter/durable_test.py        needs build/release with its public libraries
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 240
UNLOADED = """
import _ctypes, ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.sluice_create.restype = ctypes.c_void_p
library.sluice_destroy.argtypes = [ctypes.c_void_p]
limiter = library.sluice_create(None, None)
assert limiter
library.sluice_destroy(limiter)
_ctypes.dlclose(library._handle)
assert "libsluice" not in open("/proc/self/maps").read(), "it is still loaded"
"""
COMPILERS = [(compiler, standard) for compiler in ("g++", "clang++-14") for standard in ("17", "20")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
PAGE = (ROOT / "docs/limiter.md").read_text()
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(kept LANGUAGES CXX)
find_package(sluice 0.2 REQUIRED)
add_executable(kept %s)
target_link_libraries(kept PRIVATE %s)
"""
PYTHON = """
import sys
from sluice_limiter import Limit, Limiter
limiter = Limiter("rules:\\n  - name: unused\\n    actor: [user]\\n    limit: { quota: 1, window: 1m }\\n", directory=sys.argv[1])
taken = limiter.limits("c", Limit(2, 0, "fixed_bucket")).take("k")
limiter.commit()
print(taken.allowed, taken.remaining)
"""
# A directory on a disk that is full for a while. Python ignores SIGXFSZ.
PYTHON_ON_A_FULL_DISK = """
import resource, sys
from sluice_limiter import Error, Limit, Limiter
def keys(first, last): return [str(i) + "x" * 100 for i in range(first, last)]
def open_it():
    limiter = Limiter(directory=sys.argv[1])
    return limiter, limiter.limits("c", Limit(9, 0, "fixed_bucket"))
def take(x, first, last): return all(x.take(key).allowed for key in keys(first, last))
def fill(is_full): resource.setrlimit(resource.RLIMIT_FSIZE, (100_000 if is_full else before[0], before[1]))
def refused(what):
    try: what()
    except Error as error: return error.name
before = resource.getrlimit(resource.RLIMIT_FSIZE)
limiter, x = open_it()
fill(True)
assert take(x, 0, 3000) and refused(limiter.commit) == "storage"
assert take(x, 3000, 3500) and refused(limiter.commit) == "storage"
fill(False)
limiter.commit()  # all of it
fill(True)
limiter.close()  # nothing is left
fill(False)
with open_it()[0] as limiter:
    x = limiter.limits("c", Limit(9, 0, "fixed_bucket"))
    assert all(x.peek(key).remaining == 8 for key in keys(0, 3500))
assert refused(lambda: x.take("a")) == refused(lambda: limiter.find("r")) == "invalid_argument"
# What cannot be written is an error of close(), and told where nobody closes it.
limiter, x = open_it()
fill(True)
assert take(x, 4000, 6000) and refused(limiter.close) == "storage"
fill(False)
limiter.close()
limiter, x = open_it()
assert x.peek(keys(4000, 4001)[0]).remaining == 9
fill(True)
assert take(x, 4000, 6000)
sys.unraisablehook = lambda its: print("told", its.exc_value.name)
del limiter, x
fill(False)
try: Limiter(directory=sys.argv[1] + "\\0b")
except ValueError as error: print(error)
"""
STORAGE = "10"  # errc::storage


def run(command: list[str], **more: object) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                            stdin=subprocess.DEVNULL, **more)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


class Durable(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="sluice-durable-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.program = cls.folder / "durable"
        build = ROOT / "build/release"
        subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include"), "-o", str(cls.program),
                        str(ROOT / "tests/clients/limiter/durable.cc"), f"-L{build}", "-lsluice-durable", f"-Wl,-rpath,{build}"],
                       check=True, timeout=SECONDS_MAX)

    def setUp(self) -> None:
        self.directory = self.folder / self._testMethodName

    def run_it(self, command: str, status: int = 0, **more: object) -> str:
        result = subprocess.run([str(self.program), str(self.directory), command], capture_output=True, text=True,
                                timeout=SECONDS_MAX, check=False, stdin=subprocess.DEVNULL, **more)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout

    def begin(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([str(self.program), str(self.directory), command], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)

        def end() -> None:
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def test_counters_outlive_the_process(self) -> None:
        self.run_it("take")
        self.assertEqual(self.run_it("sum"), "3\n")
        self.run_it("take")
        self.assertEqual(self.run_it("sum"), "6\n")

    def test_committed_units_survive_a_kill(self) -> None:
        before = 0
        for life in range(4):
            process = self.begin("load")
            for _ in range(20 + 30 * life):
                line = process.stdout.readline()
            process.kill()
            whole = [line, *process.stdout.read().splitlines(keepends=True)]
            committed = int([told for told in whole if told.endswith("\n")][-1])
            used = int(self.run_it("sum")) - before
            # The last commit may have been made and not printed; it is there as a whole or not at all.
            self.assertIn(used, (committed, committed + 100))
            before += used

    def test_a_thread_commits_if_configured(self) -> None:
        # On a slow machine a life may be too short for a commit; one of twelve is long enough.
        for life in range(12):
            process = self.begin("every")
            self.assertEqual(process.stdout.readline(), "open\n")
            time.sleep(0.05 * 2 ** life)
            process.kill()
            process.communicate(timeout=SECONDS_MAX)
            if self.run_it("sum") == "3\n":
                return
        self.fail("the thread has committed nothing")

    def test_one_process_at_a_time(self) -> None:
        process = self.begin("hold")
        self.assertEqual(process.stdout.readline(), "open\n")
        told = self.run_it("sum", status=1)
        self.assertEqual(told.split()[0], STORAGE)
        self.assertIn(f"in use by process {process.pid}", told)
        process.communicate(timeout=SECONDS_MAX)
        self.assertEqual(self.run_it("sum"), "3\n")

    def test_a_child_leaves_the_directory_to_its_parent(self) -> None:
        self.run_it("fork")
        self.assertEqual(self.run_it("sum"), "7\n")

    def test_an_unusable_directory_is_an_error(self) -> None:
        self.directory.write_text("a file")
        self.assertEqual(self.run_it("sum", status=1).split()[0], STORAGE)

    def test_damage_is_an_error(self) -> None:
        self.run_it("take")
        tables = [path for path in self.directory.rglob("CURRENT")]
        self.assertTrue(tables)
        for path in tables:
            path.write_text("nonsense\n")
        self.assertEqual(self.run_it("sum", status=1).split()[0], STORAGE)

    def test_a_failing_disk_is_an_error_and_loses_nothing(self) -> None:
        self.run_it("take")
        # Files cannot grow past that, as on a full disk; Python ignores SIGXFSZ, and so does its child.
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # noqa: E731
        self.assertEqual(self.run_it("fill", preexec_fn=limit, restore_signals=False), STORAGE + "\n")
        self.assertEqual(self.run_it("sum"), "3\n")

    def test_it_can_be_unloaded(self) -> None:
        subprocess.run([sys.executable, "-c", UNLOADED, str(ROOT / "build/release/libsluice-durable.so")], check=True,
                       timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)

    def test_it_exports_its_interface_alone_and_links_no_log(self) -> None:
        library = str(ROOT / "build/release/libsluice-durable.so")
        names = subprocess.run(["nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", library], check=True,
                               capture_output=True, text=True, timeout=SECONDS_MAX).stdout.splitlines()
        ours = ("sluice::limiter::", "sluice::handle::", "sluice::durable::", "sluice_")
        self.assertEqual([name for name in names if not name.startswith(ours)], [])
        self.assertTrue(any(name.startswith("sluice::durable::") for name in names))
        needed = subprocess.run(["readelf", "--dynamic", library], check=True, capture_output=True, text=True,
                                timeout=SECONDS_MAX).stdout
        self.assertIn("[libsluice-durable.so.0.2]", needed)
        for other in ("spdlog", "fmt", "boost", "protobuf", "ssl", "crypto"):
            self.assertNotIn(f"[lib{other}", needed)


class Packages(unittest.TestCase):
    """The installed library, as programs outside the checkout find it."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="sluice-durable-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "installed"
        run(["cmake", "--install", str(ROOT / "build/release"), "--prefix", str(cls.prefix), "--component", "libraries"])
        [cls.library] = cls.prefix.rglob("libsluice-durable.so")
        cls.environment = {**os.environ, "LD_LIBRARY_PATH": str(cls.library.parent),
                           "PKG_CONFIG_PATH": str(cls.library.parent / "pkgconfig")}
        [block] = re.findall(r"^```cpp\n(#include <sluice/durable.h>.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        cls.source = cls.folder / "kept.cc"
        cls.source.write_text(block)

    def flags(self, *options: str) -> list[str]:
        return run(["pkg-config", *options, "sluice-durable"], env=self.environment).split()

    def counts_on(self, program: Path) -> None:
        """The recipe of the page takes one of three jobs in each life."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for told in ("2 jobs left\n", "1 jobs left\n", "0 jobs left\n", "no job left\n"):
                self.assertEqual(run([str(program)], env=self.environment, cwd=folder), told)

    def configure(self, name: str, libraries: str, *options: str) -> subprocess.CompletedProcess[str]:
        folder = self.folder / name
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(PROJECT % (self.source, libraries))
        return subprocess.run(["cmake", "-S", str(folder), "-B", str(folder / "build"), f"-DCMAKE_PREFIX_PATH={self.prefix}",
                               *options], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)

    def test_programs_find_it_by_find_package(self) -> None:
        for compiler, standard in COMPILERS:
            for library in ("sluice::durable", "sluice::durable-static"):
                with self.subTest(compiler=compiler, standard=standard, library=library):
                    name = f"{compiler}-{standard}-{library.replace(':', '')}"
                    made = self.configure(name, library, f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_CXX_STANDARD={standard}",
                                          f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}")
                    self.assertEqual(made.returncode, 0, made.stderr)
                    run(["cmake", "--build", str(self.folder / name / "build")])
                    self.counts_on(self.folder / name / "build/kept")

    def test_programs_find_it_by_pkg_config(self) -> None:
        for compiler, standard in COMPILERS:
            with self.subTest(compiler=compiler, standard=standard):
                program = self.folder / f"pkg-config-{compiler}-{standard}"
                run([compiler, f"-std=c++{standard}", *WARNINGS, "-o", str(program), str(self.source),
                     *self.flags("--cflags", "--libs")])
                self.counts_on(program)

    def test_the_archive_links(self) -> None:
        program = self.folder / "static"
        needs = [str(self.library.with_suffix(".a")) if flag == "-lsluice-durable" else flag
                 for flag in self.flags("--libs", "--static")]
        run(["g++", "-std=c++17", "-o", str(program), str(self.source), *self.flags("--cflags"), *needs])
        self.assertNotIn("libsluice", run(["readelf", "--dynamic", str(program)]))
        self.counts_on(program)

    def test_cmake_refuses_both_libraries_in_one_program(self) -> None:
        both = self.configure("both", "sluice::limiter sluice::durable")
        self.assertNotEqual(both.returncode, 0)
        self.assertIn("SLUICE_EITHER_LIMITER_OR_DURABLE", both.stderr)
        for one in ("sluice::limiter", "sluice::durable"):
            self.assertEqual(self.configure(one.replace("::", "-"), one).returncode, 0)

    def test_programs_in_c_keep_counters(self) -> None:
        for compiler in ("gcc", "clang-14"):
            with self.subTest(compiler=compiler), tempfile.TemporaryDirectory(dir=self.folder) as folder:
                program = Path(folder) / "program"
                run([compiler, "-std=c11", *WARNINGS, "-o", str(program), str(ROOT / "tests/clients/limiter/durable_program.c"),
                     *self.flags("--cflags", "--libs")])
                for output in ("taken, 1 left\n", "taken, 0 left\n", "denied, 0 left\n"):
                    self.assertEqual(run([str(program), f"{folder}/kept"], env=self.environment), output)
                nowhere = subprocess.run([str(program), "/proc/kept"], env=self.environment, capture_output=True, text=True,
                                         timeout=SECONDS_MAX, check=False)
                self.assertEqual((nowhere.returncode, nowhere.stdout.split(":")[0]), (3, "storage"))
                unnamed = subprocess.run([str(program), folder, "null"], env=self.environment, capture_output=True, text=True,
                                         timeout=SECONDS_MAX, check=False)
                self.assertEqual((unnamed.returncode, unnamed.stdout.split(":")[0]), (3, "invalid_argument"))

    def test_programs_in_python_keep_counters(self) -> None:
        environment = {**self.environment, "PYTHONPATH": str(ROOT / "bindings/python"),
                       "SLUICE_LIMITER_LIBRARY": str(self.library)}
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for output in ("True 1\n", "True 0\n", "False 0\n"):
                self.assertEqual(run([sys.executable, "-c", PYTHON, f"{folder}/kept"], env=environment), output)
            # What a process has open, another one cannot open; and the reason is an Error.
            script = """
import subprocess, sys
from sluice_limiter import Error, Limiter
first = Limiter(directory=sys.argv[1])
if len(sys.argv) == 2:
    sys.exit(subprocess.run([sys.executable, "-c", SCRIPT, sys.argv[1], "second"]).returncode)
"""
            script = script.replace("SCRIPT", repr(script.replace("SCRIPT", "''")))
            refused = subprocess.run([sys.executable, "-c", script, f"{folder}/kept"], env=environment, capture_output=True, text=True,
                                     timeout=SECONDS_MAX, check=False)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn("Error: storage: ", refused.stderr)

    def test_python_on_a_full_disk(self) -> None:
        environment = {**self.environment, "PYTHONPATH": str(ROOT / "bindings/python"), "SLUICE_LIMITER_LIBRARY": str(self.library),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            told = run([sys.executable, "-c", PYTHON_ON_A_FULL_DISK, f"{folder}/kept"], env=environment)
            self.assertEqual(told.splitlines(), ["told storage", f"directory must not have a zero byte: {f'{folder}/kept'.encode() + bytes(1) + b'b'!r}"])

    def test_python_needs_the_library_that_has_a_directory(self) -> None:
        library = self.library.with_name("libsluice-limiter.so")
        environment = {**self.environment, "PYTHONPATH": str(ROOT / "bindings/python"), "SLUICE_LIMITER_LIBRARY": str(library)}
        refused = subprocess.run([sys.executable, "-c", PYTHON, f"{self.folder}/none"], env=environment, capture_output=True, text=True,
                                 timeout=SECONDS_MAX, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("libsluice-durable.so.0.2", refused.stderr)

    def test_a_library_that_uses_it_can_be_closed_and_loaded_again(self) -> None:
        plugin = self.folder / "plugin.so"
        run(["g++", "-std=c++17", "-shared", "-fPIC", "-fno-gnu-unique", "-Dmain=run_once", "-o", str(plugin), str(self.source),
             *self.flags("--cflags", "--libs")])
        # A C++ function that is not called `main` has a mangled name.
        script = """
import _ctypes, ctypes, sys
for _ in range(2):
    library = ctypes.CDLL(sys.argv[1])
    assert library._Z8run_oncev() == 0
    _ctypes.dlclose(library._handle)
"""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            output = run([sys.executable, "-c", script, str(plugin)], env=self.environment, cwd=folder)
        self.assertEqual(output, "2 jobs left\n1 jobs left\n")


if __name__ == "__main__":
    unittest.main()
