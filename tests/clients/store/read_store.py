#!/usr/bin/env python3
"""Prints what a store on disk holds, as `sluice store dump` does: written from docs/store-format.md alone.

    read_store.py DIR
"""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

ALGORITHMS = ("unlimited deny fixed_window aligned_window token_bucket sliding_window sliding_log fixed_bucket "
              "gcra_cell gcra_crab gcra_redis").split()
HEAD = struct.Struct("<IIQQI")
WRAP = 1 << 64


NOMINAL_HOURS = {"hour": 1, "day": 24, "week": 7 * 24, "month": 30 * 24, "year": 365 * 24}


class Damaged(Exception):
    """The store is not as the page says; the text says where."""


def _table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = _table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Input:
    """Takes from the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise Damaged("a body ends early")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def number(self) -> int:
        coded = self.varint()
        return coded >> 1 ^ -(coded & 1)

    def text(self) -> bytes:
        return self.bytes(self.varint())

    def fixed64(self) -> int:
        return struct.unpack("<Q", self.bytes(8))[0]

    def done(self) -> bool:
        return self.at == len(self.data)


def limit_of(text: Input) -> dict[str, Any]:
    number = text.varint()
    if number < len(ALGORITHMS):
        return {"algorithm": ALGORITHMS[number], "quota": text.number(), "window_us": text.number(), "burst": text.number()}
    if number > len(ALGORITHMS):
        raise Damaged(f"algorithm {number}")
    # An aligned_window of the calendar: "month@Europe/Berlin,month_day=9".
    quota, (window, *more) = text.number(), text.text().decode().split(",")
    unit, _, zone = window.partition("@")
    limit = {"algorithm": "aligned_window", "quota": quota, "window_us": NOMINAL_HOURS[unit] * 3_600_000_000, "burst": 0,
             "calendar": unit, "time_zone": zone}
    return limit | dict(one.split("=") for one in more)


def wrapped(value: int) -> int:
    value %= WRAP
    return value - WRAP if value >= WRAP // 2 else value


class Block(NamedTuple):
    type: int
    more: bool
    synced: int
    body: bytes
    end: int


def block_at(data: bytes, at: int, mark: int) -> Block | None:
    """None: there is no block of the file with that mark, the store's id plus the file's number."""
    if at + HEAD.size > len(data):
        return None
    crc, length, file, synced, kind = HEAD.unpack_from(data, at)
    end = at + HEAD.size + length
    if file != mark & 0xFFFFFFFFFFFFFFFF or end > len(data) or crc32c(data[at + 4:end]) != crc:
        return None
    return Block(kind & 0xFF, kind >= 256, synced, data[at + HEAD.size:end], end)


class Store:
    """Counters by (prefix, key, suffix): (limits, forget, cells); and texts."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / "sluice"
        self.counters: dict[tuple[bytes, bytes, bytes], tuple[Any, int | None, list[tuple[int, int]]]] = {}
        self.texts: dict[bytes, bytes] = {}
        lines = (self.folder / "CURRENT").read_bytes()
        body, _, crc = lines.rpartition(b"crc ")
        if crc32c(body) != int(crc, 16):
            raise Damaged("CURRENT does not check")
        found = re.fullmatch(rb"sluice store 5, read by sluice (\S+) and later\nid ([0-9a-f]{16})\n"
                             rb"snapshot (\d+) directory (\d+) crc ([0-9a-f]{8})\nlog (\d+)\n", body)
        if not found:
            raise Damaged("CURRENT is of another format")
        self.id = int(found[2], 16)
        snapshot, directory_at, directory_crc, first = int(found[3]), int(found[4]), int(found[5], 16), int(found[6])
        if snapshot:
            self.read_snapshot(snapshot, directory_at, directory_crc)
        self.read_logs(first)

    def read_snapshot(self, number: int, directory_at: int, directory_crc: int) -> None:
        data = (self.folder / f"snapshot-{number:012}").read_bytes()
        at = count = 0
        while at < len(data):
            block = block_at(data, at, self.id + number)
            if block is None:
                raise Damaged(f"snapshot at {at}")
            if at == 0 and Input(block.body).fixed64() != self.id:
                raise Damaged("a snapshot of another store")
            if at == directory_at:
                if HEAD.unpack_from(data, at)[0] != directory_crc or Input(block.body).varint() != count:
                    raise Damaged("another snapshot than CURRENT names")
            if block.type == 2:
                count += self.read_counters(block.body)
            if block.type == 3:
                self.read_texts(block.body)
            at = block.end

    def read_logs(self, first: int) -> None:
        sectors = (self.folder / "SYNCED").read_bytes()
        synced = 0
        for sector in (sectors[:32], sectors[512:544]):
            if len(sector) == 32 and crc32c(sector[:24]) == struct.unpack("<Q", sector[24:])[0]:
                synced = max(synced, struct.unpack("<Q", sector[16:24])[0])
        logs: list[tuple[int, bytes, int, int]] = []  # number, bytes, position, where its second block is
        numbers = sorted(int(path.name[4:]) for path in self.folder.glob("log-" + "[0-9]" * 12))
        wanted = numbers[-1]
        for number in reversed(numbers):
            if number != wanted:
                continue
            data = (self.folder / f"log-{number:012}").read_bytes()
            block = block_at(data, 0, self.id + number)
            if block is None:
                wanted = number - 1
                logs.clear()
                continue
            begin = Input(block.body)
            if begin.fixed64() != self.id:
                raise Damaged("a log of another store")
            wanted = begin.fixed64()
            logs.append((number, data, begin.fixed64(), block.end))
            if number == first:
                break
        if not logs or logs[-1][0] != first:
            raise Damaged(f"log {wanted} is missing")
        logs.reverse()
        end = 0
        for i, (number, data, position, at) in enumerate(logs):
            stop = logs[i + 1][2] - position if i + 1 < len(logs) else len(data)
            whole: list[Block] = []
            while at < stop:
                block = block_at(data[:stop], at, self.id + number)
                if block is None:
                    break
                whole.append(block)
                at = block.end
                if block.more:
                    continue
                for one in whole:
                    if one.type == 2:
                        self.read_counters(one.body)
                    if one.type == 3:
                        self.read_texts(one.body)
                whole.clear()
                end = position + at
            if at < stop and i + 1 < len(logs):
                break
        if end and end < synced:
            raise Damaged(f"the logs end at {end}, and were synced up to {synced}")

    def read_texts(self, body: bytes) -> None:
        given = Input(body)
        while not given.done():
            name = given.text()
            if given.varint():
                self.texts[name] = given.text()
            else:
                self.texts.pop(name, None)

    def read_counters(self, body: bytes) -> int:
        given = Input(body)
        base = wrapped(given.fixed64())
        spaces = [Input(given.text()) for _ in range(given.varint())]
        names = [(space.text(), space.text()) for space in spaces]
        lists = []
        for _ in range(given.varint()):
            text = Input(given.text())
            lists.append([limit_of(text) for _ in range(text.varint())])
        records = given.varint()
        for _ in range(records):
            prefix, suffix = names[given.varint()]
            name = (prefix, given.text(), suffix)
            cells = given.varint()
            if cells == 0:
                self.counters.pop(name, None)
                continue
            head = given.varint()
            forget = None if head & 1 else wrapped(base + given.number())
            last, state = base if forget is None else forget, []
            for _ in range(cells):
                last = wrapped(last + given.number())
                state.append((last, given.number()))
            self.counters[name] = (lists[(head >> 1) - 1] if head >> 1 else [], forget, state)
        if not given.done():
            raise Damaged("a body is too long")
        return records


def main() -> None:
    store = Store(Path(sys.argv[1]))
    for (prefix, key, suffix), (limits, forget, cells) in sorted(store.counters.items()):
        print(json.dumps({"prefix": prefix.decode(errors="replace"), "key": key.decode(errors="replace"),
                          "suffix": suffix.decode(errors="replace"), "limits": limits, "forget_us": forget,
                          "cells": cells}))
    for name, text in sorted(store.texts.items()):
        print(json.dumps({"name": name.decode(errors="replace"), "text": text.decode(errors="replace")}))


if __name__ == "__main__":
    main()
