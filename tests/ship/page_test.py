"""docs/kubernetes.md: helm renders each of its releases, and what it types in a pod is typed beside the pod's command line, with
the output that the page shows. There is no cluster: commands that need one are held to the objects that they name."""

from __future__ import annotations

import re
import shlex
import subprocess
import unittest
from datetime import date

import yaml

from with_helm import ROOT, HelmTest, render_chart  # which lets the next be found

from kubelet import BINARY, SECONDS_MAX, Object, Pod, breaches, of_kind, read_all, run
from manual import settled

PAGE = ROOT / "docs/kubernetes.md"
# Programs that the page names and that are not here, or that need a cluster; nothing of ours is in these lines but file names.
ELSEWHERE = ("skopeo copy", "kind load", "k3s ctr", "ctr -n", "helm rollback sluice", "helm test sluice",
             "helm upgrade sluice sluice-NEW.tgz")
VALUE = re.compile(r"^(?:image|protocols|store|monitoring):")  # begins what the page adds to limits.yaml
COMMAND = re.compile(r"^(?:helm|kubectl|curl|for|sluice|" + "|".join(words.split()[0] for words in ELSEWHERE) + r") ")


def blocks(text: str) -> list[list[str]]:
    """The indented blocks and the fenced ones, line by line and without their indentation."""
    found: list[list[str]] = [[]]
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            found.append([])
        elif fenced or line.startswith("    "):
            found[-1].append(line if fenced else line[4:])
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def commands(text: str) -> list[str]:
    """Those of the indented blocks and after the `$` of the fenced ones, each in one line."""
    lines = "\n".join("\n".join(block) for block in blocks(text)).replace("\\\n", " ").splitlines()
    return [re.sub(r"\s{2,}#.*", "", line.removeprefix("$ ")).rstrip() for line in lines if COMMAND.match(line.removeprefix("$ "))]


