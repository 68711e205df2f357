"""A test of what makes the second build cheap: through ccache, a clone in another folder compiles nothing of the release build
(g++) and of the sanitizers' build (clang) again, and what it got from the cache needs nothing of the first clone.

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
CHANGED_SOURCE = "src/log/log_json_test.cc"  # one of the target's
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
    def build(self, preset: str, folder: Path) -> dict[str, str]:
        log = folder.parent / f"{folder.name}.log"
        log.unlink(missing_ok=True)
        built = subprocess.run(
            ["scripts/build", preset, TARGET], cwd=folder, env=os.environ | {"CCACHE_STATSLOG": str(log)},
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        self.assertEqual(built.returncode, 0, built.stdout[-3000:] + built.stderr[-1000:])
        return compiled(log)

    def build_clones(self, preset: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            clones = [Path(folder) / "one", Path(folder) / "another-clone"]
            for path in clones:
                clone(path)
            first, second = (self.build(preset, path) for path in clones)
            self.assertGreater(len(second), 5, second)
            self.assertEqual(len(first), len(second))
            misses = [source for source, result in second.items() if result != "hit"]
            self.assertEqual([path for path in misses if not path.endswith(SOURCE_OF_PATHS)], [])
            # A precompiled header that contains the first clone's paths would fail here.
            shutil.rmtree(clones[0])
            with (clones[1] / CHANGED_SOURCE).open("a") as source:
                source.write(f'static_assert(sizeof("{folder}") > 1);\n')  # a text that no cache has
            self.assertIn("miss", self.build(preset, clones[1]).values())

    def test_compiles_nothing_of_the_release_build_again(self) -> None:
        self.build_clones("release")

    def test_compiles_nothing_of_the_sanitizers_build_again(self) -> None:
        self.build_clones("asan")


if __name__ == "__main__":
    unittest.main()
