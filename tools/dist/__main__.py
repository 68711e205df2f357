"""Makes dist/ of the programs that `scripts/dist` has built: what a release consists of.

    python3 -m tools.dist [--only amd64] [--strict] [--into dist] [--amd64 build/release/dist] [--arm64 build/arm64/dist]

The two folders are those of the static programs, the linker's maps and the libraries for Python. Every time in an archive is
SOURCE_DATE_EPOCH, by default that of the commit, so two runs leave the same bytes. SLUICE_SOURCE_URL, where it is set, is the
address of the source that the image names. --strict, for a release, refuses parts that are not Debian's latest, or not the same
ones for each architecture; without it they are told.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import authorities, elf, image, package, parts, tree, wheel
from .archive import below, file, gz, tar

ROOT = Path(__file__).resolve().parents[2]
PROGRAM_BYTES_MAX = 32 << 20
IMAGE_BYTES_MAX = 9_000_000  # for each architecture
SYSTEMD = ROOT / "examples/systemd"
PACKED = ("bindings/python", "deploy", "docs", "examples")


class Refused(Exception):
    """There can be no release; the text says why."""


@dataclass(frozen=True)
class Built:
    """What was built for one architecture."""

    architecture: str
    program: bytes
    library: bytes
    parts: set[parts.Part]
    packages: set[str]


def output(*command: str | Path) -> bytes:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60).stdout


def commit() -> tuple[str, int]:
    """The name of the commit, marked if files differ from it or lie beside it where something is packed; and the time that
    everything gets."""
    revision = output("git", "rev-parse", "HEAD").decode().strip()
    if output("git", "status", "--porcelain", "--untracked-files=no") or output("git", "status", "--porcelain", "--", *PACKED):
        revision += "-modified"
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct").decode()
    return revision, int(epoch)


def read_built(architecture: str, folder: Path) -> Built:
    program = (folder / "sluice").read_bytes()
    facts = elf.read(program)
    if facts.machine != elf.MACHINES[architecture]:
        raise Refused(f"{folder}/sluice is not for {architecture}")
    if not facts.static or facts.needed or not facts.stripped:
        raise Refused(f"{folder}/sluice is not static and stripped")
    if len(program) > PROGRAM_BYTES_MAX:
        raise Refused(f"{folder}/sluice has {len(program)} bytes; at most {PROGRAM_BYTES_MAX} are allowed")
    system = parts.Machine() if architecture == "amd64" else parts.Sysroot(ROOT / "build/arm64/sysroot")
    names = set()
    for link_map in ("sluice.map", "libsluice-limiter.map"):
        names |= parts.packages((folder / link_map).read_text(encoding="utf-8", errors="replace"), system, ROOT, folder.parent)
    return Built(architecture, program, (folder / "libsluice-limiter.so").read_bytes(), {system.part(name) for name in names}, names)


def chart(version: str, epoch: int) -> bytes:
    """The Helm chart, packed as helm does."""
    top = ROOT / "deploy/chart/sluice"
    about = (top / "Chart.yaml").read_text(encoding="utf-8")
    for key in ("version", "appVersion"):
        if not re.search(rf'^{key}: "?{re.escape(version)}"?$', about, re.MULTILINE):
            raise Refused(f"the {key} of deploy/chart/sluice/Chart.yaml is not {version}")
    return gz(tar([file(f"sluice/{path.relative_to(top)}", path.read_bytes()) for path in tree.tracked(top)], epoch))


def compose(version: str) -> dict[str, bytes]:
    """The file for Compose and those that it mounts, by their names."""
    files = {path.name: path.read_bytes() for path in sorted((ROOT / "deploy").glob("compose*.yaml"))}
    if not re.search(rb"image: \S*sluice:" + re.escape(version).encode() + rb"\s", files["compose.yaml"]):
        raise Refused(f"deploy/compose.yaml does not name the image sluice:{version}")
    return files


def pages(program: Path, scratch: Path) -> tuple[dict[str, bytes], dict[str, bytes], bytes]:
    """Pages of the manual, completions by shell, and the sample configuration, as the program prints them."""
    output(program, "man", "--to", scratch / "man")
    manual = {path.name: path.read_bytes() for path in sorted((scratch / "man").iterdir())}
    completions = {shell: output(program, "completion", shell) for shell in ("bash", "zsh", "fish")}
    return manual, completions, output(program, "init", "-")


def unit(name: str, bindir: str) -> bytes:
    return (SYSTEMD / f"{name}.in").read_text(encoding="utf-8").replace("@SLUICE_BINDIR@", bindir).encode()


@dataclass(frozen=True)
class Common:
    """What the files of every architecture have in common."""

    version: str
    epoch: int
    manual: dict[str, bytes]
    completions: dict[str, bytes]
    sample: bytes
    documents: dict[str, bytes]
    guide: dict[str, bytes]  # README.md and what it leads to


def of_architecture(one: Built, common: Common) -> dict[str, bytes]:
    """The files for one architecture, by name."""
    units = ("sluice.service", "sluice.socket")
    name, version, epoch = f"sluice-linux-{one.architecture}", common.version, common.epoch
    tarball = below(f"sluice-{version}", [
        file("sluice", one.program, 0o755), file("sluice.yaml", common.sample),
        *(file(path, text) for path, text in {**common.guide, **common.documents}.items()),
        *(file(path, unit(path, "/usr/local/bin")) for path in units),
        *(file(f"man/man1/{page}", text) for page, text in common.manual.items()),
        *(file(f"completions/{path}", common.completions[shell])
          for shell, path in (("bash", "sluice.bash"), ("zsh", "_sluice"), ("fish", "sluice.fish"))),
    ])
    installed = package.contents(one.program, common.manual, common.completions, {path: unit(path, "/usr/bin") for path in units},
                                 common.sample, common.documents, version, epoch)
    return {
        name: one.program,
        f"{name}.tar.gz": gz(tar(tarball, epoch)),
        package.name(version, one.architecture): package.deb(installed, version, one.architecture, epoch),
        **dict([wheel.wheel(one.library, one.architecture, version, common.documents, epoch)]),
    }


def judge_parts(by_architecture: dict[str, set[parts.Part]], names: set[str], lists: Path | None) -> None:
    """Says which parts differ between the architectures, and which of this machine's packages are not Debian's latest. With a folder
    for apt's lists that is refused."""
    found = [f"the versions differ: {line}" for line in parts.differences(by_architecture)]
    found += [f"not the latest: {line}" for line in parts.outdated(names, lists)]
    for line in found:
        print(f"dist: {line}", file=sys.stderr)
    if found and lists:
        raise Refused("a release has the latest fixes of its parts (above), and the same ones for each architecture: apt-get upgrade")


