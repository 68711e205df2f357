#!/usr/bin/env python3
"""Holds the source to `a protocol is one folder and one line`: outside src/protocol/NAME/ no code names a protocol of
src/protocol/list.def, in an include, an identifier, a string or a file's name. Comments may. Prints file:line for each
breach, exits 1 on any.

    tools/check_protocol_names.py [ROOT]        ROOT: the checkout, by default the one this file is in
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Names of protocols that are words of other rooms as well, with the reason: of these only includes, and strings that are
# nothing but the name, are breaches.
SHARED_WORDS: dict[str, str] = {
    "resp": "the codec of the same name in wire/, and the short form of response",
    "http": "the codec of the same name in wire/, which other protocols and the admin port speak as well",
}

# A string that is nothing but one of these names may mean something else: only includes are breaches.
SHARED_STRINGS: dict[str, str] = {
    "http": "the scheme of URIs, and what a client speaks that took the wrong port",
}

# What may name protocols: a file, or a folder that ends with `/`, and why. Product code is not among them.
EXCEPTIONS: dict[str, str] = {
    "tools/bench_memory.py": "benchmarks name the protocols that they measure",
    "tools/bench_baseline.py": "benchmarks name the protocols that they measure",
    "tools/bench_clients.py": "benchmarks name the protocols that they measure",
    "tools/bench_common.py": "benchmarks name the protocols that they measure",
    "tools/bench_durable.py": "benchmarks name the protocols that they measure",
    "tools/bench_lists.py": "benchmarks name the protocols that they measure",
    "tools/bench_redis.py": "benchmarks name the protocols that they measure",
    "tools/bench_replies.py": "benchmarks name the protocols that they measure",
    "tools/bench_server.py": "benchmarks name the protocols that they measure",
    "tools/bench_static.py": "benchmarks name the protocols that they measure",
    "tools/check_protocol_names.py": "SHARED_WORDS names them",
    "tools/check_protocol_names_test.py": "its cases need names",
    "tools/configure_test.py": "builds one of the files of proto/",
    "tools/format_pages.py": "names of programs begin sentences in lower case",
    "tools/release_test.py": "names the files of a release",
    "tools/run_tests.py": "starts the program on a port of its own, and waits for that listener",
    # Unit tests, fuzz targets and microbenchmarks of rooms.
    "src/cli/settings_record_test.cc": "its cases need the files of each",
    "src/wire/grpc_bench.cc": "headers as a client in use sends them",
    "src/admin/admin_fuzz.cc": "the admin port over policies of each protocol",
    "src/admin/counter_routes_test.cc": "the admin port over policies of each protocol",
    "src/admin/explain_test.cc": "the admin port over policies of each protocol",
    "src/cli/admin_answers_test.h": "what a server with these protocols answers",
    "src/cli/admin_commands_test.cc": "what a server with these protocols answers",
    "src/cli/commands_test.cc": "the commands as a user types them",
    "src/cli/definitions_test.cc": "the commands as a user types them",
    "src/cli/init_test.cc": "the commands as a user types them",
    "src/cli/help_test.cc": "the commands as a user types them",
    "src/cli/override_command_test.cc": "the commands as a user types them",
    "src/cli/store_test.cc": "the commands as a user types them",
    "src/cli/top_picture_test.cc": "what a server with these protocols answers",
    "src/config/config_test.cc": "a sluice.yaml as a user writes it",
    "src/config/operations_test.cc": "a sluice.yaml as a user writes it",
    "src/config/reach_settings_test.cc": "a sluice.yaml as a user writes it",
    "src/config/redis_settings_test.cc": "a sluice.yaml as a user writes it",
    "src/store/log/log_journal_test.cc": "spaces as rules of a protocol make them",
    "src/engine/engine_overrides_test.cc": "requests that meet rules of each dialect",
    "src/engine/engine_test.cc": "requests that meet rules of each dialect",
    "src/engine/lists_test.cc": "requests that meet rules of each dialect",
    "src/engine/rights_test.cc": "users behind each protocol",
    "src/engine/suspended_test.cc": "requests that meet rules of each dialect",
    "src/engine/waiting_world_test.h": "requests that meet rules of each dialect",
    "src/limit/kept_limits_vectors_test.cc": "vectors recorded from another server",
    "src/policy/pattern_test.cc": "patterns as a dialect matches them",
    "src/policy/read/native_review_test.cc": "rules of each dialect",
    "src/policy/rule_set_scan_test.cc": "rules of each dialect",
    "src/request/space_test.cc": "spaces as rules of a protocol make them",
    "src/server/reloader_test.cc": "rules of a dialect, reloaded",
    "src/server/connection_tls_test.cc": "connections that speak a protocol",
    "src/server/worker_test.cc": "connections that speak a protocol",
    "src/server/worker_world_test.h": "connections that speak a protocol",
    "src/store/verbs_test.cc": "verbs as a protocol asks for them",
}

LIST = "src/protocol/list.def"
FOLDERS = ("src", "tools", "cmake")
FILES = ("CMakeLists.txt",)
CPP = {".cc", ".h", ".cpp", ".in"}
PYTHON = {".py"}
HASH = {".cmake", ".txt", ".def"}  # comments begin with `#`, those of .def with `//`
SKIPPED_FOLDERS = {"__pycache__", "node_modules"}

# A comment, or a string, in which nothing begins a comment.
CPP_TOKEN = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/)
      | R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
      | "(?:[^"\\\n]|\\.|\\\n)*"
      | '(?:[^'\\\n]|\\.)+'""",
    re.DOTALL | re.VERBOSE,
)
INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?P<target>[^">]+)[">]')
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


