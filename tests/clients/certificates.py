"""Authorities and certificates for a test, made by `openssl`."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import dataclass
from pathlib import Path

_ANY = """[ca]
default_ca = own
[own]
new_certs_dir = .
database = index
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""
EC, RSA = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), ("rsa:2048",)


@dataclass(frozen=True)
class Pair:
    """A certificate with its key, in two files."""

    certificate: Path
    key: Path

    @property
    def texts(self) -> tuple[str, str]:
        return self.certificate.read_text(), self.key.read_text()


def pem(text: str) -> str:
    """The first certificate of a text, without what stands around it."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return begin + text.partition(begin)[2].partition(end)[0] + end


class Authority:
    """Its certificate is `folder`/`name`.crt."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._numbers = folder, name, itertools.count(1)
        self.certificate, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        self._run("req", "-x509", "-newkey", *EC, "-nodes", "-keyout", self._key, "-out", self.certificate, "-days", "366",
                  "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
                  "-addext", "keyUsage=critical,keyCertSign")

    def _run(self, *words: object) -> None:
        done = subprocess.run(["openssl", *map(str, words)], cwd=self._folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def sign(self, *names: str, subject: str = "tester", usage: str | None = None, key: tuple[str, ...] = EC,
             expired: bool = False) -> Pair:
        """`names`: as DNS:localhost; `usage`: its extended key usage, as clientAuth. New files each time."""
        stem = f"{self._name}-{next(self._numbers)}"
        pair = Pair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        words: list[object] = ["-newkey", *key, "-nodes", "-keyout", pair.key, "-subj", f"/CN={subject}"]
        for extension in ("basicConstraints=CA:FALSE", "keyUsage=digitalSignature,keyEncipherment",
                          *([f"subjectAltName={','.join(names)}"] if names else []),
                          *([f"extendedKeyUsage={usage}"] if usage else [])):
            words += ["-addext", extension]
        if not expired:
            self._run("req", "-x509", "-CA", self.certificate, "-CAkey", self._key, "-days", "365", "-out", pair.certificate,
                      *words)
            return pair
        (self._folder / "ca.cnf").write_text(_ANY)
        (self._folder / "index").write_text("")
        request = self._folder / f"{stem}.csr"
        self._run("req", "-new", "-out", request, *words)
        self._run("ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", self.certificate, "-keyfile", self._key, "-in",
                  request, "-out", pair.certificate, "-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
        return pair

    def own(self, *names: str) -> Pair:
        """Signed by its own key, and by no authority."""
        stem = f"{self._name}-{next(self._numbers)}"
        pair = Pair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        self._run("req", "-x509", "-newkey", *EC, "-nodes", "-keyout", pair.key, "-out", pair.certificate, "-days", "365",
                  "-subj", "/CN=tester", "-addext", "basicConstraints=CA:FALSE", "-addext", f"subjectAltName={','.join(names)}")
        return pair
