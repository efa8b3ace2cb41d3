#!/usr/bin/env python3
"""What ffsearch tells of a plan: the summary is a screen and says what the report says, and parts add up.
Prints TAP.  usage: test_explain.py FFSEARCH FFZOO SOURCE screen|questions.  SPDX-License-Identifier: Apache-2.0"""
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
SOURCE = pathlib.Path(sys.argv[3]).absolute()
MACHINES = SOURCE / "graphs/machines"
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)
# of what is alike one of so many: the quick tests, and those with sanitizers, which are slow
SHARE = int(os.environ.get("FF_TEST_SHARE", "1"))
ON_64 = ["--machine", "a100x256", "--devices", "64", "--costs", "peak"]


def run(*args, status=0):
    p = subprocess.run(args, capture_output=True, text=True, timeout=600)
    assert p.returncode == status, f"status {p.returncode}, not {status}: {p.stderr}"
    return p


def search(graph, *args, status=0):
    """The summary and the report."""
    p = run(FFSEARCH, graph, *args, "--report", "r.json", status=status)
    return p.stdout, json.loads(pathlib.Path("r.json").read_text())


def conforms(document, name):
    try:
        import jsonschema
    except ImportError:
        say(True, f"{name} # SKIP python3-jsonschema is not installed")
        return
    schema = json.loads((SOURCE / f"docs/schema/{name}.schema.json").read_text())
    wrong = [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(document)]
    say(not wrong, f"as the schema of the {name} has it", wrong[:3])


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
    want = [f"step {time_text(step)}, ", f"MFU {100 * r['mfu']:.1f} %", f"most of the step is {r['bound_by']}",
            f"communication {time_text(r['communication_us'])}: "
            f"{100 * (r['communication_us'] - exposed) / step:.1f} % of the step beside computing, "
            f"{100 * exposed / step:.1f} % exposed; {100 * idle / step:.1f} % idle",
            f"{bytes_text(sum(v for k, v in memory.items() if k not in ('device', 'limit', 'free')))} of "
            f"{bytes_text(memory['limit'])} on device {memory['device']}, {bytes_text(memory['free'])} free"]
    want += [f"{name} {100 * us / step:.1f} %" for name, us in times.items() if us > step / 1000]
    for name, n in memory.items():
        at_most = " at most" if name == "workspace" and "estimated_workspace_bytes" in r else ""
        if n and name not in ("device", "limit", "free"):
            want.append(f"{name}{at_most} {bytes_text(n)}")
    shape = r["shape"]
    want.append(f"tensor {shape['tensor']}, pipeline {shape['pipeline']}")
    if shape["updated_flat"]:
        want.append(f"{shape['updated_flat']} of {shape['parameters']} parameters updated in shares")
    name = r["strategy"] if len(r["strategy"]) <= 34 else "..." + r["strategy"][-31:]

    def row(b):
        return (f"{b['name']} {time_text(b['predicted_us'])} {bytes_text(b['memory_bytes'])} "
                f"{bytes_text(b['comm_bytes'])} {'yes' if b['fits'] else 'no'}")
    want.append(row({"name": name, "predicted_us": step, "memory_bytes": max(r["memory_bytes"]),
                     "comm_bytes": r["comm_bytes"], "fits": r["fits"]}))
    rows = [row(b) for b in r["baselines"]]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    others = [x for x in rows if x not in lines]
    if len(text.splitlines()) < 40 or f" {len(others)} others (--report) " not in said:
        want += rows
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


def is_a_screen(name, text, r):
    lines = text.splitlines()
    say(len(lines) <= 40 and max(map(len, lines)) <= 80, f"{name}: a screen of 80 x 40",
        f"{len(lines)} lines of up to {max(map(len, lines))}\n{text}")
    say(not missing(text, r), f"{name}: figures of the report", "\n".join(missing(text, r)) + "\n" + text)
    say(not adds_up(r), f"{name}: parts add up", "\n".join(adds_up(r)))


