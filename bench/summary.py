#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""summary.py FOLDER: medians and spreads over the rounds that run.sh left there, as summary.json and
summary.md. Ratios are of figures of the same round."""
import glob
import json
import os
import statistics
import sys

folder = sys.argv[1]


def rounds(kind):
    """{round: figures} of KIND-ROUND.json; a figure is its median there."""
    found = {}
    for path in glob.glob(os.path.join(folder, f"{kind}-*.json")):
        tail = os.path.basename(path)[len(kind) + 1:-5]
        if tail.isdigit():
            with open(path) as file:
                found[int(tail)] = {k: v["median"] for k, v in json.load(file)["figures"].items()}
    return found


def peer(name, r):
    try:
        with open(os.path.join(folder, f"torch-{name}-{r}.txt")) as file:
            return file.read().split()
    except FileNotFoundError:
        return None


rows, table = {}, []


def row(name, unit, values, digits=0):
    if not values:
        return
    median = statistics.median(values)
    rows[name] = {"median": median, "lowest": min(values), "highest": max(values),
                  "rounds": len(values), "unit": unit}
    show = lambda v: f"{v:.{digits}f}"
    table.append(f"| {name} | {show(median)} {unit} | {show(min(values))} to {show(max(values))} |")


for model in ("mlp", "lenet", "resnet20", "gpt"):
    for towers in (1, 2):
        work = f"{model}-{towers}"
        found = rounds(f"step-{work}")
        label = f"{model}, {towers} tower{'s' if towers > 1 else ''}"
        row(f"step: {label}", "us", [f["step"] for f in found.values()])
        row(f"step / products: {label}", "x", [f["step_over_products"] for f in found.values()], 2)
        row(f"model FLOPs / best GEMM: {label}", "%", [f["model_share"] for f in found.values()])
        peers = {r: p for r in found if (p := peer(work, r))}
        if peers:
            version = next(iter(peers.values()))[2]
            row(f"PyTorch {version}: {label}", "us", [float(p[0]) for p in peers.values()])
            row(f"PyTorch / Belfry: {label}", "x",
                [float(p[0]) / found[r]["step"] for r, p in peers.items()], 2)
scaling = {}
for path in sorted(glob.glob(os.path.join(folder, "scaling-*.json"))):
    with open(path) as file:
        scaling[os.path.basename(path)[8:-5]] = json.load(file)
for model, result in scaling.items():
    for point in result["points"]:
        if (towers := point["towers"]) > 1:
            row(f"weak scaling, {model}: {towers} towers / {towers} independent runs", "%",
                [100 * share for share in point["of_ceiling_share_rounds"]], 1)
for towers in (1, 2):
    found = rounds(f"averaging-{towers}")
    for figure in next(iter(found.values()), {}):
        if figure.endswith("share"):
            row(f"averaging, {towers} towers: {figure}", "%", [f[figure] for f in found.values()])
    peers = {r: p for r in found if (p := peer(f"averaging-{towers}", r))}
    for kind in ("guarded", "fused"):
        row(f"Gloo's all-reduce and PyTorch's update / Belfry's: {kind}", "x",
            [float(p[0]) / found[r][f"{kind}_time"] for r, p in peers.items()], 1)
found = rounds("ops")
for figure in next(iter(found.values()), {}):
    if figure.endswith("/ copy"):
        row(figure, "x", [f[figure] for f in found.values()], 1)
found = rounds("loops")
for figure, unit, name in (
        ("captured", "ns", "loops: one element of a carried loop that is run again"),
        ("scattered_over_batched", "x", "loops: scattered elements, an op each / in one op"),
        ("speed_up", "x", "loops: independent iterations, one / two at a time")):
    row(name, unit, [f[figure] for f in found.values()], 2 if unit == "x" else 0)
found = rounds("loader")
for figure in next(iter(found.values()), {}):
    if figure.endswith("rows_per_second") and "step" not in figure:
        row("loader: " + figure[:-len("_rows_per_second")], "rows/s",
            [f[figure] for f in found.values()])
    elif figure.endswith("_headroom"):
        row("loader / step: " + figure[:-len("_headroom")], "x",
            [f[figure] for f in found.values()], 1)
found = rounds("checkpoint")
for figure, unit, name in (
        ("save_rate", "MB/s", "checkpoint: rate"),
        ("disk_share", "%", "checkpoint: rate / disk's own"),
        ("pause", "ms", "checkpoint: pause of training"),
        ("pause_over_copy", "x", "checkpoint: pause / copy in memory")):
    row(name, unit, [f[figure] for f in found.values()], 2 if unit == "x" else 0)

machine = ""
path = os.path.join(folder, "machine.txt")
if os.path.exists(path):
    with open(path) as file:
        machine = file.read().strip().replace("\n", "; ")
with open(os.path.join(folder, "summary.json"), "w") as file:
    json.dump({"machine": machine, "figures": rows, "scaling": scaling}, file, indent=2)
with open(os.path.join(folder, "summary.md"), "w") as file:
    file.write(f"{machine}\n\n| figure | median | rounds |\n|---|---|---|\n" + "\n".join(table) + "\n")
