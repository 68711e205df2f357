"""Debian's redis-cli against the real server: single commands, scripts, bulk loading, and its prompt on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import tempfile
import termios
import time
import unittest

from sluice_server import SECONDS_MAX, RespTest


def resp(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


@unittest.skipUnless(shutil.which("redis-cli"), "there is no redis-cli")
class RedisCliTest(RespTest):
    seen = b""  # on the terminal, and not awaited yet

    def command(self, *words: str) -> list[str]:
        return ["redis-cli", "-p", str(self.server.port), *words]

    def run_cli(self, *words: str, text: str | bytes = "", status: int = 0) -> str:
        """What it prints, given `text` on its standard input."""
        given = text.encode() if isinstance(text, str) else text
        done = subprocess.run(self.command(*words), input=given, capture_output=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual((done.returncode, done.stderr.decode()), (status, ""), done.stdout)
        return done.stdout.decode()

    def ask(self, *words: str) -> object:
        return json.loads(self.run_cli("--json", *words))

    def test_single_commands(self) -> None:
        self.assertEqual(self.run_cli("PING"), "PONG\n")
        printed = self.run_cli("--no-raw", "CL.THROTTLE", "user:17", "0", "1", "60")
        self.assertEqual(printed, "".join(f"{i}) (integer) {n}\n" for i, n in enumerate((0, 1, 0, -1, 60), 1)))
        # Bare, as scripts read it.
        limited, limit, remaining, *_ = self.run_cli("CL.THROTTLE", "user:17", "0", "1", "60").split()
        self.assertEqual((limited, limit, remaining), ("1", "1", "0"))
        self.assert_reply(self.ask("THROTTLE", "user:17", "1", "1", "60"), [1, 1, 0, 0, 0])
        self.assert_reply(self.ask("THROTTLE", "user:17", "1", "1", "60"), [0, 1, 0, 0, 60])
        self.assert_reply(self.ask("GCRA", "user:17", "0", "1", "60"), [0, 1, 0, -1, 60])
        self.assert_reply(self.ask("GCRA", "user:17", "0", "1", "60"), [1, 1, 0, 60, 60])

    def test_an_error_is_printed_and_sets_the_exit_status(self) -> None:
        printed = self.run_cli("CL.THROTTLE", "k", "1", "0", "60")
        self.assertEqual(printed, "Cell error: Store error: Zero rates are not supported\n\n")
        done = subprocess.run(self.command("-e", "NOSUCH"), capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown command 'NOSUCH'", done.stderr + done.stdout)

    def test_resp3(self) -> None:
        printed = self.run_cli("-3", "--no-raw", "HELLO", "3")
        for line in ('"server" => "sluice"', '"proto" => (integer) 3', '"modules" => (empty array)'):
            self.assertIn(line, printed)
        printed = self.run_cli("-3", "--no-raw", "CL.THROTTLE", "k", "0", "1", "60")
        self.assertEqual(printed, "".join(f"{i}) (integer) {n}\n" for i, n in enumerate((0, 1, 0, -1, 60), 1)))
        self.assertEqual(self.run_cli("-3", "--no-raw", "CLIENT", "GETNAME"), "(nil)\n")

    def test_options_that_send_additional_commands(self) -> None:
        self.assert_reply(self.ask("-n", "3", "CL.THROTTLE", "k", "0", "1", "60"), [0, 1, 0, -1, 60])
        self.assert_reply(self.ask("CL.THROTTLE", "k", "0", "1", "60"), [0, 1, 0, -1, 60])
        self.assert_reply(self.ask("-n", "3", "CL.THROTTLE", "k", "0", "1", "60"), [1, 1, 0, 60, 60])
        printed = self.run_cli("-r", "3", "CL.THROTTLE", "r", "1", "1", "6000").split()
        self.assertEqual([printed[0], printed[5], printed[10]], ["0", "0", "1"])
        limited, *_ = self.run_cli("-x", "CL.THROTTLE", "r", "1", "1", text="6000").split()  # the period from its input
        self.assertEqual(limited, "1")
        self.assertEqual(self.run_cli("--user", "default", "--pass", "any", "--no-auth-warning", "PING"), "PONG\n")

    def test_a_session_over_standard_input(self) -> None:
        script = "\n".join((
            "PING", "SELECT 2", "CL.THROTTLE 'a b' 0 1 6000", 'CL.THROTTLE "a b" 0 1 6000', "NOSUCH", "MULTI",
            "CL.THROTTLE m 0 1 6000", "CL.THROTTLE m 0 1 6000", "PING still", "EXEC", "CLIENT SETNAME shop",
            "CLIENT GETNAME", ""))
        lines = self.run_cli(text=script).splitlines()
        self.assertEqual(lines[:2], ["PONG", "OK"])
        self.assertEqual(lines[2:6], ["0", "1", "0", "-1"])
        self.assertEqual(lines[7:10], ["1", "1", "0"])
        self.assertEqual(lines[12], "ERR unknown command 'NOSUCH', with args beginning with: ")
        rest = [line for line in lines[13:] if line]
        self.assertEqual(rest[:4], ["OK", "QUEUED", "QUEUED", "QUEUED"])
        self.assertEqual(rest[4:8], ["0", "1", "0", "-1"])
        self.assertEqual(rest[9:12], ["1", "1", "0"])
        self.assertEqual(rest[14:], ["still", "OK", "shop"])

    def test_pipe(self) -> None:
        commands = [resp("CL.THROTTLE", f"k{i % 10}", "99", "1", "60000") for i in range(5000)]
        printed = self.run_cli("--pipe", text=b"".join(commands))
        self.assertTrue(printed.endswith("errors: 0, replies: 5000\n"), printed)
        for i in range(10):
            reply = self.ask("CL.THROTTLE", f"k{i}", "99", "1", "60000")
            assert isinstance(reply, list)
            self.assertEqual(reply[:3], [1, 100, 0])

    def test_pipe_counts_errors(self) -> None:
        done = subprocess.run(self.command("--pipe"), input=resp("PING") + resp("NOSUCH") + resp("CL.THROTTLE", "k"),
                              capture_output=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.endswith(b"errors: 2, replies: 3\n"), done.stdout)

    def test_latency(self) -> None:
        """Without a terminal it pings for a second, and prints the least, the most and the average time, and how
        often."""
        least, most, average, count = map(float, self.run_cli("--latency").split())
        self.assertTrue(0 <= least <= average <= most and count > 0)

    def test_the_prompt_hints_at_arguments(self) -> None:
        """It has the hints from COMMAND DOCS: CL.THROTTLE is in no list of its own."""
        with tempfile.TemporaryDirectory(prefix="sluice-redis-cli-") as home:
            here, there = pty.openpty()
            termios.tcsetwinsize(there, (24, 120))  # without a width redis-cli would ask the terminal where the cursor is
            environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": home, "LC_ALL": "C"}
            with subprocess.Popen(self.command(), stdin=there, stdout=there, stderr=there, env=environment,
                                  start_new_session=True) as process:
                os.close(there)
                try:
                    self.await_text(here, b"> ")
                    os.write(here, b"cl.throttle ")
                    self.await_text(here, b"key max_burst count period [quantity]")
                    os.write(here, b"k 0 1 60\r")
                    self.await_text(here, b"1) (integer) 0")
                    self.await_text(here, b"5) (integer) ")
                    self.await_text(here, b"> ")  # what is typed before the prompt is dropped
                    os.write(here, b"help cl.throttle\r")
                    self.await_text(here, b"as redis-cell does.")
                    self.await_text(here, b"> ")
                    os.write(here, b"quit\r")
                    self.assertEqual(process.wait(SECONDS_MAX), 0)
                finally:
                    process.kill()
                    os.close(here)

    def await_text(self, terminal: int, wanted: bytes) -> None:
        """Reads what is on the terminal up to and including `wanted`, with colours and cursor movements."""
        end = time.monotonic() + SECONDS_MAX
        while wanted not in self.seen:
            self.assertTrue(select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0], self.seen)
            self.seen += os.read(terminal, 4096)
        self.seen = self.seen.partition(wanted)[2]


if __name__ == "__main__":
    unittest.main()
