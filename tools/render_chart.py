#!/usr/bin/env python3
"""Keeps the plain manifests of deploy/kubernetes equal to what the chart renders.

    tools/render_chart.py --check       names those that differ
    tools/render_chart.py --write       writes them anew

helm is $HELM, or else that of tests/ship/helm, which the first call builds with Go into build/tools.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy/chart/sluice"
MANIFESTS = ROOT / "deploy/kubernetes"
HELM_MODULE = ROOT / "tests/ship/helm"
HELM_SECONDS_MAX = 3600  # a build from nothing, on a busy machine

PLAIN_VALUES = ROOT / "deploy/chart/plain-values.yaml"

OLDEST = "1.25.0"  # Kubernetes that the chart is for; the manifests are the same for later ones

HEAD = """\
# sluice, {what}. Rendered from deploy/chart/sluice by tools/render_chart.py.
# Before the first `kubectl apply`: load the image into the nodes, set {edited}
# in the ConfigMap below, and make the Secret with the token of the admin port:
#   kubectl create secret generic sluice-admin --from-literal=token="$(openssl rand -hex 24)"
"""

# By the store.
WORDS = {
    "redis": {"what": "two pods that share their counters in a Redis or Valkey",
              "edited": "the rules and the address of the Redis (`nodes`)"},
    "disk": {"what": "one pod that keeps its counters on a volume", "edited": "the rules"},
}


class NoHelm(Exception):
    """There is no helm, and no Go that builds it; the text says what is missing."""


def go_version() -> tuple[int, ...]:
    """Of the Go that is installed; (0,) without one."""
    if not shutil.which("go"):
        return (0,)
    said = subprocess.run(["go", "version"], env={**os.environ, "GOTOOLCHAIN": "local"}, capture_output=True, text=True,
                          check=True, timeout=60).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0,)


def find_helm() -> Path:
    """Throws NoHelm."""
    if os.environ.get("HELM"):
        return Path(os.environ["HELM"])
    helm = ROOT / "build/tools/helm"
    made_of = helm.with_suffix(".made_of")
    text = (HELM_MODULE / "go.sum").read_text(encoding="utf-8")
    if not helm.exists() or not made_of.exists() or made_of.read_text(encoding="utf-8") != text:
        wanted = re.search(r"^go (\d+)\.(\d+)", (HELM_MODULE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
        assert wanted
        if go_version() < tuple(map(int, wanted.groups())):
            raise NoHelm(f"helm needs Go {'.'.join(wanted.groups())} to be built; or name a helm by $HELM")
        helm.parent.mkdir(parents=True, exist_ok=True)
        print("building helm, which takes some minutes", file=sys.stderr, flush=True)
        # One compiler at a time, as each takes up to a gigabyte.
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-p=1 -mod=readonly", "CGO_ENABLED": "0"}
        new = helm.with_suffix(f".{os.getpid()}")
        subprocess.run(["go", "build", "-trimpath", "-o", str(new), "helm.sh/helm/v3/cmd/helm"], cwd=HELM_MODULE,
                       env=environment, check=True, timeout=HELM_SECONDS_MAX)
        new.rename(helm)
        made_of.write_text(text, encoding="utf-8")
    return helm


def template(chart: Path, values: dict[str, object], kubernetes: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What `helm template` says to a release called sluice; the status is the caller's to judge."""
    command = [str(find_helm()), "template", "sluice", str(chart), "--kube-version", kubernetes, *options, "--values", "-"]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False, timeout=120)


def render(store: str, kubernetes: str = OLDEST) -> str:
    done = template(CHART, {"store": store}, kubernetes, "--skip-tests", "--values", str(PLAIN_VALUES))
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return HEAD.format(**WORDS[store]) + done.stdout


def main(arguments: list[str]) -> int:
    if arguments not in (["--check"], ["--write"]):
        print(f"usage: {sys.argv[0]} --check | --write", file=sys.stderr)
        return 2
    different = 0
    for store in WORDS:
        text, path = render(store), MANIFESTS / f"{store}.yaml"
        if arguments == ["--write"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is not what the chart renders: tools/render_chart.py --write")
            different = 1
    return different


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NoHelm as missing:
        sys.exit(str(missing))
