#!/usr/bin/env python3
"""Holds documentation, comments and messages to plain technical English: a list of words that are not used, and one
wording for one thing. Prints file:line for each breach with the wording to use, and exits 1 on any.

    tools/check_words.py [ROOT]      ROOT: the checkout, by default the one this file is in

It reads pages (Markdown) without code (blocks, `code`), and the comments and strings of sources.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# A pattern (case-insensitive; a blank in it also matches the end of a line), and what to write in its place.
NOT_USED: list[tuple[str, str]] = [
    (r"\bwho asks?\b(?!.*\?)", "the client, the caller"),
    (r"\bwhoever\b", "name the role: the client, the operator, a process that"),
    (r"\b(?:is|are|was|were) to be\b", "must be"),
    (r"\bby and by\b", "gradually, step by step"),
    (r"\bat one stroke\b", "at once, in one step"),
    (r"\bof no account\b", "is ignored"),
    (r"\bnobody\b", "no client, no server, no thread, not ... anyone"),
    (r"\bsomebody\b", "a client, a user, another thread"),
    (r"\bwhat has ended\b", "name the thing: expired overrides"),
    (r"\bwhat there is\b", "name the thing"),
    (r"(?<!there\s)\b(?:is|are|was|were) no (?!more\b|longer\b|less\b|fewer\b|later\b|earlier\b|such\b|matter\b)[`\w]+",
     "is not a ..."),
    (r"\b(?:has|have|had) not to\b", "must not, need not"),
    (r"\bat the latest then\b", "at ... at the latest"),
    (r"\bas ever\b", "as before, as usual"),
    (r"\bin vain\b", "without effect, for nothing"),
    (r"\b(?:is|are) wanted\b", "is expected, is required"),
    (r"\bthe house's\b", "the housekeeping thread's"),
    (r"\b(?:and|or) (?:its|the|their) like\b", "and similar ..."),
    (r"\b(?:has|have) come\b", "has arrived, has been reached"),
    (r"\bmend(?:s|ed|ing)?\b", "fix, repair"),
    (r"\bdearer\b", "more expensive"),
    (r"\banew\b", "again, from the beginning"),
    (r"\bin the place of\b", "in place of, instead of"),
    (r"\bis taken for\b", "is read as, is treated as"),
    (r"\bto be had\b", "available"),
    (r"\bhas it that\b", "says"),
    (r"\bas it were\b", "leave it out"),
    (r"\bto and fro\b", "back and forth"),
    (r"\bpassed over\b", "skipped, ignored"),
    (r"\bearns? its place\b", "is worth its cost"),
    (r"\bwithout a word\b", "without a reply, silently"),
    (r"\bwhat (?:comes|stands) behind\b", "what follows"),
    (r"\bis ill\b(?!-)", "is unhealthy"),
    (r"\bwhat (?:it|he|she|they) (?:is|are) owed\b", "the outstanding replies"),
    (r"\btak(?:e|es|en) no notice of\b", "ignore"),
    (r"\bhas a say\b", "applies"),
    (r"\bin the stead of\b", "instead of"),
    (r"\bthereupon\b|\bwhereof\b|\bthereof\b|\bhereby\b", "plain words"),
    (r"(?:(?<=[.;:|-]\s)|(?<=\n))(?-i:Who) (?!.*\?)(?:is|are|was|has|have|can|does|[a-z]+s)\b(?=.*\.)",
     "name the role: a client that ..."),
    (r"\bunless told otherwise\b", "by default, unless configured otherwise"),
    (r"\b(?:is|are|was|were|be) told\b", "is reported, is notified, is answered"),
]

# One wording for one thing.
ONE_WORDING: list[tuple[str, str]] = [
    (r"\blook-ups?\b", "lookup"),
    (r"\bsub-commands?\b", "subcommand"),
    (r"\btime-outs?\b", "timeout"),
    (r"\btime[ -]stamps?\b", "timestamp"),
    (r"\bend[ -]points?\b", "endpoint"),
    (r"\bhost ?names?\b(?<!hostname)(?<!hostnames)", "hostname"),
    (r"\bweb-?sockets?\b(?-i:(?<!WebSocket)(?<!WebSockets)(?<!websocket))", "WebSocket"),
    (r"(?<!-)(?<!pkg-)\bconfig files?\b", "configuration file"),
    (r"\b(?:an?|the|this|each|another|its|full) filesystem\b|\bfilesystems\b", "file system"),
    (r"\bdata ?base files?\b|\bdata bases?\b", "database"),
    (r"\brate-?limiters?\b", "limiter, rate limiter"),
]

# Messages of the programs that sluice replaces, and names in their recorded answers, which cannot change.
RECORDED = re.compile("must provide config file as an argument|Unrecognized format for config file|config files|"
                      "start: a bad file is mended|text in the place of a counter")

WORDS = [(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), better) for pattern, better in NOT_USED + ONE_WORDING]

# Files that list the words.
EXCEPTIONS = {"tools/check_words.py", "tools/check_words_test.py", "tools/check_tests.py"}
PAGES = ("docs", "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")
FOLDERS = ("src", "tests", "tools", "examples", "scripts", "cmake", "proto", "CMakeLists.txt", "Makefile")
SKIPPED_FOLDERS = {"__pycache__", "node_modules", "third_party"}
CPP = {".cc", ".h", ".in", ".def", ".proto", ".lua", ".go", ".mjs", ".js"}
HASH = {".cmake", ".txt", ".yaml", ".yml", ".sh", ".ini", ".conf", ".cfg", ""}

CPP_PART = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | R"(?P<mark>[^()\s\\]{0,16})\((?P<raw>.*?)\)(?P=mark)"
      | "(?P<string>(?:[^"\\\n]|\\.|\\\n)*)"
      | '(?:[^'\\\n]|\\.)+'""",
    re.DOTALL | re.VERBOSE,
)


