"""What each right allows: every command of the Redis protocol, every path of HTTP and of the admin port and every method of
Envoy's service, asked by a user with that right alone, who shows a token or a certificate. What the servers list of
themselves must be in the tables here."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import sys
import unittest
from pathlib import Path

import grpc

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "envoy/python")]

from certificates import Pair  # noqa: E402
from messages import (  # noqa: E402
    SHOULD_RATE_LIMIT, HealthCheckRequest, HealthCheckResponse, RateLimitRequest, RateLimitResponse, request)
from secure import TlsTest  # noqa: E402
from started import SECONDS_MAX  # noqa: E402

RIGHTS = ("take", "put", "look", "admin")
SUBJECT = ("KEY", "k", "LIMIT", "1000000", "1h")
ANY = "any user"  # needs a user and no right
NONE = "nobody"  # needs no user

# docs/resp.md
RESP: dict[tuple[str, ...], str] = {
    **{(command, "k", "9", "1", "60"): "take" for command in ("CL.THROTTLE", "THROTTLE", "GCRA")},
    ("INCREX", "k", "UBOUND", "9", "EX", "60", "ENX"): "take",
    **{(command, *SUBJECT): "take" for command in ("SLUICE.TAKE", "SLUICE.CHARGE")},
    ("SLUICE.WAIT", "5", *SUBJECT): "take", ("SLUICE.MTAKE", "1", *SUBJECT): "take",
    ("SLUICE.RESERVE", "60", *SUBJECT, "N", "1"): "take", ("SLUICE.MRESERVE", "60", "1", *SUBJECT, "N", "1"): "take",
    ("SLUICE.ACQUIRE", "0", "KEY", "pool", "LIMIT", "9", "30", "ALGORITHM", "concurrency"): "take",
    **{(f"SLUICE.{command}", "hold-0000-0000-1"): "take" for command in ("RELEASE", "RENEW")},  # unknown: -NOID
    **{(f"SLUICE.{command}", "hold-0000-0000-1", "N", "1"): "take" for command in ("EXTEND", "COMMIT")},
    **{(command, *SUBJECT): "put" for command in ("SLUICE.PUT", "SLUICE.RESET")},
    ("DEL", "k"): "put", ("UNLINK", "k"): "put",
    ("SLUICE.PEEK", *SUBJECT): "look", ("SLUICE.EXPLAIN", *SUBJECT): "look",
    **{(command, "k"): "look" for command in ("EXISTS", "TTL", "PTTL")},
    **{words: ANY for words in (
        ("PING",), ("ECHO", "x"), ("SELECT", "1"), ("CLIENT", "ID"), ("COMMAND", "COUNT"), ("INFO",), ("CONFIG", "GET", "save"),
        ("TIME",), ("READONLY",), ("READWRITE",), ("ASKING",), ("SLUICE.INFO",), ("SLUICE.HELP",), ("WATCH", "k"), ("UNWATCH",),
        ("MULTI",), ("DISCARD",))},
}
# They need no user, or end the transaction or the connection, or are errors in any case.
RESP_BESIDE = {"hello", "auth", "reset", "quit", "exec", "cluster"}

ENTRIES = {"entries": {"queue": "a"}}
# docs/http.md
HTTP: dict[tuple[str, str], tuple[str, object]] = {
    **{("POST", f"/v1/{word}"): (right, ENTRIES) for word, right in (
        ("take", "take"), ("charge", "take"), ("wait", "take"), ("peek", "look"), ("put", "put"), ("reset", "put"),
        ("explain", "admin"))},
    ("POST", "/v1/batch"): ("take", {"takes": [ENTRIES]}),
    ("GET", "/v1/take"): ("take", None),
    ("POST", "/v1/reserve"): ("take", ENTRIES),
    **{("POST", f"/v1/{word}"): ("take", {"id": "hold-0000-0000-1"}) for word in ("renew", "release")},  # unknown: 404
    **{("POST", f"/v1/{word}"): ("take", {"id": "hold-0000-0000-1", "n": 1}) for word in ("extend", "commit")},
    ("POST", "/v1/acquire"): ("take", ENTRIES),  # without places: 400
    **{(method, f"/v1/{word}"): (NONE, None) for method in ("GET", "HEAD") for word in ("health", "openapi.json")},
    ("GET", "/auth"): (NONE, None), ("GET", "/auth/{profile}"): (NONE, None),
}
# docs/admin.md
ADMIN: dict[tuple[str, str], object] = {
    **{("GET", path): None for path in (
        "/metrics", "/v1/openapi.json", "/v1/status", "/v1/config", "/v1/rules", "/v1/overrides", "/v1/overrides/{id}",
        "/v1/counters", "/v1/counters/{key}", "/v1/top", "/v1/denials", "/v1/changes", "/v1/log",
        "/v1/holds", "/v1/holds/{id}")},
    ("POST", "/v1/config/check"): "rules: []\n", ("POST", "/v1/reload"): {}, ("POST", "/v1/explain"): ENTRIES,
    ("POST", "/v1/overrides"): {},
    ("DELETE", "/v1/holds/{id}"): None, ("DELETE", "/v1/overrides/{id}"): None,
    ("DELETE", "/v1/counters/{key}"): None, ("PUT", "/v1/counters/{key}"): {"used": 0},
    ("PUT", "/v1/log"): {"level": "info"}, ("PUT", "/v1/holds/{id}"): {"ttl": 60},
}


class Resp:
    """A connection of the Redis protocol; the rest of a reply is read, and not kept."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._in = connection, connection.makefile("rb")

    def ask(self, *words: str) -> object:
        out = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
        self._connection.sendall(out)
        return self._read()

    def _read(self) -> object:
        line = self._in.readline()
        kind, text = line[:1], line[1:-2].decode()
        if kind == b"$":
            return None if text == "-1" else self._in.read(int(text) + 2)[:-2].decode()
        if kind == b"*":
            return None if text == "-1" else [self._read() for _ in range(int(text))]
        return line[:-2].decode()

    def close(self) -> None:
        self._in.close()
        self._connection.close()


