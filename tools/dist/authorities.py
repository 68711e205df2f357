"""The certificates of the authorities that the image trusts: those of Debian's package ca-certificates, and none that this machine
has beside them."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

PACKAGE = "ca-certificates"
FOLDER = "usr/share/ca-certificates/mozilla/"


def bundle() -> bytes:
    """Of the package that is installed here. Throws ValueError."""
    sums = subprocess.run(["dpkg-query", "--control-path", PACKAGE, "md5sums"], check=True, capture_output=True, text=True).stdout
    return of(Path(sums.strip()).read_text(encoding="utf-8"), Path("/"))


def of(sums: str, root: Path) -> bytes:
    """The files that the package's list of sums names, joined in the order of their names."""
    digests = dict(line.split("  ", 1)[::-1] for line in sums.splitlines())
    names = sorted(name for name in digests if name.startswith(FOLDER) and name.endswith(".crt"))
    if not names:
        raise ValueError(f"{PACKAGE} has no certificate below {FOLDER}")
    joined = []
    for name in names:
        text = (root / name).read_bytes()
        if hashlib.md5(text).hexdigest() != digests[name]:
            raise ValueError(f"/{name} is not the file of the package {PACKAGE}")
        joined.append(text.rstrip(b"\n") + b"\n")
    return b"".join(joined)