class Breach(NamedTuple):
    path: str
    line: int
    text: str
    better: str


def blank(text: str) -> str:
    """The same lines with the same lengths, of blanks."""
    return re.sub(r"[^\n]", " ", text)


def prose_of_page(text: str) -> str:
    """The text without blocks of code and `code`: blanks and underscores of the same length replace them."""
    lines = []
    fence = None
    after_blank, indented, item = True, False, False
    for line in text.split("\n"):
        found = re.match(r"\s*(```+|~~~+)", line)
        if fence is not None:
            if found and found[1].startswith(fence):
                fence = None
            lines.append(blank(line))
            continue
        if found:
            fence = found[1]
            lines.append(blank(line))
            continue
        if not line.strip():
            after_blank = True
            lines.append(line)
            continue
        deep = re.match(r" {4,}|\t", line) is not None
        indented = deep and not item and (after_blank or indented)
        if not deep:
            item = re.match(r" {0,3}(?:[-*+]|\d+[.)])\s", line) is not None or (item and line.startswith(" "))
        after_blank = False
        lines.append(blank(line) if indented else line)
    prose = "\n".join(lines)

    def code(found: re.Match[str]) -> str:
        return "`" + re.sub(r"[^\n]", "_", found[0][1:-1]) + "`"

    return re.sub(r"`[^`]+`", code, re.sub(r"\]\([^)\s]*\)", lambda found: blank(found[0]), prose))


def text_of_cpp(text: str) -> str:
    """Comments and strings. Everything else becomes NUL, also a string without a blank, which is data. Adjacent strings
    are one text."""
    parts = list(re.sub(r"[^\s\"]", "\0", text.replace('"', " ")))
    for found in CPP_PART.finditer(text):
        for group in ("comment", "raw", "string"):
            if found[group] is not None and (group == "comment" or re.search(r"\s", found[group])):
                start, end = found.span(group)
                parts[start:end] = text[start:end]
    # A comment continues after the `//` of its next line.
    prose = re.sub(r"//+", lambda slashes: " " * len(slashes[0]), "".join(parts))
    return RECORDED.sub(lambda words: blank(words[0]), prose)


def text_of_python(text: str) -> str:
    lines = text.splitlines(keepends=True)
    parts = [list(blank(line)) for line in lines]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            continue
        (first, start), (last, end) = token.start, token.end
        for number in range(first, last + 1):
            line = lines[number - 1]
            left = start if number == first else 0
            right = end if number == last else len(line)
            parts[number - 1][left:right] = line[left:right]
    return re.sub(r"#", " ", "".join("".join(part) for part in parts))


def text_of_hash(text: str) -> str:
    return "\n".join(found[2].rjust(len(line)) if (found := re.match(r"(|.*?\s)#+(.*)", line)) else blank(line)
                     for line in text.split("\n"))


def text_of(path: Path) -> str | None:
    """The text in a file that people read, on its own lines. None: the file has no such text."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
    if path.suffix == ".md":
        return prose_of_page(text)
    if path.suffix in CPP:
        return text_of_cpp(text)
    if path.suffix == ".py" or text.startswith("#!/usr/bin/env python3"):
        return text_of_python(text)
    return text_of_hash(text) if path.suffix in HASH else None


def breaches_in(name: str, text: str) -> list[Breach]:
    """In the order of the text."""
    found = sorted(((match.start(), match[0], better) for pattern, better in WORDS for match in pattern.finditer(text)))
    return [Breach(name, text.count("\n", 0, start) + 1, " ".join(words.split()), better) for start, words, better in found]


def files(root: Path, tops: tuple[str, ...]) -> Iterator[Path]:
    for top in tops:
        base = root / top
        found = [base] if base.is_file() else sorted(base.rglob("*")) if base.is_dir() else []
        for path in found:
            if path.is_file() and not SKIPPED_FOLDERS.intersection(path.relative_to(root).parts):
                yield path


def breaches(root: Path, tops: tuple[str, ...]) -> dict[str, list[Breach]]:
    """The breaches of each file that has any."""
    found = {}
    for path in files(root, tops):
        name = path.relative_to(root).as_posix()
        text = None if name in EXCEPTIONS else text_of(path)
        there = breaches_in(name, text) if text else []
        if there:
            found[name] = there
    return found


def show(found: list[Breach]) -> None:
    for breach in found:
        print(f"{breach.path}:{breach.line}: `{breach.text}` is not used here: write `{breach.better}`")


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    failed = False
    for found in breaches(root, PAGES + FOLDERS).values():
        show(found)
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