def test_a_screen():
    nets = (("nmt", "500"), ("gpt2_xl", "20", "--batch", "512", "--set", "dtype=bfloat16"),
            ("inception_v3", "100", "--batch", "2048"), ("llama", "20", "--batch", "64", "--set", "layers=4"),
            ("moe", "20", "--batch", "64", "--set", "layers=2"), ("dlrm", "200", "--batch", "2048"),
            ("unet", "50", "--batch", "64"), ("vit_b16", "20", "--batch", "256"))
    for name, proposals, *more in nets[::SHARE]:
        run(FFZOO, name, *more, "-o", name + ".json")
        text, r = search(name + ".json", *ON_64, "--optimizer", "adamw", "--proposals", proposals, "--init", "zero-1",
                         "-o", "plan.json")
        is_a_screen(name, text, r)
        names = [b["name"] for b in r["baselines"]]
        say({"data-parallel", "zero-1", "zero-3"} <= set(names) and any(n.startswith("megatron:") for n in names),
            f"{name}: baselines", names)
        say(all(b["predicted_us"] >= r["predicted_us"] for b in r["baselines"] if b["fits"]),
            f"{name}: none that fits is better", r["baselines"])


def test_peak():
    """A V100 has no bfloat16: models price float16's tensor cores, and the share is one of their rate."""
    model = json.loads((MACHINES / "models/V100-16GB.json").read_text())
    run(FFZOO, "gpt2", "--set", "layers=2", "--set", "dtype=bfloat16", "--batch", "64", "-o", "half.json")
    flops = {}
    for costs, rate in (("peak", model["flops_per_s"]), ("analytic", model["bfloat16_flops_per_s"])):
        _, r = search("half.json", "--machine", "dgx1-v100", "--costs", costs, "--simulate", "data-parallel")
        flops[costs] = r["mfu"] * r["predicted_us"] * 8 * rate
        say(0 < r["mfu"] < 1, f"{costs}: less than all of the peak", r["mfu"])
    say(abs(flops["peak"] / flops["analytic"] - 1) < 1e-6, "the FLOPs are the same", flops)


def renamed(graph, to):
    """With operators called as PyTorch calls what lies deep in modules, and a name as long as a path."""
    g = json.loads(pathlib.Path(graph).read_text())
    names = {n["name"] for n in g["nodes"]}

    def walk(value):
        if isinstance(value, dict):
            return {key: walk(v) for key, v in value.items()}
        if isinstance(value, list):
            return [walk(v) for v in value]
        known = isinstance(value, str) and (value in names or value.rsplit(".", 1)[0] in names)
        return "text_model.encoder.layers_of_the_transformer." + value if known else value
    g.update(walk({k: v for k, v in g.items() if k != "name"}), name="LongName" * 12)
    pathlib.Path(to).write_text(json.dumps(g))


