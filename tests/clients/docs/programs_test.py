"""The Python programs of docs/first-limit.md and docs/tasks.md in front of servers that do not decide, and of none: only what cannot be
reached passes, and the program says so."""

from __future__ import annotations

import http.client
import http.server
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from manual import SECONDS_MAX, free_port, lines_of

NO_DECISION = (400, 401, 404, 421, 503)


def program(page: str, name: str) -> str:
    """The text of a file that the page shows."""
    lines = lines_of(page, "")
    begin = next(i for i, line in enumerate(lines) if line.endswith(f"`{name}`:"))
    block = []
    for line in lines[begin + 1:]:
        if line and not line.startswith("    "):
            break
        block.append(line[4:])
    return "\n".join(block)


class ProgramsTest(unittest.TestCase):
    def answering(self, status: int) -> int:
        """The port of a server that answers with that status until the end of the test."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b'{"detail": "the reason for it"}')

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_port

    def write(self, page: str, name: str, port: int, more: tuple[tuple[str, str], ...] = ()) -> str:
        """The program in a folder of its own, with another port of sluice."""
        folder = tempfile.TemporaryDirectory(prefix="sluice-programs-")
        self.addCleanup(folder.cleanup)
        text = program(page, name)
        for old, new in (("127.0.0.1:8390", f"127.0.0.1:{port}"), *more):
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = Path(folder.name) / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def call(self, port: int) -> tuple[int, str, str]:
        done = subprocess.run([sys.executable, self.write("docs/tasks.md", "call.py", port)], capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_a_call_passes_only_if_sluice_cannot_be_reached(self) -> None:
        for status in NO_DECISION:
            ended, printed, told = self.call(self.answering(status))
            self.assertEqual((ended, printed), (1, ""), status)
            self.assertRegex(told, rf"^sluice does not decide: HTTP Error {status}: .* {{\"detail\": \"the reason for it\"}}\n$")
        ended, printed, _ = self.call(free_port())
        self.assertEqual(ended, 0)
        self.assertTrue(printed.startswith("allowed: sluice cannot be reached: "), printed)

    def log_in(self, port: int) -> tuple[int, bytes, list[str]]:
        """The answer of the application of docs/first-limit.md, and what it prints."""
        path = self.write("docs/first-limit.md", "login.py", port, (("8000", "0"),))
        served = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            own = int(re.findall(r"\d+", served.stdout.readline())[0])
            client = http.client.HTTPConnection("127.0.0.1", own, timeout=SECONDS_MAX)
            client.request("POST", "/login")
            answer = client.getresponse()
            got = answer.status, answer.read()
            client.close()
            return *got, [served.stdout.readline()]
        finally:
            served.kill()
            served.wait()
            served.stdout.close()

    def test_a_log_in_passes_only_if_sluice_cannot_be_reached(self) -> None:
        for status in NO_DECISION:
            shown, body, said = self.log_in(self.answering(status))
            self.assertEqual((shown, body), (500, b"an error\n"), status)
            self.assertIn(f"sluice does not decide: HTTP Error {status}", said[0])
            self.assertIn("the reason for it", said[0])
        shown, body, said = self.log_in(free_port())
        self.assertEqual((shown, body), (200, b"welcome\n"))
        self.assertIn("sluice cannot be reached", said[0])


if __name__ == "__main__":
    unittest.main()
