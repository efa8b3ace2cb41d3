#!/usr/bin/env python3
"""Figures of benches: points lie where their values say, names cannot break out, both pages have colours.  Prints TAP.
usage: test_figures.py BENCH.  SPDX-License-Identifier: Apache-2.0"""
import math
import pathlib
import sys
import tempfile
import xml.etree.ElementTree as ET

sys.path.insert(0, sys.argv[1])
import figures  # noqa: E402
from tap import finish, say  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
FOLDER = tempfile.TemporaryDirectory()
PATH = pathlib.Path(FOLDER.name) / "figure.svg"


def dots(root):
    """By series the places of its points, without that of the legend."""
    return [[(float(c.get("cx")), float(c.get("cy")), c.find(SVG + "title").text) for c in g.findall(SVG + "circle")
             if c.find(SVG + "title") is not None] for g in root.findall(SVG + "g")]


def drawn():
    text = PATH.read_text(encoding="utf-8")
    root = ET.fromstring(text)
    say("prefers-color-scheme:dark" in text and text.count("--page:") == 2, "light and dark", text[:400])
    width, height = map(float, root.get("viewBox").split()[2:])
    out = [p for some in dots(root) for p in some if not (0 < p[0] < width and 0 < p[1] < height)]
    say(not out, "all points are on it", out)
    marks = [t.text for t in root.findall(SVG + "text")]
    say(sum(m[:1].isdigit() for m in marks) >= 4, "axes have figures", marks)
    return root


def test_scatter():
    odd = '<script>&"'
    figures.scatter(PATH, odd, {odd: [(10, 10, odd), (100, 1000, "above")], "b": [(1000, 100, "below"), (3, 3, "equal")]})
    root = drawn()
    (equal, above), (below, same) = dots(root)
    say(root.find(SVG + "title").text == odd == equal[2], "names are text")
    left, bottom = figures.LEFT, float(root.get("viewBox").split()[3]) - figures.BOTTOM
    frame = (float(root.get("viewBox").split()[2]) - figures.LEGEND - figures.RIGHT - left, bottom - figures.TOP)
    share = [((x - left) / frame[0], (bottom - y) / frame[1]) for x, y, _ in (equal, above, below, same)]
    say(all(abs(x - y) < 1e-3 for x, y in (share[0], share[3])), "what is equal lies on the diagonal", share)
    say(share[1][1] > share[1][0] and share[2][1] < share[2][0], "above and below it", share)
    wide = math.log(1000 * 1.25 / (3 * 0.8))
    say(abs(share[1][0] - share[0][0] - math.log(10) / wide) < 1e-3, "a decade is as long as its logarithm", share)


def test_errors():
    figures.errors(PATH, "errors", {"a": [(1e-6, 4e-6, "on the line"), (0, 1e-6, "none of PyTorch's")]})
    root = drawn()
    ((x, y, _), _), = dots(root)
    rules = [[float(r.get(k)) for k in ("x1", "y1", "x2", "y2")] for r in root.findall(SVG + "line")
             if r.get("class") == "rule"]
    x1, y1, x2, y2 = rules[-1]
    say(len(rules) == 2 and abs(y1 + (y2 - y1) * (x - x1) / (x2 - x1) - y) < 0.2, "four times as large is on the line", rules)


def test_curves():
    figures.curves(PATH, "steps", {"a": [(64, 10, "64"), (8, 40, "8"), (256, 5, "256")], "b": [(8, 80, "one")]}, "devices", "ms")
    root = drawn()
    a, b = dots(root)
    say([p[2] for p in a] == ["8", "64", "256"] and a[0][0] < a[1][0] < a[2][0] and a[0][1] < a[1][1] < a[2][1],
        "a curve goes from the least number on, down where it is faster", a)
    say(len(root.findall(f"{SVG}g/{SVG}path")) == 1 and b[0][1] < a[0][1], "a single point has no line", b)
    figures.curves(PATH, "shares", {"c": [(0, 0, ""), (10, 0.5, ""), (20, 1, "")]}, "n", "share", log=(False, False))
    (c,) = dots(drawn())
    say(abs(2 * c[1][1] - c[0][1] - c[2][1]) < 0.3, "axes may be linear", c)


def test_recorded():
    """Those that the documents show."""
    for path in sorted((pathlib.Path(sys.argv[1]).parent / "docs").glob("*.svg")):
        text = path.read_text(encoding="utf-8")
        ET.fromstring(text)
        say("prefers-color-scheme" in text, f"{path.name}: light and dark")


test_scatter()
test_errors()
test_curves()
test_recorded()
finish()