class Breach(NamedTuple):
    path: str
    line: int
    text: str


def blank(text: str) -> str:
    """As many empty lines."""
    return "\n" * text.count("\n")


def without_cpp_comments(text: str) -> str:
    def kept(found: re.Match[str]) -> str:
        return found[0] if found["comment"] is None else " " + blank(found[0])

    return CPP_TOKEN.sub(kept, text)


def without_python_comments(text: str) -> str:
    """Without comments, and without statements that are a string (docstrings)."""
    lines = text.splitlines(keepends=True)
    begins = True  # of a statement
    for token in list(tokenize.generate_tokens(io.StringIO(text).readline)):
        layout = token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            (first, start), (last, end) = token.start, token.end
            for number in range(first, last + 1):
                line = lines[number - 1]
                left = line[:start] if number == first else ""
                right = line[end:] if number == last else "\n"
                cut = len(line) - len(right) - len(left)
                lines[number - 1] = left + " " * max(cut, 0) + right
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            begins = True
        elif not layout and token.type != tokenize.COMMENT:
            begins = False
    return "".join(lines)


def without_hash_comments(text: str) -> str:
    return re.sub(r"(?m)(^|\s)#.*$", r"\1", text)


def code_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix in CPP or path.suffix == ".def":
        return without_cpp_comments(text)
    return without_python_comments(text) if path.suffix in PYTHON else without_hash_comments(text)


def pattern_of(name: str) -> re.Pattern[str]:
    """A word that begins with the name: `divvy:`, `of_divvy`, `DivvyPage`, `limitdctl`, but not a part of another
    word."""
    lower, title, upper = (re.escape(form) for form in (name, name.capitalize(), name.upper()))
    return re.compile(rf"{title}[a-z]*|(?<![A-Za-z]){lower}[a-z]*|(?<![A-Za-z]){upper}(?![a-z])")


def breaches_in(text: str, names: list[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        include = INCLUDE.match(line)
        for name in names:
            if include is not None:
                if include["target"].startswith(f"protocol/{name}/"):
                    yield number, f"includes the folder of a protocol: {include['target']}"
                    continue
            if name in SHARED_WORDS:
                if name not in SHARED_STRINGS and name in STRING.findall(line):
                    yield number, f"names the protocol {name}: \"{name}\""
            elif found := pattern_of(name).search(line):
                yield number, f"names the protocol {name}: {line[max(found.start() - 30, 0):found.end() + 30].strip()}"


def names_in(root: Path) -> list[str]:
    return re.findall(r"^SLUICE_PROTOCOL\((\w+)\)$", (root / LIST).read_text(encoding="utf-8"), re.MULTILINE)


def files_in(root: Path) -> Iterator[Path]:
    for name in FILES:
        if (root / name).is_file():
            yield root / name
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not SKIPPED_FOLDERS.intersection(path.parts):
                if path.suffix in CPP | PYTHON | HASH:
                    yield path


def exception_for(path: str, exceptions: dict[str, str]) -> str | None:
    for known in exceptions:
        if path == known or (known.endswith("/") and path.startswith(known)):
            return known
    return None


def check(root: Path, exceptions: dict[str, str] | None = None) -> list[Breach]:
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    names = names_in(root)
    used: set[str] = set()
    breaches: list[Breach] = []
    for path in files_in(root):
        where = path.relative_to(root).as_posix()
        if where == LIST or any(where.startswith(f"src/protocol/{name}/") for name in names):
            continue
        found = [Breach(where, line, text) for line, text in breaches_in(code_of(path), names)]
        for name in names:
            if name not in SHARED_WORDS and pattern_of(name).search(path.name):
                found.append(Breach(where, 1, f"is named after the protocol {name}"))
        exception = exception_for(where, exceptions)
        if exception is None:
            breaches += found
        elif found:
            used.add(exception)
    for known in exceptions:
        if known not in used:
            breaches.append(Breach(known, 1, "is an exception of tools/check_protocol_names.py, and names no protocol"))
    return breaches


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = check(root)
    for breach in breaches:
        print(f"{breach.path}:{breach.line}: {breach.text}")
    print(f"names of protocols: {len(breaches)} breaches" if breaches else "names of protocols: kept")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
