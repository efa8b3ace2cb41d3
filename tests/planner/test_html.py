#!/usr/bin/env python3
# The page of ffsearch --html, opened in a headless Chromium where there is one.  Prints TAP.
# SPDX-License-Identifier: Apache-2.0
"""usage: test_html.py FFSEARCH FFZOO"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap

FFSEARCH, FFZOO = map(os.path.abspath, sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)
MACHINE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                       "graphs", "machines", "dgx-a100-40.json")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PARTS = ["summary", "times", "strategy", "timeline", "memory", "links"]
ASKED = ["why", "vary"]  # of a page about a plan that questions were asked about
# What the page itself tells of its parts once it is there: heights, and colours that the canvas has.
PROBE = """<script>
window.onload = () => {
  const canvas = document.querySelector("canvas"), seen = new Set();
  const pixels = canvas ? canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data : [];
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] === 255) seen.add(pixels.slice(i, i + 3).join());
  const tell = {colours: seen.size, wide: document.documentElement.scrollWidth <= window.innerWidth,
    lines: document.querySelectorAll("#scaling path").length};
  document.querySelectorAll("section").forEach(s => { tell[s.id] = [s.offsetHeight, s.querySelectorAll("*").length]; });
  document.title = "PROBE" + JSON.stringify(tell);
};
</script></body>"""


def run(*args):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)


def make(plan, page, *more):
    run(FFSEARCH, "g.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--simulate", plan, "--html", page,
        "--report", "report.json", *more)


def read_data(page):
    with open(page, encoding="utf-8") as f:
        text = f.read()
    return text, json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S).group(1))


def browse(page, width, *options):
    p = subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" +
                        os.path.join(FOLDER.name, "chromium"), "--window-size=%d,1600" % width,
                        "--enable-logging=stderr", "--virtual-time-budget=2000", *options,
                        "file://" + os.path.abspath(page)], capture_output=True, text=True, timeout=600, check=False)
    errors = [l for l in p.stderr.splitlines() if "CONSOLE" in l]
    assert not errors, errors
    return p.stdout


def pixels(path):
    """Rows of bytes of an 8-bit PNG (https://www.w3.org/TR/png-3/, 9.2: filters)."""
    with open(path, "rb") as f:
        data = f.read()
    at, packed = 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
            assert depth == 8 and colour in (2, 6)
            size = 3 if colour == 2 else 4
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + n]
        at += n + 12
    raw, before, stride = zlib.decompress(packed), bytes(width * size), width * size
    for y in range(height):
        how, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride) if how else ():
            a, b, c = (row[i - size], before[i], before[i - size]) if i >= size else (0, before[i], 0)
            last = abs(a + b - 2 * c)
            near = a if abs(b - c) <= min(abs(a - c), last) else b if abs(a - c) <= last else c
            row[i] = row[i] + (0, a, b, (a + b) // 2, near)[how] & 255
        before = bytes(row)
        yield [bytes(row[i:i + 3]) for i in range(0, stride, size)]


def lanes(plan, group=0):
    """By name: spans of start, length, name, colour, micro-batch."""
    told = plan["timelines"][0]["groups"][group]["lanes"]
    return {l["name"]: [l["spans"][i:i + 5] for i in range(0, len(l["spans"]), 5)] for l in told}


def test_data():
    """Every figure of the page is the report's, devices are told once, nothing is fetched."""
    make("data-parallel", "dp.html")
    text, data = read_data("dp.html")
    with open("report.json", encoding="utf-8") as f:
        report = json.load(f)
    assert data["report"] == report
    plan = data["plan"]
    end = max(start + us for lane in lanes(plan).values() for start, us, *_ in lane) / plan["per_us"]
    assert abs(end - report["predicted_us"]) < 0.02, (end, report["predicted_us"])
    assert [g["devices"] for g in plan["timelines"][0]["groups"]] == ["0-15"], plan["timelines"][0]["groups"]
    held = plan["memory"][0]
    most = max(map(sum, zip(*held["over_time"].values()))) + sum(held["always"].values())
    assert 0.5 * held["allocated"] < most <= held["allocated"] == report["memory_bytes"][0], (most, held["allocated"])
    assert sum(l["n"] for l in plan["layers"]) == report["shape"]["operators"], plan["layers"]
    assert not re.search(r'(src|href)="(?!data:)|@import|fetch\(|https?://(?!www.w3.org/2000/svg)', text)


def spelled_out(text):
    """Devices of "0-3,8" or "0-6 step 2"."""
    for part in text.split(","):
        first, last, step = re.fullmatch(r"(\d+)(?:-(\d+))?(?: step (\d+))?", part).groups()
        yield from range(int(first), int(last or first) + 1, int(step or 1))


SENT = " point-to-point"


def test_stages():
    make("megatron:2,4,2,4,zero-1", "stages.html", "--explain", "--vary", "devices=8,4", "batch=64")
    plan = read_data("stages.html")[1]["plan"]
    assert {l["stage"] for l in plan["layers"]} == {0, 1}
    groups = [g["devices"] for g in plan["timelines"][0]["groups"]]
    devices = sorted(d for g in groups for d in spelled_out(g))
    assert devices == list(range(16)) and 4 <= len(groups) <= 8, groups  # tensor 2, stages 2; who sends may differ
    assert any(s[4] for lane in lanes(plan).values() for s in lane), "no micro-batch has a number"
    check_lanes(plan, messages=True)
    with open(MACHINE, encoding="utf-8") as f:
        machine = json.load(f)
    machine["message_lane"] = False
    with open("one_lane.json", "w", encoding="utf-8") as f:
        json.dump(machine, f)
    run(FFSEARCH, "g.json", "--machine", "one_lane.json:2", "--costs", "analytic", "--simulate", "megatron:2,4,2,4,zero-1",
        "-o", "one_lane.plan.json", "--html", "one_lane.html")
    check_lanes(read_data("one_lane.html")[1]["plan"], messages=False)


def check_lanes(plan, messages):
    """Messages between stages, and what gathers their slices, have a row of their own where the machine has a lane for
    them, else they are communication; sums of gradients are that in any case."""
    groups = [{lane: {plan["names"][s[2]] for s in spans} for lane, spans in lanes(plan, group).items()}
              for group in range(len(plan["timelines"][0]["groups"]))]
    sent = [{name for name in g["communication"] | g["messages"] if name.endswith(SENT)} for g in groups]
    slices = {name.removesuffix(SENT) + " all-gather" for each in sent for name in each}
    for names, own in zip(groups, sent):
        assert own and any(name.startswith("sync bucket") for name in names["communication"]), names
        assert own <= names["messages"] <= own | slices if messages else not names["messages"], names


def test_hostile():
    """A name that would end the page's script, or begin a comment in it."""
    os.mkdir("<")
    plan = "</script><!--.json"
    on = ("g.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--simulate")
    run(FFSEARCH, *on, "data-parallel", "-o", plan)
    run(FFSEARCH, *on, plan, "--html", "odd.html")
    text, data = read_data("odd.html")
    assert data["report"]["strategy"] == plan and text.count("</script>") == 2 and text.count("<!--") == 1


def test_oracle():
    """Pure strategies have a page about no plan."""
    run(FFSEARCH, "g.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--oracle", "--html", "oracle.html",
        "--report", "oracle.json")
    with open("oracle.json", encoding="utf-8") as f:
        report = json.load(f)
    data = read_data("oracle.html")[1]
    assert data["report"] == report and "timelines" not in data["plan"]


def test_large():
    """gpt2_xl on 64 devices is below 5 MB."""
    run(FFZOO, "gpt2_xl", "--batch", "64", "-o", "xl.json")
    for plan in ("data-parallel", "megatron:1,8,8,8,zero-1"):
        run(FFSEARCH, "xl.json", "--machine", "dgx-a100-40:8", "--costs", "analytic", "--simulate", plan, "--html",
            "xl.html")
        assert os.path.getsize("xl.html") < 5e6, os.path.getsize("xl.html")


def test_browser():
    """No word on the console; each part is there and has a height, the timeline colours; no screenshot is blank.
    Wide and light, then as on a phone and dark."""
    dark = ["--force-dark-mode", "--enable-features=WebContentsForceDark:inversion_method/none"]
    for page, width, options, bright, parts in (("stages.html", 800, [], True, PARTS + ASKED),
                                                ("dp.html", 400, dark, False, PARTS),
                                                ("oracle.html", 400, dark, False, ["scaling"])):
        with open(page, encoding="utf-8") as f, open("probe.html", "w", encoding="utf-8") as to:
            to.write(f.read().replace("</body>", PROBE))
        dom = browse("probe.html", width, "--dump-dom", "--screenshot=shot.png", *options)
        told = re.search(r"<title>PROBE(.*?)</title>", dom)
        assert told, dom[:400]
        told = json.loads(told.group(1))
        assert {k for k in told if k in PARTS + ASKED + ["measured", "scaling"]} == set(parts), told
        assert all(told[p][0] > 60 and told[p][1] > 4 for p in parts), told
        assert told["colours"] >= 5 or page == "oracle.html", told
        assert told["lines"] == (3 * 8 if page == "oracle.html" else 0), "a line a strategy and figure"
        assert told["wide"], "the page is wider than the window of %d" % width
        rows = list(pixels("shot.png"))
        bands = [rows[i:i + 100] for i in range(0, 1200, 100)]
        assert all(len({p for row in band for p in row}) > 4 for band in bands), "a band is blank"
        share = sum(sum(p) > 600 for row in rows for p in row) / len(rows) / len(rows[0])
        assert share > 0.6 if bright else share < 0.3, share


run(FFZOO, "gpt2", "--batch", "32", "--set", "layers=4", "-o", "g.json")
for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
    said = name[5:].replace("_", " ")
    if test is test_browser and not CHROMIUM:
        tap.say(True, said + " # SKIP no chromium here (Debian: chromium)")
        continue
    try:
        test()
        tap.say(True, said)
    except (AssertionError, KeyError, AttributeError, ValueError) as e:
        tap.say(False, said, repr(e))
tap.finish()