def artefacts(built: list[Built], program: Path, scratch: Path, strict: bool) -> dict[str, bytes]:
    """Every file of a release but the sums, by name."""
    revision, epoch = commit()
    version = output(program, "--version").decode().split()[1]
    packages = {authorities.PACKAGE}.union(*(one.packages for one in built))
    documents = {"LICENSE": (ROOT / "LICENSE").read_bytes(), "THIRD-PARTY-LICENSES": parts.third_party_licences(packages)}
    common = Common(version, epoch, *pages(program, scratch), documents, tree.linked(ROOT, "README.md"))
    trusted = parts.Machine().part(authorities.PACKAGE)
    by_architecture = {one.architecture: one.parts | {trusted} for one in built}
    judge_parts(by_architecture, {authorities.PACKAGE}.union(*(one.packages for one in built if one.architecture == "amd64")),
                scratch / "apt" if strict else None)

    result = {"sluice.cdx.json": parts.components(by_architecture, version, epoch), f"sluice-{version}.tgz": chart(version, epoch),
              **compose(version)}
    for store in ("redis", "disk"):
        result[f"kubernetes-{store}.yaml"] = (ROOT / f"deploy/kubernetes/{store}.yaml").read_bytes()
    config = image.runtime(version, revision, os.environ.get("SLUICE_SOURCE_URL"), epoch)
    bundle = authorities.bundle()
    roots = {one.architecture: image.root(one.program, documents, bundle) for one in built}
    # Nearly all of the time is that of the compressors, which run side by side.
    with ThreadPoolExecutor() as pool:
        layout = pool.submit(image.layout, roots, version, config, epoch)
        for files in pool.map(lambda one: of_architecture(one, common), built):
            result.update(files)
        result["sluice-oci.tar"] = layout.result()
    if len(result["sluice-oci.tar"]) > IMAGE_BYTES_MAX * len(built):
        raise Refused(f"sluice-oci.tar has {len(result['sluice-oci.tar'])} bytes; "
                      f"at most {IMAGE_BYTES_MAX} are allowed for each architecture")
    return result


def sums(files: dict[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def leave(files: dict[str, bytes], into: Path) -> None:
    """Writes the files beside the folder and then puts them in its place, so that it is never half there."""
    fresh = into.with_name(f".{into.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name, data in {**files, "SHA256SUMS": sums(files)}.items():
        path = fresh / name
        path.write_bytes(data)
        path.chmod(0o755 if data.startswith(b"\x7fELF") else 0o644)
    shutil.rmtree(into, ignore_errors=True)
    fresh.rename(into)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools.dist", description="makes dist/ of the programs that were built")
    parser.add_argument("--only", choices=["amd64"], help="leave the other architecture out")
    parser.add_argument("--strict", action="store_true", help="refuse parts that are not Debian's latest")
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    parser.add_argument("--amd64", type=Path, default=ROOT / "build/release/dist")
    parser.add_argument("--arm64", type=Path, default=ROOT / "build/arm64/dist")
    options = parser.parse_args(arguments)
    folders = {"amd64": options.amd64.resolve()}
    if options.only:
        print("dist: without arm64: the image is for amd64 alone, and there is no program and no package for arm64")
    else:
        folders["arm64"] = options.arm64.resolve()
    scratch = ROOT / "build/dist"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        built = [read_built(architecture, folder) for architecture, folder in folders.items()]
        files = artefacts(built, folders["amd64"] / "sluice", scratch, options.strict)
    except (OSError, ValueError, Refused, subprocess.SubprocessError) as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    leave(files, options.into)
    for name in sorted(files):
        print(f"dist: {len(files[name]):>10} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
