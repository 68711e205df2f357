#!/usr/bin/env python3
"""Holds every source to its includes: prints file:line for each name of the standard library, of the usual ones of POSIX, or of a
library that is precompiled, whose header the file does not reach through its own includes, and exits 1 on any.

A precompiled header (cmake/SluiceCompiling.cmake) declares these names to every file, so the compiler no longer misses
an include. This is a look at the text, which takes a second; the presets debug and bench compile without precompiled
headers, which takes minutes (`make test-all`).

    tools/check_includes.py [--fix]     --fix adds the includes; `make format` then puts them in their order
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Headers, any of which declares the names behind it. A name of std is written without `std::`.
NAMES: dict[str, str] = {
    "algorithm":
    "set_intersection set_union set_difference set_symmetric_difference includes merge partition rotate "
    "stable_partition "
    "reverse adjacent_find search for_each generate equal_range minmax sample find_if_not find_first_of "
    "max_element push_heap pop_heap make_heap partial_sort next_permutation swap_ranges all_of any_of "
    "none_of find find_if count count_if mismatch is_permutation copy copy_if copy_backward copy_n "
    "transform fill fill_n remove_if replace replace_if unique shuffle sort stable_sort is_sorted "
    "nth_element lower_bound upper_bound binary_search min max clamp min_element equal "
    "lexicographical_compare ranges",
    "array": "array to_array",
    "atomic":
    "atomic atomic_ref memory_order_relaxed memory_order_acquire memory_order_release "
    "memory_order_acq_rel memory_order_seq_cst",
    "barrier": "barrier",
    "bit": "bit_floor popcount countr_zero countl_zero bit_ceil bit_width endian bit_cast has_single_bit",
    "charconv": "from_chars to_chars chars_format",
    "chrono": "chrono chrono_literals",
    "cmath": "round trunc fmod exp log log2 ldexp llround lround floor ceil isnan isinf isfinite sqrt pow nan fabs",
    "cmath cstdlib": "abs",
    "compare": "strong_ordering",
    "condition_variable": "condition_variable",
    "coroutine": "suspend_never coroutine_handle",
    "cctype": "tolower toupper",
    "cstddef": "byte",
    "cstddef cstring cstdio cstdlib vector string": "size_t ptrdiff_t",
    "cstdio":
    "puts fputs fputc fwrite fseek feof vsnprintf printf fprintf snprintf sscanf perror fread fopen "
    "fflush ferror fclose remove",
    "cstdlib": "strtoull strtoll strtol abort getenv atoi atoll strtoul strtod strtold exit free malloc aligned_alloc labs _Exit",
    "cstring":
    "strcmp strncmp strchr strstr strrchr memcpy memset memcmp memchr memmove strlen strncpy "
    "strerror",
    "csignal": "signal",
    "ctime": "tm time_t time strftime clock clock_t",
    "deque": "deque",
    "exception stdexcept": "terminate exception",
    "filesystem": "filesystem",
    "forward_list": "forward_list",
    "fstream": "ifstream ofstream fstream",
    "functional": "ref cref invoke reference_wrapper greater_equal function equal_to less greater",
    "functional string string_view": "hash",
    "future": "async launch packaged_task shared_future promise future future_status",
    "initializer_list string vector map": "initializer_list",
    "ios": "hex",
    "iostream": "cout cerr cin",
    "ostream iostream fstream sstream": "endl flush ostream",
    "iterator": "back_inserter distance forward_iterator_tag istreambuf_iterator input_iterator_tag make_reverse_iterator",
    "iterator string vector array map span algorithm set": "begin end size ssize prev next advance",
    "fstream iostream sstream iterator": "ios streamoff streamsize",
    "latch": "latch",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory":
    "default_delete addressof construct_at destroy_at static_pointer_cast dynamic_pointer_cast unique_ptr "
    "shared_ptr weak_ptr make_unique make_unique_for_overwrite make_shared enable_shared_from_this",
    "mutex shared_mutex": "unique_lock",
    "mutex":
    "defer_lock adopt_lock recursive_mutex mutex lock_guard scoped_lock once_flag call_once "
    "try_to_lock",
    "new": "align_val_t bad_alloc nothrow nothrow_t",
    "numeric": "gcd midpoint reduce partial_sum iota accumulate",
    "optional": "optional nullopt nullopt_t",
    "queue": "queue priority_queue",
    "random":
    "uniform_real_distribution discrete_distribution exponential_distribution mt19937 mt19937_64 "
    "minstd_rand random_device uniform_int_distribution",
    "chrono ratio": "milli nano micro",
    "regex": "regex regex_search regex_match regex_replace sregex_iterator smatch regex_constants",
    "set": "set multiset",
    "shared_mutex": "shared_mutex shared_lock",
    "span": "span",
    "sstream": "ostringstream istringstream stringbuf stringstream",
    "stdexcept": "length_error range_error overflow_error runtime_error invalid_argument logic_error out_of_range",
    "string": "string to_string basic_string u16string getline stoi stol stoll stoul stod string_literals",
    "string vector deque map set unordered_map": "erase_if erase",
    "string_view": "string_view u16string_view string_view_literals",
    "system_error": "generic_category system_error system_category",
    "system_error charconv filesystem": "error_code errc",
    "thread": "jthread stop_token thread this_thread",
    "tuple utility array variant map": "get",
    "type_traits":
    "is_same_v is_same decay_t remove_cvref_t conditional_t enable_if_t true_type false_type "
    "is_integral_v is_trivially_copyable_v is_enum_v underlying_type_t make_unsigned_t make_signed_t "
    "is_constant_evaluated is_nothrow_move_constructible_v",
    "variant": "variant visit monostate holds_alternative get_if",
    "tuple": "apply tuple tie tuple_size_v",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility":
    "make_pair in_place in_place_type in_place_index piecewise_construct cmp_less cmp_greater index_sequence "
    "make_index_sequence exchange as_const",
    "vector": "vector",
    "utility map": "pair",
    "utility memory": "forward",
    "utility algorithm memory string vector map optional functional": "move swap",
}
# Names outside std.
OTHERS: list[tuple[str, str]] = [
    (r"\b(?:u?int(?:8|16|32|64)_t|u?intptr_t|UINT64_MAX|INT64_MAX|INT64_MIN)\b", "cstdint"),
    (r"\bnlohmann::", "nlohmann/"),
    (r"\bspdlog::", "spdlog/"),
    (r"\bCLI::", "CLI/"),
    (r"\b(?:boost::)?asio::", "boost/asio/ boost/asio.hpp boost/beast/"),
    (r"\bbeast::", "boost/beast/"),
    (r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(|\btesting::Test\b|^ *(?:EXPECT|ASSERT)_[A-Z]+\(", "gtest/"),
    (r"\berrno\b", "cerrno"),
    (r"\bE(?:AGAIN|INTR|NOENT|WOULDBLOCK|INVAL|INPROGRESS|NOSPC|MFILE|NFILE)\b", "cerrno system_error"),
    (r"\bSIG(?:TERM|INT|HUP|KILL|STOP|CONT|USR1|USR2|PIPE|ALRM)\b", "csignal signal.h sys/wait.h"),
    (r"(?<![\w>])::(?:close|read|write|unlink|getpid|usleep|fork|_exit|pipe2?|rmdir|access|dup2?|fsync|fdatasync|pread|pwrite)\(",
     "unistd.h"),
    (r"(?<![\w>])::(?:socket|socketpair|bind|listen|accept4?|connect|shutdown|recv|recvfrom|recvmsg|send|sendto|sendmsg|"
     r"[gs]etsockopt|getsockname|getpeername)\(|\b(?:AF_(?:INET6?|UNIX)|SOCK_(?:STREAM|DGRAM)|MSG_(?:PEEK|NOSIGNAL|DONTWAIT))\b",
     "sys/socket.h netinet/in.h arpa/inet.h netdb.h"),
    (r"\bsockaddr_in6?\b|\bINADDR_(?:ANY|LOOPBACK)\b|\bIN6ADDR_(?:ANY|LOOPBACK)_INIT\b|\bin6addr_(?:any|loopback)\b|\bIPPROTO_\w+",
     "netinet/in.h arpa/inet.h netdb.h"),
    (r"(?<![\w>])::inet_(?:pton|ntop)\(", "arpa/inet.h"),
    (r"(?<![\w>])::(?:getaddrinfo|freeaddrinfo|getnameinfo)\(", "netdb.h"),
    (r"(?<![\w>])::(?:kill|sigaction|sigemptyset|sigaddset)\(", "csignal signal.h"),
    (r"(?<![\w>])::ioctl\(", "sys/ioctl.h"),
    (r"(?<![\w>])::eventfd\(", "sys/eventfd.h"),
    (r"\bsockaddr_un\b", "sys/un.h"),
    (r"(?<![\w>])::(?:stat|lstat|fstat|chmod|fchmod|mkdir|umask)\(|\bS_IS[A-Z]+\(", "sys/stat.h"),
    (r"(?<![\w>])::(?:open|openat|fcntl)\(|\bO_(?:RDONLY|WRONLY|RDWR|CREAT|NONBLOCK|CLOEXEC)\b", "fcntl.h"),
    (r"(?<![\w>])::(?:waitpid|wait4)\(|\bW(?:IFEXITED|EXITSTATUS|IFSIGNALED|TERMSIG|NOHANG)\b", "sys/wait.h"),
    (r"(?<![\w>])::(?:getrlimit|setrlimit|getrusage)\(|\bRLIMIT_\w+|\bRLIM_INFINITY\b", "sys/resource.h"),
    (r"(?<![\w>])::(?:mmap|munmap|mprotect)\(|\bMAP_(?:SHARED|PRIVATE|ANONYMOUS)\b", "sys/mman.h"),
    (r"(?<![\w>])::p?poll\(|\bpollfd\b|\bPOLL(?:IN|OUT|HUP|ERR)\b", "poll.h"),
    (r"(?<![\w>])::epoll_\w+\(|\bEPOLL(?:IN|OUT|HUP|ERR|RDHUP|ET)\b", "sys/epoll.h"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
STD = re.compile(r"\bstd::([a-z_0-9]+|_Exit)\b")
# Comments and literals are skipped.
WORDS = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)
PROVIDERS = {name: headers.split() for headers, names in NAMES.items() for name in names.split()}


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.direct = cache(self._direct)
        self.reach = cache(self._reach)

    def _direct(self, path: Path) -> list[tuple[str, str]]:
        return INCLUDE.findall(path.read_text(encoding="utf-8"))

    def _reach(self, path: Path) -> frozenset[str]:
        """The system headers that a file names, itself or in the headers of ours that it includes."""
        seen, todo, found = {path}, [path], set()
        while todo:
            for quote, target in self.direct(todo.pop()):
                ours = [p for p in (self.root / "src" / target, self.root / target, path.parent / target)
                        if quote == '"' and p.exists()]
                if not ours:
                    found.add(target)
                elif ours[0] not in seen:
                    seen.add(ours[0])
                    todo.append(ours[0])
        return frozenset(found)


class Missing(NamedTuple):
    line: int
    text: str
    header: str | None


def check_file(tree: Tree, path: Path) -> Iterator[Missing]:
    code = WORDS.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))
    reached = tree.reach(path)
    told = set()
    for number, line in enumerate(code.splitlines(), start=1):
        for name in STD.findall(line):
            if name in told:
                continue
            headers = PROVIDERS.get(name)
            if headers is None:
                yield Missing(number, f"std::{name} is not in the table of tools/check_includes.py", None)
            elif not reached.intersection(headers):
                yield Missing(number, f"std::{name} needs <{'> or <'.join(headers)}>", headers[0])
            else:
                continue
            told.add(name)
        for pattern, headers in OTHERS:
            if pattern not in told and (match := re.search(pattern, line)):
                told.add(pattern)
                wanted = headers.split()
                # A folder stands for all headers in it.
                if not any(header.startswith(one) if one.endswith("/") else header == one
                           for one in wanted for header in reached):
                    first = None if wanted[0].endswith("/") else wanted[0]
                    yield Missing(number, f"{match[0].strip()} needs <{'> or <'.join(wanted)}>", first)


def check(root: Path) -> Iterator[tuple[Path, Missing]]:
    tree = Tree(root)
    for folder in ("src", "tests", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".h", ".cc"} and "node_modules" not in path.parts:
                for missing in check_file(tree, path):
                    yield path, missing


def add_include(path: Path, header: str) -> None:
    """Adds it before the first system header, or after #pragma once."""
    text = path.read_text(encoding="utf-8")
    line = f"#include <{header}>\n"
    if line in text:
        return
    if match := re.search(r"^#include <[a-z_0-9]+>\n", text, re.MULTILINE):
        text = text[: match.start()] + line + text[match.start():]
    elif match := re.search(r"^(?:#pragma once|#include [^\n]*)\n", text, re.MULTILINE):
        text = text[: match.end()] + "\n" + line + text[match.end():]
    path.write_text(text, encoding="utf-8")


def main(arguments: list[str], root: Path = Path(__file__).resolve().parent.parent) -> int:
    found = list(check(root))
    for path, missing in found:
        print(f"{path.relative_to(root)}:{missing.line}: {missing.text}")
        if arguments == ["--fix"] and missing.header:
            add_include(path, missing.header)
    print(f"includes: {len(found)} are missing" if found else "includes: all are there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
