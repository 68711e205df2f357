"""redis-py, unchanged, against the real server: by both versions of the protocol, in the ways to send many commands that
it has, and its asyncio client. The runner says which redis-py that is."""

from __future__ import annotations

import asyncio
import threading
import unittest
from unittest import mock

import redis
import redis.asyncio
from redis.connection import Connection

from sluice_server import RespTest


def throttle(key: str | bytes, *numbers: int) -> tuple[str | bytes | int, ...]:
    return ("CL.THROTTLE", key, *numbers)


def client_info(client: redis.Redis) -> dict[str, str]:
    """The reply to CLIENT INFO, which has fewer fields than redis-py's own reader of it wants."""
    line = client.execute_command("CLIENT", "INFO")
    return dict(field.split("=", 1) for field in (line if isinstance(line, str) else line.decode()).split())


class EveryProtocol:
    """Tests that hold for RESP2 and for RESP3."""

    protocol: int

    def client(self, **options: object) -> redis.Redis:
        client = redis.Redis(port=self.server.port, protocol=self.protocol, socket_timeout=30, **options)
        self.addCleanup(client.close)
        return client

    def test_every_throttle(self) -> None:
        client = self.client()
        self.assertIs(client.ping(), True)
        self.assert_reply(client.execute_command("CL.THROTTLE", "user:17", 1, 1, 60), [0, 2, 1, -1, 60])
        self.assert_reply(client.execute_command("CL.THROTTLE user:17 1 1 60"), [0, 2, 0, -1, 120])
        self.assert_reply(client.execute_command("CL.THROTTLE", "user:17", 1, 1, 60), [1, 2, 0, 60, 120])
        self.assert_reply(client.execute_command("THROTTLE", "user:17", 2, 1, 60, 2), [1, 2, 0, 120, 0])
        self.assert_reply(client.execute_command("THROTTLE", "user:17", 2, 1, 60), [0, 2, 0, 120, 60])
        self.assert_reply(client.execute_command("GCRA", "user:17", 1, 1, 60.5, "TOKENS", 2), [0, 2, 0, -1, 121])
        self.assert_reply(client.execute_command("GCRA", "user:17", 1, 1, 60.5), [1, 2, 0, 61, 121])

    def test_keys_of_any_bytes(self) -> None:
        client = self.client()
        for key in (b"\xff\x00\r\n", b"", b"a b", "clé".encode()):
            self.assert_reply(client.execute_command(*throttle(key, 0, 1, 60)), [0, 1, 0, -1, 60])
            self.assert_reply(client.execute_command(*throttle(key, 0, 1, 60)), [1, 1, 0, 60, 60])

    def test_charges_past_the_limit_and_once_for_each_id(self) -> None:
        client = self.client()
        subject = ("KEY", "tokens", "LIMIT", 100, 0, "ALGORITHM", "fixed_bucket")
        self.assert_reply(client.execute_command("SLUICE.CHARGE", *subject, "N", 90), [1, 100, 10, 0, -1, 0, 90])
        for _ in range(3):
            reply = client.execute_command("SLUICE.CHARGE", *subject, "N", 25, "ID", "charge-0000-0001")
            self.assert_reply(reply, [0, 100, 0, -1, -1, 15, 25])
        with self.assertRaisesRegex(redis.ResponseError, "the id was used with another charge"):
            client.execute_command("SLUICE.CHARGE", *subject, "N", 26, "ID", "charge-0000-0001")
        with client.pipeline(transaction=True) as pipeline:
            pipeline.execute_command("SLUICE.CHARGE", *subject, "N", 25, "ID", "charge-0000-0001")
            pipeline.execute_command("SLUICE.CHARGE", *subject)
            first, second = pipeline.execute()
        self.assert_reply(first, [0, 100, 0, -1, -1, 15, 25])
        self.assert_reply(second, [0, 100, 0, -1, -1, 16, 1])

    def test_reserves_extends_and_commits_once(self) -> None:
        client = self.client(decode_responses=True)
        subject = ("KEY", "stream", "LIMIT", 100, 0, "ALGORITHM", "fixed_bucket")
        hold = "hold-0000-0000-1"
        for _ in range(2):
            one, its, limit, remaining, ttl_ms = client.execute_command("SLUICE.RESERVE", 60, *subject, "N", 40, "ID", hold)
            self.assertEqual((one, its, limit, remaining), (1, hold, 100, 60))
            self.assertTrue(0 < ttl_ms <= 60_000)
        with self.assertRaisesRegex(redis.ResponseError, "the id names another reservation"):
            client.execute_command("SLUICE.RESERVE", 60, *subject, "N", 41, "ID", hold)
        self.assertEqual(client.execute_command("SLUICE.EXTEND", hold, "N", 61), [0, None, 100, 60, -1])
        self.assertEqual(client.execute_command("SLUICE.EXTEND", hold, "N", 5, "WITHUNITS")[5], [45])
        self.assertTrue(0 < client.execute_command("SLUICE.RENEW", hold, 9.5) <= 9_500)
        self.assertEqual(client.execute_command("SLUICE.COMMIT", hold, "N", 50), [1, 0, 0, 5, 50])
        self.assertEqual(client.execute_command("SLUICE.COMMIT", hold, "N", 50), [0, 0, 0, 5, 50])
        with self.assertRaisesRegex(redis.ResponseError, "^SETTLED .* with 50 units"):
            client.execute_command("SLUICE.RELEASE", hold)

    def test_reserves_of_several_subjects_all_or_none(self) -> None:
        client = self.client(decode_responses=True)
        subjects = [("KEY", key, "LIMIT", 100, 0, "ALGORITHM", "fixed_bucket", "N", 60) for key in ("a", "b")]
        both = ("SLUICE.MRESERVE", 60, 2, *subjects[0], *subjects[1])
        one, hold, *left = client.execute_command(*both)
        self.assertEqual((one, left), (1, [[100, 40], [100, 40]]))
        self.assertEqual(client.execute_command(*both), [0, None])
        self.assertEqual(client.execute_command("SLUICE.RELEASE", hold), 120)
        with client.pipeline(transaction=True) as pipeline:
            pipeline.execute_command(*both)
            pipeline.execute_command(*both, "WAIT", 0)
            first, second = pipeline.execute()
        self.assertEqual((first[0], second), (1, [0, None]))
        for command in (("EXTEND", "N", 1), ("RELEASE",), ("RENEW",), ("COMMIT", "N", 1)):
            with self.assertRaisesRegex(redis.ResponseError, "^NOID "):
                client.execute_command(f"SLUICE.{command[0]}", "hold-0000-0000-2", *command[1:])

    def test_places_are_given_back_by_release_and_with_their_connection(self) -> None:
        pool = ("KEY", "pool", "LIMIT", 2, "30s", "ALGORITHM", "concurrency", "MAXLEASE", "5m")
        client, other = self.client(decode_responses=True), self.client(decode_responses=True)
        one, hold, limit, remaining, ttl_ms = client.execute_command("SLUICE.ACQUIRE", 0, *pool)
        self.assertEqual((one, limit, remaining), (1, 2, 1))
        self.assertTrue(0 < ttl_ms <= 30_000)
        self.assertTrue(60_000 < client.execute_command("SLUICE.RENEW", hold, 600) <= 300_000)
        self.assertEqual(other.execute_command("SLUICE.ACQUIRE", 60, *pool, "CLOSE")[0], 1)
        denied, none, _, _, retry_ms = client.execute_command("SLUICE.ACQUIRE", 0, *pool)
        self.assertEqual((denied, none), (0, None))
        self.assertTrue(0 < retry_ms <= 60_000)
        with client.pipeline(transaction=True) as pipeline:
            pipeline.execute_command("SLUICE.ACQUIRE", 0, *pool, "WAIT", 60)
            self.assertEqual(pipeline.execute()[0][0], 0, "in a transaction nothing waits")
        other.close()
        self.assertEqual(client.execute_command("SLUICE.ACQUIRE", 0, *pool, "WAIT", 60)[0], 1)
        self.assertEqual(client.execute_command("SLUICE.RELEASE", hold), 1)
        with self.assertRaisesRegex(redis.ResponseError, "^NOPLACES "):
            client.execute_command("SLUICE.ACQUIRE", 0, "KEY", "rate", "LIMIT", 2, "1h")

    def test_errors_raise_and_the_connection_continues(self) -> None:
        client = self.client()
        with self.assertRaisesRegex(redis.ResponseError, "Couldn't parse as integer: x"):
            client.execute_command("CL.THROTTLE", "k", "x", 1, 60)
        with self.assertRaisesRegex(redis.ResponseError, "unknown command 'NOSUCH'"):
            client.execute_command("NOSUCH", "k")
        with self.assertRaisesRegex(redis.ResponseError, "wrong number of arguments for 'throttle' command"):
            client.execute_command("THROTTLE", "k")
        self.assert_reply(client.execute_command(*throttle("k", 0, 1, 60)), [0, 1, 0, -1, 60])

    def test_pipelines_with_and_without_transaction(self) -> None:
        client = self.client()
        for transaction in (True, False):
            key = f"k{transaction}"
            with client.pipeline(transaction=transaction) as pipeline:
                for _ in range(2):
                    pipeline.execute_command(*throttle(key, 0, 1, 60))
                pipeline.ping()
                pipeline.execute_command(*throttle("other" + key, 0, 1, 60))
                first, denied, pong, other = pipeline.execute()
            self.assert_reply(first, [0, 1, 0, -1, 60])
            self.assert_reply(denied, [1, 1, 0, 60, 60])
            self.assertIs(pong, True)
            self.assert_reply(other, [0, 1, 0, -1, 60])  # the denied command undid nothing

    def test_a_pipeline_with_errors_in_it(self) -> None:
        client = self.client()
        pipeline = client.pipeline(transaction=False)
        pipeline.execute_command(*throttle("k", 0, 1, 60))
        pipeline.execute_command("CL.THROTTLE", "k", 0, 0, 60)
        pipeline.execute_command(*throttle("k", 0, 1, 60))
        first, error, denied = pipeline.execute(raise_on_error=False)
        self.assert_reply(first, [0, 1, 0, -1, 60])
        self.assertIsInstance(error, redis.ResponseError)
        self.assert_reply(denied, [1, 1, 0, 60, 60])

    def test_a_transaction_with_an_unknown_command_takes_nothing(self) -> None:
        client = self.client()
        pipeline = client.pipeline(transaction=True)
        pipeline.execute_command(*throttle("k", 0, 1, 60))
        pipeline.execute_command("NOSUCH")
        with self.assertRaisesRegex(redis.ResponseError, "unknown command 'NOSUCH'"):
            pipeline.execute()
        self.assert_reply(client.execute_command(*throttle("k", 0, 1, 60, 0)), [0, 1, 1, -1, 0])

    def test_watch_and_transaction(self) -> None:
        client = self.client()

        def take(pipeline: redis.client.Pipeline) -> None:
            self.assert_reply(pipeline.execute_command(*throttle("k", 1, 1, 60)), [0, 2, 1, -1, 60])
            pipeline.multi()
            pipeline.execute_command(*throttle("k", 1, 1, 60))

        [reply] = client.transaction(take, "k")
        self.assert_reply(reply, [0, 2, 0, -1, 120])

    def test_a_pool_whose_threads_share_a_counter(self) -> None:
        pool = redis.ConnectionPool(port=self.server.port, protocol=self.protocol, max_connections=8, socket_timeout=30)
        client = redis.Redis(connection_pool=pool)
        self.addCleanup(pool.disconnect)
        replies = []

        def ask() -> None:
            for _ in range(10):
                replies.append(client.execute_command(*throttle("k", 29, 1, 60)))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(replies), 80)
        self.assertEqual(sorted(limited for limited, *_ in replies), [0] * 30 + [1] * 50)
        self.assertEqual(sorted((reply[2] for reply in replies if reply[0] == 0), reverse=True), list(range(29, -1, -1)))

    def test_health_checks(self) -> None:
        client = self.client(health_check_interval=0.000001)
        with mock.patch.object(Connection, "_send_ping", autospec=True, side_effect=Connection._send_ping) as ping:
            for remaining in (2, 1, 0):
                reply = client.execute_command(*throttle("k", 2, 1, 60))
                self.assertEqual(reply[:3], [0, 3, remaining])
            self.assertGreaterEqual(ping.call_count, 2)

    def test_names_and_databases(self) -> None:
        client = self.client(client_name="shop", db=3)
        self.assertIn(client.client_getname(), ("shop", b"shop"))
        self.assertTrue(client.client_setname("till"))
        info = client_info(client)
        self.assertEqual((info["name"], int(info["db"]), int(info["id"])), ("till", 3, client.client_id()))
        self.assertEqual((int(info["resp"]), info["lib-name"].split("(")[0]), (self.protocol, "redis-py"))
        self.assert_reply(client.execute_command(*throttle("k", 0, 1, 60)), [0, 1, 0, -1, 60])
        # The number of the database is part of the counter's name.
        self.assert_reply(self.client().execute_command(*throttle("k", 0, 1, 60)), [0, 1, 0, -1, 60])
        self.assert_reply(self.client(db=3).execute_command(*throttle("k", 0, 1, 60)), [1, 1, 0, 60, 60])

    def test_the_client_reads_info_and_commands(self) -> None:
        client = self.client(decode_responses=True)
        info = client.info()
        self.assertEqual((info["redis_mode"], info["role"], info["loading"]), ("standalone", "master", 0))
        self.assertEqual(info["tcp_port"], self.server.port)
        self.assertEqual(len(client.command()), client.command_count())
        self.assertEqual(client.command()["cl.throttle"]["first_key_pos"], 1)
        with self.assertRaisesRegex(redis.ResponseError, "SCAN is not supported; list counters with"):
            client.scan()
        self.assertEqual(client.config_get("save"), {})
        seconds, microseconds = client.time()
        self.assertTrue(0 <= microseconds < 1_000_000 and seconds > 1_700_000_000)
        self.assertEqual(client.echo("marker"), "marker")

    def test_asyncio(self) -> None:
        async def ask() -> list[object]:
            async with redis.asyncio.Redis(port=self.server.port, protocol=self.protocol) as client:
                together = await asyncio.gather(*(client.execute_command(*throttle("k", 4, 1, 60)) for _ in range(10)))
                self.assertEqual(sorted(limited for limited, *_ in together), [0] * 5 + [1] * 5)
                async with client.pipeline(transaction=True) as pipeline:
                    pipeline.execute_command(*throttle("l", 0, 1, 60))
                    pipeline.execute_command(*throttle("l", 0, 1, 60))
                    return await pipeline.execute()

        first, denied = asyncio.run(ask())
        self.assert_reply(first, [0, 1, 0, -1, 60])
        self.assert_reply(denied, [1, 1, 0, 60, 60])

    def test_keys_that_were_throttled(self) -> None:
        client = self.client()
        self.assertEqual(client.ttl("k"), -2)
        self.assert_reply(client.execute_command(*throttle("k", 0, 1, 60)), [0, 1, 0, -1, 60])
        self.assertTrue(0 < client.ttl("k") <= 60)
        self.assertTrue(0 < client.pttl("k") <= 60_000)
        self.assertEqual(client.exists("k"), 1)
        self.assertEqual(client.delete("k", "other"), 1)
        self.assert_reply(client.execute_command(*throttle("k", 0, 1, 60)), [0, 1, 0, -1, 60])


