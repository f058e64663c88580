#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""plots.py FOLDER: draws summary.json of run.sh as step.svg (time of a step beside PyTorch's) and
scaling.svg (rows/s over towers), with nothing but Python's own library."""
import json
import math
import os
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 48, 64
OURS, THEIRS, CEILING = "#1f6fb2", "#c8631a", "#888888"


class Figure:
    """An SVG with a title, a frame and labelled axes; y is linear or logarithmic."""

    def __init__(self, title, x_label, y_label, lowest, highest, log=False):
        self.parts, self.log = [], log
        if log:
            lowest, highest = 10 ** math.floor(math.log10(lowest)), 10 ** math.ceil(math.log10(highest))
        self.lowest, self.highest = lowest, highest if highest > lowest else lowest * 10
        self.text(WIDTH / 2, 22, title, size=15)
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label)
        self.text(16, (TOP + HEIGHT - BOTTOM) / 2, y_label, turn=True)
        for value in self.ticks():
            y = self.y(value)
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" '
                              f'y2="{y:.1f}" stroke="#dddddd"/>')
            self.text(LEFT - 8, y + 4, f"{value:,.10g}", anchor="end")
        self.parts.append(f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
                          f'height="{HEIGHT - TOP - BOTTOM}" fill="none" stroke="black"/>')

    def ticks(self):
        if self.log:
            first, last = round(math.log10(self.lowest)), round(math.log10(self.highest))
            return [10 ** k for k in range(first, last + 1)]
        step = 10 ** math.floor(math.log10(self.highest - self.lowest))
        while (self.highest - self.lowest) / step < 4:
            step /= 2
        return [k * step for k in range(math.ceil(self.lowest / step),
                                        math.floor(self.highest / step) + 1)]

    def y(self, value):
        share = ((math.log(value / self.lowest) / math.log(self.highest / self.lowest))
                 if self.log else (value - self.lowest) / (self.highest - self.lowest))
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def x(self, share):
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def text(self, x, y, words, anchor="middle", size=12, turn=False):
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}"{turned}>{escape(words)}</text>')

    def bar(self, x, width, figure, colour, name):
        """A bar up to the median, and a line over the range of the rounds."""
        top, base = self.y(figure["median"]), self.y(self.lowest)
        words = f'{name}: {figure["median"]:,.0f} ({figure["lowest"]:,.0f} to {figure["highest"]:,.0f})'
        self.parts.append(f'<rect class="bar" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" '
                          f'height="{base - top:.1f}" fill="{colour}"><title>{escape(words)}</title></rect>')
        middle = x + width / 2
        self.parts.append(f'<line class="range" x1="{middle:.1f}" x2="{middle:.1f}" '
                          f'y1="{self.y(figure["highest"]):.1f}" y2="{self.y(figure["lowest"]):.1f}" '
                          'stroke="black"/>')

    def line(self, points, colour, dashed=False):
        where = " ".join(f"{x:.1f},{self.y(value):.1f}" for x, value in points)
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(f'<polyline class="series" points="{where}" fill="none" stroke="{colour}" '
                          f'stroke-width="2"{dash}/>')
        for x, value in points:
            self.parts.append(f'<circle class="mark" cx="{x:.1f}" cy="{self.y(value):.1f}" r="4" '
                              f'fill="{colour}"><title>{value:,.0f}</title></circle>')

    def legend(self, entries):
        x = LEFT + 10
        for colour, words in entries:
            self.parts.append(f'<rect class="key" x="{x}" y="{TOP - 16}" width="10" height="10" '
                              f'fill="{colour}"/>')
            self.text(x + 14, TOP - 7, words, anchor="start")
            x += 34 + 7 * len(words)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                       f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
                       f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
                       + "\n".join(self.parts) + "\n</svg>\n")


def draw_steps(figures, path):
    """Pairs of bars: 'step: mlp, 1 tower' and 'PyTorch VERSION: mlp, 1 tower', where it was there."""
    works = [name[6:] for name in figures if name.startswith("step: ")]
    if not works:
        return False
    peers = {name.split(": ", 1)[1]: name for name in figures
             if name.startswith("PyTorch ") and not name.startswith("PyTorch /")}
    shown = [figures["step: " + w] for w in works] + [figures[peers[w]] for w in works if w in peers]
    figure = Figure("Time of a training step, median and range over rounds", "model, towers",
                    "microseconds a step (logarithmic)", min(f["lowest"] for f in shown),
                    max(f["highest"] for f in shown), log=True)
    slot = 1 / len(works)
    for i, work in enumerate(works):
        left, width = figure.x((i + 0.15) * slot), (WIDTH - LEFT - RIGHT) * slot * 0.33
        figure.bar(left, width, figures["step: " + work], OURS, "Belfry, " + work)
        if work in peers:
            figure.bar(left + width, width, figures[peers[work]], THEIRS, peers[work])
        name, _, towers = work.partition(", ")
        figure.text(figure.x((i + 0.5) * slot), HEIGHT - BOTTOM + 16, name, size=11)
        figure.text(figure.x((i + 0.5) * slot), HEIGHT - BOTTOM + 30, towers, size=11)
    versions = sorted({name.split(":")[0] for name in peers.values()})
    figure.legend([(OURS, "Belfry")] + [(THEIRS, v) for v in versions])
    figure.write(path)
    return True


def rates(result):
    """[(towers, rows/s, rows/s of independent runs)] of a scaling-*.json."""
    return [(p["towers"], p["samples_per_second"], p.get("independent_samples_per_second"))
            for p in result["points"]]


def draw_scaling(scaling, path):
    """A line a model over towers, and, dashed, that of as many independent runs."""
    series = {model: rates(result) for model, result in sorted(scaling.items())}
    series = {model: points for model, points in series.items() if points}
    if not series:
        return False
    everything = [p for points in series.values() for p in points]
    most = max(towers for towers, _, _ in everything)
    figure = Figure("Weak scaling: equal rows a tower", "towers", "rows a second (logarithmic)",
                    min(rate for _, rate, _ in everything),
                    max(max(rate, ceiling or 0) for _, rate, ceiling in everything), log=True)
    place = lambda towers: figure.x(0.1 + 0.8 * (towers - 1) / max(1, most - 1))
    colours = [OURS, THEIRS, "#3a8a3a", "#8a3a8a"]
    legend = []
    for i, (model, points) in enumerate(series.items()):
        colour = colours[i % len(colours)]
        figure.line([(place(t), rate) for t, rate, _ in points], colour)
        ceiling = [(place(t), c) for t, _, c in points if c]
        if ceiling:
            figure.line(ceiling, CEILING, dashed=True)
        legend.append((colour, model))
    for towers in sorted({t for t, _, _ in everything}):
        figure.text(place(towers), HEIGHT - BOTTOM + 16, str(towers))
    if any(c for _, _, c in everything):
        legend.append((CEILING, "independent runs"))
    figure.legend(legend)
    figure.write(path)
    return True


def main(folder):
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    drawn = [name for name, done in
             (("step.svg", draw_steps(summary["figures"], os.path.join(folder, "step.svg"))),
              ("scaling.svg", draw_scaling(summary["scaling"], os.path.join(folder, "scaling.svg"))))
             if done]
    print("drawn: " + (", ".join(drawn) or "nothing"))


if __name__ == "__main__":
    main(sys.argv[1])
