"""Predicted beside measured times: tables and a scatter plot.

SPDX-License-Identifier: Apache-2.0
"""
import math
import statistics
from typing import NamedTuple


class Point(NamedTuple):
    """A strategy; times in microseconds, those of tasks by class, waits for other devices left out."""
    network: str
    kind: str
    name: str
    predicted: float
    measured: float
    predicted_tasks: dict
    measured_tasks: dict

    @property
    def error(self):
        return (self.predicted - self.measured) / self.measured


def agreement(points, tie=0):
    """Pairs in the same order less pairs in another one, and how many pairs there are.  Pairs that were measured
    less than `tie` of the shorter time apart are none."""
    score = total = 0
    for i, a in enumerate(points):
        for b in points[:i]:
            if abs(a.measured - b.measured) < tie * min(a.measured, b.measured):
                continue
            total += 1
            score += (((a.predicted > b.predicted) - (a.predicted < b.predicted)) *
                      ((a.measured > b.measured) - (a.measured < b.measured)))
    return score, total


def kendall(groups, tie=0):
    """Kendall's tau-a, of pairs within each of the groups of points."""
    counts = [agreement(points, tie) for points in groups]
    total = sum(c[1] for c in counts)
    return sum(c[0] for c in counts) / total if total else float("nan")


def by_key(points, key):
    ret = {}
    for p in points:
        ret.setdefault(key(p), []).append(p)
    return ret


def row(title, points, tau):
    errors = [p.error for p in points]
    worst = max(errors, key=abs)
    print(f"{title:22} {len(points):4} {100 * statistics.mean(map(abs, errors)):8.1f} % "
          f"{100 * statistics.mean(errors):+8.1f} % {100 * worst:+8.1f} % {tau:8.3f}")


def summary(points):
    """By network, by kind and over all; tau counts pairs of one network."""
    networks = by_key(points, lambda p: p.network)
    head = f"{'':22} {'n':>4} {'mean |e|':>10} {'mean e':>10} {'furthest':>10} {'tau':>8}"
    print(f"\n{head}")
    for network, some in sorted(networks.items()):
        row(network, some, kendall([some]))
    for kind, some in sorted(by_key(points, lambda p: p.kind).items()):
        row(kind, some, kendall(by_key(some, lambda p: p.network).values()))
    row("all", points, kendall(networks.values()))
    print(f"tau of all pairs, those of different networks too: {kendall([points]):.3f}")


def repeated(runs):
    """How well the first of two runs foretells the second: what the machine's noise leaves of any
    prediction.  `runs`: of strategies, the network and steps in the order of measurement."""
    points = [Point(network, "", "", steps[0], steps[1], {}, {})
              for network, steps in runs if len(steps) > 1]
    if points:
        error = statistics.mean(abs(p.error) for p in points)
        tau = kendall(by_key(points, lambda p: p.network).values())
        print(f"the second run by the first, {len(points)} strategies: mean |e| {100 * error:.1f} %, "
              f"tau {tau:.3f} within networks, {kendall([points]):.3f} of all pairs")


def classes(points, n=6):
    """What the terms of steps owe to the difference, as shares of the step: the furthest first."""
    for network, some in sorted(by_key(points, lambda p: p.network).items()):
        off = {}
        for p in some:
            for c in p.measured_tasks:
                apart = (p.predicted_tasks.get(c, 0) - p.measured_tasks[c]) / (2 * p.measured)
                off.setdefault(c, []).append(apart)
        rank = sorted(off, key=lambda c: -sum(map(abs, off[c])))[:n]
        print(f"{network}: " + ", ".join(
            f"{c} {100 * sum(off[c]) / len(some):+.1f} %" for c in rank))


def show(points, verbose):
    print(f"{'network':10} {'kind':10} {'strategy':18} {'predicted ms':>12} {'measured ms':>12} "
          f"{'error':>9}")
    for p in points:
        print(f"{p.network:10} {p.kind:10} {p.name[:18]:18} {p.predicted / 1e3:12.3f} "
              f"{p.measured / 1e3:12.3f} {100 * p.error:+7.1f} %")
        for c in sorted(p.measured_tasks) if verbose else ():
            print(f"    {c:40} {p.predicted_tasks.get(c, 0) / 1e3:10.3f} "
                  f"{p.measured_tasks[c] / 1e3:10.3f}")
    print("\nterms furthest off, mean share of a step, of both devices")
    classes(points)
    summary(points)


# ---- plot ----

COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#8f5ca8", "#e08e1b", "#3a3a3a", "#18a3a3", "#a0522d")
SIZE, MARGIN = 560, 60


def plot(points, path):
    """A scatter plot with logarithmic axes and lines at 10 % beside the diagonal, as SVG."""
    least = 0.8 * min(min(p.predicted, p.measured) for p in points)
    most = 1.25 * max(max(p.predicted, p.measured) for p in points)
    scale = (SIZE - 2 * MARGIN) / math.log(most / least)

    def x(us):
        return MARGIN + math.log(max(us, least) / least) * scale

    def y(us):
        return SIZE - x(us)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE + 110}" height="{SIZE}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{SIZE + 110}" height="{SIZE}" fill="white"/>']
    for factor, dash in ((0.9, "4 4"), (1, ""), (1.1, "4 4")):
        low, high = max(least, least / factor), min(most, most / factor)
        out.append(f'<line x1="{x(low):.1f}" y1="{y(low * factor):.1f}" x2="{x(high):.1f}" '
                   f'y2="{y(high * factor):.1f}" stroke="#999" stroke-dasharray="{dash}"/>')
    out.append(f'<rect x="{MARGIN}" y="{MARGIN}" width="{SIZE - 2 * MARGIN}" '
               f'height="{SIZE - 2 * MARGIN}" fill="none" stroke="black"/>')
    for k in range(int(math.floor(math.log10(least))), int(math.log10(most)) + 1):
        for digit in (1, 2, 5):
            us = digit * 10.0 ** k
            if not least <= us <= most:
                continue
            out.append(f'<text x="{x(us):.1f}" y="{SIZE - MARGIN + 18}" text-anchor="middle">'
                       f'{us / 1e3:g}</text>')
            out.append(f'<text x="{MARGIN - 6}" y="{y(us) + 4:.1f}" text-anchor="end">'
                       f'{us / 1e3:g}</text>')
    out.append(f'<text x="{SIZE / 2}" y="{SIZE - 16}" text-anchor="middle">measured, ms</text>')
    out.append(f'<text x="16" y="{SIZE / 2}" text-anchor="middle" '
               f'transform="rotate(-90 16 {SIZE / 2})">predicted, ms</text>')
    for i, (network, some) in enumerate(sorted(by_key(points, lambda p: p.network).items())):
        colour = COLOURS[i % len(COLOURS)]
        out += [f'<circle cx="{x(p.measured):.1f}" cy="{y(p.predicted):.1f}" r="3.5" '
                f'fill="{colour}" fill-opacity="0.7"><title>{p.network} {p.name}: '
                f'{p.measured / 1e3:.2f} ms, {100 * p.error:+.1f} %</title></circle>'
                for p in some]
        out.append(f'<circle cx="{SIZE - 40}" cy="{MARGIN + 18 * i}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{SIZE - 30}" y="{MARGIN + 4 + 18 * i}">{network}</text>')
    out.append("</svg>\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out))
