"""TLS of `sluice envoy`: on its port for gRPC, with certificates that are exchanged while it serves, and towards the control
plane that gives it limits by xDS. SLUICE_EXCHANGES: how many exchanges under load, instead of 100."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import threading
import time
import unittest
import warnings
from dataclasses import dataclass
from pathlib import Path

import grpc

from ads import Ads, Tls
from certificates import RSA, Authority, Pair, pem
from messages import OK
from sluice_server import SECONDS_MAX, Server, wait_until
from xds_messages import limit_of
from xds_server import Caller, Secret, XdsServer, XdsTest, refused_start, write_over

LIMITS = "domain: a\ndescriptors:\n  - {{ key: k, rate_limit: {{ unit: year, requests_per_unit: {} }} }}\n"
NAME = "sluice.test"
# The beginning of HTTP/2 by a client, with empty settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


@dataclass
class Shaken:
    """What a client got from a handshake and its first HTTP/2 frame. `alert`: the reason why it failed."""

    version: str | None = None
    protocol: str | None = None
    certificate: bytes | None = None  # of the server, in DER
    answered: bool = False
    alert: str | None = None


def only(context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else OpenSSL itself refuses 1.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version


def shake(port: int, version: ssl.TLSVersion | None = None, protocols: list[str] | None = None, shown: Pair | None = None,
          patience: float = SECONDS_MAX) -> Shaken:
    """A handshake that verifies nothing, then the beginning of HTTP/2. `shown`: a certificate of the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version is not None:
        only(context, version)
    protocols = ["h2"] if protocols is None else protocols
    if protocols:
        context.set_alpn_protocols(protocols)
    if shown:
        context.load_cert_chain(shown.certificate, shown.key)
    result = Shaken()
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=NAME) as secure:
                result.version, result.protocol = secure.version(), secure.selected_alpn_protocol()
                result.certificate = secure.getpeercert(binary_form=True)
                secure.settimeout(patience)
                secure.sendall(PREFACE)
                result.answered = len(secure.recv(9)) > 0
        except ssl.SSLError as error:
            result.alert = error.reason
        except ConnectionResetError:
            result.alert = "reset"
        except TimeoutError:
            if patience == SECONDS_MAX:
                raise
    return result


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem(pair.texts[0]))


