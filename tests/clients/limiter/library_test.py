#!/usr/bin/env python3
"""The installed library, as other programs find it: headers, packages, programs in C++, C and Python, outside the checkout.

    tests/clients/limiter/library_test.py        needs build/release with its public libraries
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 240
COMPILERS = [(compiler, standard) for compiler in ("g++", "clang++-14") for standard in ("17", "20")]
EXPECTED = """\
200 RateLimit: "per-client";r=2;t=60
200 RateLimit: "per-client";r=1;t=60
200 RateLimit: "per-client";r=0;t=60
429 RateLimit: "per-client";r=0;t=60 Retry-After: 60
3 jobs begun
940 records left
"""
COROUTINES_EXPECTED = "alice 200 200 200 429\nbob 200 200\n"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
PAGE = (ROOT / "docs/limiter.md").read_text()
# The code around a program of the page.
SNIPPET = '''
#include <sluice/limiter.h>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
%s
static int report(const std::string& what) { return std::puts(what.c_str()); }
static int too_many(sluice::duration) { return 1; }
static int page() {
%s
  return 0;
}
int main() { return page() == 0 ? std::puts("done") < 0 : 1; }
'''
WAITS = """
import threading, time
from sluice_limiter import LATEST_TIME
places = limiter.limits("places", Limit(2, 0, "fixed_bucket"))
told = []
assert places.take("a", 2, now=now).allowed
first = limiter.wait([(places, "a", 1)], now + 10, told.append, now=now)
gone = limiter.wait([(places, "a", 1)], now + 10, told.append, now=now)
late = limiter.wait([(places, "a", 2)], now + 10, told.append, now=now)
assert limiter.cancel(gone, now=now) and not limiter.cancel(gone, now=now)
assert limiter.run_due(now=now) == now + 10 and told == []
places.put("a", now=now)
limiter.run_due(now=now)
assert [one.allowed for one in told] == [True]
assert limiter.run_due(now=now + 10) == LATEST_TIME and told[1].name == "timed_out" and len(told) == 2
assert limiter.wait(((limiter.limits("free", Limit(1, 0, "fixed_bucket")), "a", 1) for _ in "1"), now, told.append, now=now).allowed
assert not limiter.take_all([(places, "b", 1), (places, "a", 1)], now=now).allowed
assert limiter.take_all([(places, "b", 1), (places, "c", 2)], now=now).allowed and places.peek("b", now=now).remaining == 1

# A callback that raises holds up no other one.
def broken(answer): raise KeyError("broken")
limiter.wait([(places, "c", 1)], now + 20, broken, now=now)
limiter.wait([(places, "c", 1)], now + 20, told.append, now=now)
try: limiter.run_due(now=now + 20)
except KeyError: told.append("raised")
assert [getattr(one, "name", one) for one in told[2:]] == ["timed_out", "raised"]

# Threads that wait while others give back and run: each wait is answered once.
answers, stop, errors = [], threading.Event(), []
def wait_often():
    for _ in range(300):
        now_or_later = limiter.wait([(places, "t", 1)], LATEST_TIME, answers.append)
        if not isinstance(now_or_later, int): answers.append(now_or_later)
def run_often():
    granted = 0
    while not stop.is_set():
        limiter.run_due()
        while granted < len(answers):
            granted += 1
            places.put("t")
threads = [threading.Thread(target=wait_often) for _ in range(3)]
runner = threading.Thread(target=run_often)
other = threading.Thread(target=lambda: [limiter.run_due() for _ in range(300)])
for thread in (*threads, runner, other): thread.start()
for thread in (*threads, other): thread.join()
while len(answers) < 900: time.sleep(0.001)
stop.set()
runner.join()
assert len(answers) == 900 and all(one.allowed for one in answers)

limiter.set_override("r", ["1"], Limit(7, 60_000_000, "fixed_window"), until=now + 100, now=now)
assert limiter.find("r").peek("1", now=now).limit == 7 and limiter.find("r").peek("2", now=now).limit == 2
limiter.remove_override("r", ["1"], now=now)
assert limiter.find("r").peek("1", now=now).limit == 2
for wrong in (lambda: limiter.remove_override("r", ["1"]), lambda: limiter.set_override("none", ["1"], Limit(1, 1))):
    try: wrong()
    except Error as error: print(error.name)
