"""Figures of the benches, as SVG: scatter plots of predicted against measured, and curves over a number.  They follow
the reader's light or dark page.  SPDX-License-Identifier: Apache-2.0"""
import math
from html import escape

# of a series: on a light page, on a dark one, and its dashes
COLOURS = (("#1b6ca8", "#6aa9e0"), ("#d1495b", "#f07f8e"), ("#2e933c", "#74c67f"), ("#8f5ca8", "#bd93d8"),
           ("#b8720d", "#e8a94d"), ("#3a3a3a", "#c8c8c8"), ("#0f8080", "#4cc4c4"), ("#a0522d", "#d79069"))
DASHES = ("", "7 3", "2 3", "9 3 2 3")
LEGEND = 150  # its width
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 52


def style():
    def colours(which):
        return "".join(f".s{i}{{--c:{c[which]}}}" for i, c in enumerate(COLOURS))
    light = "--page:#fff;--ink:#222;--quiet:#666;--line:#ddd"
    dark = "--page:#16181c;--ink:#e6e6e3;--quiet:#a0a5ad;--line:#363a42"
    return (f"<style>svg{{{light}}}{colours(0)}@media(prefers-color-scheme:dark){{svg{{{dark}}}{colours(1)}}}"
            ".page{fill:var(--page)}text{fill:var(--ink)}.quiet{fill:var(--quiet)}.grid{stroke:var(--line)}"
            ".rule{stroke:var(--quiet);stroke-dasharray:4 4;fill:none}.dot{fill:var(--c);fill-opacity:.75}"
            ".curve{stroke:var(--c);stroke-width:2;fill:none}</style>")


class Axis:
    """Places of values between `low` and `high` on `length` pixels; `log`: by their logarithms."""

    def __init__(self, low, high, length, log):
        self.low, self.high, self.length, self.log = low, high, length, log

    def at(self, value):
        low, high, v = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return self.length * ((v - low) / (high - low) if high > low else 0.5)

    def ticks(self):
        """Round values, no more than ten."""
        if not self.log:
            step = 10 ** math.floor(math.log10(max(self.high - self.low, 1e-12) / 5))
            step *= next(f for f in (1, 2, 5, 10) if (self.high - self.low) / (f * step) <= 8)
            first = math.ceil(self.low / step - 1e-9)
            return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        tried = [[d * 10.0 ** k for k in decades for d in digits] for digits in ((1, 2, 5), (1, 3), (1,))]
        tried = [[v for v in some if self.low * 0.999 <= v <= self.high * 1.001] for some in tried]
        return next((some for some in tried if len(some) <= 10), tried[-1][::2])


class Figure:
    """A frame with axes; `x` and `y` are (least, most, whether logarithmic, what it says)."""

    def __init__(self, title, x, y, width=560, height=460):
        self.x = Axis(*x[:2], width - LEFT - RIGHT, x[2])
        self.y = Axis(*y[:2], height - TOP - BOTTOM, y[2])
        self.width, self.height = width, height
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + LEGEND} {height}" '
                    f'width="{width + LEGEND}" height="{height}" font-family="sans-serif" font-size="12" role="img">',
                    f"<title>{escape(title)}</title>", style(),
                    f'<rect class="page" width="{width + LEGEND}" height="{height}"/>',
                    f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>']
        self.axes(x[3], y[3])
        self.named = 0

    def place(self, x, y):
        return LEFT + self.x.at(x), self.height - BOTTOM - self.y.at(y)

    def axes(self, x_says, y_says):
        bottom, right = self.height - BOTTOM, self.width - RIGHT
        for v in self.x.ticks():
            at = LEFT + self.x.at(v)
            self.out += [f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>',
                         f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{v:g}</text>']
        for v in self.y.ticks():
            at = bottom - self.y.at(v)
            self.out += [f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>',
                         f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{v:g}</text>']
        middle = (TOP + bottom) / 2
        quiet = '<text class="quiet" text-anchor="middle"'
        self.out += [f'{quiet} x="{(LEFT + right) / 2}" y="{bottom + 38}">{escape(x_says)}</text>',
                     f'{quiet} x="16" y="{middle}" transform="rotate(-90 16 {middle})">{escape(y_says)}</text>']

    def rule(self, a, b):
        (x1, y1), (x2, y2) = self.place(*a), self.place(*b)
        self.out.append(f'<line class="rule" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def series(self, name, points, line=False):
        """`points` are x, y and what is said of them."""
        i = self.named % len(COLOURS)
        self.out.append(f'<g class="s{i}">')
        at = [self.place(x, y) for x, y, _ in points]
        if line and len(at) > 1:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
            dash = DASHES[(self.named // 2) % len(DASHES)]
            self.out.append(f'<path class="curve" d="M{path}"' + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")
        self.out += [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{escape(said)}</title></circle>'
                     for (x, y), (_, _, said) in zip(at, points)]
        y = TOP + 8 + 18 * self.named
        self.out += [f'<circle class="dot" cx="{self.width + 4}" cy="{y}" r="4"/>',
                     f'<text x="{self.width + 14}" y="{y + 4}">{escape(name)}</text>', "</g>"]
        self.named += 1

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join([*self.out, "</svg>\n"]))


def scatter(path, title, series, unit="ms", off=0.1):
    """Predicted over measured, both above 0, by name of a series: (measured, predicted, what is said).  Beside the
    diagonal are lines where it is off by that share."""
    values = [v for points in series.values() for p in points for v in p[:2]]
    low, high = 0.8 * min(values), 1.25 * max(values)
    f = Figure(title, (low, high, True, f"measured, {unit}"), (low, high, True, f"predicted, {unit}"))
    for factor in (1 - off, 1, 1 + off):
        a, b = max(low, low / factor), min(high, high / factor)
        f.rule((a, a * factor), (b, b * factor))
    for name, points in sorted(series.items()):
        f.series(name, points)
    f.save(path)


LEAST_ERROR = 1e-9  # as which errors of 0 are drawn


def errors(path, title, series, unit="of their length", most=4):
    """Ours over PyTorch's own, by name of a series: (PyTorch's, ours, what is said).  Beside the diagonal is a line
    where ours are `most` times as large."""
    series = {name: [(max(x, LEAST_ERROR), max(y, LEAST_ERROR), said) for x, y, said in points]
              for name, points in series.items()}
    values = [v for points in series.values() for p in points for v in p[:2]]
    low, high = 0.5 * min(values), 2 * most * max(values)
    f = Figure(title, (low, high, True, f"PyTorch's float32, {unit}"), (low, high, True, f"ours, {unit}"))
    for factor in (1, most):
        f.rule((low, low * factor), (high / factor, high))
    for name, points in sorted(series.items()):
        f.series(name, points)
    f.save(path)


def curves(path, title, series, x_says, y_says, log=(True, True)):
    """Lines by name: (x, y, what is said); values above 0 where an axis is logarithmic."""
    xs, ys = ([p[k] for points in series.values() for p in points] for k in (0, 1))
    low, high = (0.8 * min(ys), 1.25 * max(ys)) if log[1] else (min(0, *ys), 1.05 * max(ys))
    f = Figure(title, (min(xs), max(xs), log[0], x_says), (low, high, log[1], y_says))
    for name, points in series.items():
        f.series(name, sorted(points), line=True)
    f.save(path)
