"""Parts of the whole-server benchmarks: servers on a processor of their own, and the load generator on another."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SLUICE_BENCH_BUILD", ROOT / "build/bench"))
# The programs that measure are always these, whatever build is measured.
TOOLS = ROOT / "build/bench/tools"
SERVER_CORE, LOAD_CORE = "0", "1"
READY_SECONDS_MAX = 30.0

# One counter for each actor, with credit that no benchmark uses up; droplet's requests bring their own limits
# (load_protocol.cc).
DIVVY_POLICY = """
[method=GET path=/bench ip=*]
creditLimit = 1000000000
resetSeconds = 86400
actorField = ip

[default]
creditLimit = 0
resetSeconds = 0
"""
LIMITD_POLICY = """
db: { inMemory: true }
buckets:
  bench: { size: 1000, per_second: 1000 }
"""
# The limits of the requests that the load generator sends (protocol/envoy/load.cc).
ENVOY_LIMITS = """
domain: bench
descriptors:
  - key: remote_address
    rate_limit: { unit: day, requests_per_unit: 1000000000 }
"""
# The rules for the requests that the load generator sends (protocol/http/load.cc): one counter for each address, or for
# each key of an API.
NATIVE_RULES = """
listen: [{ protocol: http, address: "127.0.0.1:0" }]
rules:
  - { name: auth, match: { header.x-api-key: "*" }, actor: header.x-api-key, limit: { quota: 1000000000, window: 1d } }
  - { name: take, match: { method: POST, path: /bench, ip: "*" }, actor: ip, limit: { quota: 1000000000, window: 1d } }
http:
  twins: [throttlecrab]
  auth: { profiles: { bench: { proxy: nginx, deny: 403, headers: [x-api-key] } } }
"""


# A listener of a protocol with TLS, in place of the plain one; `KIND` and `POLICY` stand for the protocol and its rules.
TLS_LISTENER = """
listen:
  - { protocol: KIND, address: "127.0.0.1:0", tls: { certificate: tls.crt, key: tls.key, min_version: 1.3 } }
POLICY
"""


class Server(NamedTuple):
    pid: int
    port: int
    authority: str | None = None  # of its certificate, where it has TLS


def give_up(why: str) -> NoReturn:
    print(f"bench: {why}", file=sys.stderr)
    sys.exit(2)


def pinned(core: str) -> list[str]:
    if core == "":
        return []
    if len(os.sched_getaffinity(0)) < 2 or shutil.which("taskset") is None:
        give_up("this takes two processors and taskset: one for the server, one for the load")
    return ["taskset", "-c", core]


def wait_for_port(process: subprocess.Popen[bytes]) -> int:
    """Reads what a server prints until it says where it listens."""
    assert process.stdout is not None
    text = b""
    deadline = time.monotonic() + READY_SECONDS_MAX
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            got = os.read(process.stdout.fileno(), 4096)
            if not got:
                break
            text += got
            if found := re.search(rb"listening on \S+:(\d+)\n", text):
                return int(found[1])
    give_up(f"{process.args} does not say where it listens: {text.decode(errors='replace')}")


@contextlib.contextmanager
def serving(command: list[str], core: str = SERVER_CORE, **environment: str) -> Iterator[Server]:
    """A server on its processor (any, if `core` is empty), ended with the block."""
    process = subprocess.Popen(
        [*pinned(core), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "SLUICE_LOG_LEVEL": "warn", **environment})
    try:
        yield Server(process.pid, wait_for_port(process))  # taskset replaces itself, so the process is the server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def with_tls(protocol: str, folder: Path) -> Path:
    """A sluice.yaml in the folder that has the same rules, and a listener with TLS; the certificate is for localhost."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2",
                    "-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")],
                   check=True, capture_output=True)
    policy = {
        "divvy": "policy: [{ divvy: bench.ini }]",
        "envoy": "policy: [{ envoy: limits }]",
        "resp": "rules: [{ name: all, match: {}, unlimited: true }]",
        "http": NATIVE_RULES[NATIVE_RULES.index("rules:"):],
    }[protocol]
    config = folder / "tls.yaml"
    config.write_text(TLS_LISTENER.replace("KIND", protocol).replace("POLICY", policy), encoding="utf-8")
    return config


@contextlib.contextmanager
def serving_sluice(protocol: str = "divvy", build: Path = BUILD, wrapper: Sequence[str] = (), more: str = "") -> Iterator[Server]:
    """Sluice with one worker, as it may use one processor, on a port of the system's choice; run by `wrapper`. `more`: of the
    sluice.yaml, for HTTP."""
    sluice = str(build / "sluice")
    with tempfile.TemporaryDirectory() as folder:
        divvy, limitd, limits = Path(folder) / "bench.ini", Path(folder) / "bench.yml", Path(folder) / "limits"
        native = Path(folder) / "sluice.yaml"
        native.write_text(NATIVE_RULES + more, encoding="utf-8")
        limits.mkdir()
        (limits / "bench.yaml").write_text(ENVOY_LIMITS, encoding="utf-8")
        divvy.write_text(DIVVY_POLICY, encoding="utf-8")
        limitd.write_text(LIMITD_POLICY, encoding="utf-8")
        command = {
            "divvy": [sluice, "divvy", str(divvy)],
            "limitd": [sluice, "limitd", "-c", str(limitd), "-p", "0", "-h", "127.0.0.1"],
            "droplet": [sluice, "droplet", "--host", "127.0.0.1"],
            "resp": [sluice, "resp", "--port", "0"],
            "envoy": [sluice, "envoy", str(limits)],
            "http": [sluice, "serve", "--config", str(native)],
        }[protocol.split("/")[0]]
        if protocol.endswith("/tls"):
            command = [sluice, "serve", "--config", str(with_tls(protocol.split("/")[0], Path(folder)))]
        here = {"HOST": "127.0.0.1", "PORT": "0", "GRPC_HOST": "127.0.0.1", "GRPC_PORT": "0"}  # of divvy and envoy
        with serving([*wrapper, *command], **here) as server:
            yield server._replace(authority=str(Path(folder) / "tls.crt")) if protocol.endswith("/tls") else server


def serving_floor(protocol: str) -> contextlib.AbstractContextManager[Server]:
    return serving([str(TOOLS / "floor"), protocol])


def load(server: Server, protocol: str = "divvy", core: str = LOAD_CORE, **options: int) -> dict[str, float]:
    """Runs the generator once on its processor. Returns what it measured, by name."""
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    if not (TOOLS / "load").exists():
        give_up(f"{TOOLS}/load is not built; run scripts/build bench load")
    plain = protocol.removesuffix("/tls")
    if plain != protocol:
        flags += ["--tls", "1"]
    command = [*pinned(core), str(TOOLS / "load"), "--port", str(server.port), "--protocol", plain, *flags]
    # The generator verifies no name, and has to know the authority.
    environment = dict(os.environ) if server.authority is None else {**os.environ, "SSL_CERT_FILE": server.authority}
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                            env=environment)
    if result.returncode != 0:
        give_up(result.stderr.strip())
    figures = {name: float(value) for name, value in (pair.split("=") for pair in result.stdout.split())}
    if figures["denied"] or figures["errors"]:
        give_up(f"the server refused what it should allow: {result.stdout.strip()}")
    return figures
