"""hiredis, Debian's, in a small program of C against the real server."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from sluice_server import SECONDS_MAX, RespTest

SOURCE = Path(__file__).resolve().parent / "hiredis_client.c"


@unittest.skipUnless(shutil.which("cc"), "there is no cc")
class HiredisTest(RespTest):
    def test_commands_pipelines_and_transactions(self) -> None:
        with tempfile.TemporaryDirectory(prefix="sluice-hiredis-") as folder:
            program = str(Path(folder) / "hiredis_client")
            subprocess.run(["cc", "-Wall", "-Werror", "-o", program, str(SOURCE), "-lhiredis"], timeout=SECONDS_MAX, check=True)
            done = subprocess.run([program, str(self.server.port)], capture_output=True, text=True, timeout=SECONDS_MAX,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "status:PONG")
        self.assert_reply(json.loads(lines[1]), [0, 1, 0, -1, 60])
        self.assert_reply(json.loads(lines[2]), [1, 1, 0, 60, 60])
        self.assert_reply(json.loads(lines[3]), [0, 1, 0, -1, 60])
        self.assert_reply(json.loads(lines[4]), [1, 1, 0, 60, 60])
        self.assertEqual(lines[5:8], ["nil", "error:ERR unknown command 'NOSUCH', with args beginning with: ", "text:"])
        piped = [json.loads(line) for line in lines[8:108]]
        self.assertEqual([allowed for allowed, *_ in piped], [1] * 60 + [0] * 40)
        self.assertEqual([remaining for _, _, remaining, *_ in piped[:60]], list(range(59, -1, -1)))
        self.assertEqual(lines[108:111], ["status:OK", "status:QUEUED", "status:QUEUED"])
        first, denied = json.loads(lines[111])
        self.assert_reply(first, [0, 1, 0, -1, 60])
        self.assert_reply(denied, [1, 1, 0, 60, 60])
        self.assertEqual(len(lines), 112)


if __name__ == "__main__":
    unittest.main()
