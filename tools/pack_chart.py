#!/usr/bin/env python3
"""Packs the Helm chart: the same bytes for the same files and the same SOURCE_DATE_EPOCH (by default the commit's time).

    tools/pack_chart.py FOLDER          leaves FOLDER/sluice-VERSION.tgz, and prints its path
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy/chart/sluice"


def source_time() -> int:
    said = os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return int(said)


def pack(seconds: int) -> bytes:
    """A link of the chart, as to an example, becomes the file that it leads to."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(f"sluice/{path.relative_to(CHART).as_posix()}")
            text = path.read_bytes()
            entry.size, entry.mtime, entry.mode = len(text), seconds, 0o644
            archive.addfile(entry, io.BytesIO(text))
    return gzip.compress(packed.getvalue(), mtime=0)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(f"usage: {sys.argv[0]} FOLDER", file=sys.stderr)
        return 2
    version = re.search(r"^version: (\S+)$", (CHART / "Chart.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version
    target = Path(arguments[0]) / f"sluice-{version[1]}.tgz"
    target.write_bytes(pack(source_time()))
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
