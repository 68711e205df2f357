"""The package for Debian and its kin. It needs nothing but dpkg: the program is static, and its user is made by systemd."""

from __future__ import annotations

import hashlib
import re
from email.utils import formatdate
from pathlib import Path

from .archive import Entry, ar, file, gz, tar, with_folders, xz

DEBIAN = Path(__file__).resolve().parents[2] / "deploy/debian"
REVISION = 1


def name(version: str, architecture: str) -> str:
    return f"sluice_{version}-{REVISION}_{architecture}.deb"


def contents(program: bytes, manual: dict[str, bytes], completions: dict[str, bytes], units: dict[str, bytes], sample: bytes,
             texts: dict[str, bytes], version: str, epoch: int) -> list[Entry]:
    """What the package installs. `texts`: licences, by their names."""
    documents = "usr/share/doc/sluice"
    return [
        file("usr/bin/sluice", program, 0o755),
        *(file(f"usr/lib/systemd/system/{unit}", text) for unit, text in units.items()),
        *(file(f"usr/share/man/man1/{page}.gz", gz(text)) for page, text in manual.items()),
        file("usr/share/bash-completion/completions/sluice", completions["bash"]),
        file("usr/share/zsh/vendor-completions/_sluice", completions["zsh"]),
        file("usr/share/fish/vendor_completions.d/sluice.fish", completions["fish"]),
        file("etc/sluice/sluice.yaml", sample),
        file("etc/default/sluice", (DEBIAN / "default").read_bytes()),
        file(f"{documents}/copyright", copyright_file(texts["LICENSE"].decode(), epoch)),
        file(f"{documents}/THIRD-PARTY-LICENSES.gz", gz(texts["THIRD-PARTY-LICENSES"])),
        file(f"{documents}/changelog.Debian.gz", gz(changelog(version, epoch))),
        file("usr/share/lintian/overrides/sluice", (DEBIAN / "lintian-overrides").read_bytes()),
    ]


def changelog(version: str, epoch: int) -> bytes:
    return (f"sluice ({version}-{REVISION}) unstable; urgency=medium\n\n"
            f"  * Release {version}: see CHANGELOG.md of the source.\n\n"
            f" -- {maintainer()}  {formatdate(epoch)}\n").encode()


def maintainer() -> str:
    [line] = re.findall(r"^Maintainer: (.*)$", (DEBIAN / "control").read_text(encoding="utf-8"), re.MULTILINE)
    return str(line)


def copyright_file(licence: str, epoch: int) -> str:
    """The package's own licence. `licence` is the text of LICENSE."""
    title, holder, *rest = [part for part in licence.strip().split("\n\n") if part]
    if not title.startswith("MIT") or not holder.startswith("Copyright (c) "):
        raise ValueError("LICENSE is not the MIT licence")
    year = formatdate(epoch).split()[3]
    about = "The licences of what is linked into the program are in THIRD-PARTY-LICENSES.gz beside this file."
    return "\n\n".join(["sluice", about, f"Copyright: {year} {holder.removeprefix('Copyright (c) ')}", "License: Expat", *rest]) + "\n"


def deb(entries: list[Entry], version: str, architecture: str, epoch: int) -> bytes:
    files = [entry for entry in with_folders(entries) if entry.data is not None]
    size = sum((len(entry.data or b"") + 1023) // 1024 for entry in files) + len(with_folders(entries)) - len(files)
    fields = f"Version: {version}-{REVISION}\nArchitecture: {architecture}\nInstalled-Size: {size}\n"
    control = [
        file("control", fields + (DEBIAN / "control").read_text(encoding="utf-8")),
        file("md5sums", "".join(f"{hashlib.md5(entry.data or b'').hexdigest()}  {entry.path}\n" for entry in files
                                if not entry.path.startswith("etc/"))),
        file("conffiles", "".join(f"/{entry.path}\n" for entry in files if entry.path.startswith("etc/"))),
        *(file(script, (DEBIAN / script).read_bytes(), 0o755) for script in ("postinst", "prerm", "postrm")),
    ]
    return ar([("debian-binary", b"2.0\n"), ("control.tar.xz", xz(tar(control, epoch, "./"))),
               ("data.tar.xz", xz(tar(entries, epoch, "./")))], epoch)
