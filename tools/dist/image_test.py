"""The image: a valid layout in both formats, and the same settings as deploy/Containerfile has."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shlex
import tarfile
import unittest
from typing import Any

from . import image
from .archive import file

EPOCH = 1_700_000_001
LABELS = image.labels("1.2.3", "f00", None, EPOCH)


def example() -> dict[str, bytes]:
    roots = {name: image.root(name.encode(), {"LICENSE": b"text"}, b"bundle") for name in ("amd64", "arm64")}
    with tarfile.open(fileobj=io.BytesIO(image.layout(roots, "1.2.3", LABELS, EPOCH))) as archive:
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
        self.assertEqual(image.layout(roots, "1", LABELS, EPOCH), image.layout(roots, "1", LABELS, EPOCH))


class Containerfile(unittest.TestCase):
    """Reads the instructions of the last stage."""

    def setUp(self) -> None:
        text = (image.ETC.parents[1] / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        last = text[text.rindex("\nFROM "):]
        self.said: dict[str, list[str]] = {}
        for line in last.splitlines():
            if line and not line.startswith("#"):
                word, _, rest = line.partition(" ")
                self.said.setdefault(word, []).append(rest)
        self.wanted: dict[str, Any] = image.runtime(LABELS)

    def test_the_process_is_the_same(self) -> None:
        self.assertEqual(json.loads(self.said["ENTRYPOINT"][0]), self.wanted["Entrypoint"])
        self.assertEqual(json.loads(self.said["CMD"][0]), self.wanted["Cmd"])
        self.assertEqual(self.said["USER"], [self.wanted["User"]])
        self.assertEqual(self.said["WORKDIR"], [self.wanted["WorkingDir"]])
        self.assertEqual(self.said["STOPSIGNAL"], [self.wanted["StopSignal"]])
        self.assertEqual(shlex.split(self.said["ENV"][0]), self.wanted["Env"])
        self.assertEqual(sorted(self.said["EXPOSE"][0].split()), sorted(self.wanted["ExposedPorts"]))

    def test_the_check_of_health_is_the_same(self) -> None:
        options, _, command = self.said["HEALTHCHECK"][0].partition("CMD ")
        said = dict(re.findall(r"--([a-z-]+)=(\d+)s?", options))
        check = self.wanted["Healthcheck"]
        self.assertEqual(["CMD", *json.loads(command)], check["Test"])
        self.assertEqual({name: int(number) for name, number in said.items()},
                         {"interval": check["Interval"] / 1e9, "timeout": check["Timeout"] / 1e9,
                          "start-period": check["StartPeriod"] / 1e9, "retries": check["Retries"]})

    def test_its_labels_are_among_those_of_the_image(self) -> None:
        labels = dict(word.split("=", 1) for word in shlex.split(self.said["LABEL"][0]))
        self.assertEqual(labels, {name: LABELS.get(name) for name in labels})


if __name__ == "__main__":
    unittest.main()