class Resp2Test(EveryProtocol, RespTest):
    protocol = 2


class Resp3Test(EveryProtocol, RespTest):
    protocol = 3

    def test_hello_is_a_map(self) -> None:
        hello = self.client(decode_responses=True).execute_command("HELLO", 3)
        self.assertEqual((hello["server"], hello["proto"], hello["modules"]), ("sluice", 3, []))

    def test_documentation_is_a_map(self) -> None:
        docs = self.client(decode_responses=True).execute_command("COMMAND DOCS", "cl.throttle")
        self.assertEqual(set(docs), {"cl.throttle"})
        self.assertLessEqual({"summary", "since", "group", "arguments"}, set(docs["cl.throttle"]))


class DefaultsTest(RespTest):
    """With the version of the protocol that this redis-py uses by default, by a URL, and a server of more than one
    worker."""

    config = 'listen: [{ protocol: resp, address: "127.0.0.1:0" }]\n'

    def test_from_url(self) -> None:
        with redis.Redis.from_url(f"redis://127.0.0.1:{self.server.port}/5") as client:
            self.assert_reply(client.execute_command(*throttle("k", 0, 1, 60)), [0, 1, 0, -1, 60])
            self.assert_reply(client.execute_command(*throttle("k", 0, 1, 60)), [1, 1, 0, 60, 60])
            self.assertEqual(int(client_info(client)["db"]), 5)


if __name__ == "__main__":
    unittest.main()
