"""The pod of deploy/kubernetes/disk.yaml killed under load, a few times for each durability. `make test-all` does it 50 times
(tests/ship/restart_cost.py)."""

from __future__ import annotations

import random
import sys
import unittest

from kubelet import ROOT, PodTest

sys.path.append(str(ROOT / "tests/ship"))

import restart_cost  # noqa: E402

ROUNDS = 3


class Killed(PodTest):
    test_seconds_max = 180

    def test_what_was_answered_is_there_again_as_the_durability_promises(self) -> None:
        for durability in ("interval", "always"):
            with self.subTest(durability):
                costs = restart_cost.measure(durability, ROUNDS, random.Random(1))
                self.assertEqual((len(costs), restart_cost.wrong(durability, costs)), (ROUNDS, ""))
                self.assertTrue(all(cost.granted for cost in costs), costs)

    def test_a_loss_would_be_found(self) -> None:
        for durability in ("interval", "always"):
            lost = restart_cost.Cost(silent=0.1, forgotten=100, granted=100, rate=1000)
            self.assertTrue(restart_cost.wrong(durability, [lost]).startswith(durability))


if __name__ == "__main__":
    unittest.main()
