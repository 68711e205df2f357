"""The messages of state-of-the-world xDS with rate limits in them, as bytes: what a control plane sends is written field by
field, so that a test can send what no library would."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

RATE_LIMIT_CONFIG = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK = range(1, 8)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """One field; nothing for a default, as proto3 has it. An empty message is written: bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    if isinstance(value, str):
        value = value.encode()
        if not value:
            return b""
    return varint(number << 3 | 2) + varint(len(value)) + value


Fields = dict[int, list["int | bytes"]]


def read(message: bytes) -> Fields:
    """Its fields by number, in their order."""
    fields: Fields = defaultdict(list)
    at = 0

    def take_varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        tag = take_varint()
        kind = tag & 7
        if kind == 0:
            fields[tag >> 3].append(take_varint())
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            if kind != 2:
                raise ValueError(f"wire type {kind}")
            size = take_varint()
        if at + size > len(message):
            raise ValueError("a field goes past its message")
        fields[tag >> 3].append(message[at:at + size])
        at += size
    return fields


def text(fields: Fields, number: int) -> str:
    found = fields.get(number, [b""])[-1]
    assert isinstance(found, bytes)
    return found.decode()


def policy(unit: int, requests: int, unlimited: bool = False) -> bytes:
    return field(1, unit) + field(2, requests) + field(3, int(unlimited))


def descriptor(key: str, value: str = "", limit: bytes | None = None, below: Iterable[bytes] = (), shadow: bool = False,
               quota: bool = False) -> bytes:
    return (field(1, key) + field(2, value) + (b"" if limit is None else field(3, limit))
            + b"".join(field(4, each) for each in below) + field(5, int(shadow)) + field(7, int(quota)))


def config(domain: str, *descriptors: bytes, name: str | None = None) -> bytes:
    """A RateLimitConfig, by default named as its domain."""
    return field(1, domain if name is None else name) + field(2, domain) + b"".join(field(3, each) for each in descriptors)


def limit_of(requests: int, domain: str = "a") -> bytes:
    """One descriptor, k=v, with so many requests a day."""
    return config(domain, descriptor("k", "v", policy(DAY, requests)))


def response(version: str, nonce: str, resources: Iterable[bytes], type_url: str = RATE_LIMIT_CONFIG,
             resource_type: str = RATE_LIMIT_CONFIG) -> bytes:
    """A DiscoveryResponse."""
    return (field(1, version) + b"".join(field(2, field(1, resource_type) + field(2, each)) for each in resources)
            + field(4, type_url) + field(5, nonce))


@dataclass(frozen=True)
class Node:
    id: str
    metadata: dict[str, str]


@dataclass(frozen=True)
class Request:
    """A DiscoveryRequest; `error`: the code and text of a refusal."""

    version: str
    nonce: str
    node: Node | None
    names: tuple[str, ...]
    type_url: str
    error: tuple[int, str] | None
    at: float  # by time.monotonic
    stream: int

    @property
    def told(self) -> tuple[str, str, str | None]:
        """Version, nonce, and the text of the refusal."""
        return self.version, self.nonce, None if self.error is None else self.error[1]


def _read_struct(message: bytes) -> dict[str, str]:
    """A google.protobuf.Struct of texts."""
    members = {}
    for entry in read(message)[1]:
        assert isinstance(entry, bytes)
        pair = read(entry)
        assert isinstance(pair[2][-1], bytes)
        value = read(pair[2][-1])
        if list(value) != [3]:
            raise ValueError(f"a value that is no text: {dict(value)}")
        members[text(pair, 1)] = text(value, 3)
    return members


def read_request(message: bytes, at: float, stream: int) -> Request:
    fields = read(message)
    node = error = None
    for each in fields.get(2, []):
        assert isinstance(each, bytes)
        of_node = read(each)
        metadata = of_node.get(3, [b""])[-1]
        assert isinstance(metadata, bytes)
        node = Node(text(of_node, 1), _read_struct(metadata))
    for each in fields.get(6, []):
        assert isinstance(each, bytes)
        status = read(each)
        code = status.get(1, [0])[-1]
        assert isinstance(code, int)
        error = code, text(status, 2)
    names = tuple(each.decode() for each in fields.get(3, []) if isinstance(each, bytes))
    return Request(text(fields, 1), text(fields, 5), node, names, text(fields, 4), error, at, stream)

