#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The plots of bench/plots.py are XML with as many marks as there are figures, at their places."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "plots.py")
SVG = "{http://www.w3.org/2000/svg}"


def figure(median, lowest, highest):
    return {"median": median, "lowest": lowest, "highest": highest, "rounds": 3, "unit": "us"}


def point(towers, rate, independent):
    return {"towers": towers, "samples_per_second": rate,
            "independent_samples_per_second": independent}


SUMMARY = {
    "machine": "a machine",
    "figures": {
        "step: mlp, 1 tower": figure(100, 90, 1000),
        "step / products: mlp, 1 tower": figure(1.4, 1.3, 1.5),
        "PyTorch 1.13 <&>: mlp, 1 tower": figure(1000, 500, 2000),
        "PyTorch / Belfry: mlp, 1 tower": figure(10, 9, 11),
        "step: gpt, 2 towers": figure(10000, 9000, 11000),
    },
    "scaling": {"mlp": {"points": [point(1, 100, 110), point(2, 190, 215)]},
                "lenet": {"points": [point(1, 10, 11), point(2, 20, 21)]}},
}


class Plots(unittest.TestCase):
    def draw(self, summary):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "summary.json"), "w", encoding="utf-8") as file:
            json.dump(summary, file)
        done = subprocess.run([sys.executable, SCRIPT, folder.name], check=True,
                              capture_output=True, text=True)
        trees = {}
        for name in os.listdir(folder.name):
            if name.endswith(".svg"):
                trees[name] = ET.parse(os.path.join(folder.name, name)).getroot()
        return done.stdout, trees

    def marks(self, tree, tag, kind):
        return [e for e in tree.iter(SVG + tag) if e.get("class") == kind]

    def texts(self, tree):
        return [e.text for e in tree.iter(SVG + "text")]

    def test_steps(self):
        said, trees = self.draw(SUMMARY)
        self.assertEqual(said, "drawn: step.svg, scaling.svg\n")
        tree = trees["step.svg"]
        bars = self.marks(tree, "rect", "bar")
        self.assertEqual(len(bars), 3)  # two works, one of them with PyTorch
        self.assertEqual(len(self.marks(tree, "line", "range")), 3)
        # The axis is logarithmic from 10 to 100,000: bars of 100, 1,000 and 10,000 us are 1 : 2 : 3.
        heights = [float(b.get("height")) for b in bars]
        self.assertAlmostEqual(heights[1] / heights[0], 2, delta=0.01)
        self.assertAlmostEqual(heights[2] / heights[0], 3, delta=0.01)
        span = self.marks(tree, "line", "range")[0]
        self.assertLess(float(span.get("y1")), float(span.get("y2")))
        for words in ("microseconds a step (logarithmic)", "model, towers", "mlp", "2 towers",
                      "PyTorch 1.13 <&>", "Belfry"):
            self.assertIn(words, self.texts(tree))

    def test_scaling(self):
        tree = self.draw(SUMMARY)[1]["scaling.svg"]
        self.assertEqual(len(self.marks(tree, "polyline", "series")), 4)
        circles = self.marks(tree, "circle", "mark")
        self.assertEqual(len(circles), 8)
        for circle in circles:  # all inside the frame
            self.assertTrue(80 <= float(circle.get("cx")) <= 700, circle.attrib)
            self.assertTrue(48 <= float(circle.get("cy")) <= 336, circle.attrib)
        for words in ("towers", "rows a second (logarithmic)", "1", "2", "independent runs", "lenet"):
            self.assertIn(words, self.texts(tree))

    def test_without_peer_or_scaling(self):
        figures = {"step: mlp, 1 tower": figure(100, 100, 100)}
        said, trees = self.draw({"machine": "", "figures": figures, "scaling": {}})
        self.assertEqual(said, "drawn: step.svg\n")
        self.assertEqual(len(self.marks(trees["step.svg"], "rect", "bar")), 1)
        said, trees = self.draw({"machine": "", "figures": {}, "scaling": {}})
        self.assertEqual((said, trees), ("drawn: nothing\n", {}))


if __name__ == "__main__":
    unittest.main()
