"""10,000 descriptors by xDS: how soon they are live, and what an update costs the workers. With SLUICE_TIMED (`make bench`) there are
bounds; processor time is counted, as what a client waits for on a busy machine is mostly the machine."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
import unittest
from pathlib import Path

from ads import Ads
from xds_messages import YEAR, config, descriptor, policy
from xds_server import XdsServer, XdsTest

DESCRIPTORS = 10_000
UPDATES = 9
SECONDS_TO_LIVE, WORKER_SECONDS = 0.1, 0.001


class Speed(XdsTest):
    def run_times(self, server: XdsServer) -> dict[str, float]:
        """The seconds that each thread has run."""
        assert server.process is not None
        threads = Path(f"/proc/{server.process.process.pid}/task").iterdir()
        ran = {}
        for one in threads:
            with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
                ran[one.name] = int((one / "schedstat").read_text().split()[0]) / 1e9
        return ran

    def workers(self, server: XdsServer) -> set[str]:
        """The threads that answer requests, as found by the answers; each connection goes to the worker that has fewest."""
        before = self.run_times(server)
        for _ in range(300):
            server.ask()
        after = self.run_times(server)
        return {one for one, ran in after.items() if one != str(server.process.process.pid)  # type: ignore[union-attr]
                and ran - before.get(one, 0.0) > 0.003}

    def test_ten_thousand_descriptors(self) -> None:
        ads = Ads()
        self.addCleanup(ads.stop)
        server = self.sluice(ads.address)
        stream = ads.await_stream(1)
        ads.await_request()
        of_version = [[config("a", *(descriptor("k", f"v{number}", policy(YEAR, 1_000 + edition))
                                     for number in range(DESCRIPTORS)))] for edition in range(UPDATES + 1)]
        stream.send("0", "n0", of_version[0])
        self.assertIsNone(ads.await_told("n0").error)
        workers = self.workers(server)
        self.assertTrue(workers)
        live, ran, slowest = [], [], []
        for version in range(1, UPDATES + 1):
            before, begin = self.run_times(server), time.monotonic()
            stream.send(str(version), f"n{version}", of_version[version])
            told = ads.await_told(f"n{version}")
            self.assertIsNone(told.error)
            live.append(told.at - begin)
            after = self.run_times(server)
            _, answer = server.ask_json({"domain": "a", "descriptors": [{"entries": [{"key": "k", "value": "v7"}]}]})
            self.assertEqual(answer["statuses"][0]["currentLimit"]["requestsPerUnit"], 1_000 + version)  # type: ignore[index]
            slowest.append(max(after[one] - before[one] for one in workers))
            ran.append(sum(after.values()) - sum(before.values()))
        print(f"{DESCRIPTORS} descriptors: live {statistics.median(live) * 1e3:.0f} ms after they were sent "
              f"({min(live) * 1e3:.0f} to {max(live) * 1e3:.0f}); the processor time of an update {statistics.median(ran) * 1e3:.1f} ms, "
              f"of the worker with most {statistics.median(slowest) * 1e3:.2f} ms (at most {max(slowest) * 1e3:.2f})")
        if os.environ.get("SLUICE_TIMED"):
            self.assertLess(statistics.median(live), SECONDS_TO_LIVE)
            self.assertLess(statistics.median(slowest), WORKER_SECONDS)


if __name__ == "__main__":
    unittest.main()
