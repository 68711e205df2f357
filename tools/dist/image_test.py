"""The image: a valid layout in both formats, with the settings of deploy/Containerfile."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
import unittest
from typing import Any

from . import image
from .archive import file

EPOCH = 1_700_000_001
CONFIG = image.runtime("1.2.3", "f00", "address", EPOCH)


def example() -> dict[str, bytes]:
    roots = {name: image.root(name.encode(), {"LICENSE": b"text"}, b"bundle") for name in ("amd64", "arm64")}
    with tarfile.open(fileobj=io.BytesIO(image.layout(roots, "1.2.3", CONFIG, EPOCH))) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}  # type: ignore[union-attr]


class Layout(unittest.TestCase):
    def setUp(self) -> None:
        self.files = example()

    def blob(self, descriptor: dict[str, Any]) -> bytes:
        data = self.files[image.path_of(descriptor)]
        self.assertEqual(len(data), descriptor["size"])
        return data

    def test_blobs_have_the_names_of_their_digests(self) -> None:
        for path, data in self.files.items():
            if path.startswith("blobs/"):
                self.assertEqual(path, f"blobs/sha256/{hashlib.sha256(data).hexdigest()}")

    def test_one_index_with_a_name_leads_to_an_image_of_each_architecture(self) -> None:
        self.assertEqual(json.loads(self.files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        [top] = json.loads(self.files["index.json"])["manifests"]
        self.assertEqual(top["annotations"]["org.opencontainers.image.ref.name"], "1.2.3")
        index = json.loads(self.blob(top))
        self.assertEqual([one["platform"]["architecture"] for one in index["manifests"]], ["amd64", "arm64"])
        for one in index["manifests"]:
            manifest = json.loads(self.blob(one))
            config = json.loads(self.blob(manifest["config"]))
            self.assertEqual(config["architecture"], one["platform"]["architecture"])
            [layer] = manifest["layers"]
            plain = gzip.decompress(self.blob(layer))
            self.assertEqual(config["rootfs"]["diff_ids"], [f"sha256:{hashlib.sha256(plain).hexdigest()}"])
            with tarfile.open(fileobj=io.BytesIO(plain)) as root:
                self.assertEqual(root.extractfile("bin/sluice").read().decode(), config["architecture"])  # type: ignore[union-attr]
                self.assertEqual(root.getmember("bin/ratelimit").linkname, "sluice")
                self.assertEqual(root.getmember("tmp").mode, 0o1777)
                self.assertEqual((root.getmember("data").uid, root.getmember("data").mode), (65532, 0o700))

    def test_docker_load_finds_the_same_layers_with_names(self) -> None:
        images = json.loads(self.files["manifest.json"])
        self.assertEqual([one["RepoTags"] for one in images], [["sluice:1.2.3"], ["sluice:1.2.3-arm64"]])
        for one in images:
            config = json.loads(self.files[one["Config"]])
            self.assertEqual([f"sha256:{hashlib.sha256(gzip.decompress(self.files[path])).hexdigest()}" for path in one["Layers"]],
                             config["rootfs"]["diff_ids"])

    def test_the_same_bytes_twice(self) -> None:
        roots = {"amd64": [file("a", b"")]}
        self.assertEqual(image.layout(roots, "1", CONFIG, EPOCH), image.layout(roots, "1", CONFIG, EPOCH))


class Containerfile(unittest.TestCase):
    LINES = (image.DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()

    def test_the_context_has_what_is_copied_and_not_the_checkout(self) -> None:
        first, *taken = [line for line in (image.DEPLOY.parent / ".dockerignore").read_text(encoding="utf-8").splitlines()
                         if not line.startswith("#")]
        self.assertEqual(first, "*")
        copied = [line.split()[1].rstrip("/") for line in self.LINES if re.match(r"(ADD|COPY) (?!--from)", line)]
        self.assertEqual(len(copied), 2)
        for source in copied:
            source = source.replace("${TARGETARCH}", "arm64")
            self.assertTrue(any(fnmatch.fnmatchcase(f"!{source}", pattern) for pattern in taken), source)

    def test_the_builder_says_the_architecture_and_without_one_there_is_an_error(self) -> None:
        self.assertIn("ARG TARGETARCH", self.LINES)  # a default would stand in place of the builder's word
        [check] = [line.removeprefix("RUN ") for line in self.LINES if line.startswith("RUN test -n")]
        for architecture, status in (("arm64", 0), ("", 1)):
            done = subprocess.run(["sh", "-c", check], env={"TARGETARCH": architecture}, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, "--build-arg TARGETARCH=" in done.stderr), (status, bool(status)))


class Runtime(unittest.TestCase):
    def test_is_what_the_containerfile_says(self) -> None:
        self.assertEqual(CONFIG["User"], "65532:65532")
        self.assertEqual(CONFIG["Entrypoint"], ["/bin/sluice"])
        self.assertEqual(CONFIG["WorkingDir"], "/data")
        self.assertEqual(CONFIG["StopSignal"], "SIGTERM")
        self.assertEqual(CONFIG["Env"], ["PATH=/bin", f"SSL_CERT_FILE=/{image.AUTHORITIES}", "RUNTIME_DIRECTORY=/run/sluice"])
        self.assertEqual(CONFIG["Healthcheck"], {"Test": ["CMD", "/bin/sluice", "health"], "Interval": 10_000_000_000,
                                                 "Timeout": 3_000_000_000, "StartPeriod": 300_000_000_000, "Retries": 3})

    def test_every_protocol_listens_everywhere_on_the_port_that_is_exposed_and_the_admin_port_inside(self) -> None:
        command = CONFIG["Cmd"]
        text = (image.DEPLOY.parent / "src/protocol/list.def").read_text(encoding="utf-8")
        protocols = re.findall(r"^SLUICE_PROTOCOL\((\w+)\)$", text, re.MULTILINE)
        listened = dict(command[at + 1].split("=") for at, word in enumerate(command) if word == "--listen")
        self.assertEqual(set(listened), set(protocols))
        ports = [re.fullmatch(r"\[::\]:(\d+)", address)[1] for address in listened.values()]  # type: ignore[index]
        self.assertEqual({f"{port}/tcp" for port in ports}, set(CONFIG["ExposedPorts"]))
        self.assertEqual(command[-2:], ["--admin", "127.0.0.1:8380"])

    def test_has_the_labels_of_the_release(self) -> None:
        labels = {name.rsplit(".", 1)[1]: text for name, text in CONFIG["Labels"].items()}
        self.assertTrue(labels.pop("description"))
        self.assertEqual(labels, {"title": "sluice", "licenses": "MIT", "version": "1.2.3", "revision": "f00",
                                  "source": "address", "created": "2023-11-14T22:13:21Z"})


if __name__ == "__main__":
    unittest.main()