def test_odd_screens():
    """Names that are long, 1,024 devices, a plan that is no better than the baseline, one that does not fit."""
    on = ["--costs", "peak", "--optimizer", "adamw"]
    run(FFZOO, "gpt2", "--batch", "64", "--set", "layers=4", "-o", "gpt.json")
    renamed("gpt.json", "long.json")
    plan = "a_plan_whose_file_has_a_name_that_nobody_would_want_to_read_twice_but_that_scripts_make.json"
    text, r = search("long.json", *ON_64[:4], *on, "--proposals", "20", "-o", plan)
    is_a_screen("long names", text, r)
    say("text_model.encoder" in r["splits"][0]["names"] or "all" in r["splits"][0]["names"], "they are there", r["splits"])
    text, r = search("long.json", *ON_64[:4], *on, "--simulate", plan, "--optimizer", "adamw")
    is_a_screen("a long name of a plan", text, r)
    text, r = search("long.json", *ON_64[:4], *on, "--simulate", "zero-1", "--optimizer", "adamw")
    say(r["speedup"] < 1.05 and "less than predictions are off by" in " ".join(text.split()), "what is no better is told", text)
    run(FFZOO, "moe", "--batch", "16", "--set", "layers=2", "-o", "moe.json")
    text, r = search("moe.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--proposals", "50", "--clip", "-o", "plan.json")
    is_a_screen("much to tell", text, r)
    say("others (--report)" in text and "megatron:" in text, "the rest is in the report", text)
    run(FFZOO, "mlp", "--batch", "4096", "-o", "mlp.json")
    text, r = search("mlp.json", "--machine", "a100x256:128", *on, "--proposals", "200", "--init", "zero-1", "-o", "plan.json")
    say(r["devices"] == 1024, "1,024 devices", r["devices"])
    is_a_screen("1,024 devices", text, r)
    text, r = search("mlp.json", "--machine", "a100x256:128", *on, "--budget", "0.001s", "-o", "plan.json")
    say(("There was no time to search" in text) == (r["proposals"] == 0), "no time to search", text)
    text, r = search("mlp.json", "--machine", "p100x16", "--devices", "1", *on, "--simulate", "single")
    is_a_screen("one device", text, r)
    p = run(FFSEARCH, "long.json", *ON_64[:4], *on, "--simulate", "data-parallel", "--memory", "100M", status=3)
    say(len(p.stdout.splitlines()) <= 40 and " no\n" in p.stdout and "too much" in p.stdout, "what does not fit is a screen, too",
        p.stdout)


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
    for name in ("megatron:1,4,4,8,zb-h1", "megatron:1,8,2,4,zero-1,interleave=2"):
        _, r = search("gpt.json", *on, "--simulate", name, "-o", "order.json")
        _, r = search("gpt.json", *on, "--simulate", "order.json")
        want = {"name": name, "predicted_us": r["predicted_us"]}
        say(any(want.items() <= b.items() for b in r["baselines"]), f"{name}: its own degrees have its order", r["baselines"])
    text, r = search("gpt.json", *on, "--simulate", "megatron:4,2,2,4")
    say("block0-3 (x4)" in text or any("block0-3." in s["names"] for s in r["splits"]), "blocks are folded", text)
    net = ["alexnet", "--batch", "256"]
    run(FFZOO, *net, "-o", "alexnet.json")
    # what a split gains is what the step takes without it
    text, r = search("alexnet.json", *on, "--simulate", "expert", "-o", "expert.json")
    plan, gained = json.loads(pathlib.Path("expert.json").read_text()), 0
    run(FFSEARCH, "alexnet.json", *on, "--simulate", "data-parallel", "-o", "data.json")
    say(run(FFZOO, *net, "--hash").stdout.strip() == plan["graph_hash"], "ffzoo --hash is what strategies carry")
    say("no --list" in run(FFZOO, *net, "--hash", "-o", "x.json", status=2).stderr, "and writes no graph")
    data = {o["name"]: o for o in json.loads(pathlib.Path("data.json").read_text())["operators"]}
    row = next(s for s in r["splits"] if s["gain_us"] is not None)
    want = dict(re.findall(r"(\w+) (\d+)", row["split"]))
    for i, o in enumerate(plan["operators"]):
        if {k: str(v) for k, v in o.get("degrees", {}).items() if v > 1} == want:
            plan["operators"][i] = data[o["name"]]
            gained += 1
    pathlib.Path("without.json").write_text(json.dumps(plan))
    _, without = search("alexnet.json", *on, "--simulate", "without.json")
    say(gained == row["operators"] and without["predicted_us"] == r["predicted_us"] + row["gain_us"],
        "what a split gains", (row, gained, without["predicted_us"] - r["predicted_us"]))
    text, r = search("gpt.json", *on[:2], "--devices", "1", *on[4:], "--simulate", "single")
    say(not adds_up(r) and not r["baselines"] and r["communication_us"] == 0, "one device", r)


def test_list():
    every = run(FFSEARCH, "gpt.json", *ON_64[:2], "--devices", "2", *ON_64[4:], "--simulate", "data-parallel", "--list",
                "*").stdout.splitlines()
    graph = json.loads(pathlib.Path("gpt.json").read_text())
    say(len(every) > len(graph["nodes"]) - 4 and re.match("operator +split +devices", every[0]), "a line each",
        every[:3])
    some = run(FFSEARCH, "gpt.json", *ON_64[:2], "--devices", "2", *ON_64[4:], "--simulate", "data-parallel", "--list",
               "block1.").stdout.splitlines()
    say(some[1:-1] and all(line.startswith("block1.") for line in some[1:-1]), "by a part of the name", some)
    p = run(FFSEARCH, "gpt.json", *ON_64[:2], "--devices", "2", *ON_64[4:], "--simulate", "data-parallel", "--list",
            "convolution", status=2)
    say("no operator of graph gpt2 is called" in p.stderr, "nobody is called so", p.stderr)
    p = run(FFSEARCH, "gpt.json", *ON_64[:2], "--devices", "2", *ON_64[4:], "--simulate", "data-parallel", "--list",
            "block0.mpl.up", status=2)
    say("did you mean block0.mlp.up?" in p.stderr, "but nearly", p.stderr)


