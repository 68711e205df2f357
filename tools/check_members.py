#!/usr/bin/env python3
"""Finds classes with more than twenty data members whose comment does not say why; prints file:line for each, exits 1 on
any. The reason is a sentence of the comment before the class that begins with "More than twenty members:".

    tools/check_members.py [ROOT]       ROOT: the checkout, by default the one this file is in
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MEMBERS_MAX = 20
REASON = "More than twenty members:"

CLASS = re.compile(r"^[ \t]*(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?([\w:]+)[^;{}()=]*\{", re.MULTILINE)
NO_MEMBER = re.compile(r"(?:using|friend|static|enum|class|struct|typedef|template|static_assert)\b")


class Breach(NamedTuple):
    path: Path
    line: int
    text: str


def without_text(code: str) -> str:
    """Comments and literals become blanks, so that lines stay where they are."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return re.sub(r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])\'', blank, code, flags=re.DOTALL)


def body_at(code: str, start: int) -> str:
    """The text between the brace before `start` and its partner, without the contents of inner braces."""
    depth, body = 1, []
    for char in code[start:]:
        if char == "}":
            depth -= 1
            if depth == 0:
                break
            if depth == 1:
                body.append("{};" if re.search(r"\)[\w\s]*$", "".join(body[-80:])) else "{}")
        elif char == "{":
            depth += 1
        elif depth == 1:
            body.append(char)
    return "".join(body)


def count_members(body: str) -> int:
    """The number of members that are declared, without functions; `int a, b;` are two."""
    body = re.sub(r"\balignas\([^()]*\)", " ", body)
    while (shorter := re.sub(r"<[^<>;]*>", " ", body)) != body:
        body = shorter
    count = 0
    for statement in body.split(";"):
        text = re.sub(r"^(?:\s*(?:public|private|protected)\s*:)+", "", statement).strip()
        if text and "(" not in text and not NO_MEMBER.match(text) and re.search(r"\w\s+[*&\w]|[*&]\s*\w", text):
            count += 1 + text.count(",")
    return count


def explained(code: str, start: int) -> bool:
    """Does the comment that ends where the class begins give the reason?"""
    comment = []
    for line in reversed(code[:start].splitlines()):
        if not line.lstrip().startswith("//"):
            break
        comment.append(line.strip().removeprefix("//").strip())
    return REASON in " ".join(reversed(comment))


def check(root: Path) -> Iterator[Breach]:
    for path in sorted(p for p in (root / "src").rglob("*") if p.suffix in {".h", ".cc"}):
        text = path.read_text(encoding="utf-8")
        code = without_text(text)
        for found in CLASS.finditer(code):
            count = count_members(body_at(code, found.end()))
            if count > MEMBERS_MAX and not explained(text, found.start()):
                line = code.count("\n", 0, found.start()) + 1
                yield Breach(path, line, f"{found[1]} has {count} members; {MEMBERS_MAX} are the most, or its comment "
                                         f'says why: "{REASON} ..."')


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = list(check(root))
    for breach in breaches:
        print(f"{breach.path.relative_to(root)}:{breach.line}: {breach.text}")
    print(f"members: {len(breaches)} classes have too many" if breaches else "members: no class has too many")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
