"""What is packed of the checkout: what git has, and nothing that lies beside it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")


def tracked(path: Path) -> list[Path]:
    """The files of git's index in a folder, sorted; the path itself if it is one of them. A link stands for what it leads to."""
    folder = path if path.is_dir() else path.parent
    said = subprocess.run(["git", "ls-files", "-z", "--", path], cwd=folder, check=True, stdout=subprocess.PIPE, timeout=60).stdout
    return sorted(folder / name for name in said.decode().split("\0") if name)


def linked(root: Path, first: str) -> dict[str, bytes]:
    """A page and all files that its links and those of further pages lead to, by their paths in the checkout."""
    found: dict[str, bytes] = {}
    waiting = [first]
    while waiting:
        place = waiting.pop()
        files = tracked(root / place) if (root / place).exists() else []
        if not files:
            raise ValueError(f"a page links to {place}, which git does not have")
        for path in files:
            name = path.relative_to(root).as_posix()
            if name not in found:
                found[name] = path.read_bytes()
                waiting += links(name, found[name].decode()) if name.endswith(".md") else []
    return found


def links(page: str, text: str) -> list[str]:
    """The places in the checkout that a page's links lead to."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [os.path.normpath(os.path.join(os.path.dirname(page), link)) for link in LINK.findall(prose) if "://" not in link]
