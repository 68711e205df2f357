"""docs/peers.svg is what draw_peers.py draws of docs/peers.csv, and the drawing shows its figures."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

import draw_peers

SVG = "{http://www.w3.org/2000/svg}"
LINES = ("# a remark, with a comma",
         "server,protocol,depth,us_per_reply,replies_per_s,p99_us,ratio,bytes_per_key",
         "sluice,A,1,2.00,1,1,1,50", "other,A,1,4.00,1,1,2,100", "sluice,A,16,0.50,1,1,1,50", "other,A,16,1.00,1,1,2,100",
         "sluice,B,1,9.00,1,1,1,", "floor,A,1,0.10,1,1,,")


class DrawPeersTest(unittest.TestCase):
    def test_the_picture_is_the_drawing_of_the_data(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "peers.svg"
            subprocess.run([sys.executable, draw_peers.__file__, str(picture)], check=True, timeout=60)
            self.assertEqual(picture.read_text(encoding="utf-8"),
                             (draw_peers.ROOT / "docs/peers.svg").read_text(encoding="utf-8"))

    def test_a_group_has_ours_and_its_peers_at_each_depth(self) -> None:
        [group] = draw_peers.groups_of(list(LINES))  # B has no peer, and a floor is none
        self.assertEqual([(peer.name, peer.us, peer.bytes_per_key) for peer in group],
                         [("sluice", {"1": 2.0, "16": 0.5}, 50.0), ("other", {"1": 4.0, "16": 1.0}, 100.0)])

    def test_bars_are_as_long_as_their_figures(self) -> None:
        bars = [float(bar.get("width")) for bar in xml.fromstring(draw_peers.draw(list(LINES))).iter(f"{SVG}rect")
                if bar.get("class") in ("ours", "ours many", "peer", "peer many")][2:]  # without the legend's
        time, memory = draw_peers.TIME_WIDTH, draw_peers.MEMORY_WIDTH
        expected = [time / 2, time / 8, memory / 2, time, time / 4, memory]
        self.assertEqual(len(bars), len(expected))
        for width, wanted in zip(bars, expected):
            self.assertAlmostEqual(width, wanted, delta=0.1)

    def test_every_figure_of_a_peer_is_shown(self) -> None:
        picture = (draw_peers.ROOT / "docs/peers.svg").read_text(encoding="utf-8")
        shown = [label.text for label in xml.fromstring(picture).iter(f"{SVG}text")]
        peers = [peer for group in draw_peers.groups_of(draw_peers.DATA.read_text(encoding="utf-8").splitlines()) for peer in group]
        self.assertGreater(len(peers), 9)
        for peer in peers:
            for us in peer.us.values():
                self.assertIn(f"{us:.2f}", shown)
            self.assertIn("not measured" if peer.bytes_per_key is None else f"{peer.bytes_per_key:,.0f}", shown)
        self.assertIsNone(re.search(r"<script|href=|@import|url\(", picture))  # GitHub shows it as an image: nothing is fetched


if __name__ == "__main__":
    unittest.main()
