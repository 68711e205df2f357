"""The image of the container as an OCI layout in a tar: for each architecture one layer, and an index over all. The tar has also
the `manifest.json` by which `docker load` finds images of its own format; both name the same layers."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path

from .archive import Entry, file, folder, gz, link, tar

USER = 65532
PORTS = {"divvy": 8321, "limitd": 9231, "droplet": 3000, "resp": 6380, "envoy": 8081, "http": 8390}
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
DOCUMENTS = "usr/share/doc/sluice"
ETC = Path(__file__).resolve().parents[2] / "deploy/image/etc"

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def root(program: bytes, documents: dict[str, bytes], authorities: bytes) -> list[Entry]:
    """What is in the container: the program, and what a look-up of names, TLS and a user need."""
    return [
        file("bin/sluice", program, 0o755),
        link("bin/ratelimit", "sluice"),  # so that the command of envoyproxy/ratelimit need not be changed
        *(file(f"etc/{path.name}", path.read_bytes()) for path in sorted(ETC.iterdir())),
        folder("etc/sluice"),
        file(AUTHORITIES[1:], authorities),
        folder("data", 0o700, USER),
        folder("run/sluice", 0o700, USER),
        folder("tmp", 0o1777),
        *(file(f"{DOCUMENTS}/{name}", data) for name, data in documents.items()),
    ]


def labels(version: str, revision: str, source: str | None, epoch: int) -> dict[str, str]:
    words = {
        "title": "sluice",
        "description": "Rate-limit and quota server for HTTP, Envoy, the Redis protocol, Divvy, limitd and droplet",
        "version": version,
        "revision": revision,
        "licenses": "MIT",
        "created": moment(epoch),
    }
    if source:
        words["source"] = source
    return {f"org.opencontainers.image.{name}": text for name, text in words.items()}


def runtime(image_labels: dict[str, str]) -> dict[str, object]:
    """How the container runs; deploy/Containerfile says the same."""
    listeners = [word for protocol, port in PORTS.items() for word in ("--listen", f"{protocol}=[::]:{port}")]
    return {
        "User": f"{USER}:{USER}",
        "ExposedPorts": {f"{port}/tcp": {} for port in sorted(PORTS.values())},
        # The admin socket of a server without an admin port is in RUNTIME_DIRECTORY.
        "Env": ["PATH=/bin", f"SSL_CERT_FILE={AUTHORITIES}", "RUNTIME_DIRECTORY=/run/sluice"],
        "Entrypoint": ["/bin/sluice"],
        "Cmd": ["serve", *listeners, "--admin", "127.0.0.1:8380"],
        "WorkingDir": "/data",
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["CMD", "/bin/sluice", "health"], "Interval": 10 * 10**9, "Timeout": 3 * 10**9,
                        "StartPeriod": 5 * 10**9, "Retries": 3},
        "Labels": image_labels,
    }


def moment(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def layout(roots: dict[str, list[Entry]], version: str, image_labels: dict[str, str], epoch: int) -> bytes:
    """The tar, for the contents by architecture. The first one is what `docker load` calls sluice:VERSION."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media_type: str) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    manifests, for_docker = [], []
    for architecture, entries in roots.items():
        plain = tar(entries, epoch)
        layer = blob(gz(plain), LAYER)
        config = blob(as_json({
            "created": moment(epoch),
            "architecture": architecture,
            "os": "linux",
            "config": runtime(image_labels),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
            "history": [{"created": moment(epoch), "created_by": "make dist"}],
        }), CONFIG)
        manifest = blob(as_json({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
                                 "annotations": image_labels}), MANIFEST)
        manifests.append({**manifest, "platform": {"architecture": architecture, "os": "linux"}})
        name = f"sluice:{version}" + (f"-{architecture}" if for_docker else "")
        for_docker.append({"Config": path_of(config), "RepoTags": [name], "Layers": [path_of(layer)]})

    index = blob(as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": image_labels}), INDEX)
    # containerd, and so Kubernetes, knows an imported image by its whole name, of which `sluice:VERSION` is short.
    names = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/sluice:{version}"}
    top = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**index, "annotations": names}]}
    return tar([file("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})), file("index.json", as_json(top)),
                file("manifest.json", as_json(for_docker)), *(file(path, data) for path, data in blobs.items())], epoch)


def path_of(descriptor: dict[str, object]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
