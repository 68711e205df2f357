"""The commands of docs/security.md, and what the page says of starts, of tokens beside certificates and of tools."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import unittest

from manual import BINARY, SECONDS_MAX, Manual, free_port, lines_of

PAGE = "docs/security.md"
WITH_CERTIFICATE = "curl -s --cacert ca.crt --cert shop.crt --key shop.key"


class Page(Manual):
    """Waits for an exchange of certificates, where its reader waits some seconds."""

    def here(self, text: str) -> str:
        refused = 0 if "mv kept.key" in text else 1
        shown = f"curl -s --cacert ca.crt https://localhost:8380/metrics | grep -c 'sluice_tls_certificate_refused.* {refused}$'"
        return super().here(text.replace("sleep 2", f"until [ \"$({shown})\" = 2 ]; do sleep 0.1; done"))


class SecurityTest(unittest.TestCase):
    def test_the_page(self) -> None:
        with Page(self, PAGE) as manual:
            manual.follow()
            self.assertGreaterEqual(manual.commands, 13)
            self.check_plain_text(manual)
            self.check_tools(manual)
            self.check_tokens(manual)

    def check_plain_text(self, manual: Manual) -> None:
        with socket.create_connection(("127.0.0.1", int(manual.ports["8390"])), SECONDS_MAX) as plain:
            plain.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                answer = plain.recv(100)
            except ConnectionResetError:
                answer = b""
        self.assertNotIn(b"HTTP", answer)

    def check_tools(self, manual: Manual) -> None:
        status, _, told = manual.run("sluice status --admin https://localhost:8380")
        self.assertEqual(status, 3, told)
        self.assertIn("our authority", told)
        status, printed, told = manual.run("SSL_CERT_FILE=ca.crt sluice health --admin https://localhost:8380")
        self.assertEqual(status, 0, f"{printed}{told}")
        status, _, told = manual.run("SLUICE_ADMIN_SERVER=https://localhost:8380 sluice status --ca ca.crt")
        self.assertEqual(status, 0, told)

    def check_tokens(self, manual: Manual) -> None:
        """A token is stronger than a certificate, and the list of users is read again for connections that are open."""
        _, printed, _ = manual.run("sluice token ops --json")
        token = re.search(r'"token": ?"([^"]+)"', printed)[1]
        digest = re.search(r"[0-9a-f]{64}", printed)[0]
        manual.files["mutual.yaml"] = manual.files["mutual.yaml"].replace(
            "users:\n", f"users:\n  - {{ name: ops, sha256: {digest}, rights: [look] }}\n")
        manual.write("mutual.yaml")
        take = """https://localhost:8000/v1/take -o /dev/null -w '%{http_code}\\n' --json '{"entries": {"queue": "mail"}}'"""
        mutual = manual.servers[-1]
        mutual.send_signal(1)  # SIGHUP
        for _ in range(200):
            _, printed, _ = manual.run(f"{WITH_CERTIFICATE} -H 'Authorization: Bearer {token}' {take}")
            if printed != "401\n":
                break
        self.assertEqual(printed, "403\n")  # as `ops`, who may look only
        self.assertEqual(manual.run(f"{WITH_CERTIFICATE} {take}")[1], "200\n")

    def make_files(self, manual: Manual) -> None:
        """All certificates of the page."""
        lines = lines_of(PAGE, "## TLS") + lines_of(PAGE, "## Clients with certificates")
        makes = [line.removeprefix("$ ") for line in lines if line.startswith(("$ openssl", "    -addext"))]
        status, _, told = manual.run("\n".join(makes))
        self.assertEqual(status, 0, told)

    def test_names_of_clients(self) -> None:
        with Manual(self, PAGE) as manual:
            self.make_files(manual)
            manual.files["sluice.yaml"] = "".join(
                f'  - {{ protocol: http, address: "127.0.0.1:{port}", tls: {{ certificate: server.crt, key: server.key, '
                f'client_ca: ca.crt, names: [{name}] }} }}\n' for port, name in ((8390, "shop.example"), (8000, "other.example")))
            manual.files["sluice.yaml"] = f"listen:\n{manual.files['sluice.yaml']}"
            manual.serve("sluice serve --config sluice.yaml")
            health = "/v1/health -o /dev/null -w '%{http_code}'"
            self.assertEqual(manual.run(f"{WITH_CERTIFICATE} https://localhost:8390{health}")[:2], (0, "200"))
            self.assertEqual(manual.run(f"{WITH_CERTIFICATE} https://localhost:8000{health}")[1], "000")
            self.assertEqual(manual.run(f"curl -s --cacert ca.crt https://localhost:8390{health}")[1], "000")

    def test_a_server_without_its_files_does_not_start(self) -> None:
        with Manual(self, PAGE) as manual:
            self.make_files(manual)
            (manual.folder / "sluice.yaml").write_text(
                f'listen: [{{ protocol: http, address: "127.0.0.1:{free_port()}", tls: {{ certificate: server.crt, key: ca.key }} }}]\n',
                encoding="utf-8")
            done = subprocess.run([BINARY, "serve", "--config", "sluice.yaml"], cwd=manual.folder, stdin=subprocess.DEVNULL,
                                  env={"PATH": os.environ["PATH"], "HOME": str(manual.folder)}, capture_output=True, text=True,
                                  timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"the key \S*ca\.key (?:cannot be used|is not that of the certificate)")


if __name__ == "__main__":
    unittest.main()
