"""The real `sluice envoy` for a test, with limits by xDS."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import grpc

from ads import free_port
from certificates import Pair
from messages import SHOULD_RATE_LIMIT, HealthCheckRequest, HealthCheckResponse, RateLimitRequest, RateLimitResponse, request
from sluice_server import BINARY, SECONDS_MAX, LimitedTest, Server, wait_until

NODE = "tester"
WARNING = re.compile(r"^(?:warning: |\S+ (?:warning|error|critical) )")


class XdsServer(Server):
    def __init__(self, control_plane: str, **environment: str) -> None:
        """`control_plane`: host:port. By default the first wait before a new stream is 200 ms."""
        super().__init__("", **{
            "CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": control_plane, "CONFIG_GRPC_XDS_NODE_ID": NODE,
            "FORCE_START_WITHOUT_INITIAL_CONFIG": "true", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "200ms",
            "DEBUG_HOST": "127.0.0.1", "USE_STATSD": "false", **environment})
        self.debug_port = free_port()
        self._environment["DEBUG_PORT"] = str(self.debug_port)
        self._environment["SLUICE_ADMIN"] = str(self.folder / "admin")
        self._command = [BINARY, "envoy"]

    def call_itself(self, *words: str) -> None:
        """`words`: its name, as by a link, and its arguments."""
        link = self.folder / words[0]
        link.symlink_to(BINARY)
        self._command = [str(link), *words[1:]]

    def on_disk(self) -> XdsServer:
        """Its counters and overrides are kept before they are answered."""
        self._command += ["--data", str(self.folder / "data"), "--durability", "always"]
        return self

    def unset(self, *names: str) -> None:
        for name in names:
            del self._environment[name]

    def change(self, **environment: str) -> None:
        """What the next start has."""
        self._environment.update(environment)

    def get(self, port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS_MAX) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def health(self) -> int:
        return self.get(self.http_port, "/healthcheck")[0]

    def rlconfig(self) -> list[str]:
        """The limits in force, sorted."""
        status, text = self.get(self.debug_port, "/rlconfig")
        assert status == 200, text
        return sorted(line for line in text.splitlines() if line)

    def requests_per_day(self) -> list[int]:
        """Of all limits in force."""
        return [int(line.split("requests_per_unit=")[1].split(",")[0]) for line in self.rlconfig()]

    def status(self) -> dict[str, object]:
        done = subprocess.run([BINARY, "status", "--json", "--admin", str(self.folder / "admin")], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        return json.loads(done.stdout)

    def words_of_status(self) -> tuple[int, str]:
        """Its exit status and what it prints."""
        done = subprocess.run([BINARY, "status", "--admin", str(self.folder / "admin")], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        return done.returncode, done.stdout

    def generation(self) -> int:
        return self.status()["policy"]["generation"]  # type: ignore[index]

    def ask(self, key: str = "k", value: str = "v", domain: str = "a") -> str:
        """The overall code, by /json."""
        entries = [{"key": key, "value": value}]
        _, answer = self.ask_json({"domain": domain, "descriptors": [{"entries": entries}]})
        return str(answer["overallCode"])

    def said_with(self, *words: str) -> list[str]:
        """The lines of its log with all of these words."""
        return [line for line in self.said if all(word in line for word in words)]

    def await_said(self, *words: str) -> str:
        wait_until(lambda: bool(self.said_with(*words)), f"a line with {words} in {self.said}")
        return self.said_with(*words)[0]

    def warnings(self) -> list[str]:
        return [line for line in self.said if WARNING.match(line)]


class Caller:
    """gRPC over one connection."""

    def __init__(self, test: LimitedTest, server: Server, credentials: grpc.ChannelCredentials | None = None,
                 name: str | None = None) -> None:
        """`name`: that the server's certificate has to have."""
        options: list[tuple[str, object]] = [("grpc.use_local_subchannel_pool", 1)]
        if name:
            options.append(("grpc.ssl_target_name_override", name))
        address = f"127.0.0.1:{server.grpc_port}"
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials
                        else grpc.insecure_channel(address, options))
        test.addCleanup(self.channel.close)

    def ask(self, key: str = "k", value: str = "v", domain: str = "a") -> RateLimitResponse:
        call = self.channel.unary_unary(SHOULD_RATE_LIMIT, request_serializer=RateLimitRequest.SerializeToString,
                                        response_deserializer=RateLimitResponse.FromString)
        return call(request([(key, value)], domain=domain), timeout=SECONDS_MAX)

    def refusal(self) -> tuple[grpc.StatusCode, str]:
        """Of a request that must be refused."""
        try:
            answer = self.ask()
        except grpc.RpcError as error:
            return error.code(), error.details()
        raise AssertionError(f"was answered: {answer}")

    def health(self) -> int:
        call = self.channel.unary_unary("/grpc.health.v1.Health/Check",
                                        request_serializer=HealthCheckRequest.SerializeToString,
                                        response_deserializer=HealthCheckResponse.FromString)
        return call(HealthCheckRequest(), timeout=SECONDS_MAX).status


def refused_start(*words: str, **environment: str) -> tuple[int, str]:
    """The exit status and all that `sluice envoy WORD...` says, which must end by itself."""
    done = subprocess.run(
        [BINARY, "envoy", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={"PATH": os.environ["PATH"], "GRPC_HOST": "127.0.0.1", "GRPC_PORT": "0", "HOST": "127.0.0.1", "PORT": "0",
             "SLUICE_ADMIN": "off", "USE_STATSD": "false", **environment}, timeout=SECONDS_MAX, check=False)
    return done.returncode, done.stdout


class XdsTest(LimitedTest):
    """A test with servers that have their limits by xDS and must end cleanly."""

    def make(self, control_plane: str, **environment: str) -> XdsServer:
        """One that is not started yet."""
        server = XdsServer(control_plane, **environment)
        self.addCleanup(server.close)
        return server

    def begin(self, server: XdsServer) -> XdsServer:
        server.start()
        self.addCleanup(lambda: server.process is None or self.assertEqual(server.stop(), 0, server.said))
        return server

    def sluice(self, control_plane: str, **environment: str) -> XdsServer:
        return self.begin(self.make(control_plane, **environment))


def write_over(path: Path, text: str) -> None:
    """In its place at once, by a rename."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


class Secret:
    """A folder with tls.crt, tls.key and ca.crt, as Kubernetes mounts one: the names are links through `..data`."""

    def __init__(self, folder: Path, pair: Pair, authority: str = "") -> None:
        self._folder, self._numbers = folder, itertools.count(1)
        self.certificate, self.key, self.authority = (folder / name for name in ("tls.crt", "tls.key", "ca.crt"))
        self.swap(*pair.texts, authority)
        for path in (self.certificate, self.key, self.authority):
            path.symlink_to(Path("..data") / path.name)

    def swap(self, certificate: str, key: str, authority: str = "") -> None:
        link = self._folder / "..data"
        old = os.readlink(link) if link.is_symlink() else None
        new = self._folder / f"..{next(self._numbers)}"
        new.mkdir()
        for name, text in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", authority)):
            (new / name).write_text(text)
        made = self._folder / "..data_tmp"
        made.symlink_to(new.name)
        made.replace(link)
        if old:
            shutil.rmtree(self._folder / old)