class Page(HelmTest):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.new_folder()
        self.text = PAGE.read_text(encoding="utf-8")
        self.limits = "\n".join(next(block for block in blocks(self.text) if block[0] == "rules:")) + "\n"
        self.additions = ["\n".join(block) + "\n" for block in blocks(self.text) if VALUE.match(block[0])]
        self.add("")

    def add(self, addition: str) -> None:
        """As a reader does, to limits.yaml as it was at first."""
        (self.folder / "limits.yaml").write_text(self.limits + addition, encoding="utf-8")

    def helm(self, line: str) -> list[Object]:
        """What `helm install`, `upgrade` or `template` of the page gives to the cluster."""
        words = [word for word in shlex.split(line)[2:] if word != "--install"]
        self.assertEqual(words[:2], ["sluice", "sluice-0.2.0.tgz"], line)
        command = [str(render_chart.find_helm()), "template", "sluice", str(render_chart.CHART), "--kube-version", "1.37.0", *words[2:]]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stderr}")
        return read_all(done.stdout)

    def test_each_command_is_of_what_there_is(self) -> None:
        objects = [one for path in render_chart.MANIFESTS.glob("*.yaml") for one in read_all(path.read_text(encoding="utf-8"))]
        found = commands(self.text)
        self.assertGreater(len(found), 20)
        self.assertGreater(len(self.additions), 5)
        for line in found:
            if re.match(r"helm (install|upgrade) .*sluice-0\.2\.0\.tgz", line):
                self.assertNotIn("--set", line)  # the next upgrade would not have it
                for addition in ("", *self.additions):
                    self.add(addition)
                    objects += self.helm(line)
        [copy] = [yaml.safe_load("\n".join(block)) for block in blocks(self.text) if block[0] == "apiVersion: v1"]
        self.assertEqual(breaches(copy["spec"]), [])
        claims = {f"{claim['metadata']['name']}-{one['metadata']['name']}-0" for one in of_kind(objects, "StatefulSet")
                  for claim in one["spec"]["volumeClaimTemplates"]}
        self.assertIn(copy["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], claims)
        objects.append(copy)
        names = {f"{one['kind'].lower()}/{one['metadata']['name']}" for one in objects}
        secrets = {(source["secret"]["name"], item["key"]) for one in of_kind(objects, "Deployment", "StatefulSet")
                   for volume in one["spec"]["template"]["spec"]["volumes"]
                   for source in volume.get("projected", {}).get("sources", []) for item in source["secret"]["items"]}
        for line in found:
            with self.subTest(line):
                if line.startswith(ELSEWHERE) or line.startswith(("helm", "curl", "sluice")):
                    continue
                words = shlex.split(line.partition(" do ")[2].removesuffix("; done") or line)
                if words[1:4] == ["create", "secret", "generic"]:
                    self.assertIn((words[4], words[5].removeprefix("--from-literal=").partition("=")[0]), secrets)
                elif words[1] == "apply":
                    manifests = {f"kubernetes-{path.name}" for path in render_chart.MANIFESTS.glob("*.yaml")}  # as in a release
                    self.assertIn(words[3], manifests | {"copy.yaml"})
                elif words[1] == "cp":
                    self.assertIn(f"pod/{words[2].partition(':')[0]}", names)
                else:
                    self.assertIn(words[1], ("exec", "port-forward", "rollout", "set", "wait", "delete"))
                    named = re.search(r" (\w+)[/ ](sluice\S*)(?= |$)", line.partition(" -- ")[0])
                    assert named
                    self.assertIn(f"{named[1]}/{named[2]}", names)

    def test_the_stores_are_those_of_limits_yaml(self) -> None:
        for addition in self.additions:
            if addition.startswith("store:"):
                self.add(addition)
                store = addition.split()[1]
                [pods] = of_kind(self.helm("helm upgrade sluice sluice-0.2.0.tgz --values limits.yaml"), "Deployment", "StatefulSet")
                self.assertEqual((pods["kind"], pods["spec"]["replicas"]), {"disk": ("StatefulSet", 1), "redis": ("Deployment", 2)}[store])

    def test_what_the_chart_makes_is_checked(self) -> None:
        rendering, check = (line for line in commands(self.text) if line.startswith(("helm template ", "sluice check ")))
        here = rendering.replace("helm ", f"{shlex.quote(str(render_chart.find_helm()))} ", 1)
        here = here.replace("sluice-0.2.0.tgz", shlex.quote(str(render_chart.CHART)))
        for addition in ("", *self.additions):
            self.add(addition)
            for name, text in (yaml.safe_load(addition) or {}).get("files", {}).items():
                (self.folder / name).write_text(text, encoding="utf-8")
            done = subprocess.run(["bash", "-o", "pipefail", "-c", here], cwd=self.folder, capture_output=True, text=True, check=False,
                                  timeout=SECONDS_MAX)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = subprocess.run([BINARY, *check.split()[1:]], cwd=self.folder, capture_output=True, text=True, check=False,
                                  timeout=SECONDS_MAX)
            self.assertRegex(done.stdout, r"^rendered\.yaml: ok, [12] rules?\n", addition + done.stderr)

    def test_what_is_typed_in_a_pod_does_something_there(self) -> None:
        pods: dict[str, Pod] = {}
        found = [line for line in commands(self.text) if re.match(r"kubectl exec \S+/sluice ", line)]
        found += re.findall(r"`(kubectl exec \S+/sluice -- [^`]+)`", self.text)
        self.assertEqual(len(found), 4)
        for line in found:
            _, _, place, _, *words = shlex.split(line.replace("$(date +%F)", date.today().isoformat()))
            if place not in pods:
                store = "disk" if place.startswith("statefulset/") else "memory"
                self.add(next((addition for addition in self.additions if addition.startswith(f"store: {store}")), ""))
                objects = self.helm("helm install sluice sluice-0.2.0.tgz --values limits.yaml")
                pods[place] = self.pod(objects, self.folder / store).start()
            pod = pods[place]
            with self.subTest(line):
                done = run(*[pod.here(word) for word in words[1:]], **pod.environment())
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(pods), 2)

    def test_the_first_refused_request(self) -> None:
        pod = self.pod(self.helm("helm install sluice sluice-0.2.0.tgz --values limits.yaml"), self.folder).start()
        # Stands for kubectl: types what is behind `--` beside the server, whose port `ask` has to be told here.
        kubectl = f"""kubectl() {{ shift 3; shift
            if [ "$1" = ask ]; then set -- ask "$2" --server {pod.addresses["http"]} --timeout 20000 "${{@:3}}"; fi
            {BINARY} "$@" || echo "command terminated with exit code $?"; }}"""
        [block] = [block for block in blocks(self.text) if block[0].startswith("$ ")]
        shown, typed = "\n".join(line for line in block if not line.startswith("$ ")), [line[2:] for line in block if line.startswith("$ ")]
        done = subprocess.run(["bash", "-c", "\n".join([kubectl, *typed])], env={"PATH": "/usr/bin:/bin", **pod.environment()},
                              capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
        self.assertEqual(settled(done.stdout), settled(shown), done.stderr)
        [curl] = [line for line in commands(self.text) if line.startswith("curl")]
        self.assertIn(" localhost:8390/", curl)
        done = subprocess.run(shlex.split(curl.replace("localhost:8390", pod.addresses["http"])), capture_output=True, text=True,
                              check=False, timeout=SECONDS_MAX)
        self.assertIn('"allowed": true, "limit": 5, "remaining": 4', done.stdout)


if __name__ == "__main__":
    unittest.main()