"""
# Prints what is refused: the exception's name and its text.
OUT_OF_RANGE = """
from sluice_limiter import Error, Limit, Limiter
limiter = Limiter("rules: [{ name: r, match: { ip: '*' }, actor: ip, limit: { quota: 2, window: 1m } }]")
x = limiter.limits("x", Limit(2, 0, "fixed_bucket"))
big = 2**64 + 1  # 1 in its low bits
def none(answer): raise AssertionError(answer)
for wrong in (lambda: x.take("k", big), lambda: x.charge("k", -big), lambda: x.would_take("k", big), lambda: x.put("k", big),
              lambda: x.take("k", 1, now=big), lambda: x.peek("k", now=big), lambda: x.reset("k", now=big),
              lambda: limiter.take({"ip": "1"}, big), lambda: limiter.charge({"ip": "1"}, big), lambda: limiter.put({"ip": "1"}, big),
              lambda: limiter.peek({"ip": "1"}, now=big), lambda: limiter.take_all([(x, "k", big)]),
              lambda: limiter.charge_all([(x, "k", 1)], now=big), lambda: limiter.wait([(x, "k", big)], 1, none),
              lambda: limiter.wait([(x, "k", 1)], big, none), lambda: limiter.cancel(big), lambda: limiter.cancel(-1),
              lambda: limiter.run_due(now=big), lambda: limiter.sweep(big), lambda: limiter.sweep(-1),
              lambda: limiter.limits("y", Limit(big, 1)), lambda: limiter.limits("y", Limit(1, big)),
              lambda: limiter.limits("y", Limit(1, 1, burst=big)), lambda: limiter.set_override("r", ["1"], Limit(1, 1), until=big),
              lambda: limiter.remove_override("r", ["1"], now=big)):
    try: wrong()
    except OverflowError as error: print(error)
assert x.peek("k").remaining == 2 and limiter.take({"ip": "1"}, 2**63 - 1).allowed is False
try: limiter.limits("y", Limit(1, 1, "token"))
except ValueError as error: print(error)
"""
OVERDRAFT = """
from sluice_limiter import Limit, Limiter
now = 1_800_000_000_000_000
limiter = Limiter("rules: [{ name: r, match: { ip: '*' }, actor: ip, limit: { quota: 2, window: 1m, overdraft: 1 } }]")
x = limiter.limits("x", Limit(10, 60_000_000, "fixed_window", overdraft=5))
told = [x.charge("k", 40, now=now), x.charge("k", 1, now=now), limiter.charge({"ip": "1"}, 9, now=now),
        limiter.charge_all([(x, "l", 40), (limiter.limits("y", Limit(3, 60_000_000)), "l", 4)], now=now), x.take("m", now=now)]
print([(one.charged, one.over) for one in told])
for wrong in (lambda: limiter.limits("z", Limit(1, 1, overdraft=-1)), lambda: limiter.set_override("r", ["1"], Limit(1, 1, overdraft=1))):
    try: wrong()
    except ValueError as error: print(error)
    except OverflowError as error: print(error)
"""
RESERVED = """
import threading, time
from sluice_limiter import Error, Limit, Limiter, Refused
RULES = '''rules:
- { name: r, match: { ip: '*' }, actor: ip, limit: { quota: 100, window: 1h, algorithm: fixed_window } }
- { name: h, match: { half: '*' }, actor: half, limit: { quota: 10, window: 1h }, reserve: { max_fraction: 0.5, max_ttl: 1s } }
'''
limiter = Limiter(RULES, holds_max=100)
x, y, r = limiter.limits("x", Limit(100, 0, "fixed_bucket")), limiter.limits("y", Limit(9, 0, "fixed_bucket")), limiter.find("r")
left = lambda key="a": r.peek(key).remaining

with limiter.reserve({"ip": "a"}, 40, ttl=60) as held:
    assert left() == 60 and held.reserved == [40] and abs(held.until - limiter.now() - 60_000_000) < 30_000_000
    assert held.extend(5).allowed and held.reserved == [45] and not held.extend(56).allowed and held.reserved == [45]
    assert held.renew(0.5) < held.renew(600) == held.until
    done = held.commit(12)
    assert (done.used, done.returned, done.charged, done.late, done.repeated, done.decision.remaining) == (12, 33, 0, False, False, 88)
assert left() == 88 and held.commit(12).repeated

# An exception gives all back; a body that ends without a commit has used it all, or what it released.
for raised in (ValueError("body"), KeyboardInterrupt()):
    try:
        with limiter.reserve({"ip": "a"}, 40): raise raised
    except BaseException as error: assert error is raised
    assert left() == 88
