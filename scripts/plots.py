#!/usr/bin/env python3
"""Draws the figures of the documents as SVG, from the tables of docs/quality.md and from
docs/sparsity.json and docs/performance.json.

usage: scripts/plots.py   (standard library only)
"""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
INK, GRID, COLOURS = "#222", "#ddd", ["#1b6ca8", "#c4572b", "#3b8f5a", "#7a4fa3"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 380, 70, 20, 40, 56


class Plot:
    """Axes with round steps, lines with points, a legend; nothing more."""

    def __init__(self, title, x_label, y_label, x_range, y_range, x_step, y_step):
        self.x_range, self.y_range = x_range, y_range
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="{INK}">',
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{title}</text>']
        value = y_range[0]
        while value <= y_range[1] + 1e-9:
            y = self.y(value)
            self.parts += [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>',
                           f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>']
            value = round(value + y_step, 6)
        value = x_range[0]
        while value <= x_range[1] + 1e-9:
            x = self.x(value)
            self.parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>')
            value = round(value + x_step, 6)
        self.parts += [f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">{x_label}</text>',
                       f'<text transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{y_label}</text>']
        self.legends = 0

    def x(self, value):
        a, b = self.x_range
        return LEFT + (value - a) / (b - a) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        a, b = self.y_range
        return HEIGHT - BOTTOM - (value - a) / (b - a) * (HEIGHT - TOP - BOTTOM)

    def line(self, label, points, names=None, joined=True):
        colour = COLOURS[self.legends % len(COLOURS)]
        if joined:
            path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for i, (x, y) in enumerate(points):
            self.parts.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4" fill="{colour}"/>')
            if names:
                self.parts.append(f'<text x="{self.x(x) + 7:.1f}" y="{self.y(y) + (-6 if i % 2 else 14):.1f}" fill="{colour}">{names[i]}</text>')
        at = WIDTH - RIGHT - 190
        self.parts += [f'<circle cx="{at}" cy="{TOP + 6 + 18 * self.legends}" r="4" fill="{colour}"/>',
                       f'<text x="{at + 10}" y="{TOP + 10 + 18 * self.legends}">{label}</text>']
        self.legends += 1

    def write(self, name):
        (ROOT / "docs" / name).write_text("\n".join([*self.parts, "</svg>\n"]), encoding="utf-8")


def quality_tables():
    text = (ROOT / "docs/quality.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| [\d.–]+ \| ([\d.]+) \|", section, re.M)
        yield section.split("\n")[0], [(q, float(size), float(ppl)) for q, size, ppl in rows]


def bars(title, unit, rows, name):
    """Horizontal bars, one a row of (label, value, text, is a peer)."""
    step, left, most = 26, 150, max(value for _, value, _, _ in rows)
    height = TOP + step * len(rows) + 34
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{INK}">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>', f'<text x="16" y="22" font-size="15" font-weight="bold">{title}</text>']
    for i, (label, value, text, peer) in enumerate(rows):
        y, length = TOP + step * i, value / most * (WIDTH - left - 150)
        parts += [f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{label}</text>',
                  f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="17" fill="{COLOURS[1] if peer else COLOURS[0]}"/>',
                  f'<text x="{left + length + 6:.1f}" y="{y + 16}">{text}</text>']
    parts.append(f'<text x="{left}" y="{height - 12}">{unit}</text>')
    (ROOT / "docs" / name).write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


def performance():
    path = ROOT / "docs/performance.json"
    if not path.exists():
        return
    facts = json.loads(path.read_text())["measured"]

    def rows(test, figure, words):
        for model in ("qwen3-0.6b", "other types"):
            for row in facts[model]["rows"]:
                if row["test"] == test:
                    yield row["engine"].removeprefix("cortiq "), row[figure], words(row), row["engine"].startswith("llama")

    percent = lambda key: lambda row: f"{row['tok_s']:.0f} tokens/s, {100 * row[key]:.0f} %"
    bars("Decoding, one sequence, 0.6 B weights", "share of the machine's read bandwidth", list(rows("tg", "of_read", percent("of_read"))), "decode.svg")
    bars("A prompt of 512 tokens, 0.6 B weights", "tokens a second", list(rows("pp", "tok_s", percent("of_peak"))), "prefill.svg")


def main():
    performance()
    plot = Plot("Perplexity against size, relative to f32", "file size, % of the f32 file", "perplexity, % above f32", (0, 110), (-0.5, 2), 10, 0.5)
    for name, rows in quality_tables():
        if name == "stories260k" or not rows:
            continue
        base = rows[0]
        plot.line(name, [(100 * size / base[1], 100 * (ppl / base[2] - 1)) for _, size, ppl in rows], [q for q, _, _ in rows] if name == "nano" else None, joined=False)
    plot.write("quality.svg")
    facts = ROOT / "docs/sparsity.json"
    if facts.exists():
        rows = json.loads(facts.read_text())["rows"]
        base = rows[0]["masked"]
        plot = Plot("Decoding speed against sparsity of the FFN", "neurons switched off, %", "× the dense speed", (0, 100), (0.8, 2), 10, 0.2)
        for label, key in (("mask in the file", "masked"), ("cut by defrag", "cut")):
            plot.line(label, [(r["sparsity"], r[key]["decode_tokens_per_second"] / base["decode_tokens_per_second"]) for r in rows])
        plot.write("sparsity-speed.svg")
        plot = Plot("Memory against sparsity of the FFN", "neurons switched off, %", "MB", (0, 100), (0, 700), 10, 100)
        for label, key in (("resident, mask", "masked"), ("resident, cut", "cut")):
            plot.line(label, [(r["sparsity"], r[key]["rss_bytes"] / 1e6) for r in rows])
        plot.line("weights read a token, mask", [(r["sparsity"], r["masked"]["decode_bytes_per_token"] / 1e6) for r in rows])
        plot.write("sparsity-memory.svg")


main()