class RightsTest(TlsTest):
    """Two users for each right: the token of one is made of the right's name, as is the name in the other's certificate."""

    test_seconds_max = 240

    def setUp(self) -> None:
        super().setUp()
        users = "users:\n"
        for name, rights in ((*((right, right) for right in RIGHTS), ("both", "take, put"))):
            digest = hashlib.sha256(self.token(name).encode()).hexdigest()
            users += (f"  - {{ name: token-{name}, sha256: {digest}, rights: [{rights}] }}\n"
                      f"  - {{ name: certificate-{name}, certificate: {name}.example, rights: [{rights}] }}\n")
        (self.folder / "token").write_text("the-token-of-the-port")
        (self.folder / "token").chmod(0o600)
        listeners = "".join(self.listener(protocol, clients=self.requested) for protocol in ("resp", "http", "envoy", "admin"))
        self.server = self.serve(
            f"listen:\n{listeners}{users}admin: {{ token_file: {self.folder / 'token'} }}\n"
            "http: { get_takes: true, auth: { profiles: { web: { proxy: nginx } } } }\n"
            "rules:\n  - { name: all, match: { queue: '*' }, actor: queue, limit: { quota: 1000000, window: 1h } }\n")
        self.shown = {name: self.authority.sign(f"DNS:{name}.example") for name in (*RIGHTS, "both")}

    @staticmethod
    def token(name: str) -> str:
        return (name + "0" * 43)[:43]

    def ways(self, names: tuple[str, ...] = RIGHTS) -> list[tuple[str, str | None, Pair | None]]:
        """The user, its token if it shows one, and its certificate if it shows one."""
        return [*((name, self.token(name), None) for name in names), *((name, None, self.shown[name]) for name in names),
                # The user of a token, whatever the certificate says.
                *((name, self.token(name), self.shown["both"]) for name in names)]

    def connect(self, protocol: str, shown: Pair | None) -> socket.socket:
        plain = socket.create_connection(("localhost", self.server.port(protocol)), SECONDS_MAX)
        connection = self.context(shown).wrap_socket(plain, server_hostname="localhost")
        self.addCleanup(connection.close)
        return connection


