"""The image of the container as an OCI layout in a tar: for each architecture one layer, and an index over all. The tar has also
the `manifest.json` by which `docker load` finds images of its own format; both name the same layers."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .archive import Entry, file, folder, gz, link, tar

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
USER = 65532
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
DOCUMENTS = "usr/share/doc/sluice"

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def root(program: bytes, documents: dict[str, bytes], authorities: bytes) -> list[Entry]:
    """What is in the container: the program, and what a look-up of names, TLS and a user need."""
    return [
        file("bin/sluice", program, 0o755),
        link("bin/ratelimit", "sluice"),  # so that the command of envoyproxy/ratelimit need not be changed
        *(file(f"etc/{path.name}", path.read_bytes()) for path in sorted((DEPLOY / "image/etc").iterdir())),
        folder("etc/sluice"),
        file(AUTHORITIES, authorities),
        folder("data", 0o700, USER),
        folder("run/sluice", 0o700, USER),
        folder("tmp", 0o1777),
        *(file(f"{DOCUMENTS}/{name}", data) for name, data in documents.items()),
    ]


def runtime(version: str, revision: str, source: str | None, epoch: int) -> dict[str, Any]:
    """How the container runs: what the last stage of deploy/Containerfile says, and the labels of this release."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    said = dict(line.split(" ", 1) for line in text[text.rindex("\nFROM "):].splitlines() if line and not line.startswith("#"))
    labels = dict(word.split("=", 1) for word in shlex.split(said["LABEL"]))
    more = {"version": version, "revision": revision, "created": moment(epoch), **({"source": source} if source else {})}
    labels.update((f"org.opencontainers.image.{name}", word) for name, word in more.items())
    options, _, check = said["HEALTHCHECK"].partition("CMD ")
    times = {name: int(number) for name, number in re.findall(r"--([a-z-]+)=(\d+)", options)}
    return {
        "User": said["USER"],
        "ExposedPorts": {port: {} for port in said["EXPOSE"].split()},
        "Env": shlex.split(said["ENV"]),
        "Entrypoint": json.loads(said["ENTRYPOINT"]),
        "Cmd": json.loads(said["CMD"]),
        "WorkingDir": said["WORKDIR"],
        "StopSignal": said["STOPSIGNAL"],
        "Healthcheck": {"Test": ["CMD", *json.loads(check)], "Interval": times["interval"] * 10**9, "Timeout": times["timeout"] * 10**9,
                        "StartPeriod": times["start-period"] * 10**9, "Retries": times["retries"]},
        "Labels": labels,
    }


def moment(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def layout(roots: dict[str, list[Entry]], version: str, config: dict[str, Any], epoch: int) -> bytes:
    """The tar, for the contents by architecture. The first one is what `docker load` calls sluice:VERSION."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    manifests, for_docker = [], []
    for architecture, entries in roots.items():
        plain = tar(entries, epoch)
        layer = blob(gz(plain), LAYER)
        about = blob(as_json({
            "created": moment(epoch),
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
            "history": [{"created": moment(epoch), "created_by": "make dist"}],
        }), CONFIG)
        manifest = blob(as_json({"schemaVersion": 2, "mediaType": MANIFEST, "config": about, "layers": [layer],
                                 "annotations": config["Labels"]}), MANIFEST)
        manifests.append({**manifest, "platform": {"architecture": architecture, "os": "linux"}})
        name = f"sluice:{version}" + (f"-{architecture}" if for_docker else "")
        for_docker.append({"Config": path_of(about), "RepoTags": [name], "Layers": [path_of(layer)]})

    index = blob(as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": config["Labels"]}), INDEX)
    # containerd, and so Kubernetes, knows an imported image by its whole name, of which `sluice:VERSION` is short.
    names = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/sluice:{version}"}
    top = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**index, "annotations": names}]}
    return tar([file("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})), file("index.json", as_json(top)),
                file("manifest.json", as_json(for_docker)), *(file(path, data) for path, data in blobs.items())], epoch)


def path_of(descriptor: dict[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
