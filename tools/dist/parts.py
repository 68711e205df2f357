"""What is linked into the programs: found in the linker's maps, named by Debian's packages. From that and the authorities of the
image the list of parts (CycloneDX 1.5) and the text of their licences."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .image import moment

# mold and ld name what they take from an archive as `PATH/libx.a(member.o)`.
MEMBER = re.compile(r"(?:^|\s)([^\s()]+\.a)\([^()\s]+\)", re.MULTILINE)
COMMON = Path("/usr/share/common-licenses")
DISTRIBUTION = "debian-12"

# By source package. A part that is missing here is an error.
LICENCES = {
    "ca-certificates": "MPL-2.0",  # of the certificates, which are all that is taken of it
    "cli11": "BSD-3-Clause",
    "fmtlib": "MIT",
    "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "hiredis": "BSD-3-Clause",
    "leveldb": "BSD-3-Clause",
    "libyaml": "MIT",
    "nghttp2": "MIT",
    "nlohmann-json3": "MIT",
    "openssl": "Apache-2.0",
    "pcre2": "BSD-3-Clause",
    "protobuf": "BSD-3-Clause",
    "snappy": "BSD-3-Clause",
    "spdlog": "MIT",
    "xxhash": "BSD-2-Clause",
    "zlib": "Zlib",
}

# What CMakeLists.txt finds and no archive shows, as it is compiled in from headers; by Debian's package of the headers.
HEADERS = {
    "CLI11": "libcli11-dev",
    "fmt": "libfmt-dev",
    "nlohmann_json": "nlohmann-json3-dev",
    "spdlog": "libspdlog-dev",
    "xxhash": "libxxhash-dev",
}


@dataclass(frozen=True, order=True)
class Part:
    """A source package of Debian, in one version."""

    source: str
    version: str

    @property
    def purl(self) -> str:
        return f"pkg:deb/debian/{quote(self.source)}@{quote(self.version)}?arch=source&distro={DISTRIBUTION}"


class Machine:
    """The packages of this machine, as dpkg knows them."""

    root = Path("/")

    def owner(self, path: str) -> str | None:
        answer = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True, check=False).stdout
        return answer.split(":")[0] or None

    def part(self, package: str) -> Part:
        form = "--showformat=${source:Package} ${source:Version}\n"
        answer = subprocess.run(["dpkg-query", "--show", form, package], capture_output=True, text=True, check=True).stdout
        return Part(*answer.splitlines()[0].split())


class Sysroot:
    """The packages that scripts/build_arm64 unpacked: each has a file in `dpkg`, with its source and what was in it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.parts: dict[str, Part] = {}
        self.owners: dict[str, str] = {}
        for listing in (root / "dpkg").iterdir():
            source, *paths = listing.read_text(encoding="utf-8").splitlines()
            self.parts[listing.name] = Part(*source.split())
            self.owners.update((path, listing.name) for path in paths)

    def owner(self, path: str) -> str | None:
        return self.owners.get(path)

    def part(self, package: str) -> Part:
        return self.parts[package]


def packages(link_map: str, system: Machine | Sysroot, tree: Path, linked_in: Path) -> set[str]:
    """The packages with an archive or a header that is in the program. Archives of `tree` that are not of `system` are our own.
    Paths of the map may be relative to the folder that the linker ran in."""
    found = set(HEADERS.values())
    for archive in {match[1] for match in MEMBER.finditer(link_map)}:
        path = (linked_in / archive).resolve()
        if path.is_relative_to(tree) and not (system.root != Path("/") and path.is_relative_to(system.root)):
            continue
        owner = system.owner(f"/{path.relative_to(system.root)}") if path.is_relative_to(system.root) else None
        if owner is None:
            raise ValueError(f"{archive} is linked in, and no package of {system.root} has it")
        found.add(owner)
    if len(found) == len(HEADERS):
        raise ValueError("the linker's map names no archive of a package")
    return found


