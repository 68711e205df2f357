"""The package for Python with its library inside."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from pathlib import Path

from . import elf
from .archive import zipped

BINDING = Path(__file__).resolve().parents[2] / "bindings/python"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# What every distribution with such a C library has; of libgcc, versions that are older than that.
MAY_BE_NEEDED = re.compile(r"(libc|libm|libgcc_s|ld-linux-(x86-64|aarch64))\.so\.\d+")
OF_LIBGCC = {"GCC_3.0", "GCC_3.3", "GCC_3.4", "GCC_4.2.0", "GCC_7.0.0"}


def platform(library: bytes, architecture: str) -> str:
    """The tag of the systems that the library runs on: those whose C library has what it asks of it. Throws ValueError."""
    facts = elf.read(library)
    if facts.machine != elf.MACHINES[architecture]:
        raise ValueError(f"the library is not for {architecture}")
    if foreign := sorted(name for name in facts.needed if not MAY_BE_NEEDED.fullmatch(name)):
        raise ValueError(f"the library needs {', '.join(foreign)}")
    if foreign := sorted(name for name in facts.exports if not name.startswith("sluice_")):
        raise ValueError(f"the library exports {', '.join(foreign)}")
    numbers = {name: match[1].split(".") for name in facts.versions if (match := re.fullmatch(r"GLIBC_([0-9.]+)", name))}
    if foreign := sorted(facts.versions - set(numbers) - OF_LIBGCC):
        raise ValueError(f"the library needs the versions {', '.join(foreign)}")
    major, minor = max(tuple(map(int, number[:2])) for number in numbers.values())
    return f"manylinux_{major}_{minor}_{MACHINES[architecture]}"


def wheel(library: bytes, architecture: str, version: str, texts: dict[str, bytes], epoch: int) -> tuple[str, bytes]:
    """The file's name and its bytes. `texts`: licences, by their names."""
    project = tomllib.loads((BINDING / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if project["version"] != version:
        raise ValueError(f"bindings/python/pyproject.toml has the version {project['version']}, not {version}")
    package = project["name"].replace("-", "_")
    tag = f"py3-none-{platform(library, architecture)}"
    about = f"{package}-{version}.dist-info"
    files = {f"{package}/{path.name}": path.read_bytes() for path in sorted((BINDING / package).glob("*.py"))}
    files[f"{package}/libsluice-limiter.so"] = library
    files[f"{about}/METADATA"] = "\n".join([
        "Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
        "License: MIT", f"Requires-Python: {project['requires-python']}", *(f"License-File: {name}" for name in texts), ""]).encode()
    files[f"{about}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files.update((f"{about}/{name}", text) for name, text in texts.items())
    record = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{about}/RECORD"] = "".join([*record, f"{about}/RECORD,,\n"]).encode()
    return f"{package}-{version}-{tag}.whl", zipped(files.items(), epoch)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