class TlsTest(XdsTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="sluice-tls-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.authority, self.other = Authority(self.folder, "first-authority"), Authority(self.folder, "strange-authority")
        self.pair = self.authority.sign(f"DNS:{NAME}")

    def secure(self, certificate: Path | None = None, key: Path | None = None, **environment: str) -> Server:
        """With limits from files."""
        return self.serve(LIMITS.format(1_000_000), GRPC_SERVER_USE_TLS="true",
                          GRPC_SERVER_TLS_CERT=str(certificate or self.pair.certificate),
                          GRPC_SERVER_TLS_KEY=str(key or self.pair.key), USE_STATSD="false", **environment)

    def caller(self, server: Server, authority: Authority | None = None, shown: Pair | None = None,
               name: str = NAME) -> Caller:
        certificate, key = shown.texts if shown else (None, None)
        credentials = grpc.ssl_channel_credentials(
            (authority or self.authority).certificate.read_bytes(), key and key.encode(), certificate and certificate.encode())
        return Caller(self, server, credentials, name)

    def assert_shows(self, server: Server, pair: Pair) -> None:
        """A new connection gets this certificate, at last; how soon is for a machine without other work."""
        begin = time.monotonic()
        wait_until(lambda: shake(server.grpc_port).certificate == der(pair), "the new certificate")
        self.assertLess(time.monotonic() - begin, 20)


class Handshakes(TlsTest):
    def test_requests_are_answered(self) -> None:
        server = self.secure()
        self.assertEqual(self.caller(server).ask().overall_code, OK)

    def test_rsa_and_another_folder_of_the_key(self) -> None:
        pair = self.authority.sign(f"DNS:{NAME}", key=RSA)
        (self.folder / "keys").mkdir()
        key = pair.key.rename(self.folder / "keys" / "a.key")
        self.assertEqual(self.caller(self.secure(pair.certificate, key)).ask().overall_code, OK)

    def test_a_chain_is_shown_whole(self) -> None:
        """A file with the certificate and then its authority's."""
        chain = self.folder / "chain.crt"
        chain.write_text(self.pair.texts[0] + self.authority.certificate.read_text())
        server = self.secure(chain)
        with socket.create_connection(("127.0.0.1", server.grpc_port)) as plain:
            context = ssl.create_default_context(cafile=str(self.authority.certificate))
            with context.wrap_socket(plain, server_hostname=NAME) as secure:
                self.assertEqual(secure.getpeercert(binary_form=True), der(self.pair))

    def test_versions(self) -> None:
        port = self.secure().grpc_port
        for version, told in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            shaken = shake(port, version)
            self.assertEqual((shaken.version, shaken.protocol, shaken.answered, shaken.alert), (told, "h2", True, None))
        self.assertEqual(shake(port, ssl.TLSVersion.TLSv1_1), Shaken(alert="TLSV1_ALERT_PROTOCOL_VERSION"))

    def test_h2_is_chosen_among_several(self) -> None:
        self.assertEqual(shake(self.secure().grpc_port, protocols=["http/1.1", "h2"]).protocol, "h2")

    def test_without_h2_the_first_bytes_decide(self) -> None:
        """The original answers nothing then."""
        port = self.secure().grpc_port
        for protocols, chosen in (([], None), (["http/1.1"], "http/1.1")):
            shaken = shake(port, protocols=protocols)
            self.assertEqual((shaken.protocol, shaken.answered), (chosen, True))

    def test_plain_text_is_closed_without_an_answer(self) -> None:
        with socket.create_connection(("127.0.0.1", self.secure().grpc_port), SECONDS_MAX) as plain:
            plain.sendall(PREFACE)
            try:
                answer = plain.recv(100)
            except ConnectionResetError:
                answer = b""
            self.assertEqual(answer, b"")

    def test_http_stays_in_plain_text(self) -> None:
        server = self.secure()
        status, answer = server.ask_json({"domain": "a", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]})
        self.assertEqual((status, answer["overallCode"]), (200, "OK"))

    def test_without_a_switch_files_have_no_effect(self) -> None:
        server = self.serve(LIMITS.format(1), GRPC_SERVER_USE_TLS="false", GRPC_SERVER_TLS_CERT="/nowhere/tls.crt",
                            GRPC_SERVER_TLS_KEY="/nowhere/tls.key", USE_STATSD="false")
        self.assertEqual(Caller(self, server).ask().overall_code, OK)