def components(by_architecture: dict[str, set[Part]], version: str, epoch: int) -> bytes:
    """The list of parts of all programs, as CycloneDX. A part says for which architecture it is if it is not for all."""
    parts = sorted(set().union(*by_architecture.values()))
    listed = []
    for part in parts:
        if part.source not in LICENCES:
            raise ValueError(f"{part.source} is linked in, and LICENCES in {__name__} does not know its licence")
        licence = LICENCES[part.source]
        which = [name for name, has in by_architecture.items() if part in has]
        listed.append({
            "type": "library", "bom-ref": part.purl, "name": part.source, "version": part.version,
            "licenses": [{"expression": licence} if " " in licence else {"license": {"id": licence}}],
            "purl": part.purl,
            **({} if len(which) == len(by_architecture) else
               {"properties": [{"name": "sluice:architecture", "value": name} for name in which]}),
        })
    program = f"sluice@{version}"
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": moment(epoch),
            "component": {"type": "application", "bom-ref": program, "name": "sluice", "version": version,
                          "licenses": [{"license": {"id": "MIT"}}]},
        },
        "components": listed,
        "dependencies": [{"ref": program, "dependsOn": [part.purl for part in parts]},
                         *({"ref": part.purl, "dependsOn": []} for part in parts)],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document))
    return json.dumps({"serialNumber": f"urn:uuid:{serial}", **document}, indent=1).encode() + b"\n"


def differences(by_architecture: dict[str, set[Part]]) -> list[str]:
    """The parts whose version is not the same everywhere, for a person to read."""
    versions: dict[str, dict[str, str]] = {}
    for architecture, parts in by_architecture.items():
        for part in parts:
            versions.setdefault(part.source, {})[architecture] = part.version
    return [f"{source}: " + ", ".join(f"{version} for {architecture}" for architecture, version in sorted(has.items()))
            for source, has in sorted(versions.items()) if len(set(has.values())) > 1 or len(has) < len(by_architecture)]


def outdated(names: Iterable[str], lists: Path | None) -> list[str]:
    """What apt would upgrade of packages of this machine, for a person to read. By apt's lists of now, if there is a folder for
    them, or else by those that the machine has."""
    apt = ["apt-get", "-qq", "-o", "Debug::NoLocking=1"]
    if lists:
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        apt += ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={lists}", "-o", "APT::Sandbox::User="]
        subprocess.run([*apt, "-o", "Acquire::Retries=3", "update"], check=True, capture_output=True, timeout=600)
    done = subprocess.run([*apt, "--simulate", "install", "--only-upgrade", *sorted(names)], check=False, capture_output=True, text=True,
                          timeout=600, env={**os.environ, "LC_ALL": "C"})
    return upgrades(done.stdout) if done.returncode == 0 else [f"apt-get cannot say it: {done.stderr.strip()}"]


def upgrades(said: str) -> list[str]:
    """Of what `apt-get --simulate` writes."""
    return [f"{name}: {old}, and apt has {new}" for name, old, new in re.findall(r"^Inst (\S+) \[(\S+)\] \((\S+)", said, re.MULTILINE)]


def third_party_licences(names: Iterable[str], documents: Path = Path("/usr/share/doc"), common: Path = COMMON) -> bytes:
    """What Debian's packages say of their licences, each text once, then the licences that those texts only name."""
    texts: dict[str, list[str]] = {}
    for name in sorted(names):
        text = (documents / name / "copyright").read_text(encoding="utf-8")
        texts.setdefault(text, []).append(name)
    # Some are links: GPL is the latest one.
    named = {(common / match[1]).resolve().name for text in texts
             for match in re.finditer(r"/usr/share/common-licenses/([A-Za-z0-9]+(?:-[0-9.]*[0-9])?)", text)}
    chapters = [(", ".join(of), text) for text, of in texts.items()]
    chapters += [(f"The licence {name}", (common / name).read_text(encoding="utf-8")) for name in sorted(named)]
    head = ("The static programs and the library inside the Python package contain code of these packages of Debian 12, and\n"
            "the image has the certificates of ca-certificates. Debian publishes their sources, and sluice.cdx.json names their\n"
            "versions. A program can be linked again with other versions of them: `make dist` of sluice's source does so.\n")
    return (head + "".join(f"\n{'=' * 80}\n{title}\n{'=' * 80}\n\n{text.strip()}\n" for title, text in chapters)).encode()
