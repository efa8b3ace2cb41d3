#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures kernels on the GPU that is here, by ffprof, and says how far off the model of such a GPU is.

Each row is one pass of one operator of a network that people train, whole, on one device. The model prices the same
kernels (build/bench/bench-device --graph), as ffsearch --costs analytic does but for two things: nothing is fused, and
products are timed alone. The report has every row, with its kernels as bench-device and bench/fit_devices.py have
them. Exit status: 0 done, 1 something was not measured, 2 bad usage, 3 there is no model of this GPU."""
import argparse
import collections
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "graphs/machines/models"
NO_MODEL = 3

# nvidia-smi's name of a GPU, and the model's
GPUS = {
    "NVIDIA B200": "B200-180GB",
    "NVIDIA H200": "H200-141GB",
    "NVIDIA H100 80GB HBM3": "H100-80GB",
    "NVIDIA H100 PCIe": "H100-PCIE-80GB",
    "NVIDIA L4": "L4",
    "NVIDIA A100-SXM4-80GB": "A100-80GB",
    "NVIDIA A100-SXM4-40GB": "A100-40GB",
    "NVIDIA A100-PCIE-40GB": "A100-PCIE-40GB",
    "Tesla T4": "T4",
    "Tesla V100-SXM2-32GB": "V100-32GB",
    "Tesla V100-SXM3-32GB": "V100-SXM3-32GB",
    "Tesla V100-SXM2-16GB": "V100-16GB",
    "Tesla P100-SXM2-16GB": "P100-16GB",
}

# name, share of the time, ffzoo's arguments; what is worth most first
Network = collections.namedtuple("Network", "name share arguments")
BF16 = "--set dtype=bfloat16"
NETWORKS = [Network(name, share, arguments.split()) for name, share, arguments in (
    ("resnet50 bfloat16", 4, f"resnet50 --batch 64 {BF16}"),
    ("gpt2 bfloat16", 2, f"gpt2 --batch 8 --set layers=1 {BF16}"),
    ("resnet50 float32", 3, "resnet50 --batch 64"),
    ("llama bfloat16", 2, f"llama --batch 1 --set layers=1 {BF16}"),
    ("rnnlm float32", 1, "rnnlm --batch 64 --set layers=1"),
    ("bert bfloat16", 1, f"bert --batch 16 --set layers=1 {BF16}"),
    ("mlp float32", 1, "mlp --batch 1024"),
    ("vgg16 bfloat16", 2, f"vgg16 --batch 64 {BF16}"),
    ("dlrm float32", 1, "dlrm --batch 2048 --set rows=1000000"))]
# of the same operators, for a double
SMALL = [Network(name, 1, arguments.split()) for name, arguments in (
    ("lenet", "lenet --batch 4"),
    ("gpt2", f"gpt2 --batch 2 --set sequence=8 --set layers=1 --set vocabulary=50 --set width=32 --set heads=4 {BF16}"),
    ("rnnlm", "rnnlm --batch 2 --set layers=1 --set hidden=16 --set steps=3 --set vocabulary=50"))]
RATES_SHARE = 1  # of the time, for copies and updates

# How often a byte of float32 crosses the memory bus: docs/simulator.md. An update reads weight, gradient and states,
# and writes weight and states, of which an optimizer has so many; and the weight once more in bfloat16.
PASSES = {"copy": 2, "add": 3, "accumulate": 3}
STATES = {"sgd": 0, "": 1, "nesterov": 1, "adam": 2, "adamw": 2}
PASSES |= {"_".join(w for w in ("update", name, dtype) if w): 3 + 2 * states + (dtype != "") / 2
           for name, states in STATES.items() for dtype in ("", "bfloat16")}
RATE_BYTES = 64 << 20  # by which lines are compared

# whose classes are not those of their kernels
OPERATORS = {"batch_moments": "batch norm", "batch_norm": "batch norm", "attention": "attention",
             "attention_statistics": "attention", "embedding": "embedding"}
TYPED = ("product", "convolution", "attention", "recurrent")
WORST = 3


def stop(status, sentence):
    print(f"model_errors.py: {sentence}", file=sys.stderr)
    sys.exit(status)


def command(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise OSError(f"{Path(words[0]).name} ended with exit status {done.returncode}: {lines[-1]}")
    return done.stdout


# ---- measuring ----

def machine_of(kind, folder):
    """A machine file of one such device."""
    model = json.loads((MODELS / f"{kind}.json").read_text(encoding="utf-8"))
    rates = {key: model[key] for key in ("flops_per_s", "bfloat16_flops_per_s", "memory_bytes_per_s") if key in model}
    path = folder / "machine.json"
    path.write_text(json.dumps({
        "format": "ffsoap-machine", "version": 1, "name": "one", "overlap": True, "kinds": [
            {"name": kind, "backend": "cuda", "memory_bytes": 8 << 30, **rates}],
        "nodes": [{"devices": 1, "kind": kind}]}), encoding="utf-8")
    return path


def measure(options, networks, graphs, machine, costs):
    """Into the file `costs`; what failed, by network. Time that one leaves is the others'."""
    end, failed = time.monotonic() + options.seconds, {}
    left = sum(network.share for network in networks) + RATES_SHARE
    common = ["--machine", machine, "--device", "cuda", "-o", costs]
    turns = [(network.name, network.share, graphs[network.name], ["--kernels"]) for network in networks]
    # by the last network, of whose kernels none are missing by then
    turns.append(("copies and updates", RATES_SHARE, graphs[networks[-1].name],
                  ["--largest", "1K"] if options.small else []))
    for name, share, graph, more in turns:
        budget = max(0.5, (end - time.monotonic()) * share / left)
        left -= share
        begin = time.monotonic()
        try:
            command(options.build / "runtime/ffprof", graph, *common, *more, "--budget", f"{budget:.1f}s",
                    timeout=budget + options.patience)
        except (OSError, subprocess.TimeoutExpired) as why:
            failed[name] = str(why)
        # starting is not the kernels' time
        end += max(0, time.monotonic() - begin - budget)
    return failed