class ClientCertificates(TlsTest):
    def both(self, port: int, shown: Pair | None = None) -> set[str | None]:
        """The alerts by TLS 1.2 and 1.3; {None}: both were served."""
        results = [shake(port, version, shown=shown) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)]
        for shaken in results:
            self.assertEqual(shaken.answered, shaken.alert is None)
        return {shaken.alert for shaken in results}

    def test_nobody_is_asked_without_an_authority_of_clients(self) -> None:
        """Nor with the variable that Envoy Gateway sets and the original does not know."""
        for environment in ({}, {"GRPC_SERVER_TLS_CA_CERT": str(self.authority.certificate)},
                            {"GRPC_SERVER_TLS_CA_CERT": "/nowhere/ca.crt"}, {"GRPC_CLIENT_TLS_SAN": "client.test"}):
            with self.subTest(environment):
                server = self.secure(**environment)
                self.assertEqual(self.both(server.grpc_port), {None})
                self.assertEqual(self.both(server.grpc_port, self.other.sign("DNS:client.test")), {None})
                self.assertEqual([line for line in server.said if "GRPC_SERVER_TLS_CA_CERT" in line], [])

    def test_of_one_authority(self) -> None:
        server = self.secure(GRPC_CLIENT_TLS_CACERT=str(self.authority.certificate))
        self.assertEqual(self.both(server.grpc_port, self.authority.sign("DNS:client.test")), {None})
        self.assertEqual(self.both(server.grpc_port, self.authority.sign(subject="*", key=RSA)), {None})
        self.assertLessEqual(self.both(server.grpc_port),
                             {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE",
                              "SSLV3_ALERT_BAD_CERTIFICATE"})
        self.assertEqual(self.both(server.grpc_port, self.other.sign("DNS:client.test")), {"TLSV1_ALERT_UNKNOWN_CA"})
        self.assertLessEqual(self.both(server.grpc_port, self.authority.sign("DNS:client.test", expired=True)),
                             {"SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_BAD_CERTIFICATE"})
        self.assertEqual(self.caller(server, shown=self.authority.sign("DNS:client.test")).ask().overall_code, OK)

    def test_with_a_name(self) -> None:
        server = self.secure(GRPC_CLIENT_TLS_CACERT=str(self.authority.certificate), GRPC_CLIENT_TLS_SAN="a.client.test")
        good = [self.authority.sign("DNS:other.test", "DNS:a.client.test"), self.authority.sign("DNS:*.client.test"),
                self.authority.sign("DNS:a.client.test", usage="clientAuth")]
        for pair in good:
            self.assertEqual(self.both(server.grpc_port, pair), {None})
        bad = [self.authority.sign("DNS:other.test"), self.authority.sign(subject="a.client.test"),
               self.authority.sign("DNS:a.client.test", usage="serverAuth"), self.authority.sign("DNS:*.test")]
        for pair in bad:
            alerts = self.both(server.grpc_port, pair)
            self.assertLessEqual(alerts, {"SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE"})
        self.assertEqual(self.both(server.grpc_port, self.other.sign("DNS:a.client.test")), {"TLSV1_ALERT_UNKNOWN_CA"})