with limiter.reserve({"ip": "a"}, 8) as held: held.extend(2)
assert left() == 78
with limiter.reserve({"ip": "a"}, 8) as held: assert held.release().returned == 8
assert left() == 78

# What does not fit.
held = limiter.reserve({"ip": "a"}, 79)
assert not held.allowed and held.decision.retry_after_us > 0 and left() == 78
try:
    with held: print("entered")
except Refused as refused: print(refused, refused.decision.allowed)

# By handles, with a number for each; past the limit; and cut by a rule.
with limiter.reserve_all([(x, "a", 30), (y, "a", 4)], ttl=9) as held: assert held.commit([50, 1]).charged == 20
assert x.peek("a").remaining == 50 and y.peek("a").remaining == 8
with x.reserve("a", 10) as held: assert held.commit(70).decision.over
assert x.peek("a").remaining == -20
cut = limiter.reserve({"half": "z"}, 8, ttl=60)
assert cut.reserved == [5] and cut.until - limiter.now() <= 1_000_000

# At its end, by a time of the caller's.
now = limiter.now()
late = r.reserve("late", 90, ttl=0.000001, now=now)
assert r.take("late", 11, now=now).allowed is False and r.take("late", 11, now=now + 1).allowed
assert late.commit(20, now=now + 1).late and r.peek("late", now=now + 1).remaining == 69
gone = r.reserve("late", 1, ttl=1, now=now)
for wrong in (lambda: gone.extend(1, now=now + 1_000_000), lambda: late.renew(now=now + 1), lambda: late.commit(21, now=now + 1),
              lambda: late.commit([1, 2], now=now + 1), lambda: late.commit(20, now=now + 700_000_000),
              lambda: [r.reserve("full", 1) for _ in range(101)], lambda: Limiter(RULES).reserve({"ip": "a"}),
              lambda: r.reserve("a", ttl=0), lambda: r.reserve("a", ttl=-1), lambda: r.reserve("a", 2**64), lambda: held.commit(2**64),
              lambda: Limiter(holds_max=-1), lambda: Limiter(holds_max=10**9)):
    try: wrong()
    except (Error, ValueError, OverflowError) as error: print(error)

# Threads settle to the unit; a limiter that is closed refuses.
limiter = Limiter(holds_max=100)
x, used = limiter.limits("x", Limit(10**9, 0, "fixed_bucket")), []
def work(seed):
    for i in range(400):
        try:
            with x.reserve("a", 20) as held:
                if i % 5 == 0: raise KeyError
                if i % 3 == 0: held.commit((i * seed) % 50)
                used.append((i * seed) % 50 if i % 3 == 0 else 20)
        except KeyError: pass