def costs_in(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        return stop(2, f"{path}: expected costs of ffprof's: {why}")


# ---- comparing ----

def class_of(work):
    """That of the kernel that takes longest, by the model; an operator's own where that says more."""
    shape = max(work["kernels"], key=lambda kernel: kernel["us"])["shape"].split()
    name = OPERATORS.get(work["operator"], shape[0])
    dtype = (" bfloat16" if "bfloat16=1" in shape else " float32") if name in TYPED else ""
    return f"{name}{dtype} {direction(work)}"


def direction(work):
    """A convolution of the input has gradients of weights alone."""
    if not work["backward"]:
        return "forward"
    shapes = [kernel["shape"].split() for kernel in work["kernels"]]
    weights = [shape for shape in shapes if shape[0] == "convolution"]
    return "weights" if weights and all("pass=2" in shape for shape in weights) else "backward"


def rows_of(works, costs):
    """What was measured and priced, a row each, though operators and networks may have it several times."""
    known = {work["key"]: work for of in works.values() for work in of if work["kernels"]}
    return [{"class": class_of(known[entry["key"]]), "key": entry["key"], "measured_us": entry["median_us"],
             "model_us": sum(kernel["us"] for kernel in known[entry["key"]]["kernels"]),
             "inferred": any(kernel["inferred"] for kernel in known[entry["key"]]["kernels"]),
             "kernels": known[entry["key"]]["kernels"],
             **{name: entry[name] for name in ("p10_us", "p90_us", "samples", "disturbed", "reuse_bytes")
                if name in entry}}
            for entry in costs.get("entries", []) if entry["key"] in known]


def rates_of(costs, price):
    """The same of copies and updates, as fast as where most went by."""
    rows = []
    for name, lines in costs.get("rates", {}).items():
        if name not in PASSES:
            continue
        line = max(lines, key=lambda line: line["reuse_bytes"])
        shape = f"stream bytes={PASSES[name] * RATE_BYTES:.0f}"
        us = price(shape)
        rows.append({"class": "copies and updates", "key": f"{name} of {RATE_BYTES >> 20} MiB",
                     "measured_us": line["latency_us"] + RATE_BYTES / line["bytes_per_s"] * 1e6, "model_us": us,
                     "inferred": False, "kernels": [{"shape": shape, "us": us, "inferred": False}]})
    return rows


def error_of(row):
    """How far the model is off: 0.1 says a tenth too long."""
    return row["model_us"] / row["measured_us"] - 1


def classes_of(rows):
    """Longest in sum first."""
    by = collections.defaultdict(list)
    for row in rows:
        by[row["class"]].append(row)
    found = []
    for name, mine in by.items():
        errors = [error_of(row) for row in mine]
        worst = sorted(mine, key=lambda row: -abs(error_of(row)))[:WORST]
        found.append({"class": name, "n": len(mine), "measured_us": sum(row["measured_us"] for row in mine),
                      "error": statistics.median(map(abs, errors)), "bias": 1 + statistics.median(errors),
                      "inferred": sum(row["inferred"] for row in mine),
                      "worst": [{key: row[key] for key in ("key", "measured_us", "model_us")} for row in worst]})
    return sorted(found, key=lambda c: -c["measured_us"])


def networks_of(works, costs):
    """All kernels of a step of each, as far as measured. By the model some passes have none."""
    measured = {entry["key"]: entry["median_us"] for entry in costs.get("entries", [])}
    found = []
    for name, mine in works.items():
        there = [work for work in mine if work["key"] in measured]
        found.append({"name": name, "passes": len(mine), "measured": len(there),
                      "measured_us": sum(measured[work["key"]] for work in there),
                      "model_us": sum(kernel["us"] for work in there for kernel in work["kernels"])})
    return found


def table(report):
    lines = [f"{'class':30} {'n':>4} {'|error|':>8} {'model/measured':>15} {'inferred':>9}  us measured"]
    for c in report["classes"]:
        lines.append(f"{c['class']:30} {c['n']:4} {100 * c['error']:6.1f} % {c['bias']:15.2f} {c['inferred']:9}"
                     f"  {c['measured_us']:.0f}")
        lines += [f"    {w['measured_us']:.1f} us, model {w['model_us']:.1f}: {w['key']}" for w in c["worst"]]
    lines.append(f"\n{'kernels of a step':30} {'passes':>7} {'measured':>9} {'us':>9} {'model, us':>10} {'ratio':>6}")
    for n in report["networks"]:
        ratio = f"{n['model_us'] / n['measured_us']:6.2f}" if n["measured"] else ""
        lines.append(f"{n['name']:30} {n['passes']:7} {n['measured']:9} {n['measured_us']:9.0f} {n['model_us']:10.0f} "
                     f"{ratio}")
    lines += [f"not measured: {name}: {why}" for name, why in report["failed"].items()]
    return "\n".join(lines)


def compare(kind, works, costs, failed, price):
    rows = rows_of(works, costs)
    rows += rates_of(costs, price)
    return {"kind": kind, "machine": costs.get("machine"), "launch": costs.get("launch"), "failed": failed,
            "classes": classes_of(rows), "networks": networks_of(works, costs), "rows": rows}


# ---- command ----

def gpu_here():
    try:
        done = command("nvidia-smi", "--query-gpu=name", "--format=csv,noheader", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as why:
        stop(2, f"expected --gpu or --kind where nvidia-smi names no GPU: {why}")
    return done.splitlines()[0].strip()


def kind_of(options):
    kinds = sorted(path.stem for path in MODELS.glob("*.json"))
    if options.kind:
        if options.kind not in kinds:
            stop(2, f"--kind {options.kind}: expected one of {', '.join(kinds)}")
        return options.kind
    gpu = options.gpu or gpu_here()
    if gpu not in GPUS:
        stop(NO_MODEL, f"there is no model of {gpu}")
    return GPUS[gpu]


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="FOLDER")
    parser.add_argument("--gpu", metavar="NAME", help="as nvidia-smi has it, which is asked otherwise")
    parser.add_argument("--kind", metavar="KIND", help=f"the model, of {MODELS.relative_to(ROOT)}, instead")
    parser.add_argument("--seconds", type=float, default=15, help="of measuring, starting not counted (15)")
    parser.add_argument("--patience", type=float, default=20, metavar="SECONDS",
                        help="that ffprof may take beside its budget (20)")
    parser.add_argument("--small", action="store_true", help="small networks: to try, where figures mean nothing")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="compare this file of ffprof's, measure nothing")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where costs that are measured stay, to be added to")
    parser.add_argument("-o", "--output", type=Path, metavar="REPORT", help="as JSON")
    return parser.parse_args(arguments)


def main(arguments):
    options = options_of(arguments)
    kind = kind_of(options)
    model = MODELS / f"{kind}.json"
    networks = SMALL if options.small else NETWORKS
    device = options.build / "bench/bench-device"
    with tempfile.TemporaryDirectory() as name:
        folder, graphs, works, failed = Path(name), {}, {}, {}
        for i, network in enumerate(networks):
            graphs[network.name] = folder / f"{i}.json"
            command(options.build / "graphs/ffzoo", *network.arguments, "-o", graphs[network.name])
            works[network.name] = json.loads(command(device, model, "--graph", graphs[network.name]))
        costs = options.costs or options.keep or folder / "costs.json"
        if not options.costs:
            failed = measure(options, networks, graphs, machine_of(kind, folder), costs)
        said = costs_in(costs) if options.costs or costs.exists() else {}
    report = compare(kind, works, said, failed, lambda shape: float(command(device, model, input=shape + "\n")))
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{kind}, figures in {options.output}\n" if options.output else f"{kind}\n")
    print(table(report))
    return 1 if failed or not report["rows"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, KeyError) as error:
        stop(1, error)
