#!/usr/bin/env python3
# Drawn plans of drawn networks on drawn machines, by hand, searched or changed at random: ffsearch prices what it wrote
# the same again; ffrun takes no more memory and computes what one device does, also from a checkpoint on.  Prints TAP.
# Usage: test_drawn.py FFZOO FFSEARCH FFRUN.  SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffsearch, ffrun = map(os.path.abspath, sys.argv[1:4])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"
SEED = int(os.environ.get("FF_TEST_SEED", "1"))
DRAWS = int(os.environ.get("FF_TEST_DRAWS", "16")) // int(os.environ.get("FF_TEST_SHARE", "1")) or 1
REFUSED = (2, 3)  # not for this network or machine, or too large for it

NETWORKS = {
    "mlp": "layers=2,3 hidden=17,24 image=5 classes=3,10", "lenet": "image=12,16 pool=max,avg",
    "branchnet": "blocks=1,2 image=8,9 width=2,3,4", "cosmoflow": "image=8,10 layers=1,2 width=2,3 fc1=9 fc2=8",
    "rnnlm": "steps=4,7 hidden=6,9 layers=1,2 vocabulary=30,41 pieces=1,2 form=sequence,cells",
    "nmt": "steps=4,5 hidden=8,9 layers=1,2 vocabulary=30,41 pieces=1,2",
    "lm": "vocabulary=50,61 features=7,16 tie=yes,no",
    "dlrm": "rows=57,100 tables=2,3 features=4,16", "bert": "layers=2,3 width=24 heads=4 sequence=8,9 vocabulary=33,96",
    "gpt2": "layers=2,4 width=24,32 heads=4 sequence=8,10 vocabulary=33,96 dropout=0,10",
    "llama": "layers=2,4 width=32 heads=4 key_heads=1,2,4 hidden=33,48 sequence=8,9 vocabulary=96",
    "moe": "layers=1,2 width=16 heads=4 key_heads=2,4 hidden=20,33 sequence=8 vocabulary=33 experts=3,4"}
STARTS = ["data-parallel", "expert", "random", "elimination", "zero-1", "zero-2", "zero-3", "zero-2-hybrid",
          "zero-3-hybrid", "frugal", "pipeline-2", "pipeline-4"]


def run(*command, accepted=(0,)):
    """Whether it was not refused; anything but success or `accepted` fails."""
    p = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert p.returncode in (0, *accepted), "status %d: %s: %s" % (p.returncode, " ".join(command), p.stderr)
    return p.returncode == 0


def read(file):
    with open(file, encoding="utf-8") as f:
        return json.load(f)


def write(file, what):
    with open(file, "w", encoding="utf-8") as f:
        json.dump(what, f)


def draw_network(r):
    name = r.choice(sorted(NETWORKS))
    batch = r.choice([3, 4, 5, 6, 8, 9, 12])
    sets = [f"{key}={r.choice(values.split(','))}" for key, values in (s.split("=") for s in NETWORKS[name].split())]
    run(ffzoo, name, "--batch", str(batch), *(w for s in sets for w in ("--set", s)), "-o", "net.json")
    return name, batch


def draw_machine(r):
    """One to three nodes of one to four devices, with one, two or three lanes, links slow and fast."""
    def link():
        return {"latency_us": r.choice([0.1, 5, 50]), "bytes_per_s": r.choice([1e7, 1e9, 1e11])}
    count, each = r.choice([(1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 2), (2, 3), (3, 1), (3, 2)])
    lanes = r.choice([1, 2, 3, 3])
    kind = {"name": "cpu", "flops_per_s": r.choice([1e9, 1e11]), "memory_bytes_per_s": 2e10, "memory_bytes": 1 << 32}
    node = {"count": count, "devices": each, "kind": "cpu", "inside": link(), "network": link()}
    write("machine.json", {"format": "ffsoap-machine", "version": 1, "name": "drawn", "overlap": lanes > 1,
                           "message_lane": lanes > 2, "kinds": [kind], "nodes": [node]})
    return count * each


