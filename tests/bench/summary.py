#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/summary.py takes medians over the rounds, and ratios within one."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "summary.py")


def bench(figures):
    return {"figures": {name: {"median": value} for name, value in figures.items()}}


class Summary(unittest.TestCase):
    def summed(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                with open(os.path.join(folder, name), "w") as file:
                    file.write(content if isinstance(content, str) else json.dumps(content))
            subprocess.run([sys.executable, SCRIPT, folder], check=True)
            with open(os.path.join(folder, "summary.json")) as file:
                figures = json.load(file)["figures"]
            with open(os.path.join(folder, "summary.md")) as file:
                return figures, file.read()

    def test_loader_and_checkpoint(self):
        figures, text = self.summed({
            "loader-1.json": bench({"cifar_rows_per_second": 1000, "cifar_headroom": 5,
                                    "cifar_step_rows_per_second": 200}),
            "loader-2.json": bench({"cifar_rows_per_second": 3000, "cifar_headroom": 9,
                                    "cifar_step_rows_per_second": 300}),
            "loader-3.json": bench({"cifar_rows_per_second": 2000, "cifar_headroom": 8,
                                    "cifar_step_rows_per_second": 250}),
            "checkpoint-1.json": bench({"save_rate": 900, "disk_share": 72.4, "pause": 150,
                                        "pause_over_copy": 0.4}),
        })
        self.assertEqual(figures["loader: cifar"]["median"], 2000)
        self.assertEqual(figures["loader / step: cifar"],
                         {"median": 8, "lowest": 5, "highest": 9, "rounds": 3, "unit": "x"})
        self.assertEqual(figures["checkpoint: rate / disk's own"]["median"], 72.4)
        self.assertEqual(figures["checkpoint: pause / copy in memory"]["unit"], "x")
        self.assertNotIn("loader: cifar_step", figures)
        self.assertIn("| loader / step: cifar | 8.0 x | 5.0 to 9.0 |", text)
        self.assertIn("| checkpoint: pause of training | 150 ms |", text)

    def test_ratio_to_the_peer_is_of_one_round(self):
        step = lambda us: bench({"step": us, "step_over_products": 1.2, "model_share": 80})
        figures, _ = self.summed({
            "step-mlp-1-1.json": step(100), "torch-mlp-1-1.txt": "300.0 rows 1.13",
            "step-mlp-1-2.json": step(200), "torch-mlp-1-2.txt": "200.0 rows 1.13"})
        self.assertEqual(figures["PyTorch / Belfry: mlp, 1 tower"]["median"], 2.0)
        self.assertEqual(figures["step: mlp, 1 tower"]["median"], 150)


if __name__ == "__main__":
    unittest.main()
