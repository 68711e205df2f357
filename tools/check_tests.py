#!/usr/bin/env python3
"""Holds the tests to one style; prints file:line for each breach, exits 1 on any. Names of GoogleTest's suites and tests are
CamelCase, without underscores (GoogleTest's own prefix DISABLED_ may stand before them). The name of a test, in C++ and in
Python, says in plain words what the test shows, with a subject or a verb at its beginning: the words in NOT_USED are
refused. The body of a test has at most sixty lines: a longer one becomes several tests, or calls functions whose names say
what they do.

    tools/check_tests.py [ROOT]       ROOT: the checkout, by default the one this file is in
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LINES_MAX = 60
FOLDERS = ("include", "src", "tests", "tools")

TEST = re.compile(r"^[ \t]*((?:TYPED_)?TEST(?:_[FP])?)\(\s*(\w+)\s*,\s*(\w+)\s*\)(.*)$", re.MULTILINE)
CAMEL_CASE = re.compile(r"(?:DISABLED_)?[A-Z][A-Za-z0-9]*")

# Words of a test's name, each with what to write instead. END: no letter of the same word follows.
END = r"(?=[A-Z0-9]|$)"
NOT_USED = [(re.compile(pattern), better) for pattern, better in [
    (rf"(?:No|Some|Any|Every)body{END}", "name the role: client, server, thread, user"),
    (rf"Who(?:ever|m)?{END}", "name the role: AClientThat..."),
    (r"^(?:What|That|Whose|Of|And|Nor|Not|So)[A-Z]", "begin with the subject or with the verb"),
    (rf"(?<!There)(?:Is|Are|Was|Were|Be)No(?:ne)?{END}", "IsNot..., or the verb: Rejects..."),
    (rf"(?:Is|Are|Was|Were|Has|Have)ToBe{END}", "MustBe"),
    (rf"Told{END}", "Reported, Logged, Answered, Notified"),
    (rf"Tells?{END}", "Reports, Lists, Shows, Returns"),
    (rf"Go(?:es)?On{END}", "Continues"),
    (rf"Anew{END}", "Again, StartsFresh"),
    (rf"AsEver{END}", "Unchanged"),
    (rf"As(?:It(?:Is|Was|Stands)|They(?:Are|Were|Stand)){END}", "Unchanged"),
    (rf"AsThe(?:Naive)?Model{END}(?!Does|Says)", "MatchesTheModel"),
    (rf"AtOneStroke{END}", "InOneStep"),
    (rf"ByAndBy{END}", "StepByStep"),
    (rf"InVain{END}", "WithoutEffect"),
    (rf"ForEver{END}", "WithoutEnd"),
    (rf"Mend(?:s|ed)?{END}", "Repairs, Corrects"),
    (rf"Pass(?:es|ed)?Over{END}", "Skips, Ignores"),
    (rf"(?:Has|Have)(?:No|A)Say{END}", "IsIgnored, DoesNotChange..."),
    (rf"TakenFor{END}", "ReadAs, UsedAs"),
    (rf"Hinders?{END}", "DoesNotAffect..., Delays"),
    (rf"(?:Holds?|Held)Up{END}", "Delays"),
    (rf"Wants?{END}|Wanted{END}", "Requires, Expects, IfConfigured"),
    (rf"(?:Gives?|Gave)Way{END}", "IsReplaced, IsClosed"),
    (rf"AllElse{END}", "name the rest: OtherRequests, InvalidTexts"),
]]


class Breach(NamedTuple):
    path: Path
    line: int
    text: str


def without_raw_strings(code: str) -> str:
    """Raw strings become blanks, so that a brace at the beginning of their lines does not end a body. Lines stay."""
    return re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"', lambda found: re.sub(r"[^\n]", " ", found[0]), code)


def too_long(path: Path, line: int, name: str, lines: int) -> Iterator[Breach]:
    if lines > LINES_MAX:
        yield Breach(path, line, f"the body of {name} has {lines} lines; {LINES_MAX} are the most: make it several tests, "
                                 "or move parts into functions")


def check_words(path: Path, line: int, name: str, words: str) -> Iterator[Breach]:
    """`words` is the name in CamelCase, without its prefix."""
    for pattern, better in NOT_USED:
        if found := pattern.search(words):
            yield Breach(path, line, f"the name of the test {name} has `{found[0]}`: say it in plain words ({better})")


def check_cpp(path: Path) -> Iterator[Breach]:
    """A body ends at the first `}` with the indentation of its macro, as clang-format lays it out."""
    code = without_raw_strings(path.read_text(encoding="utf-8"))
    lines = code.splitlines()
    for found in TEST.finditer(code):
        suite, test = found[2], found[3]
        line = code.count("\n", 0, found.start(1)) + 1
        for kind, name in (("suite", suite), ("test", test)):
            if not CAMEL_CASE.fullmatch(name):
                yield Breach(path, line, f"the name of the {kind} {name} must be CamelCase, without underscores")
        yield from check_words(path, line, test, test.removeprefix("DISABLED_"))
        indentation = re.match(r"[ \t]*", lines[line - 1])[0]
        if found[4].rstrip().endswith("}"):
            continue
        for end in range(line, len(lines)):
            if lines[end].startswith(indentation + "}"):
                yield from too_long(path, line, f"{suite}.{test}", end - line)
                break
        else:
            yield Breach(path, line, f"the body of {suite}.{test} has no end: lay out the file with make format")


def check_python(path: Path) -> Iterator[Breach]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            words = node.name.removeprefix("test").split("_")
            yield from check_words(path, node.lineno, node.name, "".join(word.capitalize() for word in words))
            yield from too_long(path, node.lineno, node.name, node.end_lineno - node.body[0].lineno + 1)


def check(root: Path) -> Iterator[Breach]:
    """Checks all tests, except code that npm or pip installed beside them."""
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*")):
        if {"node_modules", "site-packages"} & set(path.parts):
            continue
        if path.suffix in {".h", ".cc"}:
            yield from check_cpp(path)
        elif path.name.endswith("_test.py"):
            yield from check_python(path)


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = list(check(root))
    for breach in breaches:
        print(f"{breach.path.relative_to(root)}:{breach.line}: {breach.text}")
    print(f"tests: {len(breaches)} names or bodies need a change" if breaches else "tests: names and lengths are right")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
