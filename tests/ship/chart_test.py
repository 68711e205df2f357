"""The chart of deploy/, rendered by helm: against the schemas of Kubernetes, and its pods run with the real program. What
needs no helm is in tests/clients/ship/manifests_test.py."""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import yaml

from with_helm import ROOT, HelmTest, render_chart  # which lets the next be found

from certificates import Authority, Pair
from kubelet import SECONDS_MAX, TOKEN, Object, Pod, RedisServer, breaches, of_kind, pod_specs, read_all, run, wait_until
from tools.dist import __main__ as release

CHART = render_chart.CHART
VERSIONS = ("1.25", "1.30", "1.37")
OPERATORS_KINDS = ("ServiceMonitor", "PrometheusRule")  # no schema of Kubernetes has them

PROTOCOLS = ("http", "envoy", "resp", "divvy", "limitd", "droplet")
FILES = {
    "rules.ini": "[default]\ncreditLimit = 3\nresetSeconds = 3600\n",
    "limitd.yaml": "buckets:\n  user:\n    size: 3\n    per_hour: 3\n",
    "shop.yaml": "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: hour, requests_per_unit: 3 }\n",
}
# 10,000,000 in 1e+07 or in quotes would be another value.
RULE = {"name": "api", "match": {"key": "*"}, "actor": "key", "limit": {"quota": 10_000_000, "window": "1h"}}
EVERYTHING: Object = {
    "protocols": {name: {"enabled": True} for name in PROTOCOLS},
    "rules": [RULE],
    "policy": [{"divvy": "rules.ini"}, {"limitd": "limitd.yaml"}, {"envoy": "shop.yaml"}],
    "files": FILES,
    "users": [
        {"name": "app", "rights": ["take"], "secret": {"name": "sluice-users", "key": "app"}},
        {"name": "ops", "rights": ["take", "look", "admin"], "sha256": "66d34fba71f8f450f7e45598853e53bfc23bbd129027cbb131a2f4ffd7878cd0"},
    ],
    "settings": {"log": {"format": "json"}, "http": {"unmatched": "allow"}},
}
SETS: dict[str, Object] = {
    "minimal": {},
    "redis": {"store": "redis", "redis": {"nodes": ["redis:6379"], "existingSecret": "redis-auth"}, "rules": [RULE]},
    "redis cluster": {
        "store": "redis", "replicas": 5,
        "redis": {"nodes": ["a:6379", "b:6379"], "cluster": True, "username": "sluice", "existingSecret": "redis-auth",
                  "tls": {"enabled": True, "caSecret": "redis-ca"}, "settings": {"deadline_ms": 100}}},
    "sentinel": {"store": "redis", "redis": {"settings": {"sentinel": {"master": "main", "nodes": ["sentinel:26379"]}}}},
    "disk": {"store": "disk", "disk": {"size": "10Gi", "storageClass": "fast", "durability": "always", "fsync": True}},
    "memory": {"store": "memory", "replicas": 1, "admin": {"existingSecret": "sluice-admin"}, "runAs": None},
    "everything": {
        **EVERYTHING, "store": "redis", "fullnameOverride": "limits",
        "image": {"repository": "registry.example/sluice", "tag": "edge", "pullPolicy": "Always", "pullSecrets": [{"name": "login"}]},
        "autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 6},
        "networkPolicy": {"enabled": True, "from": [{"podSelector": {}}], "adminFrom": [{"namespaceSelector": {}}]},
        "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
                       "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
        "service": {"type": "LoadBalancer", "annotations": {"example/internal": "true"}},
        "serviceAccount": {"annotations": {"example/role": "limits"}},
        "podLabels": {"team": "edge"}, "podAnnotations": {"example/note": "1"}, "priorityClassName": "high",
        "nodeSelector": {"pool": "edge"}, "tolerations": [{"operator": "Exists"}], "affinity": {"podAntiAffinity": {}}},
}
TLS: Object = {
    **EVERYTHING, "tls": {"secretName": "sluice-tls", "clients": {"secretName": "clients", "names": ["app.example", "ops.example"]}},
    "admin": {"tls": True}, "monitoring": {"serviceMonitor": {"enabled": True}},
    "users": [{"name": "app", "rights": ["take"], "certificate": "app.example"}],
}
SETS["tls"] = {**TLS, "store": "redis", "redis": {"tls": {"enabled": True, "caSecret": "redis-ca"}}}
SETS["tls of some"] = {"tls": {"secretName": "sluice-tls", "certKey": "cert", "keyKey": "key"}, "rules": [RULE],
                       "protocols": {"resp": {"enabled": True, "tls": False}, "envoy": {"enabled": True}}}
