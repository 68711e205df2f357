"""cmake/SluiceTimeZones.cmake with a folder of zones of this test's own: names whose files are in a package that is not installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 120
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(zones NONE)
include(cmake/SluiceTimeZones.cmake)
add_custom_target(target)
sluice_time_zones(target config built_in_zones)
"""
# In it are a zone, two links one behind the other, a link with a file, and a zone without one.
LIST = "# version 2025b\nZ Europe/Lisbon 0 - WET\nL Europe/Lisbon Portugal\nL Portugal WET\nL Europe/Lisbon Here\nZ Nowhere/Now 0 - -00\n"


@unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
class TimeZones(unittest.TestCase):
    def test_an_older_name_without_a_file_is_the_zone_that_it_stands_for(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            zones = folder / "zoneinfo"
            (zones / "Europe").mkdir(parents=True)
            (zones / "tzdata.zi").write_text(LIST, encoding="utf-8")
            (zones / "Europe/Lisbon").write_bytes(b"TZif" + bytes(12))
            (zones / "Here").write_bytes(b"TZif" + bytes(20))
            (folder / "cmake").symlink_to(ROOT / "cmake")
            (folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
            done = subprocess.run(["cmake", "-S", name, "-B", folder / "build", f"-DSLUICE_ZONEINFO={zones}"], capture_output=True,
                                  text=True, timeout=SECONDS_MAX, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("no time zone Nowhere/Now", done.stdout)
            text = (folder / "build/generated/time_zones.cc").read_text(encoding="utf-8")
            found = {zone: (int(begin), int(size)) for zone, begin, size in re.findall(r'{"([^"]+)", (\d+), (\d+)}', text)}
            self.assertEqual(found, {"Europe/Lisbon": (0, 16), "Portugal": (0, 16), "WET": (0, 16), "Here": (16, 24)})


if __name__ == "__main__":
    unittest.main()