def test_why():
    """What more of something brings, against searching again on a machine that has it."""
    machine = json.loads((MACHINES / "a100x256.json").read_text())
    far, odd, gains = [], [], {}
    run(FFZOO, "gpt2", "--batch", "32", "--set", "layers=2", "--set", "width=512", "--set", "heads=8", "-o",
        "small.json")
    run(FFZOO, "mlp", "--batch", "256", "--set", "hidden=4096", "-o", "mlp.json")
    plans = [(g, d, None) for d in (16, 32, 64) for g in ("small.json", "mlp.json", "alexnet.json")][::SHARE]
    plans.append(("gpt.json", 16, "900M"))
    for graph, devices, memory in plans:
        on = ["--machine", "m.json", "--devices", str(devices), "--costs", "analytic", "--seed", "1"]
        pathlib.Path("m.json").write_text(json.dumps(machine))
        limit = ["--memory", memory] if memory else []
        text, r = search(graph, *on, *limit, "--proposals", "150", "--explain", "-o", "plan.json")
        binds = re.search("(saves most: |most of the step is )" + r["explain"]["binds"] + "$", text, re.M)
        say("critical path" in text and binds, f"{graph} on {devices}: why", text)
        for what in ("memory_1_gib", "inside_10_percent", "network_10_percent"):
            told = min(us for us in r["explain"][what].values() if us is not None)
            changed = json.loads(json.dumps(machine))
            for key, side in (("inside_10_percent", "inside"), ("network_10_percent", "network")):
                for n in changed["nodes"]:
                    n[side]["bytes_per_s"] *= 1.1 if what == key else 1
            pathlib.Path("m.json").write_text(json.dumps(changed))
            again = r
            if what != "memory_1_gib":
                _, again = search(graph, *on, *limit, "--proposals", "150", "-o", "again.json")
            elif limit:  # what no limit binds is searched as before
                _, again = search(graph, *on, "--memory", str(r["memory"]["limit"] + (1 << 30)), "--proposals", "150",
                                  "-o", "again.json")
            if not 0.9 < told / again["predicted_us"] < 1.1:
                far.append(f"{graph} {devices} {what}: {told} said, {again['predicted_us']} searched again")
            if told < 0.999 * r["predicted_us"]:
                gains[what] = gains.get(what, 0) + 1
            none = min(us for us in r["explain"]["nothing"].values() if us is not None)
            if none > r["predicted_us"] or (what == "memory_1_gib" and not memory and told < none):
                odd.append(f"{graph} {devices} {what}: {told} said, {none} with nothing more")
    say(not far, f"{3 * len(plans)} answers of {len(plans)} plans are those of a new search, within a tenth", "\n".join(far))
    say(not odd, "where memory is not short a GiB more saves nothing that a longer search does not", "\n".join(odd))
    say(len(gains) == 3 and sum(gains.values()) >= len(plans), "and more of each does bring something", gains)
    say(r["explain"]["binds"] == "memory", "where memory is short it binds", r["explain"])
    # a plan far from the best: what a search saves is not put down to the network
    run(FFZOO, "unet", "--batch", "8", "-o", "unet.json")
    text, r = search("unet.json", "--machine", "dgx-a100-40:2", "--costs", "analytic", "--simulate", "single", "--explain")
    e, step = r["explain"], r["predicted_us"]
    none = min(e["nothing"].values())
    saved = {k: none - min(e[k].values()) for k in ("memory_1_gib", "inside_10_percent", "network_10_percent")}
    say(none < 0.5 * step and saved["memory_1_gib"] == 0 and max(saved.values()) < 0.1 * step and "Searching on" in text,
        "what a search alone saves is told apart", (step, e))