class RedisProtocol(RightsTest):
    def test_every_command(self) -> None:
        for user, token, shown in self.ways():
            client = Resp(self.connect("resp", shown))
            self.addCleanup(client.close)
            if token:
                self.assertEqual(client.ask("AUTH", token), "+OK")
            for words, right in RESP.items():
                reply = client.ask(*words)
                refused = isinstance(reply, str) and reply.startswith("-NOPERM")
                self.assertEqual(refused, right not in (user, ANY), (user, token, words, reply))
                if not refused:
                    failed = isinstance(reply, str) and reply.startswith("-") and not reply.startswith("-NOID ")
                    self.assertFalse(failed, (user, words, reply))
            if not token and shown:
                self.assertEqual(client.ask("RESET"), "+RESET")
                self.assertEqual(client.ask("PING"), "+PONG")

    def test_units_that_come_back(self) -> None:
        """By a CL.THROTTLE below 0: who may take may not do that as well."""
        for user in ("take", "look", "admin", "both"):
            client = Resp(self.connect("resp", self.shown[user]))
            self.addCleanup(client.close)
            reply = client.ask("CL.THROTTLE", "k", "9", "1", "60", "-1")
            self.assertEqual(isinstance(reply, list), user == "both", (user, reply))

    def test_nobody(self) -> None:
        client = Resp(self.connect("resp", None))
        self.addCleanup(client.close)
        for words in RESP:
            self.assertEqual(str(client.ask(*words))[:7], "-NOAUTH", words)

    def test_the_table_has_every_command(self) -> None:
        client = Resp(self.connect("resp", self.shown["take"]))
        self.addCleanup(client.close)
        listed = client.ask("COMMAND")
        assert isinstance(listed, list)
        self.assertEqual({entry[0] for entry in listed}, {words[0].lower() for words in RESP} | RESP_BESIDE)


class Paths(RightsTest):
    """Of HTTP and of the admin port. Users with tokens come by one connection, so each request counts by itself."""

    def setUp(self) -> None:
        super().setUp()
        self.kept: dict[tuple[str, Pair | None], http.client.HTTPSConnection] = {}

    def status(self, protocol: str, method: str, path: str, body: object, token: str | None, shown: Pair | None,
               basic: bool = False) -> int:
        connection = self.kept.get((protocol, shown))
        if connection is None:
            connection = self.kept[protocol, shown] = http.client.HTTPSConnection(
                "localhost", self.server.port(protocol), timeout=SECONDS_MAX, context=self.context(shown))
            self.addCleanup(connection.close)
        if basic and token:
            field = {"Authorization": "Basic " + base64.b64encode(f":{token}".encode()).decode()}
        else:
            field = {"Authorization": f"Bearer {token}"} if token else {}
        text = body if isinstance(body, str) else None if body is None else json.dumps(body)
        kind = {} if text is None else {"Content-Type": "application/json"}
        connection.request(method, path, text, {**kind, **field})
        response = connection.getresponse()
        response.read()
        return response.status

    def target(self, path: str) -> str:
        if path == "/v1/take":
            return "/v1/take?entry=queue=a"
        return path.replace("{profile}", "web").replace("{id}", "x").replace("{key}", "native:all:a:queue")

    def test_every_path_of_http(self) -> None:
        for user, token, shown in self.ways():
            for (method, path), (right, body) in HTTP.items():
                status = self.status("http", method, self.target(path) if method == "GET" else path, body, token, shown,
                                     basic=user == "look")
                self.assertNotEqual(status, 401, (user, token, method, path))
                self.assertEqual(status == 403, right not in (user, NONE), (user, token, method, path, status))
        for (method, path), (right, body) in HTTP.items():
            status = self.status("http", method, self.target(path) if method == "GET" else path, body, None, None)
            self.assertEqual(status == 401, right != NONE, (method, path, status))

    def test_every_path_of_the_admin_port(self) -> None:
        """For a token with the right `admin`, and for that of the port; a certificate only lets a client connect."""
        for (method, path), body in ADMIN.items():
            asked = (method, self.target(path), body)
            for user, token, shown in self.ways():
                status = self.status("admin", *asked, token, shown)
                allowed = bool(token) and user == "admin"
                self.assertEqual(status in (401, 403), not allowed, (user, token, asked, status))
                self.assertLess(status, 500)
            self.assertEqual(self.status("admin", *asked, None, None), 401, asked)
            self.assertNotIn(self.status("admin", *asked, "the-token-of-the-port", None), (401, 403), asked)
        for path in ("/health/live", "/health/ready"):
            self.assertEqual(self.status("admin", "GET", path, None, None, None), 200)

    def test_the_tables_have_every_path(self) -> None:
        for protocol, table, token in (("http", set(HTTP), None), ("admin", set(ADMIN), "the-token-of-the-port")):
            connection = http.client.HTTPSConnection("localhost", self.server.port(protocol), timeout=SECONDS_MAX,
                                                     context=self.context())
            self.addCleanup(connection.close)
            connection.request("GET", "/v1/openapi.json", headers={"Authorization": f"Bearer {token}"} if token else {})
            paths = json.loads(connection.getresponse().read())["paths"]
            listed = {(method.upper(), path) for path, item in paths.items() for method in item
                      if method in ("get", "head", "post", "put", "delete", "patch")}
            missing = {(method, path) for method, path in listed if not path.startswith("/health/")} - table
            self.assertEqual(missing, set())
            self.assertEqual({path for path in paths if not path.startswith("/health/")}, {path for _, path in table})