threads = [threading.Thread(target=work, args=(seed,)) for seed in (7, 11)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert 10**9 - x.peek("a").remaining == sum(used), (x.peek("a"), sum(used))
held = x.reserve("a", 1)
limiter.close()
for closed in (lambda: held.commit(1), lambda: held.extend(1), lambda: held.release(), lambda: limiter.reserve({"a": "b"})):
    try: closed()
    except Error as error: print(error.name)
"""
PLACES = """
import threading, time
from sluice_limiter import Error, Limit, Limiter, Refused
RULES = '''rules:
- { name: pool, match: { pool: '*' }, actor: pool, limit: { quota: 2, algorithm: concurrency, lease: 300ms, max_lease: 1h } }
- { name: plain, match: { plain: '*' }, actor: plain, limit: { quota: 9, window: 1h } }
'''
limiter = Limiter(RULES, holds_max=100)
left = lambda key="db": limiter.find("pool").peek(key).remaining

# Held for longer than its lease, since a thread renews it; given back at the end of the body, also by an exception.
with limiter.places("pool", "db") as held, limiter.places({"pool": "db"}):
    first = held.until
    assert left() == 0
    time.sleep(0.7)
    assert left() == 0 and not held.lost and held.until > first + 300_000
    try:
        with limiter.places("pool", "db"): raise AssertionError("entered")
    except Refused as refused: print(refused, 0 < refused.decision.retry_after_us <= 300_000)
assert left() == 2 and held.until == 0 and not held.lost
try:
    with held: raise KeyError("body")  # the same once more
except KeyError: pass
assert left() == 2
with held: assert held.release() == 1  # in the body
assert left() == 2 and len(threading.enumerate()) == 1

# Without `with` nobody renews.
two = limiter.places("pool", "two", n=2, lease=60)
assert two.acquire().allowed and left("two") == 0 and two.renew(0.05) < limiter.now() + 60_000_000
while not two.lost: time.sleep(0.01)
assert left("two") == 2
for wrong in (two.renew, two.acquire, lambda: two.release() or two.renew()):
    try: wrong()
    except (Error, ValueError) as error: print(error)

# A lease that others end is lost, and told by the thread.
told = threading.Event()
def on_lost(its):
    assert its is held and its.lost
    told.set()
held = limiter.places("pool", "lost", on_lost=on_lost)
with held:
    held._held.release()  # as by who else knows its id
    assert told.wait(30) and held.lost
assert left("lost") == 2

# As of a process that was stopped: its clock says so before the thread does.
late = limiter.places("pool", "late", lease=3600)
with late:
    late.renew(0.001)
    time.sleep(0.01)
    assert late.lost
x = limiter.limits("x", Limit(1, 60_000_000, "concurrency"))
with x.places("k", lease=0.5) as held: assert not x.take("k").allowed and held.until - limiter.now() <= 500_000
assert x.take("k").allowed
for wrong in (lambda: limiter.places("plain", "a").acquire(), lambda: limiter.places("none"), lambda: limiter.places({"a": "b"}).acquire(),
              lambda: limiter.places("pool", "a", lease=0).acquire(), lambda: limiter.places("pool", "a", 2**64).acquire(),
              lambda: Limiter(RULES).places("pool", "a").acquire()):
    try: wrong()
    except (Error, ValueError, OverflowError) as error: print(error)

# Threads that hold one pool's places: never more than there are.
pool, lock, out, most, refused = limiter.find("pool"), threading.Lock(), 0, 0, 0
def work():
    global out, most, refused
    for _ in range(150):
        try:
            with pool.places("threads"):
                with lock:
                    out += 1
                    most = max(most, out)
                with lock: out -= 1
        except Refused:
            with lock: refused += 1
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert 0 < most <= 2 and left("threads") == 2, (most, left("threads"))
"""
PLACES_WAITED_FOR = """
import threading, time
from sluice_limiter import Error, Limit, Limiter, Refused
RULES = '''rules:
- { name: pool, match: { pool: '*' }, actor: pool, limit: { quota: 2, algorithm: concurrency, lease: 1h } }
- { name: tokens, match: { tenant: '*' }, actor: tenant, limit: { quota: 9, window: 100d, algorithm: aligned_window } }
'''
limiter = Limiter(RULES, holds_max=100)
pool = limiter.find("pool")
left = lambda key="db": pool.peek(key).remaining

# Nothing is given back: as without a timeout, when it is over.
both = limiter.places("pool", "db", n=2, timeout=0)
assert both.acquire().allowed and left() == 0
for timeout in (0, 0.05):
    try:
        with limiter.places("pool", "db", timeout=timeout): raise AssertionError("entered")
    except Refused as refused: print(refused)
assert not limiter.places({"pool": "db"}, timeout=0.01).acquire().allowed and left() == 0

# A release of another thread is what it waits for, and the lease begins then.
got, entered = [], threading.Event()
def wait():
    with limiter.places("pool", "db", lease=600, timeout=3600) as held:
        got.append(held.until - limiter.now())
        entered.set()
waiter = threading.Thread(target=wait)
waiter.start()
while limiter._waiting == {}: time.sleep(0.001)
both.release()
waiter.join(60)
assert entered.is_set() and 500_000_000 < got[0] <= 600_000_000 and left() == 2, (got, left())

# So is the end of a lease, without any call.
short = limiter.places("pool", "db", n=2, lease=0.05)
assert short.acquire().allowed
assert limiter.places("pool", "db", timeout=3600).acquire().allowed and short.lost

# Units of a reservation.
r = limiter.reserve({"tenant": "acme"}, 9)
waiter = threading.Thread(target=lambda: got.append(limiter.find("tokens").reserve("acme", 5, timeout=3600).release().returned))
waiter.start()
while limiter._waiting == {}: time.sleep(0.001)
r.commit(1)
waiter.join(60)
assert got[1] == 5, got
for wrong in (lambda: limiter.places("pool", "x", timeout=1).acquire(now=1), lambda: limiter.places("tokens", "x", timeout=1).acquire()):
    try: wrong()
    except (Error, ValueError) as error: print(error)

# Many threads: each has its turn, and never more than there are.
lock, out, most = threading.Lock(), 0, 0
def work():
    global out, most
    for _ in range(40):
        with pool.places("threads", timeout=3600):
            with lock:
                out += 1
                most = max(most, out)
            with lock: out -= 1
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join(120)
assert not any(thread.is_alive() for thread in threads)
assert 0 < most <= 2 and left("threads") == 2, (most, left("threads"))
"""
ZERO_BYTES = """
from sluice_limiter import Error, Limit, Limiter
limiter = Limiter("rules: [{ name: r, match: { ip: '*' }, actor: ip, limit: { quota: 2, window: 1m } }]")
two = Limit(2, 0, "fixed_bucket")
for wrong in (lambda: limiter.limits("a\\0b", two), lambda: limiter.limits(b"a\\0b", two), lambda: limiter.find("r\\0b"),
              lambda: limiter.set_override("r\\0b", ["1"], Limit(1, 1)), lambda: limiter.set_override("r", ["1\\0b"], Limit(1, 1)),
              lambda: limiter.remove_override("r", [b"1\\0b"]), lambda: limiter.remove_override("r\\0b", ["1"]),
              lambda: Limiter(path="/dev/null\\0b"), lambda: Limiter(directory="/dev/null\\0b")):
    try: wrong()
    except ValueError as error: print(error)
    except RuntimeError as error: print("directory")  # this library has none
# Keys and descriptors may have one, and are kept as they are.
x = limiter.limits("x", two)
assert x.take("a\\0b", 2).allowed and x.peek("a").remaining == 2 and x.peek(b"a\\0b").remaining == 0
assert limiter.take({"ip": "1\\0a"}, 2).allowed and limiter.take({"ip": "1"}, 2).allowed and not limiter.take({"ip": "1\\0a"}).allowed
"""
RAISED = """
import sys
from sluice_limiter import Limit, Limiter
limiter, told, ignored = Limiter(), [], []
x = limiter.limits("x", Limit(1, 0, "fixed_bucket"))
x.take("k")
sys.unraisablehook = lambda its: ignored.append(f"{its.exc_type.__name__} {its.exc_value}")
def first(answer): raise KeyError("first")
def second(answer): raise ValueError("second")
def interrupted(answer): raise KeyboardInterrupt("an interrupt")
def end(*callbacks):
    for callback in callbacks: limiter.wait([(x, "k", 1)], 10, callback, now=1)
    try: limiter.run_due(now=10)
    except BaseException as error: print("raised", repr(error), "others", ignored, "called", len(told))
    told.clear(), ignored.clear()
end(first, told.append)
end(first, told.append, second, told.append, second, told.append)
end(first, told.append, interrupted, told.append, second)
end(interrupted, told.append, first)
"""
UNLOADED = """
import _ctypes, ctypes, os, sys, threading, time
def use(library):
    library.sluice_create.restype = ctypes.c_void_p
    library.sluice_destroy.argtypes = [ctypes.c_void_p]
    library.sluice_reserve.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 4]
    size, hold = 12 * 8, (ctypes.c_uint64 * 2)()
    options = (ctypes.c_int64 * 12)(size, *[0] * 8, 1)  # sluice_options::holds_max
    limiter = library.sluice_create(options, None)
    assert limiter
    assert library.sluice_reserve(limiter, None, 0, 0, 1, None, None, None, hold) == 0 and hold[0] != 0
    library.sluice_destroy(limiter)
