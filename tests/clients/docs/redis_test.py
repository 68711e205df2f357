"""The commands of docs/redis.md that start a server with a Redis, except for the Redis' address."""

from __future__ import annotations

import time
import unittest

from manual import SECONDS_MAX, Manual, lines_of


class RedisTest(unittest.TestCase):
    def test_start(self) -> None:
        lines = [line[4:] for line in lines_of("docs/redis.md", "## Start") if line.startswith("    sluice ")]
        self.assertGreater(len(lines), 0)
        with Manual(self, "docs/redis.md", "## Start") as manual:
            manual.serve("redis-server --port 6379 --save ''")
            manual.files["sluice.yaml"] = ("listen: [{ protocol: http, address: '127.0.0.1:8390' }]\n"
                                           "rules: [{ name: all, limit: { quota: 9, window: 1d, algorithm: fixed_window } }]\n")
            for number, line in enumerate(lines):
                here = line.replace("redis.example:6379", "127.0.0.1:6379")
                self.assertNotEqual(here, line)
                manual.serve(here)
                manual.compare("sluice ask http take k=v",
                               f"allowed: {8 - number} of 9 left, all of them again within 1d (rule all)")
                server = manual.servers.pop()
                server.terminate()
                self.assertEqual(server.wait(SECONDS_MAX), 0)
                del manual.ports["8390"]
            self.assertIn("native:", manual.run("redis-cli -p 6379 --scan")[1])

    def test_import(self) -> None:
        with Manual(self, "docs/redis.md", "## Redis Cluster") as manual:
            manual.serve("redis-server --port 6379 --save ''")
            manual.serve("redis-server --port 6380 --save '' --cluster-enabled yes --cluster-config-file nodes.conf")
            self.assertEqual(manual.run("redis-cli -p 6380 cluster addslotsrange 0 16383")[1], "OK\n")
            manual.files["sluice.yaml"] = ("listen: [{ protocol: http, address: '127.0.0.1:8390' }]\n"
                                           "store: { redis: { nodes: ['127.0.0.1:6379'] } }\n"
                                           "rules: [{ name: all, actor: k, limit: { quota: 9, window: 1d } }]\n")
            manual.serve("sluice serve --config sluice.yaml")
            for actor in ("a", "b"):
                manual.run(f"sluice ask http take k={actor}")
            end = time.monotonic() + SECONDS_MAX
            while "cluster_state:ok" not in manual.run("redis-cli -p 6380 cluster info")[1] and time.monotonic() < end:
                time.sleep(0.05)
            manual.lines = [line.replace("redis-1.example:6379,redis-2.example:6379", "127.0.0.1:6380")
                            .replace("redis.example:6379", "127.0.0.1:6379")
                            for line in manual.lines[manual.lines.index("### From one Redis to a cluster"):]]
            manual.follow()
            self.assertEqual(manual.commands, 3)


if __name__ == "__main__":
    unittest.main()
