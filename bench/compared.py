"""Predicted beside measured times: tables and a scatter plot.

SPDX-License-Identifier: Apache-2.0
"""
import math
import statistics
from typing import NamedTuple

import figures


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

def plot(points, path, title="steps, predicted and measured"):
    """A scatter plot, a series a network, with lines at 10 % beside the diagonal."""
    figures.scatter(path, title, {network: [
        (p.measured / 1e3, p.predicted / 1e3, f"{p.network} {p.name}: {p.measured / 1e3:.2f} ms, {100 * p.error:+.1f} %")
        for p in some] for network, some in by_key(points, lambda p: p.network).items()})