for _ in range(3):
    library = ctypes.CDLL(sys.argv[1])
    thread = threading.Thread(target=use, args=[library])
    thread.start()
    thread.join()
    while os.path.exists(f"/proc/self/task/{thread.native_id}"): time.sleep(0.001)
    _ctypes.dlclose(library._handle)
    assert "libsluice" not in open("/proc/self/maps").read(), "it is still loaded"
"""


def run(command: list[str], **more: object) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                            stdin=subprocess.DEVNULL, **more)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="sluice-library-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "installed"
        run(["cmake", "--install", str(ROOT / "build/release"), "--prefix", str(cls.prefix), "--component", "libraries"])
        [cls.library] = cls.prefix.rglob("libsluice-limiter.so")
        cls.environment = {**os.environ, "LD_LIBRARY_PATH": str(cls.library.parent),
                           "PKG_CONFIG_PATH": str(cls.library.parent / "pkgconfig")}
        shutil.copytree(ROOT / "examples/cpp", cls.folder / "example")

    def flags(self, *options: str) -> list[str]:
        return run(["pkg-config", *options, "sluice-limiter"], env=self.environment).split()

    def test_the_example_builds_by_find_package(self) -> None:
        for compiler, standard in COMPILERS:
            with self.subTest(compiler=compiler, standard=standard):
                build = self.folder / f"cmake-{compiler}-{standard}"
                run(["cmake", "-S", str(self.folder / "example"), "-B", str(build), f"-DCMAKE_PREFIX_PATH={self.prefix}",
                     f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_CXX_STANDARD={standard}",
                     f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}"])
                run(["cmake", "--build", str(build)])
                self.assertEqual(run([str(build / "limited")]), EXPECTED)
                self.assertEqual(run([str(build / "coroutine_server")]), COROUTINES_EXPECTED)

    def test_the_example_builds_by_pkg_config(self) -> None:
        for compiler, standard in COMPILERS:
            with self.subTest(compiler=compiler, standard=standard):
                program = self.folder / f"pkg-config-{compiler}-{standard}"
                run([compiler, f"-std=c++{standard}", *WARNINGS, "-o", str(program), str(self.folder / "example/limited.cc"),
                     *self.flags("--cflags", "--libs")])
                self.assertEqual(run([str(program)], env=self.environment), EXPECTED)

    def test_commands_of_the_page_work_as_written(self) -> None:
        folder = self.folder / "page"
        shutil.copytree(ROOT / "examples/cpp", folder / "examples/cpp")
        block = re.search(r"(?:^    .+\n)+", PAGE, re.MULTILINE)[0]
        # Only the folder of the installation differs.
        commands = textwrap.dedent(block).replace("/usr/local", str(self.prefix))
        self.assertTrue(run(["bash", "-euc", commands], cwd=folder).endswith(EXPECTED + COROUTINES_EXPECTED))
        [command] = re.findall(r"`(g\+\+ .+)`", PAGE)
        output = run(["bash", "-euc", f"{command}; ./a.out"], cwd=folder / "examples/cpp", env=self.environment)
        self.assertEqual(output, EXPECTED)

    def test_programs_of_the_page_work(self) -> None:
        folder = self.folder / "snippets"
        folder.mkdir()
        (folder / "limits.yaml").write_text("rules: [{ name: r, match: { ip: '*' }, actor: ip, limit: { quota: 2, window: 1m } }]")
        blocks = re.findall(r"^```cpp\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        blocks = [block for block in blocks if "sluice/durable.h" not in block]  # durable_test.py
        self.assertEqual(len(blocks), 5)
        for number, block in enumerate(blocks):
            with self.subTest(block=block):
                includes = re.findall(r"^#include .*$", block, re.MULTILINE)
                statements = re.sub(r"^#include .*$", "", block, flags=re.MULTILINE)
                source, program = folder / f"{number}.cc", folder / str(number)
                source.write_text(SNIPPET % ("\n".join(includes), statements))
                run(["g++", "-std=c++17", *WARNINGS, "-Wno-unused", "-o", str(program), str(source),
                     *self.flags("--cflags", "--libs"), "-lsluice-client"])
                self.assertEqual(run([str(program)], env=self.environment, cwd=folder), "done\n")
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 3)
        run([sys.executable, "-c", "".join(blocks)], env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"),
                                                "PYTHONDONTWRITEBYTECODE": "1", "SLUICE_LIMITER_LIBRARY": str(self.library)})

    def test_the_program_of_the_page_in_c(self) -> None:
        [block] = re.findall(r"^```c\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        [command] = re.findall(r"`(cc .+)`", PAGE)
        folder = self.folder / "in-c"
        folder.mkdir()
        (folder / "logins.c").write_text(block)
        told = "".join(f"welcome, {left} left\n" for left in (4, 3, 2, 1, 0)) + "come back in 12 s\n"
        self.assertEqual(run(["bash", "-euc", f"{command}; ./a.out"], cwd=folder, env=self.environment), told)
        for compiler in ("gcc", "clang-14"):
            run([compiler, "-std=c11", *WARNINGS, "-o", str(folder / compiler), str(folder / "logins.c"), *self.flags("--cflags", "--libs")])
            self.assertEqual(run([str(folder / compiler)], env=self.environment), told)
        self.assertIn("`welcome` five times, with 4 to 0 left, and then `come back in 12 s`", PAGE)

    def test_the_picture_of_the_algorithms_is_up_to_date(self) -> None:
        picture = self.folder / "algorithms.svg"
        run([sys.executable, str(ROOT / "tools/draw_algorithms.py"), str(picture)],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "SLUICE_LIMITER_LIBRARY": str(self.library)})
        self.assertEqual(picture.read_text(), (ROOT / "docs/algorithms.svg").read_text())

    def test_the_archive_links(self) -> None:
        program = self.folder / "static"
        needs = self.flags("--libs", "--static")
        needs = [str(self.library.with_suffix(".a")) if flag == "-lsluice-limiter" else flag for flag in needs]
        run(["g++", "-std=c++17", "-o", str(program), str(self.folder / "example/limited.cc"), *self.flags("--cflags"), *needs])
        self.assertEqual(run([str(program)]), EXPECTED)
        self.assertNotIn("libsluice", run(["readelf", "--dynamic", str(program)]))

    def test_a_c_program(self) -> None:
        for compiler in ("gcc", "clang-14"):
            with self.subTest(compiler=compiler):
                program = self.folder / f"c-{compiler}"
                source = ROOT / "tests/clients/limiter/program.c"
                run([compiler, "-std=c11", *WARNINGS, "-o", str(program), str(source), *self.flags("--cflags", "--libs")])
                self.assertEqual(run([str(program)], env=self.environment), "0.2.0: 2 allowed, 1 called\n")

    def test_it_exports_its_interface_alone_and_links_no_store_and_no_log(self) -> None:
        names = run(["nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", str(self.library)]).splitlines()
        foreign = [name for name in names if not name.startswith(("sluice::limiter::", "sluice::handle::", "sluice_"))]
        self.assertEqual(foreign, [])
        needed = run(["readelf", "--dynamic", str(self.library)])
        self.assertIn("[libsluice-limiter.so.0.2]", needed)
        for library in ("rocksdb", "spdlog", "fmt", "boost", "protobuf", "ssl", "crypto"):
            self.assertNotIn(f"lib{library}", needed)

    def test_it_can_be_unloaded(self) -> None:
        run([sys.executable, "-c", UNLOADED, str(self.library)])

    def python(self, script: str) -> str:
        """What a script prints with the binding of the checkout and the installed library."""
        return run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"),
                                                        "PYTHONDONTWRITEBYTECODE": "1", "SLUICE_LIMITER_LIBRARY": str(self.library)})

    def test_python_cuts_no_integer(self) -> None:
        *lines, last = self.python(OUT_OF_RANGE).splitlines()
        self.assertEqual([line.split()[0] for line in lines], [
            *["cost"] * 3, "units", *["now"] * 3, *["cost"] * 2, "units", "now", "cost", "now", "cost", "deadline", *["number"] * 2, "now",
            *["steps"] * 2, "quota", "window_us", "burst", "until", "now"])
        self.assertEqual(lines[0], f"cost must be {-2**63} to {2**63 - 1}, not {2**64 + 1}")
        self.assertEqual(lines[16], f"number must be 0 to {2**64 - 1}, not -1")
        self.assertTrue(last.startswith("algorithm must be one of token_bucket, ") and last.endswith(", not 'token'"), last)

    def test_python_reserves_and_settles(self) -> None:
        lines = self.python(RESERVED).splitlines()
        self.assertEqual(lines[0], "78 of 100 units are left False")
        words = "too_many_holds: Limiter(holds_max=...) says how many reservations there may be at a time"
        self.assertEqual(lines[1:8], ["hold_ended", "already_settled", "already_settled", "invalid_argument", "no_such_hold", words, words])
        self.assertEqual([line.split()[0] for line in lines[8:13]], ["ttl", "ttl", "cost", "units", "holds_max"])
        self.assertEqual(lines[13], "invalid_argument: options::holds_max must be 0 to 100000000")
        self.assertEqual(lines[14:], ["invalid_argument"] * 4)

    def test_python_holds_places_while_a_body_runs(self) -> None:
        lines = self.python(PLACES).splitlines()
        self.assertEqual(lines[0], "0 of 2 units are left True")
        self.assertEqual(lines[1:4], ["hold_ended", "the places are held already: release() them, or make others",
                                      "no places are held: acquire() them"])
        self.assertEqual([line.split()[0].rstrip(":") for line in lines[4:]],
                         ["no_places", "unknown_rule", "no_places", "ttl", "cost", "too_many_holds"])

    def test_python_waits_for_places_and_reservations(self) -> None:
        self.assertEqual(self.python(PLACES_WAITED_FOR).splitlines(), [
            "0 of 2 units are left", "0 of 2 units are left", "a timeout is of the limiter's clock: leave `now` out", "no_places"])

    def test_python_owes_no_more_than_the_overdraft(self) -> None:
        self.assertEqual(self.python(OVERDRAFT).splitlines(), [
            "[(15, True), (0, True), (3, True), (19, True), (0, False)]",
            "overdraft must be 0 to 9007199254740991, not -1",
            "an override keeps the overdraft of its rule: leave it out"])

    def test_python_cuts_no_text_at_a_zero_byte(self) -> None:
        lines = self.python(ZERO_BYTES).splitlines()
        self.assertEqual([line.split()[0] for line in lines],
                         ["name", "name", "rule", "rule", "actor", "actor", "rule", "path", "directory"])
        self.assertEqual(lines[0], r"name must not have a zero byte: 'a\x00b'")

    def test_python_loses_no_callback_and_no_exception(self) -> None:
        self.assertEqual(self.python(RAISED).splitlines(), [
            "raised KeyError('first') others [] called 1",
            "raised KeyError('first') others ['ValueError second', 'ValueError second'] called 3",
            "raised KeyboardInterrupt('an interrupt') others [\"KeyError 'first'\", 'ValueError second'] called 2",
            "raised KeyboardInterrupt('an interrupt') others [\"KeyError 'first'\"] called 1"])

    def test_python_says_which_library_is_missing(self) -> None:
        site = self.folder / "alone"
        shutil.copytree(ROOT / "bindings/python/sluice_limiter", site / "sluice_limiter", ignore=shutil.ignore_patterns("__pycache__"))
        other = self.folder / "other.so"
        run(["gcc", "-shared", "-o", str(other), "-x", "c", "/dev/null"])
        script = "try: import sluice_limiter\nexcept ImportError as error: print(error.name, error.path, error)"
        environment = {key: value for key, value in os.environ.items() if key not in ("LD_LIBRARY_PATH", "SLUICE_LIMITER_LIBRARY")}
        environment |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
        for named, words in (({}, ["libsluice-limiter", str(site / "sluice_limiter/libsluice-limiter.so"), "libsluice-limiter.so.0.2",
                                   "pip install sluice_limiter-", "make install", "SLUICE_LIMITER_LIBRARY"]),
                             ({"SLUICE_LIMITER_LIBRARY": "/none/of.so"}, ["SLUICE_LIMITER_LIBRARY=/none/of.so", "pip install"]),
                             ({"SLUICE_LIMITER_LIBRARY": str(other)}, [str(other), "it has no sluice_", "libsluice-limiter.so.0.2"])):
            with self.subTest(named=named):
                told = run([sys.executable, "-c", script], env={**environment, **named})
                for word in ("sluice_limiter ", *words):
                    self.assertIn(word, told)

    def test_the_wheel_works(self) -> None:
        source, wheels = self.folder / "python", self.folder / "wheels"
        shutil.copytree(ROOT / "bindings/python", source)
        wheels.mkdir()
        # Debian's own interpreter has Debian's packages.
        run(["/usr/bin/python3", "-c", "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])", str(wheels)],
            cwd=source)
        [wheel] = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.folder / "site")
        script = """
