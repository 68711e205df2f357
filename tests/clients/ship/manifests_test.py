"""The chart and the plain manifests of deploy/, without helm: what can be read from their files. tests/ship/chart_test.py
renders the chart."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from kubelet import (MANIFESTS, ROOT, SECONDS_MAX, TOKEN, Object, PodTest, breaches, of_kind, pod_specs, read_all, run,
                     wait_until)

CHART = ROOT / "deploy/chart/sluice"


def undeclared(values: object, schema: Object, definitions: Object, path: str = "") -> list[str]:
    """The keys of values.yaml that the schema does not name, and those of the schema that values.yaml does not explain."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/definitions/")]
    if "properties" not in schema or not isinstance(values, dict):
        return []
    names = set(schema["properties"]) - {"global"}
    found = [f"{path}{name}" for name in names ^ set(values)]
    if schema.get("additionalProperties") is not False:
        found.append(f"{path}: more keys are accepted")
    for name in names & set(values):
        found += undeclared(values[name], schema["properties"][name], definitions, f"{path}{name}.")
    return found


class Chart(PodTest):
    def test_its_version_is_that_of_the_program(self) -> None:
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        found = re.search(r"project\(sluice VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        assert found
        self.assertEqual([chart["version"], chart["appVersion"]], [found[1], found[1]])

    def test_the_schema_names_every_value_and_no_other(self) -> None:
        values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
        schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
        self.assertEqual(undeclared(values, schema, schema["definitions"]), [])


class PlainManifests(PodTest):
    def setUp(self) -> None:
        super().setUp()
        self.manifests = {path.name: read_all(path.read_text(encoding="utf-8")) for path in MANIFESTS.glob("*.yaml")}

    def test_there_is_one_for_redis_and_one_for_a_disk(self) -> None:
        self.assertEqual(sorted(self.manifests), ["disk.yaml", "redis.yaml"])

    def test_every_object_has_a_kind_and_a_name_of_its_own(self) -> None:
        for name, objects in self.manifests.items():
            with self.subTest(name):
                names = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects]
                self.assertEqual(len(names), len(set(names)), names)
                self.assertTrue(of_kind(objects, "Service") and of_kind(objects, "ConfigMap"))

    def test_pods_hold_the_restricted_standard(self) -> None:
        for name, objects in self.manifests.items():
            with self.subTest(name):
                specs = pod_specs(objects)
                self.assertEqual([breaches(spec) for spec in specs], [[]])

    def test_a_pod_without_a_security_context_is_found(self) -> None:
        for name, objects in self.manifests.items():
            with self.subTest(name):
                [spec] = pod_specs(objects)
                del spec["containers"][0]["securityContext"], spec["securityContext"]
                self.assertGreaterEqual(len(breaches(spec)), 5)

    def test_the_configuration_is_mounted_so_that_it_can_change(self) -> None:
        for name, objects in self.manifests.items():
            with self.subTest(name):
                [spec] = pod_specs(objects)
                mounts = spec["containers"][0]["volumeMounts"]
                self.assertIn("/etc/sluice", [mount["mountPath"] for mount in mounts])
                self.assertFalse([mount for mount in mounts if "subPath" in mount])  # the kubelet never changes these

    def test_images_have_the_charts_version(self) -> None:
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        for name, objects in self.manifests.items():
            with self.subTest(name):
                self.assertEqual([one["image"] for spec in pod_specs(objects) for one in spec["containers"]],
                                 [f"sluice:{chart['appVersion']}"])

    def test_sluice_check_accepts_the_configuration(self) -> None:
        for name, objects in self.manifests.items():
            with self.subTest(name):
                [config] = of_kind(objects, "ConfigMap")
                with tempfile.TemporaryDirectory(prefix="sluice-config-") as folder:
                    for file, text in config["data"].items():
                        (Path(folder) / file).write_text(text, encoding="utf-8")
                    done = run("check", f"{folder}/sluice.yaml")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("ok, 2 rules", done.stdout)


class PodWithADisk(PodTest):
    """The pod of disk.yaml, which needs nothing beside it."""

    def setUp(self) -> None:
        super().setUp()
        self.objects = read_all((MANIFESTS / "disk.yaml").read_text(encoding="utf-8"))
        self.served = self.pod(self.objects).start()

    def take(self) -> int:
        """The exit status of a log-in: 0 allowed, 1 denied."""
        done = self.served.ask("http", "take", "method=POST", "path=/login", "ip=10.0.0.7")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode

    def rules(self) -> str:
        return run("rules", "--json", **self.served.environment()).stdout

    def test_the_sixth_log_in_is_refused_also_after_a_restart(self) -> None:
        self.assertEqual([self.take() for _ in range(4)], [0] * 4)
        self.assertEqual(self.served.stop(), 0, self.served.said)
        self.served.start()
        self.assertEqual([self.take() for _ in range(2)], [0, 1])

    def test_envoys_protocol_is_served_by_the_same_rules(self) -> None:
        done = self.served.ask("envoy", "shop", "user=alice")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("99 of 100 left", done.stdout)

    def test_probes_are_answered_without_a_token_and_metrics_only_with_it(self) -> None:
        def status(path: str, **headers: str) -> int:
            request = urllib.request.Request(f"http://{self.served.addresses['admin']}{path}", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        [container] = self.served.spec["containers"]
        probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
        self.assertEqual({probe["port"] for probe in probes}, {"admin"})
        # A Host of any kind, as the kubelet sends the pod's address and other probes a name.
        self.assertEqual([status(probe["path"], Host="sluice.default.svc") for probe in probes], [200] * 3)
        self.assertEqual(status("/metrics"), 401)
        self.assertEqual(status("/metrics", Authorization=f"Bearer {TOKEN}"), 200)

    def test_commands_in_the_container_find_server_and_token(self) -> None:
        for command, shown in ((["status"], ": ready"), (["top", "--over", "0s"], "0 counters"), (["health"], "ready")):
            with self.subTest(command[0]):
                done = run(*command, **self.served.environment())
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(shown, done.stdout)

    def test_a_changed_configmap_is_live_without_a_restart(self) -> None:
        [config] = of_kind(self.objects, "ConfigMap")
        for quota in (1, 3):  # the second change finds what the first has left
            changed = config["data"]["sluice.yaml"].replace("quota: 5", f"quota: {quota}")
            self.assertNotEqual(changed, config["data"]["sluice.yaml"])
            self.served.configure({"sluice.yaml": changed})
            wait_until(lambda: f'"quota": {quota}' in self.rules(), f"a quota of {quota}")
        self.assertEqual([self.take() for _ in range(4)], [0, 0, 0, 1])

    def test_a_policy_that_is_wrong_is_not_served(self) -> None:
        [config] = of_kind(self.objects, "ConfigMap")
        self.served.configure({"sluice.yaml": config["data"]["sluice.yaml"].replace("quota: 5", "quota: many")})
        wait_until(lambda: any("policy refused" in line for line in self.served.said), "a refusal")
        self.assertEqual(self.take(), 0)


if __name__ == "__main__":
    unittest.main()