SECRETS = {
    "sluice-admin": {"token": TOKEN},
    "redis-auth": {"password": "a-password-for-tests"},
    "sluice-users": {"app": "b" * 43},
}

# Values that are refused, each with what has to be said.
REFUSED: dict[str, Object] = {
    "value must be one of 'redis', 'disk', 'memory'": {"store": "rediss"},
    "2 pods with `store: memory` would each count by themselves": {"replicas": 2},
    "3 pods with `store: disk` would each count by themselves": {"store": "disk", "replicas": 3},
    "with `store: disk` there is one pod": {"store": "disk", "autoscaling": {"enabled": True}},
    "minReplicas is above maxReplicas": {"store": "redis", "autoscaling": {"enabled": True, "minReplicas": 20}},
    "additional properties 'replica' not allowed": {"replica": 1},
    "additional properties 'enable' not allowed": {"protocols": {"http": {"enable": True}}},
    "additional properties 'grpc' not allowed": {"protocols": {"grpc": {"enabled": True}}},
    "at '/protocols/http/port'": {"protocols": {"http": {"port": 80}}},
    "http and resp both have port 8390": {"protocols": {"resp": {"enabled": True, "port": 8390}}},
    "admin and http both have port 8380": {"protocols": {"http": {"port": 8380}}},
    "protocols: none is enabled": {"protocols": {"http": {"enabled": False}}},
    "envoy is enabled, and neither `rules` nor `policy`": {"protocols": {"envoy": {"enabled": True}}},
    "divvy names rules.ini, which is not in `files`": {"policy": [{"divvy": "rules.ini"}]},
    "settings: `listen` is made of other values": {"settings": {"listen": []}},
    "redis.settings: `password` is made of other values of the chart, and passwords of Secrets": {"redis": {"settings": {"password": "in a ConfigMap"}}},
    "at '/disk/durability'": {"disk": {"durability": "sometimes"}},
    "at '/memory'": {"memory": "256Mi"},
    "at '/users/0'": {"users": [{"name": "app", "rights": ["take"]}]},
    "at '/runAs'": {"runAs": 0},
    "tls.clients: clients show certificates to listeners with TLS alone": {"tls": {"clients": {"secretName": "clients"}}},
    "admin.tls: there is no certificate": {"admin": {"tls": True}},
    "app is known by a certificate, and no client is asked for one": {
        "tls": {"secretName": "sluice-tls"}, "users": [{"name": "app", "rights": ["take"], "certificate": "app.example"}]},
    "admin: port and healthPort are both 8380": {"tls": {"secretName": "sluice-tls"}, "admin": {"tls": True, "healthPort": 8380}},
    "admin.healthPort and http both have port 8390": {"tls": {"secretName": "sluice-tls"}, "admin": {"tls": True, "healthPort": 8390}},
    "at '/tls/clients/verify'": {"tls": {"clients": {"verify": "perhaps"}}},
}

# How each protocol is asked for one unit.
TAKES = {
    "http": ["take", "key=alice"],
    "envoy": ["shop", "user=alice"],
    "resp": ["sluice.take", "key=alice"],
    "divvy": ["method=GET"],
    "limitd": ["take", "user", "alice"],
    "droplet": ["take", "jar", "--lm", "100"],
}