def draw_by_hand(r, n, batch):
    tensor = r.choice([k for k in range(1, n + 1) if n % k == 0])
    data = r.choice([k for k in range(1, n + 1) if n // tensor % k == 0])
    words = [r.choice(["", ",zero-1", ",zero-2", ",zero-3"])]
    words.append(r.choice(["", ",hybrid"]) if words[0] else "")
    words.append(r.choice(["", ",recompute", ",recompute=light"]))
    words.append(r.choice(["", ",interleave=2", ",zb-h1", ",zb-v"]) if n > tensor * data else "")
    micro = r.choice([m for m in range(1, batch + 1) if batch % m == 0])
    return f"megatron:{tensor},{data},{n // tensor // data},{micro}{''.join(words)}"


def change(r, plan, n, batch):
    """Other stages, orders, updates, buckets and devices of some operators."""
    ops = [o for o in plan["operators"] if "degrees" in o]
    plan["micro_batches"] = r.choice([m for m in range(1, batch + 1) if batch % m == 0])
    plan["order"] = r.choice(["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"])
    plan["bucket_bytes"] = r.choice([64, 4096, 1 << 20])
    if r.randrange(3) == 0:
        plan["gradients"] = "scattered"
    stages = sorted(r.randrange(len(ops)) for _ in range(r.choice([0, 1, 3])))
    share = r.choice([0.1, 0.5])
    for i, o in enumerate(ops):
        if r.random() < share:
            o["degrees"] = {r.choice(["sample", *o["degrees"]]): r.randrange(1, n + 1)}
            o.pop("replicas", None)
            parts = next(iter(o["degrees"].values()))
            o["devices"] = r.sample(range(n), parts)
        if ".weight" not in o["name"] and ".bias" not in o["name"]:
            o["stage"] = sum(i >= s for s in stages)
        if r.random() < 0.1:
            o["recompute"] = True
    return plan


def draw_plan(r, n, batch):
    """plan.json, and how it came about."""
    at = [ffsearch, "net.json", "--machine", "./machine.json", "--costs", "peak"]
    optimizer = r.choice(["sgd", "momentum", "nesterov"])
    out = ["-o", "plan.json", "--report", "search.json"]
    while True:
        how = r.choice(["hand", "hand", "start", "search", "change", "change"])
        words = ["--simulate", draw_by_hand(r, n, batch) if how == "hand" else r.choice(STARTS)]
        if how == "search":
            words = ["--proposals", r.choice(["20", "1000"]), "--init", r.choice(STARTS), "--memory",
                     r.choice(["100000", "1G"])]
        words += ["--seed", str(r.randrange(1000)), "--optimizer", optimizer]
        if not run(*at, *words, *out, accepted=REFUSED):
            continue
        if how == "change":
            write("changed.json", change(r, read("plan.json"), n, batch))
            if not run(*at, "--simulate", "changed.json", *out, accepted=REFUSED):
                continue
        run(*at, "--simulate", "plan.json", "-o", "again.json")
        plan, again = read("plan.json"), read("again.json")
        for key in "predicted_us", "memory_bytes":
            assert plan[key] == again[key], f"{key}: {plan[key]}, priced again {again[key]}"
        return plan, how + " " + words[1]


def check_losses(file, expected):
    found, there = read(file)["loss"], read(expected)["loss"]
    assert len(found) == len(there), f"{len(found)} losses, not {len(there)}"
    near = [abs(a - b) <= 1e-3 * max(abs(b), 0.1) for a, b in zip(found, there)]
    assert all(near), f"losses {found}, one device's {there}"


def check_run(r, plan, batch):
    at = [ffrun, "net.json", "plan.json", "--machine", "./machine.json", "--data", f"synthetic:{2 * batch + 1}",
          "--rate", "0.001", "--timeout", "300s", "--optimizer", plan["optimizer"]]
    os.environ["FF_OVERLAP"] = r.choice(["thread", "tasks"])
    run(*at, "--steps", "2", "--verify", "--report", "run.json", "--checkpoint", "kept")
    over = [(a, b) for a, b in zip(read("run.json")["memory_bytes"], plan["memory_bytes"]) if a > b]
    assert not over, f"memory taken, and promised: {over}"
    run(*at[:2], "single", *at[3:], "--steps", "3", "--report", "single.json")
    single = read("single.json")
    write("single2.json", {"loss": single["loss"][:2]})
    check_losses("run.json", "single2.json")
    run(*at, "--steps", "3", "--checkpoint", "kept", "--resume", "--report", "resumed.json")
    write("single3.json", {"loss": single["loss"][2:]})
    check_losses("resumed.json", "single3.json")


for number in range(DRAWS):
    draw = random.Random(SEED * 1000 + number)
    name = why = ""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            name, samples = draw_network(draw)
            devices = draw_machine(draw)
            made, said = draw_plan(draw, devices, samples)
            name += f", batch {samples}, {devices} devices, {said}"
            check_run(draw, made, samples)
        except (AssertionError, subprocess.TimeoutExpired) as e:
            why = str(e)
        os.chdir("/")
    say(not why, f"FF_TEST_SEED={SEED}, draw {number}: {name}", why)
finish()
