#!/usr/bin/env python3
"""Draws docs/peers.svg from docs/peers.csv: what a reply costs in processor time, and a key in memory, here and in other servers.

    tools/draw_peers.py [FILE]      FILE: by default docs/peers.svg of this checkout

A row of sluice's begins a group, and the rows behind it are its peers; a group without peers is not drawn. The picture has its
own background, so that it is readable on any page; where the reader's system is dark, it is dark.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/peers.csv"

WIDTH, MARGIN, TOP = 900, 20, 96  # pixels
HEADING, ROW, BAR = 34, 30, 11
TIME_LEFT, TIME_WIDTH = 276, 270
MEMORY_LEFT, MEMORY_WIDTH = 650, 175
STYLE = """
text { fill: #1f2328; font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 14px }
.paper { fill: #ffffff; stroke: #d0d7de } .line { stroke: #d0d7de }
.head { font-size: 16px; font-weight: 600 } .bold { font-weight: 600 } .small { font-size: 12px; fill: #59636e }
.ours { fill: #0969da } .peer { fill: #818b98 } .many { opacity: .55 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .paper { fill: #0d1117; stroke: #3d444d } .line { stroke: #3d444d }
  .small { fill: #9198a1 } .ours { fill: #4493f8 } .peer { fill: #656c76 }
}
"""


class Peer(NamedTuple):
    name: str
    protocol: str
    us: dict[str, float]  # by requests outstanding on each connection
    bytes_per_key: float | None  # None: not measured


def groups_of(lines: list[str]) -> list[list[Peer]]:
    """Ours first in each, then its peers; the rows of one server at several depths are one."""
    groups: dict[tuple[str, str], dict[str, Peer]] = {}
    group: dict[str, Peer] = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        name, protocol = row["server"], row["protocol"]
        if name.startswith("floor"):
            continue
        if name.startswith("sluice"):
            group = groups.setdefault((name, protocol), {})
        memory = float(row["bytes_per_key"]) if row["bytes_per_key"] else None
        peer = group.setdefault(name, Peer(name, protocol, {}, memory))
        peer.us[row["depth"]] = float(row["us_per_reply"])
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def bar(x: float, y: float, width: float, kind: str) -> str:
    return f'<rect x="{x:.0f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{BAR}" rx="2" class="{kind}"/>'


def row_of(peer: Peer, top: float, us_max: float, bytes_max: float) -> list[str]:
    ours = peer.name.startswith("sluice")
    kind = "ours" if ours else "peer"
    own = peer.protocol.removeprefix("~ ") if peer.protocol.startswith("~ ") else ""  # it does not speak the group's protocol
    lines = [text(MARGIN + 14, top + 15, peer.name + (f" ({own})" if own else ""), "bold" if ours else "")]
    for number, (depth, us) in enumerate(peer.us.items()):
        y = top + number * (BAR + 2)
        width = TIME_WIDTH * us / us_max
        lines.append(bar(TIME_LEFT, y, width, f"{kind} many" if number else kind))
        lines.append(text(TIME_LEFT + width + 5, y + 10, f"{us:.2f}", "small"))
    if peer.bytes_per_key is not None:
        width = MEMORY_WIDTH * peer.bytes_per_key / bytes_max
        lines.append(bar(MEMORY_LEFT, top + BAR / 2, width, kind))
        lines.append(text(MEMORY_LEFT + width + 5, top + BAR / 2 + 10, f"{peer.bytes_per_key:,.0f}", "small"))
    else:
        lines.append(text(MEMORY_LEFT, top + 15, "not measured", "small"))
    return lines


def draw(lines: list[str]) -> str:
    groups = groups_of(lines)
    peers = [peer for group in groups for peer in group]
    us_max = max(us for peer in peers for us in peer.us.values())
    bytes_max = max(peer.bytes_per_key or 0 for peer in peers)
    height = TOP + len(groups) * HEADING + len(peers) * ROW + MARGIN
    title = "Processor time of a reply and memory of a key: sluice and other servers"
    about = "; ".join(f"{peer.name}, {peer.protocol.removeprefix('~ ')}: {peer.us['1']:.2f} and {peer.us['16']:.2f} us"
                      + (f", {peer.bytes_per_key:,.0f} bytes" if peer.bytes_per_key is not None else "") for peer in peers)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title about">',
        f'<title id="title">{title}</title>',
        f'<desc id="about">{escape(about)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="paper"/>',
        text(TIME_LEFT, 34, "Processor time of a reply, us", "head"),
        text(MEMORY_LEFT, 34, "Memory of a key, bytes", "head"),
        text(MARGIN, 34, "Less is better", "head"),
        bar(TIME_LEFT, 48, 24, "ours"), text(TIME_LEFT + 30, 58, "one request at a time on each connection", "small"),
        bar(TIME_LEFT, 66, 24, "ours many"), text(TIME_LEFT + 30, 76, "16 at a time", "small"),
        text(MEMORY_LEFT, 58, "over 1,000,000 keys of 16 bytes", "small"),
    ]
    top = TOP
    for group in groups:
        out.append(f'<path d="M{MARGIN} {top}H{WIDTH - MARGIN}" class="line"/>')
        out.append(text(MARGIN, top + 21, group[0].protocol, "small"))
        top += HEADING
        for peer in group:
            out += row_of(peer, top, us_max, bytes_max)
            top += ROW
    return "\n".join([*out, "</svg>", ""])


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    file = Path(arguments[0]) if arguments else ROOT / "docs/peers.svg"
    file.write_text(draw(DATA.read_text(encoding="utf-8").splitlines()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
