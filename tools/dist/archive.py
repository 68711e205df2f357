"""Archives whose bytes follow from their content alone: sorted, one time for all, owners by number."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Entry:
    """What an archive has at a path, which is relative: a file, a link if `link` is set, or else a folder."""

    path: str
    data: bytes | None = None
    mode: int = 0o644
    link: str | None = None
    owner: int = 0  # user and group


def file(path: str, data: bytes | str, mode: int = 0o644) -> Entry:
    return Entry(path, data.encode() if isinstance(data, str) else data, mode)


def folder(path: str, mode: int = 0o755, owner: int = 0) -> Entry:
    return Entry(path, mode=mode, owner=owner)


def link(path: str, target: str) -> Entry:
    return Entry(path, mode=0o777, link=target)


def below(prefix: str, entries: Iterable[Entry]) -> list[Entry]:
    return [replace(entry, path=f"{prefix}/{entry.path}") for entry in entries]


def with_folders(entries: Iterable[Entry]) -> list[Entry]:
    """The entries and the folders above them, sorted, so that a folder is before what is in it."""
    result: dict[str, Entry] = {}
    for entry in entries:
        if entry.path in result:
            raise ValueError(f"{entry.path} is in the archive twice")
        result[entry.path] = entry
    for path in list(result):
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                result.setdefault(str(parent), folder(str(parent)))
    return [result[path] for path in sorted(result)]


def tar(entries: Iterable[Entry], epoch: int, root: str = "") -> bytes:
    """A USTAR archive. `root` is put in front of each path: `./` as dpkg has it, for which there is an entry as well."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in ([folder("")] if root else []) + with_folders(entries):
            member = tarfile.TarInfo(root + entry.path)
            member.mode, member.mtime, member.uid, member.gid = entry.mode, epoch, entry.owner, entry.owner
            if entry.data is not None:
                member.size = len(entry.data)
            elif entry.link is not None:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
            else:
                member.type = tarfile.DIRTYPE
            archive.addfile(member, io.BytesIO(entry.data or b""))
    return out.getvalue()


def gz(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=6)


def ar(members: Iterable[tuple[str, bytes]], epoch: int) -> bytes:
    """The archive that a .deb is."""
    out = [b"!<arch>\n"]
    for name, data in members:
        out.append(f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
        out.append(data + b"\n" * (len(data) % 2))
    return b"".join(out)


def zipped(files: Iterable[tuple[str, bytes]], epoch: int) -> bytes:
    """A zip archive, in the order given."""
    time = datetime.fromtimestamp(epoch, timezone.utc).timetuple()[:6]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files:
            member = zipfile.ZipInfo(name, time)
            member.create_system, member.external_attr = 3, 0o100644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()
