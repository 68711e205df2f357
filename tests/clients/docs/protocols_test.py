"""The examples of the pages of Divvy's, limitd's and droplet's protocols, sent as they are written there over a socket to a server with
the rules that the page names. The replies must be the page's, except for times.
"""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from manual import BINARY, SECONDS_MAX, lines_of

RULES = {
    "divvy": ("rules.ini", "[method=GET path=/pantry/cookies/* ip=*]\ncreditLimit = 3\nresetSeconds = 3600\nactorField = ip\n\n"
                           "[default]\ncreditLimit = 50\nresetSeconds = 600\n"),
    "limitd": ("limitd.yaml", "buckets:\n  ip:\n    size: 10\n    per_second: 5\n"),
    "droplet": ("", ""),
}
SAID = re.compile(r"    ([<>]) ?(.*)")
HEX = re.compile(r"(?:[0-9a-f]{2} )*[0-9a-f]{2}")


class Server:
    """One listener of a protocol, with the rules of its page."""

    def __init__(self, protocol: str) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="sluice-docs-")
        folder = Path(self._place.name)
        name, text = RULES[protocol]
        policy = f'policy: [{{ {protocol}: {name} }}]\n' if name else ""
        if name:
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "sluice.yaml").write_text(f'listen: [{{ protocol: {protocol}, address: "127.0.0.1:0" }}]\n{policy}', encoding="utf-8")
        self.process = subprocess.Popen([BINARY, "serve", "--config", "sluice.yaml"], cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.port = 0
        said = []
        for line in self.process.stdout:
            said.append(line)
            if found := re.search(rf"{protocol} listening on 127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        if not self.port:
            raise AssertionError("".join(said))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(SECONDS_MAX)
        self.process.stdout.close()
        self._place.cleanup()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS_MAX)


def received(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := client.recv(size - len(data))):
        data += more
    return data


def bytes_of(line: str) -> bytes:
    """The hexadecimal numbers at the beginning of a line; a comment follows after two blanks or more."""
    data = b""
    for part in re.split(r" {2,}", line.strip()):
        if not HEX.fullmatch(part):
            break
        data += bytes.fromhex(part)
    return data


def turns(page: str) -> list[tuple[str, str]]:
    """Which side sends which line, in the page's order; a line without < or > continues the one before."""
    said: list[tuple[str, str]] = []
    for line in lines_of(page, "## Example"):
        if found := SAID.fullmatch(line):
            said.append((found[1], found[2]))
        elif line.startswith("      ") and said:
            said.append((said[-1][0], line))
    return said


class ProtocolsTest(unittest.TestCase):
    def test_divvy(self) -> None:
        said = [(who, line) for who, line in turns("docs/divvy-protocol.md") if not line.strip().startswith("(")]
        self.assertEqual(len(said), 12)
        seconds = re.compile(r"(OK \w+ \d+) (\d+)")
        with Server("divvy") as server, server.connect() as client, client.makefile("r", encoding="utf-8") as replies:
            for who, line in said:
                if who == ">":
                    client.sendall(f"{line}\n".encode())
                    continue
                reply = replies.readline().removesuffix("\n")
                if shown := seconds.fullmatch(line):
                    found = seconds.fullmatch(reply)
                    self.assertIsNotNone(found, reply)
                    self.assertEqual(found[1], shown[1])
                    self.assertTrue(int(shown[2]) - SECONDS_MAX < int(found[2]) <= 3600, reply)
                else:
                    self.assertEqual(reply, line)
            self.assertEqual(replies.read(), "")  # the server closes

    def play(self, client: socket.socket, said: list[tuple[str, str]], varies: re.Pattern[bytes]) -> int:
        """Sends and expects the bytes. Returns how many there were in both directions."""
        count = 0
        for who, line in said:
            data = bytes_of(line)
            count += len(data)
            if who == ">":
                client.sendall(data)
            else:
                self.assertEqual(varies.sub(b"\x20(time)", received(client, len(data))), varies.sub(b"\x20(time)", data), line)
        return count

    def test_limitd(self) -> None:
        reset = re.compile(rb"\x20[\x80-\xff]{4}[\x00-\x7f]$")  # five bytes until 2106
        with Server("limitd") as server, server.connect() as client:
            self.assertEqual(self.play(client, turns("docs/limitd-protocol.md"), reset), 20 + 19 + 6 + 7)

    def test_droplet(self) -> None:
        said = turns("docs/droplet-protocol.md")
        head = [(who, line) for who, line in said if not bytes_of(line)]
        frames = said[len(head):]
        with Server("droplet") as server, server.connect() as client:
            client.sendall("".join(f"{line}\r\n" for who, line in head if who == ">").encode())
            answer = "".join(f"{line}\r\n" for who, line in head if who == "<").encode()
            self.assertEqual(received(client, len(answer)), answer)
            self.assertEqual(self.play(client, frames, re.compile(b"$^")), 19 * 2 + 6 + 15 + 8 + 4)
            self.assertEqual(client.recv(1), b"")  # the server closes


if __name__ == "__main__":
    unittest.main()
