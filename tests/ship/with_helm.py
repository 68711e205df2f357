"""Tests of the chart that need helm, and are skipped where it is not built."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests/clients/ship"), str(ROOT / "tests/clients/docs")]

import render_chart  # noqa: E402
from kubelet import PodTest  # noqa: E402


class HelmTest(PodTest):
    test_seconds_max = 600

    def setUp(self) -> None:
        super().setUp()
        try:
            render_chart.find_helm()
        except render_chart.NoHelm as missing:
            self.skipTest(str(missing))