from sluice_limiter import Error, Limit, Limiter
limiter = Limiter("rules: [{ name: r, match: { ip: '*' }, actor: ip, limit: { quota: 2, window: 1m, algorithm: fixed_window } }]")
now = limiter.now()
assert [limiter.take({"ip": "1"}, now=now).allowed for _ in range(3)] == [True, True, False]
assert limiter.find("r").peek("1", now=now).remaining == 0
both = limiter.limits("x", Limit(2, 0, "fixed_bucket"))
assert both.take("k", 2).allowed and not both.take("k").allowed and both.put("k").remaining == 1
for wrong in (lambda: limiter.find("y"), lambda: both.take("k", -1), lambda: Limiter("rules: 1"),
              lambda: Limiter(""), lambda: Limiter("rulse: []"), lambda: limiter.reload("# nothing"),
              lambda: limiter.set_override("r", ["10.0.0.0/8"], Limit(9, 60_000_000))):
    try:
        wrong()
    except Error as error:
        print(error.name)
""" + WAITS
        output = run([sys.executable, "-c", script],
                     env={**os.environ, "PYTHONPATH": str(self.folder / "site"), "SLUICE_LIMITER_LIBRARY": str(self.library)})
        self.assertEqual(output.split(), ["unknown_rule", "invalid_argument", *["policy"] * 4, "invalid_argument", "not_found", "unknown_rule"])


if __name__ == "__main__":
    unittest.main()
