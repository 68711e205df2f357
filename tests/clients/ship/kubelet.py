"""What stands for a node of Kubernetes in tests: it reads manifests, holds pods to the `restricted` standard, lays volumes
out as the kubelet does, and runs a pod's command line with the program under test. And a Redis for pods."""

from __future__ import annotations

import base64
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import yaml

sys.path.append(str(Path(__file__).resolve().parents[1]))

from started import BINARY, ROOT, LimitedTest, Started, wait_until  # noqa: E402, F401  (for the tests as well)

MANIFESTS = ROOT / "deploy/kubernetes"
SECONDS_MAX = 60  # of one command, and of whatever is waited for
TOKEN = "a-token-for-tests-alone"
LISTENING = r"^sluice: (\w+) listening on (127\.0\.0\.1:\d+)"

Object = dict[str, object]


def read_all(text: str) -> list[Object]:
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(objects: Iterable[Object], *kinds: str) -> list[Object]:
    return [one for one in objects if one["kind"] in kinds]


def pod_specs(objects: Iterable[Object]) -> list[Object]:
    """The specs of all pods, of workloads and single ones."""
    return [one["spec"] if one["kind"] == "Pod" else one["spec"]["template"]["spec"]
            for one in of_kind(objects, "Pod", "Deployment", "StatefulSet")]


def breaches(spec: Object) -> list[str]:
    """What the `restricted` Pod Security Standard forbids in a pod, and what ours must have beyond it."""
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    if spec.get("automountServiceAccountToken") is not False:
        found.append("a token of the service account")
    pod = spec.get("securityContext", {})
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        own = container.get("securityContext", {})
        both = {**pod, **own}
        name = container["name"]
        wanted = {
            "runAsNonRoot": both.get("runAsNonRoot") is True,
            "runAsUser": both.get("runAsUser") != 0,
            "seccompProfile": both.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
            "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
            "privileged": not own.get("privileged"),
            "hostPort": not any("hostPort" in port for port in container.get("ports", [])),
        }
        found += [f"{name}: {what}" for what, holds in wanted.items() if not holds]
    kinds = {kind for volume in spec.get("volumes", []) for kind in volume if kind != "name"}
    found += sorted(kinds - {"configMap", "projected", "secret", "emptyDir", "persistentVolumeClaim", "downwardAPI", "csi", "ephemeral"})
    return found


def lay_out(folder: Path, files: dict[str, str]) -> None:
    """Writes the files of a ConfigMap or Secret as the kubelet does: into a folder of their own, to which a link is moved
    at once."""
    folder.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    new.chmod(0o755)
    for name, text in files.items():
        (new / name).write_text(text, encoding="utf-8")
    data, moved = folder / "..data", folder / "..data_tmp"
    old = data.resolve() if data.exists() else None
    moved.symlink_to(new.name)
    moved.rename(data)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    if old:
        for path in old.iterdir():
            path.unlink()
        old.rmdir()


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program under test, without the tester's environment."""
    return subprocess.run([BINARY, *words], env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=SECONDS_MAX)