def table(text):
    """Rows of --vary."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:2] == ["batch", "memory"])
    return [re.split("  +", line.strip()) for line in lines[at + 2:] if re.match(r"^ {1,8}\S", line)]


def test_vary():
    on = ["--machine", "a100x256", "--costs", "analytic"]
    p = run(FFSEARCH, "gpt.json", *on, "--devices", "16", "--simulate", "megatron:2,8,1,1", "--vary", "devices=8,32",
            "batch=64", "network=1600")
    rows = table(p.stdout)
    say([r[:4] for r in rows] == [["64", "-", d, "1600"] for d in ("8", "32")], "a row for each", p.stdout)
    _, r = search("gpt.json", *on, "--devices", "16", "--simulate", "megatron:2,8,1,1", "--vary", "devices=8,32", "batch=64",
                  "network=1600")
    conforms(r, "search-report")
    say([v["with"] for v in r["vary"]] == [{"batch": 64, "devices": d, "network_bytes_per_s": 2e11} for d in (8, 32)] and
        [[time_text(v["carried"]["predicted_us"]), bytes_text(v["carried"]["memory_bytes"]), f"{v['samples_per_s']:.0f}"]
         for v in r["vary"]] == [[row[4], row[6], row[7]] for row in rows], "and in the report", (rows, r["vary"]))
    # carried over it is what people would write by hand there
    machine = json.loads((MACHINES / "a100x256.json").read_text())
    for n in machine["nodes"]:
        n["network"]["bytes_per_s"] = 1600e9 / 8
    pathlib.Path("m.json").write_text(json.dumps(machine))
    run(FFZOO, "gpt2", "--batch", "64", "--set", "layers=4", "--set", "dtype=bfloat16", "-o", "gpt64.json")
    for row, name, devices in zip(rows, ("megatron:2,4,1,1", "megatron:2,16,1,1"), ("8", "32")):
        _, r = search("gpt64.json", "--machine", "m.json", "--devices", devices, *on[2:], "--simulate", name)
        told = float(row[4].split()[0]) * 1e3
        say(abs(told / r["predicted_us"] - 1) < 0.02, f"on {devices} it is {name}", (row, r["predicted_us"]))
    p = run(FFSEARCH, "gpt.json", *on, "--devices", "8", "--proposals", "200", "-o", "plan.json", "--vary",
            "memory=1,80", "batch=33,32")
    rows = table(p.stdout)
    say(len(rows) == 4 and all(r[5].endswith("ms") for r in rows[2:]) and rows[1][4] == "no memory", "searched again",
        p.stdout)
    for wrong, word in ((["--vary", "color=3"], "batch=N"), (["--vary", "bach=3"], "did you mean batch?"),
                        (["--vary", "batch=0"], "batch=N"),
                        (["--vary", "batch=1,x"], "batch=N"), (["extra"], "one operand"),
                        (["--vary", "batch=" + ",".join("123456789"), "memory=" + ",".join("12345678")], "at most 64")):
        p = run(FFSEARCH, "gpt.json", *on, "--simulate", "single", *wrong, status=2)
        say(word in p.stderr and not p.stdout, " ".join(wrong)[:40], p.stderr)


def oracle(*args):
    """By strategy its rows, by devices, and what is said below."""
    out, name = {}, None
    for line in run(FFSEARCH, *args, "--oracle", "--report", "o.json").stdout.splitlines()[4:]:
        row = re.fullmatch(r" +(\d+) +([\d.]+ (?:us|ms|s)) +([\d.]+) % +([\d.]+) % +([\d.]+ \w+)  (yes|no)", line)
        if row:
            out[name][0][int(row[1])] = row.groups()[1:]
        elif line and not line.startswith(" "):
            name = line.split(":")[0]
            out[name] = {}, []
        elif line:
            out[name][1].append(line.strip())
    return {k: (rows, " ".join(said)) for k, (rows, said) in out.items()}


def test_oracle():
    """Against plans by name, for a network of images, one of volumes and one of sequences."""
    run(FFZOO, "cosmoflow", "-o", "cosmoflow.json")
    for graph, batch in (("gpt.json", 32), ("cosmoflow.json", 4), ("alexnet.json", 256)):
        on = ["--machine", "a100x256", "--costs", "analytic"]
        got = oracle(graph, *on, "--devices", "64")
        say(list(got) == ["data", "spatial", "output channel", "input channel", "pipeline", "data + filter",
                          "data + spatial", "zero-3"], f"{graph}: strategies", list(got))
        r = json.loads(pathlib.Path("o.json").read_text())
        conforms(r, "oracle-report")
        points = {s["name"]: s["points"] for s in r["strategies"]}
        say({s["name"]: {p["devices"]: (time_text(p["predicted_us"]), f"{100 * p['computing_us'] / p['predicted_us']:.1f}",
                                        f"{100 * p['communication_us'] / p['predicted_us']:.1f}",
                                        bytes_text(p["memory_bytes"]), "yes" if p["fits"] else "no")
                         for p in s["points"]} for s in r["strategies"]} == {k: v[0] for k, v in got.items()},
            f"{graph}: rows are the report's", r)
        say(all((f"stops at {s['scales_to']} device" in got[s["name"]][1] if "why" in s else
                 f"up to all {s['scales_to']}" in got[s["name"]][1]) for s in r["strategies"] if "scales_to" in s),
            f"{graph}: so are reasons", got)
        say(not re.search(r"\b1 (part|stage)s\b", str(got)), f"{graph}: one is not said as several", got)
        say(max(got["data"][0]) == min(batch, 64) and (batch > 64 or f"no more than {batch} parts" in got["data"][1]),
            f"{graph}: samples end", got["data"])
        wrong = []
        for name, start in (("data", "data-parallel"), ("zero-3", "zero-3")):
            for devices in (2, 4):
                _, r = search(graph, *on, "--devices", str(devices), "--simulate", start)
                if got[name][0][devices][0] != time_text(r["predicted_us"]):
                    wrong.append(f"{name} on {devices}: {got[name][0][devices]}, {r['predicted_us']}")
        say(not wrong, f"{graph}: steps are those of --simulate", "\n".join(wrong))
        bad = [(k, v) for k, v in got.items() if not re.search("stops at|scales up|no more than|expected", v[1]) or
               any(abs(float(r[1]) + float(r[2]) - 100) > 0.11 for r in v[0].values()) or
               v[0].get(1, [0, "100.0"])[1] != "100.0"]
        say(not bad, f"{graph}: parts and reasons", bad)
        stops = {k: v[1] for k, v in got.items() if "communication is" in v[1]}
        say(all(re.search(r"communication is \d+ % of the step, \S.* alone \d+ %", v) for v in stops.values()),
            f"{graph}: the communication that takes longest", stops)
        held = {k: [q["memory_bytes"] for q in points[k]] for k in ("spatial", "data + spatial", "data + filter")}
        say(all(b <= 1.1 * a for h in held.values() for a, b in zip(h, h[1:])),
            f"{graph}: more devices hold no more each", held)
    # places are cut, not channels: neighbours exchange halos
    run(FFZOO, "mobilenet_v2", "-o", "mobilenet.json")
    oracle("mobilenet.json", "--machine", "dgx-a100-40:2", "--costs", "analytic")
    points = {s["name"]: s["points"] for s in json.loads(pathlib.Path("o.json").read_text())["strategies"]}
    steps = {q["devices"]: q["predicted_us"] for q in points["spatial"]}
    say(steps[16] < 1.5 * steps[8], "halos between nodes", steps)
    p = run(FFSEARCH, "gpt.json", *ON_64, "--oracle", "-o", "x.json", status=2)
    say("a table of its own" in p.stderr, "it has no plan", p.stderr)
    p = run(FFSEARCH, "gpt.json", *on, "--devices", "2", "--oracle", "--report", "-")
    say(json.loads(p.stdout)["devices"] == 2 and p.stderr.startswith("pure strategies"), "its report may go to a pipe", p.stderr)
    p = run(FFSEARCH, "gpt.json", *ON_64, "--oracle", "--pin", "logits:sample=2", status=2)
    say("a table of its own" in p.stderr, "nor limits to what plans are like", p.stderr)


TESTS = {"screen": [test_a_screen, test_peak, test_odd_screens], "questions": [test_of_all_sorts, test_list, test_why, test_vary, test_oracle]}
for test in TESTS[sys.argv[4]]:
    test()
finish()
