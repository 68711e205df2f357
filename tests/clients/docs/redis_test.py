"""The commands of docs/redis.md that start a server with a Redis, except for the Redis' address."""

from __future__ import annotations

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


if __name__ == "__main__":
    unittest.main()