class Pod:
    """A pod of a Deployment or StatefulSet. Its volumes are folders of `folder`, and it listens on free ports of loopback.
    `secrets`: the Secrets that the manifests do not bring, by their names."""

    def __init__(self, objects: list[Object], folder: Path, secrets: dict[str, dict[str, str]]) -> None:
        self._configs = {one["metadata"]["name"]: dict(one["data"]) for one in of_kind(objects, "ConfigMap")}
        brought = {one["metadata"]["name"]: {key: base64.b64decode(text).decode() for key, text in one["data"].items()}
                   for one in of_kind(objects, "Secret")}
        self._secrets = {**brought, **secrets}
        [workload] = of_kind(objects, "Deployment", "StatefulSet")
        self.spec = workload["spec"]["template"]["spec"]
        [self._container] = self.spec["containers"]
        claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
        self._volumes = {**{volume["name"]: volume for volume in self.spec["volumes"]}, **{name: {} for name in claims}}
        self._folders = {mount["mountPath"]: folder / mount["name"] for mount in self._container["volumeMounts"]}
        self.process: Started | None = None
        self.addresses: dict[str, str] = {}
        self.said: list[str] = []
        for mount in self._container["volumeMounts"]:
            self._fill(folder / mount["name"], self._volumes[mount["name"]])

    def here(self, text: str) -> str:
        """The text with the places of this machine in place of the container's."""
        for inside, outside in self._folders.items():
            text = re.sub(rf"(?<![\w/]){re.escape(inside)}(?![\w-])", str(outside), text)
        return re.sub(r'"\[::\]:\d+"', '"127.0.0.1:0"', text)

    def _fill(self, folder: Path, volume: Object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            self.configure(self._configs[volume["configMap"]["name"]], folder)
        if "projected" in volume:
            secrets = [source["secret"] for source in volume["projected"]["sources"]]
            lay_out(folder, {item["path"]: self._secrets[secret["name"]][item["key"]]
                             for secret in secrets for item in secret["items"]})

    def configure(self, files: dict[str, str], folder: Path | None = None) -> None:
        """As after a change of the ConfigMap."""
        lay_out(folder or self._folders["/etc/sluice"], {name: self.here(text) for name, text in files.items()})

    def exchange(self, name: str, secret: dict[str, str]) -> None:
        """As after a change of a Secret."""
        self._secrets[name] = secret
        for mount in self._container["volumeMounts"]:
            if "projected" in self._volumes[mount["name"]]:
                self._fill(self._folders[mount["mountPath"]], self._volumes[mount["name"]])

    def command(self) -> list[str]:
        return [self.here(word) for word in self._container["args"]]

    def environment(self) -> dict[str, str]:
        """An address of the container's loopback becomes the one at which this pod listens, once it does."""
        there = {port["containerPort"]: self.addresses[port["name"]]
                 for port in self._container["ports"] if port["name"] in self.addresses and "containerPort" in port}
        own = {f"127.0.0.1:{port}": address for port, address in there.items()}
        own |= {f"https://localhost:{port}": "https://localhost:" + address.rpartition(":")[2] for port, address in there.items()}
        return {one["name"]: own.get(one["value"]) or self.here(one["value"]) for one in self._container["env"]}

    def start(self) -> Pod:
        """Returns when it listens everywhere, and its startup and readiness probes hold."""
        self.addresses = {}
        self.process = Started([BINARY, *self.command()], **self.environment())
        self.said = self.process.said
        wanted = {port["name"] for port in self._container["ports"]}
        end = time.monotonic() + SECONDS_MAX
        while wanted - self.addresses.keys():
            found = self.process.await_line(LISTENING, end - time.monotonic())
            self.addresses[found[1]] = found[2]
        return self

    def ask(self, protocol: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run("ask", protocol, "--timeout", "20000", "--server", self.addresses[protocol], *words, **environment)

    def stop(self) -> int:
        """Asks it to end, as the kubelet does; returns its status."""
        assert self.process is not None
        try:
            return self.process.stop(self.spec["terminationGracePeriodSeconds"])
        finally:
            self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
        self.process = None


class RedisServer:
    """A redis-server with a password, on a free port of loopback."""

    def __init__(self, folder: Path, password: str) -> None:
        self._folder, self._password = folder, password
        wait_until(self._has_started, "Redis listens")

    def _has_started(self) -> bool:
        """Starts it once. False: it ended, as another process took the port."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--requirepass", self._password],
            cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until(lambda: self._process.poll() is not None or self._answers(), "Redis answers")
        return self._process.poll() is None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), SECONDS_MAX) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"-NOAUTH")
        except OSError:
            return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS_MAX)


class PodTest(LimitedTest):
    """A test with pods, whose folders end with it."""

    test_seconds_max = SECONDS_MAX
    secrets = {"sluice-admin": {"token": TOKEN}}

    def new_folder(self) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="sluice-pod-")
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def pod(self, objects: list[Object], folder: Path | None = None) -> Pod:
        pod = Pod(objects, folder or self.new_folder(), self.secrets)
        self.addCleanup(pod.kill)
        return pod