class ChartTest(HelmTest):
    def setUp(self) -> None:
        super().setUp()
        self.secrets = {**SECRETS, "redis-ca": {"ca.crt": Authority(self.new_folder(), "redis").certificate.read_text()}}

    def rendered(self, values: Object, version: str = VERSIONS[-1], *options: str, chart: Path = CHART) -> list[Object]:
        done = render_chart.template(chart, values, f"{version}.0", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_all(done.stdout)

    def rendered_pod(self, values: Object) -> Pod:
        return self.pod(self.rendered(values))


@contextlib.contextmanager
def cluster(replicas: int) -> Iterator[str]:
    """The address of an API server that has one object: the Deployment `sluice` with so many replicas."""
    about = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1",
             "resources": [{"name": "deployments", "singularName": "", "namespaced": True, "kind": "Deployment", "verbs": ["get"]}]}
    living = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "sluice"}, "spec": {"replicas": replicas}}
    answers: dict[str, Object] = {"/apis/apps/v1": about, "/apis/apps/v1/namespaces/default/deployments/sluice": living}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.partition("?")[0])
            body = json.dumps(answer or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound"}).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Rendered(ChartTest):
    def test_helm_finds_nothing_to_say(self) -> None:
        for name, values in SETS.items():
            with self.subTest(name):
                command = [str(render_chart.find_helm()), "lint", "--strict", str(CHART), "--values", "-"]
                done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False,
                                      timeout=SECONDS_MAX)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn("1 chart(s) linted, 0 chart(s) failed", done.stdout)

    def test_kubernetes_accepts_every_object(self) -> None:
        for version in VERSIONS:
            for name, values in SETS.items():
                for one in self.rendered(values, version):
                    if one["kind"] not in OPERATORS_KINDS:
                        with self.subTest(version=version, values=name, kind=one["kind"]):
                            kubernetes_validate.validate(one, version, strict=True)

    def test_the_schemas_find_a_misspelt_field(self) -> None:
        for version in VERSIONS:
            [workload] = of_kind(self.rendered({}, version), "Deployment")
            workload["spec"]["replikas"] = 1
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(workload, version, strict=True)

    def test_the_plain_manifests_are_what_the_chart_renders_for_each_version(self) -> None:
        self.assertEqual(render_chart.main(["--check"]), 0)
        for store in render_chart.WORDS:
            written = (render_chart.MANIFESTS / f"{store}.yaml").read_text(encoding="utf-8")
            for version in VERSIONS:
                self.assertEqual(render_chart.render(store, f"{version}.0"), written, store)
                for one in read_all(written):
                    kubernetes_validate.validate(one, version, strict=True)

    def test_pods_hold_the_restricted_standard(self) -> None:
        for name, values in SETS.items():
            with self.subTest(name):
                specs = pod_specs(self.rendered(values))
                self.assertEqual([breaches(spec) for spec in specs], [[], []])  # the server's and the test's

    def test_a_wrong_value_is_refused_with_its_reason(self) -> None:
        for reason, values in REFUSED.items():
            with self.subTest(reason):
                done = render_chart.template(CHART, values, "1.37.0")
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn(reason, done.stderr)

    def test_sluice_check_accepts_each_configuration(self) -> None:
        for name, values in SETS.items():
            with self.subTest(name):
                if "tls" in values:
                    continue  # it needs certificates: Secured
                pod = self.rendered_pod(values)
                done = run("check", pod.command()[-1], **pod.environment())
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_upgrade_keeps_the_number_of_pods_that_the_autoscaler_chose(self) -> None:
        def pods(**more: object) -> object:
            values = {"store": "redis", "admin": {"existingSecret": "sluice-admin"}, **more}
            options = ["--is-upgrade", "--dry-run=server", "--kubeconfig", "/dev/null", "--kube-apiserver", address]
            [workload] = of_kind(self.rendered(values, VERSIONS[-1], *options), "Deployment")
            return workload["spec"]["replicas"]

        scaled = {"enabled": True, "minReplicas": 3, "maxReplicas": 9}
        with cluster(replicas=7) as address:
            self.assertEqual(pods(autoscaling=scaled), 7)
            self.assertEqual(pods(autoscaling=scaled, fullnameOverride="new"), 3)
            self.assertEqual(pods(replicas=4), 4)
        [workload] = of_kind(self.rendered({"store": "redis", "autoscaling": scaled}), "Deployment")
        self.assertEqual(workload["spec"]["replicas"], 3)  # without a cluster

    def test_quotas_stay_numbers(self) -> None:
        [config, *_] = of_kind(self.rendered(SETS["redis"]), "ConfigMap")
        self.assertEqual(yaml.safe_load(config["data"]["sluice.yaml"])["rules"], [RULE])

    def test_only_what_is_read_at_the_start_replaces_pods(self) -> None:
        def pods(**more: object) -> object:
            [workload] = of_kind(self.rendered({**EVERYTHING, **more}), "Deployment")
            return workload["spec"]["template"]

        self.assertEqual(pods(), pods(rules=[], files={**FILES, "rules.ini": "[default]\ncreditLimit = 4\nresetSeconds = 60\n"}))
        self.assertNotEqual(pods(), pods(settings={"log": {"format": "text"}}))
        self.assertNotEqual(pods(), pods(memory="128MiB"))

    def test_services_lead_to_each_protocol_and_only_the_headless_one_to_the_admin_port(self) -> None:
        objects = self.rendered(EVERYTHING)
        ports = {one["metadata"]["name"]: {port["name"]: port["port"] for port in one["spec"]["ports"]}
                 for one in of_kind(objects, "Service")}
        wanted = {"http": 8390, "envoy": 8081, "resp": 6380, "divvy": 8321, "limitd": 9231, "droplet": 3000}
        self.assertEqual(ports, {"sluice": wanted, "sluice-headless": {**wanted, "admin": 8380}})
        [workload] = of_kind(objects, "Deployment")
        pod = workload["spec"]["template"]
        opened = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        for service in of_kind(objects, "Service"):
            self.assertLessEqual(service["spec"]["selector"].items(), pod["metadata"]["labels"].items())
            for port in service["spec"]["ports"]:
                self.assertEqual(opened[port["targetPort"]], port["port"])

    def test_alerts_and_dashboard_are_the_examples(self) -> None:
        objects = self.rendered(SETS["everything"])
        [rule] = of_kind(objects, "PrometheusRule")
        alerts = (ROOT / "examples/prometheus/sluice-alerts.yml").read_text(encoding="utf-8")
        self.assertEqual(rule["spec"], yaml.safe_load(alerts))
        [board] = [one for one in of_kind(objects, "ConfigMap") if "sluice.json" in one["data"]]
        self.assertEqual(json.loads(board["data"]["sluice.json"]),
                         json.loads((ROOT / "examples/grafana/sluice.json").read_text(encoding="utf-8")))

    def test_prometheus_finds_the_admin_port_and_its_token(self) -> None:
        objects = self.rendered(SETS["everything"])
        [monitor] = of_kind(objects, "ServiceMonitor")
        found = [one for one in of_kind(objects, "Service")
                 if monitor["spec"]["selector"]["matchLabels"].items() <= one["metadata"]["labels"].items()]
        self.assertEqual([one["metadata"]["name"] for one in found], ["limits-headless"])
        [endpoint] = monitor["spec"]["endpoints"]
        self.assertIn(endpoint["port"], [port["name"] for port in found[0]["spec"]["ports"]])
        token = endpoint["authorization"]["credentials"]
        [secret] = of_kind(objects, "Secret")
        self.assertEqual((token["name"], token["key"]), (secret["metadata"]["name"], *secret["data"]))
        self.assertEqual(found[0]["metadata"]["labels"][monitor["spec"]["jobLabel"]], "sluice")  # `job` of the alerts

    def test_the_packed_chart_lints_and_renders_the_same(self) -> None:
        about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        packed = self.new_folder() / "sluice.tgz"
        packed.write_bytes(release.chart(about["version"], 1_700_000_000))
        done = subprocess.run([str(render_chart.find_helm()), "lint", "--strict", str(packed)], capture_output=True, text=True,
                              check=False, timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, 0, done.stdout)
        values = {**SETS["everything"], "admin": {"existingSecret": "sluice-admin"}}
        self.assertEqual(self.rendered(values, chart=packed), self.rendered(values))


