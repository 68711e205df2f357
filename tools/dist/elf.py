"""What is read of a program or a library of 64 bits, little-endian: its machine, how it is linked, what it exports."""

from __future__ import annotations

import struct
from dataclasses import dataclass

MACHINES = {"amd64": 62, "arm64": 183}

PT_INTERP = 3
SHT_SYMTAB, SHT_DYNAMIC, SHT_DYNSYM, SHT_VERNEED = 2, 6, 11, 0x6FFFFFFE
DT_NEEDED = 1


@dataclass(frozen=True)
class Elf:
    machine: int
    static: bool  # no loader of the system is asked for
    stripped: bool
    needed: frozenset[str]  # libraries
    versions: frozenset[str]  # of symbols of these, as GLIBC_2.34
    exports: frozenset[str]


def read(data: bytes) -> Elf:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this is no ELF file of 64 bits, little-endian")
    machine, = struct.unpack_from("<H", data, 18)
    programs, sections = struct.unpack_from("<QQ", data, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", data, 54)
    kinds = [struct.unpack_from("<I", data, programs + i * program_size)[0] for i in range(program_count)]
    table = [struct.unpack_from("<IIQQQQIIQQ", data, sections + i * section_size) for i in range(section_count)]

    def text(strings: int, at: int) -> str:
        begin = table[strings][4] + at
        return data[begin:data.index(b"\0", begin)].decode()

    needed, versions, exports = set(), set(), set()
    for _, kind, _, _, offset, size, strings, count, _, _ in table:
        if kind == SHT_DYNAMIC:
            for tag, value in struct.iter_unpack("<QQ", data[offset:offset + size]):
                if tag == DT_NEEDED:
                    needed.add(text(strings, value))
        elif kind == SHT_DYNSYM:
            for name, info, _, section, _, _ in struct.iter_unpack("<IBBHQQ", data[offset:offset + size]):
                if section != 0 and info >> 4 in (1, 2):  # defined here; global or weak
                    exports.add(text(strings, name))
        elif kind == SHT_VERNEED:
            versions |= _versions(data, offset, count, lambda at, strings=strings: text(strings, at))
    return Elf(machine, PT_INTERP not in kinds, SHT_SYMTAB not in [row[1] for row in table], frozenset(needed),
               frozenset(versions), frozenset(exports))


def _versions(data: bytes, at: int, count: int, text) -> set[str]:
    """What a section of needed versions names: a list for each library, both linked by their distances."""
    found = set()
    for _ in range(count):
        _, names, _, first, following = struct.unpack_from("<HHIII", data, at)
        name_at = at + first
        for _ in range(names):
            _, _, _, name, next_name = struct.unpack_from("<IHHII", data, name_at)
            found.add(text(name))
            name_at += next_name
        at += following
    return found
