"""tools/bench_overspend.py with a hundred calls: each way to keep a budget comes to its end, and reservations keep theirs."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest

from sluice_server import BINARY, ROOT, HttpTest


class OverspendTest(HttpTest):
    test_seconds_max = 120

    def test_what_each_way_spends_beyond_the_budget(self) -> None:
        done = subprocess.run([sys.executable, str(ROOT / "tools/bench_overspend.py"), "--calls", "100", "--ttl", "3", "--sluice", BINARY],
                              capture_output=True, text=True, timeout=110, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {name.strip(): (int(beyond), int(uncounted), int(leaked)) for name, beyond, uncounted, leaked in re.findall(
            r"^(.+?) {2,}.*: +(\d+) beyond it .*, +(\d+) never counted, +(\d+) never given back$", done.stdout, re.MULTILINE)}
        self.assertLessEqual({"look, then report", "take, then correct", "reserve (release)", "reserve (keep)"}, set(found), done.stdout)
        # All hundred look before one of them reports.
        self.assertGreater(found["look, then report"][0], 0)
        self.assertGreater(found["take, then correct"][2], 0)  # the estimates of those that were killed
        self.assertEqual(found["reserve (release)"][2], 0)
        self.assertEqual(found["reserve (keep)"][:2], (0, 0))


if __name__ == "__main__":
    unittest.main()