class Envoy(RightsTest):
    def call(self, token: str | None, shown: Pair | None, back: bool) -> grpc.StatusCode:
        certificate, key = shown.texts if shown else (None, None)
        credentials = grpc.ssl_channel_credentials(self.authority.certificate.read_bytes(), key and key.encode(),
                                                   certificate and certificate.encode())
        message = request([("queue", "a")], domain="a")
        message.descriptors[0].is_negative_hits = back
        with grpc.secure_channel(f"localhost:{self.server.port('envoy')}", credentials,
                                 [("grpc.use_local_subchannel_pool", 1)]) as channel:
            health = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=HealthCheckRequest.SerializeToString,
                                         response_deserializer=HealthCheckResponse.FromString)
            health(HealthCheckRequest(), timeout=SECONDS_MAX)  # of nobody too
            ask = channel.unary_unary(SHOULD_RATE_LIMIT, request_serializer=RateLimitRequest.SerializeToString,
                                      response_deserializer=RateLimitResponse.FromString)
            try:
                ask(message, timeout=SECONDS_MAX, metadata=[("authorization", f"Bearer {token}")] if token else [])
            except grpc.RpcError as error:
                return error.code()
        return grpc.StatusCode.OK

    def json_status(self, token: str | None, shown: Pair | None, back: bool) -> int:
        connection = http.client.HTTPSConnection("localhost", self.server.port("envoy"), timeout=SECONDS_MAX,
                                                 context=self.context(shown))
        self.addCleanup(connection.close)
        descriptor = {"entries": [{"key": "queue", "value": "a"}], "isNegativeHits": back}
        connection.request("POST", "/json", json.dumps({"domain": "a", "descriptors": [descriptor]}),
                           {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})})
        return connection.getresponse().status

    def test_every_request(self) -> None:
        for user, token, shown in self.ways((*RIGHTS, "both")):
            for back in (False, True):
                allowed = user == "both" or (user == "take" and not back)
                with self.subTest(user=user, token=token, shown=shown, back=back):
                    self.assertEqual(self.call(token, shown, back),
                                     grpc.StatusCode.OK if allowed else grpc.StatusCode.PERMISSION_DENIED)
                    self.assertEqual(self.json_status(token, shown, back), 200 if allowed else 403)
        for shown in (None, self.authority.sign("DNS:nobody.example")):
            self.assertEqual(self.call(None, shown, False), grpc.StatusCode.UNAUTHENTICATED)
            self.assertEqual(self.json_status(None, shown, False), 401)
        # A wrong token is refused beside a right certificate.
        self.assertEqual(self.call("x" * 43, self.shown["both"], False), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(self.json_status("x" * 43, self.shown["both"], False), 401)


if __name__ == "__main__":
    unittest.main()
