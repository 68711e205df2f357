"""A test of what makes the second build cheap: through ccache, a clone in another folder compiles nothing of the release build
again. (Not so the sanitizers' builds: CMake passes clang the absolute path of a precompiled header in a way that ccache does
not make relative.)

Both clones are built through the user's own cache, so what the first one has to compile, the build of this checkout finds.
Skipped where ccache is not installed or is turned off.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 600
TARGET = "log_test"  # small, and compiled with each set of precompiled headers
SOURCE_OF_PATHS = "paths.cc"  # the one source whose object contains the checkout's folder


def clone(folder: Path) -> None:
    """Copies the files of this checkout, including those that are not committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if not (ROOT / name).is_file():
            continue  # removed, but not committed
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def compiled(log: Path) -> dict[str, str]:
    """What ccache wrote about each source, by its path: `hit`, or something else."""
    results: dict[str, str] = {}
    source = ""
    for line in log.read_text().splitlines():
        if line.startswith("# "):
            source = line[2:]
        elif line.endswith("_cache_hit"):
            results[source] = "hit"
        elif line == "cache_miss":
            results[source] = "miss"
    return results


@unittest.skipUnless(shutil.which("ccache"), "ccache is not installed")
@unittest.skipIf(os.environ.get("CCACHE_DISABLE"), "CCACHE_DISABLE turns ccache off")
class AnotherClone(unittest.TestCase):
    def build(self, folder: Path) -> dict[str, str]:
        log = folder.parent / f"{folder.name}.log"
        built = subprocess.run(
            ["scripts/build", "release", TARGET], cwd=folder, env=os.environ | {"CCACHE_STATSLOG": str(log)},
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        self.assertEqual(built.returncode, 0, built.stdout[-3000:] + built.stderr[-1000:])
        return compiled(log)

    def test_compiles_nothing_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            clones = [Path(folder) / "one", Path(folder) / "another-clone"]
            for path in clones:
                clone(path)
            first, second = (self.build(path) for path in clones)
            self.assertGreater(len(second), 10)
            self.assertEqual(len(first), len(second))
            misses = [source for source, result in second.items() if result != "hit"]
            self.assertEqual([path for path in misses if not path.endswith(SOURCE_OF_PATHS)], [])


if __name__ == "__main__":
    unittest.main()
