#!/usr/bin/env python3
"""Lays out the prose of the pages: one sentence a line, or one clause where a sentence is longer than 100 columns, so that a
change of a page shows the sentences that changed. Headings, tables, code, pictures and HTML stay as they are.

    tools/format_pages.py [--fix] [FILE...]      by default all pages; without --fix it names those that differ
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
FENCE = re.compile(r"^\s*(```+|~~~+)")
# Lines that are not prose: headings, tables, HTML, definitions of links, rules, quotes with markers.
APART = re.compile(r"^\s*(#{1,6} |\||<|\[[^\]]+\]: |(-{3,}|\*{3,}|={3,})\s*$|>\s|!\[)")
ITEM = re.compile(r"^(\s*)([-*+]|\d{1,9}[.)]) +(?=\S)")
# What a line must not begin with, as it would be read as something else than text.
MARKER = re.compile(r"^([-*+] |[-*+]$|\d+[.)]( |$)|#{1,6} |>|\||```|~~~|<|=+$|-+$|:)")
SHORT = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|etc|No|St|approx|resp)\.$")
LOWER_BEGINNINGS = ("sluice", "limitd", "droplet", "nginx", "redis", "throttlecrab", "ccache", "mold")
# Pieces in which a line does not end: code, the address of a link.
WHOLE = re.compile(r"(`+)(?:(?!\1).)+?\1(?!`)|\]\([^)\s]*\)")


def words_of(text: str) -> list[str]:
    """The words, where a piece of code or an address with the text around it is one word."""
    marked = WHOLE.sub(lambda found: found[0].replace(" ", "\0"), text)
    return [word.replace("\0", " ") for word in marked.split()]


def ends_sentence(words: list[str], at: int) -> bool:
    """Does a sentence end with the word at this place?"""
    if at + 1 == len(words):
        return True
    word, after = words[at], words[at + 1]
    if not re.search(r"[.!?][\"')\]*_`]*$", word) or SHORT.search(" ".join(words[max(0, at - 1):at + 1])):
        return False
    if word.endswith("`") and not re.search(r"[.!?]`$", word):
        return False
    if re.match(r"^\W*[a-z]", after) and not after.startswith(("`", "[")):
        return after.lstrip("(*_[").startswith(LOWER_BEGINNINGS)
    return True


def is_safe(words: list[str], at: int) -> bool:
    """May a line begin with the word at this place?"""
    return not MARKER.match(" ".join(words[at:at + 2]))


def clause_weight(word: str) -> int:
    """How good a place for an end of line is behind this word."""
    if re.search(r"[;:][\"')*_]*$", word):
        return 3
    if re.search(r",[\"')*_]*$", word) or word.endswith(")"):
        return 2
    return 1


def broken(words: list[str], room: int) -> list[str]:
    """A sentence as lines that fit, broken behind clauses where that leaves no short lines."""
    lines = []
    while words:
        width, fits = 0, 0
        for at, word in enumerate(words):
            width += len(word) + (at > 0)
            if width > room and at > 0:
                break
            fits = at + 1
        if fits == len(words):
            lines.append(" ".join(words))
            break
        best, best_at = 0, 0
        width = 0
        for at in range(fits):
            width += len(words[at]) + (at > 0)
            if not is_safe(words, at + 1):
                continue
            weight = clause_weight(words[at])
            if weight > 1 and width < room * 2 // 5:
                weight = 0
            if weight >= best and (weight > 0 or best_at == 0):
                best, best_at = weight, at + 1
        if best_at == 0:
            best_at = fits
            while best_at < len(words) and not is_safe(words, best_at):
                best_at += 1
        lines.append(" ".join(words[:best_at]))
        words = words[best_at:]
    return lines


def laid_out(text: str, first: str, rest: str) -> list[str]:
    """One paragraph; `first` and `rest` are what its lines begin with."""
    words = words_of(text)
    lines: list[str] = []
    begin = 0
    for at in range(len(words)):
        if ends_sentence(words, at) and (at + 1 == len(words) or is_safe(words, at + 1)):
            lines += broken(words[begin:at + 1], COLUMNS - len(rest))
            begin = at + 1
    return [(first if number == 0 else rest) + line for number, line in enumerate(lines)]


def format_page(text: str) -> str:
    out: list[str] = []
    paragraph: list[str] = []
    first = rest = ""
    fence = ""
    in_html = False

    def flush() -> None:
        nonlocal paragraph, first, rest
        if paragraph:
            out.extend(laid_out(" ".join(paragraph), first, rest))
        paragraph, first, rest = [], "", ""

    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence:
            out.append(line)
            if found and line.strip() == fence:
                fence = ""
            continue
        if in_html:
            out.append(line)
            in_html = bool(line.strip())
            continue
        if found:
            flush()
            fence = found[1]
            out.append(line)
            continue
        if not line.strip():
            flush()
            out.append(line)
            continue
        item = ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        if not paragraph and indent >= code_indent(out):
            out.append(line)
        elif item:
            flush()
            first = item[0]
            rest = " " * len(item[0])
            paragraph = [line[len(item[0]):]]
        elif not paragraph and APART.match(line):
            out.append(line)
            in_html = line.lstrip().startswith("<")
        elif paragraph and APART.match(line):
            flush()
            out.append(line)
        elif paragraph:
            hard = paragraph[-1].endswith(("  ", "\\"))
            if hard:
                begin, going_on = first, rest
                last = paragraph[-1]
                flush()
                out[-1] += "  " if last.endswith("  ") else ""
                first = rest = going_on or begin
            paragraph.append(line.strip() if not line.endswith("  ") else line.lstrip())
        else:
            first = rest = " " * indent
            paragraph = [line.lstrip() if line.endswith("  ") else line.strip()]
    flush()
    return "\n".join(out)


def code_indent(lines: list[str]) -> int:
    """The indentation from which on what follows these lines, after a blank one, is code."""
    for line in reversed(lines):
        item = ITEM.match(line)
        if item and len(item[1]) < 4:
            return len(item[0]) + 4
        if line.strip() and not line.startswith(" "):
            break
    return 4


def pages() -> list[Path]:
    listed = subprocess.run(("git", "ls-files", "*.md"), cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.splitlines()]


def main() -> int:
    words = sys.argv[1:]
    if any(word.startswith("-") and word != "--fix" for word in words):
        print(__doc__)
        return 2
    fix = "--fix" in words
    status = 0
    for page in [Path(word) for word in words if word != "--fix"] or pages():
        before = page.read_text(encoding="utf-8")
        after = format_page(before)
        if before == after:
            continue
        if fix:
            page.write_text(after, encoding="utf-8")
        else:
            print(f"{page}: is not laid out; `make format` repairs this")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