class Exchanges(TlsTest):
    def mounted(self, pair: Pair, authority: str = "") -> Secret:
        folder = self.folder / "certs"
        folder.mkdir()
        return Secret(folder, pair, authority)

    def test_by_renames(self) -> None:
        folder = self.folder / "certs"
        folder.mkdir()
        certificate, key = folder / "tls.crt", folder / "tls.key"
        certificate.write_text(self.pair.texts[0])
        key.write_text(self.pair.texts[1])
        server = self.secure(certificate, key)
        self.assert_shows(server, self.pair)
        for pair in (self.authority.sign(f"DNS:{NAME}"), self.authority.sign(f"DNS:{NAME}", key=RSA)):
            write_over(key, pair.texts[1])
            write_over(certificate, pair.texts[0])
            self.assert_shows(server, pair)
        self.assertEqual(self.caller(server).ask().overall_code, OK)

    def test_in_two_folders_and_written_in_place(self) -> None:
        paths = [self.folder / "a" / "tls.crt", self.folder / "b" / "tls.key"]
        for path, text in zip(paths, self.pair.texts, strict=True):
            path.parent.mkdir()
            path.write_text(text)
        server = self.secure(*paths)
        pair = self.authority.sign(f"DNS:{NAME}")
        for path, text in zip(paths, pair.texts, strict=True):
            path.write_text(text)
        self.assert_shows(server, pair)

    def test_as_kubernetes_does(self) -> None:
        secret = self.mounted(self.pair)
        server = self.secure(secret.certificate, secret.key)
        for pair in (self.authority.sign(f"DNS:{NAME}"), self.pair, self.authority.sign(f"DNS:{NAME}", key=RSA)):
            secret.swap(*pair.texts)
            self.assert_shows(server, pair)

    def test_connections_of_before_go_on(self) -> None:
        secret = self.mounted(self.pair)
        server = self.secure(secret.certificate, secret.key)
        old = self.caller(server)
        old.ask()
        pair = self.other.sign(f"DNS:{NAME}")  # which this client would not trust
        secret.swap(*pair.texts)
        self.assert_shows(server, pair)
        self.assertEqual([old.ask().overall_code for _ in range(5)], [OK] * 5)
        self.assertEqual(self.caller(server).refusal()[0], grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(self.caller(server, self.other).ask().overall_code, OK)

    def test_a_pair_that_cannot_be_used_changes_nothing(self) -> None:
        secret = self.mounted(self.pair)
        server = self.secure(secret.certificate, secret.key)
        stranger = self.authority.sign(f"DNS:{NAME}")
        bad = {"the key of another": (self.pair.texts[0], stranger.texts[1]), "no PEM": ("x\n", "y\n"),
               "an empty file": (stranger.texts[0], ""), "the key as certificate": (stranger.texts[1], stranger.texts[1])}
        for number, (name, texts) in enumerate(bad.items(), 1):
            with self.subTest(name):
                said = len(server.said)
                secret.swap(*texts)
                wait_until(lambda said=said: any(" error " in line or " warning " in line for line in server.said[said:]),
                           "a line in the log")
                self.assertTrue(any(str(path) in line for line in server.said[said:]
                                    for path in (secret.certificate, secret.key)), server.said[said:])
                self.assertEqual(shake(server.grpc_port).certificate, der(self.pair))
                # Limits are read as before.
                server.limits.write_text(LIMITS.format(1_000 + number))
                self.await_limit(server, 1_000 + number)
        secret.swap(*stranger.texts)
        self.assert_shows(server, stranger)

    def await_limit(self, server: Server, requests: int) -> None:
        caller = self.caller(server)
        wait_until(lambda: caller.ask().statuses[0].current_limit.requests_per_unit == requests, f"{requests} a year")

    def test_files_that_are_gone_for_a_while(self) -> None:
        folder = self.folder / "certs"
        folder.mkdir()
        certificate, key = folder / "tls.crt", folder / "tls.key"
        write_over(certificate, self.pair.texts[0])
        write_over(key, self.pair.texts[1])
        server = self.secure(certificate, key)
        certificate.unlink()
        wait_until(lambda: any(str(certificate) in line for line in server.said), "a line in the log")
        self.assertEqual(shake(server.grpc_port).certificate, der(self.pair))
        pair = self.authority.sign(f"DNS:{NAME}")
        write_over(key, pair.texts[1])
        write_over(certificate, pair.texts[0])
        self.assert_shows(server, pair)

    def test_the_authority_of_clients_is_exchanged_too(self) -> None:
        secret = self.mounted(self.pair, self.authority.certificate.read_text())
        server = self.secure(secret.certificate, secret.key, GRPC_CLIENT_TLS_CACERT=str(secret.authority))
        of_one, of_other = self.authority.sign("DNS:client"), self.other.sign("DNS:client")
        self.assertTrue(shake(server.grpc_port, shown=of_one).answered)
        self.assertFalse(shake(server.grpc_port, shown=of_other).answered)
        secret.swap(*self.pair.texts, self.other.certificate.read_text())
        wait_until(lambda: shake(server.grpc_port, shown=of_other).answered, "clients of the other authority")
        self.assertFalse(shake(server.grpc_port, shown=of_one).answered)

    def test_limits_by_xds_still_change(self) -> None:
        ads = Ads()
        self.addCleanup(ads.stop)
        secret = self.mounted(self.pair)
        server = self.sluice(ads.address, GRPC_SERVER_USE_TLS="true", GRPC_SERVER_TLS_CERT=str(secret.certificate),
                             GRPC_SERVER_TLS_KEY=str(secret.key))
        ads.await_request()
        for number, texts in enumerate((self.authority.sign(f"DNS:{NAME}").texts, ("x", "y")), 1):
            said = len(server.said)
            secret.swap(*texts)
            wait_until(lambda said=said: len(server.said) > said, "a line in the log")
            ads.stream.send(str(number), str(number), [limit_of(number)])
            self.assertEqual(ads.await_request().told, (str(number), str(number), None))
            self.assertEqual(self.caller(server).ask().statuses[0].current_limit.requests_per_unit, number)

    def test_many_under_load(self) -> None:
        """Old connections and new ones, while the certificate changes again and again; each change is seen."""
        pairs = [self.authority.sign(f"DNS:{NAME}") for _ in range(2)]
        secret = self.mounted(pairs[0])
        server = self.secure(secret.certificate, secret.key)
        over = threading.Event()
        problems: list[BaseException] = []
        asked = [0, 0]

        def ask(makes_new: bool) -> None:
            try:
                caller = self.caller(server)
                while not over.is_set():
                    if makes_new:
                        caller.channel.close()
                        caller = self.caller(server)
                    if caller.ask().overall_code != OK:
                        raise AssertionError("denied")
                    asked[makes_new] += 1
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=ask, args=(new,), daemon=True) for new in (False, False, True)]
        for thread in threads:
            thread.start()
        rounds = int(os.environ.get("SLUICE_EXCHANGES") or "100")
        slowest = 0.0
        begin = time.monotonic()
        self.allow_seconds(max(SECONDS_MAX, rounds))
        for number in range(1, rounds + 1):
            pair = pairs[number % 2]
            swapped = time.monotonic()
            secret.swap(*pair.texts)
            wait_until(lambda pair=pair: problems != [] or shake(server.grpc_port).certificate == der(pair), "the new one")
            slowest = max(slowest, time.monotonic() - swapped)
            self.assertEqual(problems, [])
        over.set()
        for thread in threads:
            thread.join(SECONDS_MAX)
        self.assertEqual(problems, [])
        self.assertGreater(min(asked), rounds // 10)
        print(f"{rounds} exchanges in {time.monotonic() - begin:.1f} s, the slowest in force after {slowest:.3f} s; "
              f"{asked[0]} requests on two old connections, {asked[1]} on new ones, no error")


class Starts(TlsTest):
    def test_files_that_cannot_be_used_end_the_start(self) -> None:
        stranger = self.authority.sign(f"DNS:{NAME}")
        limits = self.folder / "limits"
        limits.mkdir()
        (limits / "limits.yaml").write_text(LIMITS.format(1))
        broken = self.folder / "broken"
        broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        good = {"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": str(self.pair.certificate),
                "GRPC_SERVER_TLS_KEY": str(self.pair.key)}
        for name, value in (("GRPC_SERVER_TLS_CERT", "/nowhere/tls.crt"), ("GRPC_SERVER_TLS_KEY", "/nowhere/tls.key"),
                            ("GRPC_SERVER_TLS_KEY", str(stranger.key)), ("GRPC_SERVER_TLS_CERT", str(broken)),
                            ("GRPC_CLIENT_TLS_CACERT", "/nowhere/ca.crt"), ("GRPC_CLIENT_TLS_CACERT", str(broken)),
                            ("GRPC_SERVER_TLS_CERT", ""), ("GRPC_SERVER_TLS_KEY", "")):
            with self.subTest(name=name, value=value):
                status, said = refused_start(str(limits), **{**good, name: value})
                self.assertIn(status, (1, 2), said)
                self.assertTrue(name in said or (value and value in said), said)
                self.assertNotIn("listening", said)


class ControlPlane(TlsTest):
    """TLS towards the control plane."""

    def ads(self, pair: Pair | None, clients: Authority | None = None) -> Ads:
        tls = None if pair is None else Tls(*pair.texts, clients and clients.certificate.read_text())
        ads = Ads(tls)
        self.addCleanup(ads.stop)
        return ads

    def served(self, ads: Ads, host: str = "localhost", **environment: str) -> XdsServer:
        return self.sluice(f"{host}:{ads.port}", **{
            "CONFIG_GRPC_XDS_SERVER_USE_TLS": "true",
            "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": str(self.authority.certificate), **environment})

    def shown(self, pair: Pair) -> dict[str, str]:
        return {"CONFIG_GRPC_XDS_CLIENT_TLS_CERT": str(pair.certificate), "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": str(pair.key)}

    def assert_works(self, ads: Ads, server: XdsServer) -> None:
        ads.await_request()
        ads.stream.send("1", "1", [limit_of(3)])
        self.assertEqual(ads.await_request().told, ("1", "1", None))
        self.assertEqual((server.requests_per_day(), server.warnings()), ([3], []))

    def assert_told(self, ads: Ads, server: XdsServer, host: str, *words: str) -> None:
        """One warning, with these words; no stream."""
        line = server.await_said(" warning ", "xDS", f"{host}:{ads.port}")
        for word in words:
            self.assertIn(word.lower(), line.lower())
        self.assertEqual((ads.streams, server.health()), ([], 200))

    def test_by_name(self) -> None:
        ads = self.ads(self.authority.sign("DNS:localhost"))
        self.assert_works(ads, self.served(ads))

    def test_by_address(self) -> None:
        ads = self.ads(self.authority.sign("IP:127.0.0.1"))
        self.assert_works(ads, self.served(ads, "127.0.0.1"))

    def test_an_address_is_not_a_name(self) -> None:
        ads = self.ads(self.authority.sign("DNS:localhost"))
        self.assert_told(ads, self.served(ads, "127.0.0.1"), "127.0.0.1", "certificate", "localhost")

    def test_by_another_name(self) -> None:
        ads = self.ads(self.authority.sign("DNS:control.plane"))
        self.assert_works(ads, self.served(ads, "127.0.0.1", CONFIG_GRPC_XDS_SERVER_TLS_SAN="control.plane"))

    def test_a_wrong_name(self) -> None:
        ads = self.ads(self.authority.sign("DNS:control.plane"))
        self.assert_told(ads, self.served(ads), "localhost", "certificate", "control.plane")
        # The name of the URL does not do when another one is wanted.
        ads = self.ads(self.authority.sign("DNS:localhost"))
        server = self.served(ads, CONFIG_GRPC_XDS_SERVER_TLS_SAN="control.plane")
        self.assert_told(ads, server, "localhost", "certificate", "control.plane")

    def test_another_authority(self) -> None:
        ads = self.ads(self.other.sign("DNS:localhost"))
        self.assert_told(ads, self.served(ads), "localhost", "certificate", "strange-authority")

    def test_an_expired_certificate(self) -> None:
        ads = self.ads(self.authority.sign("DNS:localhost", expired=True))
        self.assert_told(ads, self.served(ads), "localhost", "certificate", "expired")

    def test_a_certificate_is_wanted(self) -> None:
        ads = self.ads(self.authority.sign("DNS:localhost"), self.authority)
        # This server closes the connection without saying why.
        self.assert_told(ads, self.served(ads), "localhost")
        ads = self.ads(self.authority.sign("DNS:localhost"), self.authority)
        self.assert_told(ads, self.served(ads, **self.shown(self.other.sign("DNS:me"))), "localhost")
        ads = self.ads(self.authority.sign("DNS:localhost"), self.authority)
        own = self.authority.sign("DNS:me")
        self.assert_works(ads, self.served(ads, **self.shown(own)))
        self.assertEqual(pem(ads.stream.certificate), pem(own.texts[0]))

    def test_a_certificate_without_its_key_is_not_used(self) -> None:
        ads = self.ads(self.authority.sign("DNS:localhost"))
        server = self.served(ads, CONFIG_GRPC_XDS_CLIENT_TLS_CERT=str(self.authority.sign("DNS:me").certificate))
        self.assertEqual(ads.await_request().told, ("", "", None))
        self.assertEqual(server.health(), 200)

    def test_files_are_read_anew_for_each_connection(self) -> None:
        own = self.authority.sign("DNS:me")
        (self.folder / "certs").mkdir()
        secret = Secret(self.folder / "certs", own, self.authority.certificate.read_text())
        ads = self.ads(self.authority.sign("DNS:localhost"), self.authority)
        server = self.served(ads, CONFIG_GRPC_XDS_CLIENT_TLS_CERT=str(secret.certificate),
                             CONFIG_GRPC_XDS_CLIENT_TLS_KEY=str(secret.key),
                             CONFIG_GRPC_XDS_SERVER_TLS_CACERT=str(secret.authority))
        self.assert_works(ads, server)
        renewed = self.authority.sign("DNS:me")
        secret.swap(*renewed.texts, self.authority.certificate.read_text())
        ads.stream.end(grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(pem(ads.await_stream(2).certificate), pem(renewed.texts[0]))
        # Now all of another authority.
        last = self.other.sign("DNS:me")
        secret.swap(*last.texts, self.other.certificate.read_text())
        ads.tls = Tls(*self.other.sign("DNS:localhost").texts, self.other.certificate.read_text())
        ads.stop()
        ads.start()
        self.assertEqual(pem(ads.await_stream(3).certificate), pem(last.texts[0]))

    def test_plain_text_on_either_side(self) -> None:
        ads = self.ads(None)
        self.assert_told(ads, self.served(ads), "localhost", "TLS")
        ads = self.ads(self.authority.sign("DNS:localhost"))
        server = self.sluice(f"localhost:{ads.port}")
        server.await_said(" warning ", "xDS", f"localhost:{ads.port}")
        self.assertEqual((ads.streams, server.health()), ([], 200))

    def test_it_works_again_when_the_control_plane_is_mended(self) -> None:
        ads = self.ads(self.other.sign("DNS:localhost"))
        server = self.served(ads)
        self.assert_told(ads, server, "localhost", "certificate")
        ads.tls = Tls(*self.authority.sign("DNS:localhost").texts)
        ads.stop()
        ads.start()
        ads.await_request()
        ads.stream.send("1", "1", [limit_of(3)])
        self.assertEqual(ads.await_request().told, ("1", "1", None))
        self.assertEqual(server.requests_per_day(), [3])

    def raw(self, version: ssl.TLSVersion | None = None) -> tuple[int, list[str | None]]:
        """A server of TLS alone, without ALPN: its port, and for each handshake the version, or None as it failed."""
        pair = self.authority.sign("DNS:localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        if version is not None:
            only(context, version)
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        shaken: list[str | None] = []

        def accept() -> None:
            while True:
                try:
                    taken, _ = listener.accept()
                except OSError:  # it is closed
                    return
                with taken:
                    taken.settimeout(SECONDS_MAX)
                    try:
                        with context.wrap_socket(taken, server_side=True) as secure:
                            spoken = secure.version()
                            data = secure.recv(100)
                            shaken.append(spoken if data else f"{spoken} and nothing more")
                    except OSError:
                        shaken.append(None)

        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()[1], shaken

    def towards(self, port: int) -> XdsServer:
        return self.sluice(f"localhost:{port}", CONFIG_GRPC_XDS_SERVER_USE_TLS="true",
                           CONFIG_GRPC_XDS_SERVER_TLS_CACERT=str(self.authority.certificate))

    def test_without_h2_nothing_is_sent(self) -> None:
        port, shaken = self.raw()
        self.towards(port).await_said(" warning ", "xDS", f"localhost:{port}", "ALPN")
        wait_until(lambda: bool(shaken), "a handshake")
        self.assertIn(shaken[0], (None, "TLSv1.3 and nothing more"))

    def test_older_than_1_2_is_refused(self) -> None:
        port, shaken = self.raw(ssl.TLSVersion.TLSv1_1)
        self.towards(port).await_said(" warning ", "xDS", f"localhost:{port}")
        wait_until(lambda: bool(shaken), "a handshake")
        self.assertIsNone(shaken[0])


if __name__ == "__main__":
    unittest.main()
