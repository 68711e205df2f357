"""What stands for pods here: network namespaces without a name, and processes with files of their own at fixed paths. Needs
root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS_MAX = 120
CLONE_NEWNET = 0x4000_0000
_LIBC = ctypes.CDLL(None, use_errno=True)

# A root of its own: the machine's folders, /certs and /etc/hosts.
_ROOT = """
root=$1 certs=$2 hosts=$3
shift 3
mount -t tmpfs none "$root"
for at in /*; do
  if [ -L "$at" ]; then cp -P "$at" "$root$at"
  elif [ -d "$at" ]; then mkdir "$root$at" && mount --rbind "$at" "$root$at"
  fi
done
mkdir -p "$root/certs"
mount --bind "$certs" "$root/certs"
mount --bind "$hosts" "$root/etc/hosts"
exec chroot "$root" "$@"
"""


class NotPossible(Exception):
    """There can be no namespaces here; the text says why."""


def wait_until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {SECONDS_MAX} s")
        time.sleep(0.1)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _open() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Network:
    """A network namespace; it is gone when it is closed and its processes have ended."""

    def __init__(self) -> None:
        if not shutil.which("ip"):
            raise NotPossible("there is no ip (package iproute2)")
        outside = _open()
        try:
            _check(_LIBC.unshare(CLONE_NEWNET))
        except OSError as error:
            os.close(outside)
            raise NotPossible(f"no network namespaces: {error.strerror}") from None
        self._inside = _open()
        try:
            self._ip("link", "set", "lo", "up")
        finally:
            _check(_LIBC.setns(outside, CLONE_NEWNET))
            os.close(outside)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=SECONDS_MAX)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Meanwhile this thread opens sockets and starts processes there."""
        outside = _open()
        _check(_LIBC.setns(self._inside, CLONE_NEWNET))
        try:
            yield
        finally:
            _check(_LIBC.setns(outside, CLONE_NEWNET))
            os.close(outside)

    def connect(self, other: Network, own_address: str, its_address: str) -> None:
        with self.entered():
            self._ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns",
                     f"/proc/{os.getpid()}/fd/{other._inside}")
            self._ip("address", "add", own_address, "dev", "eth0")
            self._ip("link", "set", "eth0", "up")
        with other.entered():
            other._ip("address", "add", its_address, "dev", "eth0")
            other._ip("link", "set", "eth0", "up")

    def add_address(self, address: str) -> None:
        with self.entered():
            self._ip("address", "add", address, "dev", "lo")

    def close(self) -> None:
        os.close(self._inside)


class Process:
    """A command in a network, with /certs and the names of hosts that it knows. Its output is kept by lines."""

    def __init__(self, network: Network, certs: Path, hosts: dict[str, str], command: list[str],
                 environment: dict[str, str]) -> None:
        """`hosts`: addresses by name."""
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-pod-")
        folder = Path(self._folder.name)
        root, names = folder / "root", folder / "hosts"
        root.mkdir()
        names.write_text("".join(f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **hosts}.items()))
        self.said: list[str] = []
        with network.entered():
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _ROOT, "pod", str(root), str(certs),
                 str(names), *command], env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.said.append(line.rstrip("\n"))

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def await_said(self, words: str) -> None:
        def told() -> bool:
            if any(words in line for line in self.said):
                return True
            if self.has_ended():
                raise RuntimeError("it ended: " + "\n".join(self.said[-50:]))
            return False

        wait_until(told, f"`{words}`")

    def close(self) -> int:
        """Asks it to end; returns its status."""
        self._process.terminate()
        try:
            status = self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._reader.join(SECONDS_MAX)
        if self._process.stdout:
            self._process.stdout.close()
        self._folder.cleanup()
        return status