class Served(ChartTest):
    """Pods of the chart, with the real program."""

    def assert_takes(self, pod: Pod) -> None:
        """Each protocol that is enabled allows one unit."""
        for protocol in sorted(pod.addresses.keys() - {"admin"}):
            with self.subTest(protocol):
                done = pod.ask(protocol, *TAKES[protocol], SLUICE_TOKEN=SECRETS["sluice-users"]["app"])
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("allowed", done.stdout)

    def test_every_protocol_is_served_from_memory_and_from_a_disk(self) -> None:
        for store in ("memory", "disk"):
            with self.subTest(store=store):
                pod = self.rendered_pod({**EVERYTHING, "store": store, "drainSeconds": 0}).start()
                self.assertEqual(pod.addresses.keys(), {*PROTOCOLS, "admin"})
                self.assert_takes(pod)
                self.assertEqual(pod.stop(), 0, pod.said)

    def test_commands_in_the_pod_find_an_admin_port_of_another_number(self) -> None:
        pod = self.rendered_pod({"admin": {"port": 9901}}).start()
        for command in (["health"], ["status"], ["top", "--over", "0s"]):
            with self.subTest(command[0]):
                done = run(*command, **pod.environment())
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_client_without_its_token_is_not_served(self) -> None:
        pod = self.rendered_pod(EVERYTHING).start()
        self.assertNotEqual(pod.ask("http", *TAKES["http"]).returncode, 0)

    def test_two_pods_share_the_counters_of_a_redis_with_a_password(self) -> None:
        redis = RedisServer(self.new_folder(), SECRETS["redis-auth"]["password"])
        self.addCleanup(redis.close)
        rule = {**RULE, "limit": {"quota": 3, "window": "1h"}}
        # Long, as the machine may be busy; what is tested is that they share.
        values = {"store": "redis", "rules": [rule], "drainSeconds": 0,
                  "redis": {"nodes": [f"127.0.0.1:{redis.port}"], "existingSecret": "redis-auth", "settings": {"deadline_ms": 20000}}}
        pods = [self.rendered_pod(values).start() for _ in range(2)]
        for pod in pods:
            wait_until(lambda: run("status", **pod.environment()).returncode == 0, "Redis is up")
        statuses = [pods[i % 2].ask("http", *TAKES["http"]).returncode for i in range(4)]
        self.assertEqual(statuses, [0, 0, 0, 1])

    def test_a_pod_that_is_told_to_stop_serves_on_while_it_is_not_ready(self) -> None:
        pod = self.rendered_pod({"rules": [RULE], "drainSeconds": 300}).start()
        assert pod.process is not None
        self.assertEqual(self.health(pod), (200, 200))
        pod.process.process.send_signal(signal.SIGTERM)
        wait_until(lambda: self.health(pod) == (200, 503), "it is alive and not ready")
        self.assertEqual(pod.ask("http", *TAKES["http"]).returncode, 0)
        begin = time.monotonic()
        self.assertEqual(pod.stop(), 0, pod.said)  # a second signal ends the drain
        self.assertLess(time.monotonic() - begin, 60)

    def health(self, pod: Pod) -> tuple[int, ...]:
        def status(probe: str) -> int:
            path = pod.spec["containers"][0][probe]["httpGet"]["path"]
            try:
                with urllib.request.urlopen(f"http://{pod.addresses['admin']}{path}", timeout=SECONDS_MAX) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        return status("livenessProbe"), status("readinessProbe")

    def test_the_test_of_the_release_asks_the_service(self) -> None:
        for values in ({}, EVERYTHING):  # with users it has no token
            [test] = of_kind(self.rendered(values), "Pod")
            [container] = test["spec"]["containers"]
            pod = self.rendered_pod(values).start()
            words = [pod.addresses["http"] if word == "sluice:8390" else word for word in container["args"]]
            self.assertNotEqual(words, container["args"])
            done = run(*words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            pod.kill()
            self.assertNotEqual(run(*words).returncode, 0)

    def test_a_changed_file_of_a_policy_is_live_without_a_restart(self) -> None:
        values = {"protocols": {"divvy": {"enabled": True}}, "policy": [{"divvy": "rules.ini"}], "files": FILES}
        pod = self.rendered_pod(values).start()
        self.assertIn("2 left", pod.ask("divvy", "method=GET").stdout)
        changed = {**FILES, "rules.ini": FILES["rules.ini"].replace("= 3\n", "= 9\n")}
        [config] = of_kind(self.rendered({**values, "files": changed}), "ConfigMap")
        pod.configure(config["data"])
        wait_until(lambda: '"quota": 9' in run("rules", "--json", **pod.environment()).stdout, "the new limit")
        self.assertIn("8 left", pod.ask("divvy", "method=GET").stdout)


class Secured(ChartTest):
    """TLS by Secrets, as cert-manager makes them."""

    test_seconds_max = 300

    def setUp(self) -> None:
        super().setUp()
        folder = self.new_folder()
        self.authority, self.clients = Authority(folder, "servers"), Authority(folder, "clients")
        self.certificate = self.authority.sign("DNS:localhost", "DNS:sluice")
        self.ca = ["--ca", str(self.authority.certificate)]
        self.secrets |= {"sluice-tls": self.secret(self.certificate), "clients": {"ca.crt": self.clients.certificate.read_text()}}

    def secret(self, pair: Pair) -> dict[str, str]:
        certificate, key = pair.texts
        return {"tls.crt": certificate, "tls.key": key, "cert": certificate, "key": key,
                "ca.crt": self.authority.certificate.read_text()}

    def ask(self, pod: Pod, protocol: str, *files: str) -> subprocess.CompletedProcess[str]:
        scheme = {"http": "https", "envoy": "https", "droplet": "wss"}.get(protocol, protocol + "s")
        port = pod.addresses[protocol].rpartition(":")[2]
        return run("ask", protocol, "--timeout", "20000", "--server", f"{scheme}://localhost:{port}", *files, *TAKES[protocol])

    def shown(self, name: str) -> list[str]:
        pair = self.clients.sign(f"DNS:{name}")
        return ["--cert", str(pair.certificate), "--cert-key", str(pair.key)]

    def test_sluice_check_accepts_each_configuration(self) -> None:
        for name in ("tls", "tls of some"):
            with self.subTest(name):
                pod = self.rendered_pod(SETS[name])
                done = run("check", pod.command()[-1], **pod.environment())
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_clients_show_certificates_and_probes_need_none(self) -> None:
        objects = self.rendered(TLS)
        pod = self.pod(objects).start()
        self.assertEqual(pod.addresses.keys(), {*PROTOCOLS, "admin", "health"})
        app, other = self.shown("app.example"), self.shown("other.example")
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                done = self.ask(pod, protocol, *self.ca, *app)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                for files in (self.ca, [*self.ca, *other]):
                    self.assertEqual(self.ask(pod, protocol, *files).returncode, 3)
                self.assertEqual(pod.ask(protocol, *TAKES[protocol]).returncode, 3)  # in plain text
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = pod.spec["containers"][0][probe]["httpGet"]
            with urllib.request.urlopen(f"http://{pod.addresses[asked['port']]}{asked['path']}", timeout=SECONDS_MAX) as answer:
                self.assertEqual(answer.status, 200)
        for command in (["health"], ["status"], ["counters"]):  # by the pod's own environment
            done = run(*command, **pod.environment())
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        [monitor] = of_kind(objects, "ServiceMonitor")
        [endpoint] = monitor["spec"]["endpoints"]
        self.assertEqual((endpoint["scheme"], endpoint["tlsConfig"]["serverName"]), ("https", "localhost"))
        [test] = of_kind(objects, "Pod")
        words = [pod.addresses["health"] if word == "sluice-headless:8370" else word for word in test["spec"]["containers"][0]["args"]]
        done = run(*words)
        self.assertEqual((done.returncode, words != test["spec"]["containers"][0]["args"]), (0, True), done.stderr)

    def test_a_renewed_secret_is_used_without_a_restart(self) -> None:
        pod = self.rendered_pod(SETS["tls of some"]).start()
        self.assertEqual(self.ask(pod, "http", *self.ca).returncode, 0)
        self.assertEqual(pod.ask("resp", *TAKES["resp"]).returncode, 0)  # which is plain
        self.authority = Authority(self.new_folder(), "later")
        pod.exchange("sluice-tls", self.secret(self.authority.sign("DNS:localhost")))
        later = ["--ca", str(self.authority.certificate)]
        wait_until(lambda: self.ask(pod, "http", *later).returncode == 0, "the new certificate")
        self.assertEqual(self.ask(pod, "envoy", *later).returncode, 0)
        self.assertEqual(self.ask(pod, "http", *self.ca).returncode, 3)


if __name__ == "__main__":
    unittest.main()
