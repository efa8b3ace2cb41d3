#!/usr/bin/env python3
"""What ffsearch tells of a plan: the summary is a screen and says what the report says, and parts add up.
Prints TAP.  usage: test_explain.py FFSEARCH FFZOO.  SPDX-License-Identifier: Apache-2.0"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from tap import finish, say  # noqa: E402

FFSEARCH, FFZOO = map(os.path.abspath, sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)
ON_64 = ["--machine", "a100x256", "--devices", "64", "--costs", "peak"]


def run(*args, status=0):
    p = subprocess.run(args, capture_output=True, text=True, timeout=120)
    assert p.returncode == status, f"status {p.returncode}, not {status}: {p.stderr}"
    return p


def search(graph, *args, status=0):
    """The summary and the report."""
    p = run(FFSEARCH, graph, *args, "--report", "r.json", status=status)
    return p.stdout, json.loads(pathlib.Path("r.json").read_text())


def time_text(us):
    return f"{us / 1e6:.3f} s" if us >= 1e6 else f"{us / 1e3:.3f} ms" if us >= 1e3 else f"{us:.1f} us"


def bytes_text(n):
    if n < 1024:
        return f"{n} B"
    unit = 0
    n /= 1024
    while n >= 1024 and unit < 3:
        n /= 1024
        unit += 1
    return f"{n:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def missing(text, r):
    """Figures of the report that the summary does not say."""
    said = " ".join(text.split())
    step, times, memory = r["predicted_us"], dict(r["times_us"]), r["memory"]
    exposed, idle = times.pop("exposed communication"), times.pop("idle")
    want = [f"step {time_text(step)}, ", f"MFU {100 * r['mfu']:.1f} %", f"bound by {r['bound_by']}",
            f"communication {time_text(r['communication_us'])}: "
            f"{100 * (r['communication_us'] - exposed) / step:.1f} % of the step beside computing, "
            f"{100 * exposed / step:.1f} % exposed; {100 * idle / step:.1f} % idle",
            f"{bytes_text(sum(v for k, v in memory.items() if k not in ('device', 'limit', 'free')))} of "
            f"{bytes_text(memory['limit'])} on device {memory['device']}, {bytes_text(memory['free'])} free"]
    want += [f"{name} {100 * us / step:.1f} %" for name, us in times.items() if us > step / 1000]
    want += [f"{name} {bytes_text(n)}" for name, n in memory.items() if n and name not in ("device", "limit", "free")]
    shape = r["shape"]
    want.append(f"tensor {shape['tensor']}, pipeline {shape['pipeline']}")
    if shape["updated_flat"]:
        want.append(f"{shape['updated_flat']} of {shape['parameters']} parameters updated in shares")
    for b in r["baselines"] + [{"name": "plan", "predicted_us": step, "memory_bytes": max(r["memory_bytes"]),
                                "comm_bytes": r["comm_bytes"], "fits": r["fits"]}]:
        want.append(f"{b['name']} {time_text(b['predicted_us'])} {bytes_text(b['memory_bytes'])} "
                    f"{bytes_text(b['comm_bytes'])} {'yes' if b['fits'] else 'no'}")
    if "tokens_per_s" in r:
        want.append(f"{r['tokens_per_s']:.0f} tokens/s")
    return [w for w in want if w not in said]


def adds_up(r):
    step, memory = r["predicted_us"], r["memory"]
    kinds = sum(v for k, v in memory.items() if k not in ("device", "limit", "free"))
    wrong = []
    if abs(sum(r["times_us"].values()) - step) > 1e-9 * step:
        wrong.append(f"times {sum(r['times_us'].values())}, step {step}")
    if min(r["times_us"].values()) < 0:
        wrong.append(f"times {r['times_us']}")
    if sum(p["us"] for p in r["critical_path"]) != step:
        wrong.append(f"critical path {sum(p['us'] for p in r['critical_path'])}, step {step}")
    if kinds != r["memory_bytes"][memory["device"]] or kinds != max(r["memory_bytes"]):
        wrong.append(f"memory by kind {kinds} of {r['memory_bytes']}")
    if memory["gaps"] < 0 or memory["free"] != memory["limit"] - kinds:
        wrong.append(f"memory {memory}")
    if sum(s["operators"] for s in r["splits"]) != r["shape"]["operators"]:
        wrong.append("operators by split")
    return wrong


def test_a_screen():
    for name, proposals, *more in (("gpt2_xl", "20", "--batch", "512", "--set", "dtype=bfloat16"),
                                   ("inception_v3", "200", "--batch", "2048"), ("nmt", "1000")):
        run(FFZOO, name, *more, "-o", name + ".json")
        text, r = search(name + ".json", *ON_64, "--optimizer", "adamw", "--proposals", proposals, "-o", "plan.json")
        lines = text.splitlines()
        say(len(lines) <= 40 and max(map(len, lines)) <= 80, f"{name}: a screen of 80 x 40",
            f"{len(lines)} lines of up to {max(map(len, lines))}\n{text}")
        say(not missing(text, r), f"{name}: figures of the report", "\n".join(missing(text, r)) + "\n" + text)
        say(not adds_up(r), f"{name}: parts add up", "\n".join(adds_up(r)))
        names = [b["name"] for b in r["baselines"]]
        say({"data-parallel", "zero-1", "zero-3"} <= set(names) and any(n.startswith("megatron:") for n in names),
            f"{name}: baselines", names)


def test_of_all_sorts():
    """Pipelines, recomputation, dropped weights, several micro-batches; and of one device."""
    run(FFZOO, "gpt2", "--batch", "32", "--set", "layers=4", "--set", "dtype=bfloat16", "-o", "gpt.json")
    on = ["--machine", "a100x256", "--devices", "16", "--costs", "analytic"]
    for name, data, tensor, stages in (("megatron:2,4,2,4,zero-1,recompute", 4, 2, 2), ("zero-3", 16, 1, 1),
                                       ("megatron:4,4,1,2,sequence", 4, 4, 1), ("pipeline-4", 4, 1, 4)):
        text, r = search("gpt.json", *on, "--simulate", name)
        say(not adds_up(r), f"{name}: parts add up", "\n".join(adds_up(r)))
        shape = r["shape"]
        say((shape["data"], shape["tensor"], shape["pipeline"]) == (data, tensor, stages), f"{name}: its shape", shape)
        say((r["times_us"]["recompute"] > 0) == (shape["recomputed"] > 0) == ("recompute" in name),
            f"{name}: what is recomputed", r["times_us"])
        say(all(r["memory"][k] > 0 for k in ("weights", "gradients", "optimizer states", "activations")),
            f"{name}: memory by kind", r["memory"])
    text, r = search("gpt.json", *on, "--simulate", "megatron:4,2,2,4")
    say("block0-3 (x4)" in text or any("block0-3." in s["names"] for s in r["splits"]), "blocks are folded", text)
    text, r = search("gpt.json", *on[:2], "--devices", "1", *on[4:], "--simulate", "single")
    say(not adds_up(r) and not r["baselines"] and r["communication_us"] == 0, "one device", r)


def test_list():
    every = run(FFSEARCH, "gpt.json", *ON_64[:2], "--devices", "2", *ON_64[4:], "--simulate", "data-parallel", "--list",
                "*").stdout.splitlines()
    graph = json.loads(pathlib.Path("gpt.json").read_text())
    say(len(every) > len(graph["nodes"]) - 4 and re.match("operator +split +devices", every[0]), "a line each", every[:3])
    some = run(FFSEARCH, "gpt.json", *ON_64[:2], "--devices", "2", *ON_64[4:], "--simulate", "data-parallel", "--list",
               "block1.").stdout.splitlines()
    say(some[1:-1] and all(line.startswith("block1.") for line in some[1:-1]), "by a part of the name", some)
    p = run(FFSEARCH, "gpt.json", *ON_64[:2], "--devices", "2", *ON_64[4:], "--simulate", "data-parallel", "--list",
            "convolution", status=2)
    say("no operator of graph gpt2 is called" in p.stderr, "nobody is called so", p.stderr)


test_a_screen()
test_of_all_sorts()
test_list()
finish()
