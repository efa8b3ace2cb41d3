#!/usr/bin/env python3
"""Predicted beside published times of whole training steps on GPUs.

usage: bench/published.py FOLDER [--build build] [--out out] [--costs analytic] [--rows 250 | --all] [--jobs 1]
                          [--machine GPU=MACHINE]... [--framework NAME]... [--composed] [--clusters]
                          [--svg FILE] [--verbose]

FOLDER has tables of what others measured, as CSV with a header.  Those that are there are read:

  vtrain_e2e_open.csv   Megatron-DeepSpeed: GPTs on A100 by tensor, data and pipeline parallelism and
                        size of micro-batches (VIA-Research/vTrain @ f8dda84, data, MIT): 1F1B,
                        gradients are all-reduced behind backward, at once, and, as its configurations
                        say, activations recomputed in full
  neusight_e2e.csv      eager PyTorch, float32 without TF32, forward and backward: one GPU, and four by
                        dp4, tp4, pp4_1 (sitar-lab/NeuSight @ 6945927, scripts/asplos, MIT)
  endtoend_open.csv     resnet50 and BERT for SQuAD, data-parallel on 1 to 8 GPUs, the input pipeline
                        and the optimizer in it (lambdal/deeplearning-benchmark @ aa5addb, no licence found)

The first table is no measurement, but sums of vTrain's own (bench/composed.py).  --composed takes its rows as these
have them: nothing is recomputed, and of 50257 words each of t shards has 50257 // t.

With --clusters also three steps on 4 to 16 nodes (Narayanan et al., "Efficient Large-Scale Language Model Training on
GPU Clusters Using Megatron-LM", SC 2021, table 1), by the micro-batches that are predicted fastest, as it names none.

Of each table about --rows are taken, evenly, or --all.  Networks are ffzoo's, priced by bench-frameworks, as ffsearch
--simulate has them;
a GPU is in a machine made of its datasheet (below), or in what --machine says, a100_sxm40=dgx-a100-40, of many GPUs
in several of them.  Memory is no limit: what was measured did fit.

Printed are, by GPU, network and number of GPUs, the mean absolute and signed errors of predicted against
published steps, Kendall's tau of pairs with the same network, GPUs and batch, the same without pairs whose
published steps are less than 2 % apart, and the term that errs most:
of compute, communication and waits (what is left of the step) it is the one whose factor is furthest
from one, by its share of the step, where factors are fitted to the group's rows by least squares, drawn
towards one.  First as our runtime would execute the steps; then as their frameworks do (ffsearch
--framework), each with the one number that is fitted to it.  That is cross-validated: the number with which
a network is predicted is fitted to all other networks.  OUT/published.svg and published-frameworks.svg are
scatter plots of the two, --svg FILE is the latter once more; OUT/published.json has the rows.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
from concurrent import futures
from typing import NamedTuple

import compared
from commands import load, run, save

# What a kind of device is called in graphs/machines, and of datasheets, dense: TFLOP/s float32 without tensor cores,
# with TF32, 16 bit; GB/s; GiB; GB/s to others of the host in each direction.  V100 has no bfloat16: its float16 stands
# for it; A100 PCIe 80 GB is taken for the SXM one but for its memory's rate and its links.
GPUS = {
    "p100": ("P100-16GB", 10.6, None, 21.2, 732, 16, 16),
    "v100": ("V100-32GB", 15.7, None, 125, 900, 32, 150),
    "v100_16": ("V100-16GB", 15.7, None, 125, 900, 16, 150),
    "a100_pcie40": ("A100-PCIE-40GB", 19.5, 156, 312, 1555, 40, 25),
    "a100_pcie80": ("A100-80GB", 19.5, 156, 312, 1935, 80, 25),
    "a100_sxm40": ("A100-40GB", 19.5, 156, 312, 1555, 40, 300),
    "a100_sxm80": ("A100-80GB", 19.5, 156, 312, 2039, 80, 300),
    "h100_pcie80": ("H100-PCIE-80GB", 51.2, 378, 756, 2000, 80, 50),
    "h100_sxm80": ("H100-80GB", 66.9, 494, 989, 3350, 80, 450),
    "l4": ("L4", 30.3, 60, 121, 300, 24, 25),
    "t4": ("T4", 8.1, None, 65, 320, 16, 12),
}
ALIASES = {"a100-sxm": "a100_sxm40"}
MACHINES = {"a100_sxm80": "dgx-a100-80"}  # of several nodes
A_NODE = 8  # GPUs

MEGATRON, EAGER, EXAMPLES = "Megatron-DeepSpeed", "eager PyTorch", "DeepLearningExamples"
TF32 = f"{EXAMPLES} in TF32"
# ffsearch's; lambdal's scripts for resnet50 leave the images channels first, which is the preset
FRAMEWORKS = {MEGATRON: "megatron", EAGER: "pytorch", EXAMPLES: "examples-nchw", TF32: "examples-nchw"}
HOSTS, TIMES = (0, 25, 50, 70, 90, 120, 160), (1, 1.1, 1.2, 1.3, 1.5)  # numbers that are tried
NUMBERS = {MEGATRON: HOSTS, EAGER: HOSTS, EXAMPLES: TIMES, TF32: TIMES}
WHOLE = 1 << 34  # bytes of a bucket that has all gradients
COMMUNICATION = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point", "halo", "broadcast",
                 "gather", "scatter", "gradient", "weights", "load", "move")
TERMS = ("compute", "communication", "waits")


class Row(NamedTuple):
    """One measured step."""
    framework: str
    gpu: str
    gpus: int
    network: str  # what it is called here
    zoo: tuple  # ffzoo's arguments
    tf32: bool
    strategy: str  # --simulate's
    optimizer: str  # "": none in the step
    whole: bool  # gradients travel at once, behind backward
    measured: float  # microseconds


# ---- tables ----

def size(**values):
    return tuple(a for key, value in values.items() for a in ("--set", f"{key}={value}"))


def read(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        print(f"{path} is not there")
        return []
    with open(path, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def of_vtrain(r):
    """Words are 51200, as Megatron-LM pads GPT-2's; a tenth is dropped, its preset."""
    t, d, p, batch = (int(r[k]) for k in ("t", "d", "p", "global_batch"))
    micro = batch // d // int(r["micro_batch"])
    zoo = ("gpt2", "--batch", str(batch), *size(layers=r["layers"], width=r["hidden"], heads=r["heads"],
                                                sequence=r["seq"], vocabulary=51200, dropout=10, dtype="bfloat16"))
    gpu = ALIASES.get(r["gpu"], r["gpu"])
    return Row(MEGATRON, gpu, int(r["gpus"]), f"gpt {r['layers']}x{r['hidden']}", zoo, False,
               f"megatron:{t},{d},{p},{micro},recompute,even", "adamw", True, 1e3 * float(r["iter_ms"]))


GPTS = {"gpt2_large": (36, 1280, 20, 50257), "gpt3_xl": (24, 3072, 24, 50257), "gpt3_27": (32, 2560, 32, 50257),
        "opt_13": (24, 2048, 32, 50272)}
RELU = {"opt_13"}  # in gelu's place
WAYS = {"": (1, "megatron:1,1,1,1"), "dp4": (4, "data-parallel"), "tp4": (4, "megatron:4,1,1,1"),
        "pp4_1": (4, "megatron:1,1,4,1")}


def of_neusight(r):
    """The steps are forward and backward; gpt3_xl is taken to be 3072 wide, 24 heads of 128: published steps
    are 1.8 times those of opt_13, which is 2048 wide and else as large."""
    if r["mode"] != "train" or r["extra"] not in WAYS or r["gpu"] not in GPUS:
        return None
    gpus, strategy = WAYS[r["extra"]]
    batch = ("--batch", r["batch"])
    if r["network"] in GPTS:
        layers, width, heads, words = GPTS[r["network"]]
        zoo = ("gpt2", *batch, *size(layers=layers, width=width, heads=heads, sequence=r["seq"], vocabulary=words))
    elif r["network"] == "bert_large":
        zoo = ("bert_large", *batch, *size(sequence=r["seq"], task="words"))
    else:
        return None
    return Row(EAGER, r["gpu"], gpus, r["network"], zoo, False, strategy, "", False, 1e3 * float(r["e2e_ms"]))


def of_lambda(r):
    """SQuAD is trained on sequences of 384; batch norms are over each GPU's samples."""
    mixed = r["dtype"] == "fp16-amp"
    dtype = size(dtype="bfloat16") if mixed else ()
    batch = ("--batch", r["global_batch"])
    if r["gpu"] not in GPUS or r["network"] not in ("resnet50", "bert_base_squad", "bert_large_squad"):
        return None
    if r["network"] == "resnet50":
        zoo, optimizer = ("resnet50", *batch, *size(norm_group=r["per_gpu_batch"]), *dtype), "momentum"
    else:
        name = "bert" if "base" in r["network"] else "bert_large"
        zoo, optimizer = (name, *batch, *size(sequence=384, dropout=10), *dtype), "adamw"
    tf32 = not mixed and GPUS[r["gpu"]][2] is not None
    return Row(TF32 if tf32 else EXAMPLES, r["gpu"], int(r["gpus"]), f"{r['network']} {'fp16' if mixed else 'fp32'}",
               zoo, tf32, "data-parallel", optimizer, False, 1e6 * int(r["global_batch"]) / float(r["rate"]))


# of that table: layers, width, heads, tensor parallelism, GPUs, batch, TFLOP/s a GPU; the rest is data parallelism
SELENE = ((24, 2304, 24, 1, 32, 512, 137), (30, 3072, 32, 2, 64, 512, 138), (36, 4096, 32, 4, 128, 512, 142))


def of_selene(layers, width, heads, tensor, gpus, batch, rate):
    """The step is what its formula has of FLOPs, recomputation among them, by the rate.  One row a micro-batch."""
    words, places = 51200, 2048
    flops = 96 * batch * places * layers * width ** 2 * (1 + places / (6 * width) + words / (16 * layers * width))
    zoo = ("gpt2", "--batch", str(batch), *size(layers=layers, width=width, heads=heads, sequence=places,
                                                vocabulary=words, dropout=10, dtype="bfloat16"))
    data = gpus // tensor
    return [Row(MEGATRON, "a100_sxm80", gpus, f"gpt {layers}x{width}", zoo, False,
                f"megatron:{tensor},{data},1,{batch // data // m},recompute,even", "adamw", True,
                flops / gpus / rate / 1e6) for m in (1, 2, 4, 8)]


TABLES = (("vtrain_e2e_open.csv", of_vtrain), ("neusight_e2e.csv", of_neusight), ("endtoend_open.csv", of_lambda))


def as_composed(r):
    """Megatron-DeepSpeed's row as vTrain sums it up."""
    if r.framework != MEGATRON:
        return r
    t = int(r.strategy.split(":")[1].split(",")[0])
    zoo = tuple(f"vocabulary={50257 // t * t}" if a.startswith("vocabulary=") else a for a in r.zoo)
    return r._replace(strategy=r.strategy.replace(",recompute", ""), zoo=zoo)


def mean_of_equal(rows):
    """What was measured several times, or on several hosts, counts once."""
    found = compared.by_key(rows, lambda r: r._replace(measured=0))
    return [key._replace(measured=statistics.mean(r.measured for r in some)) for key, some in found.items()]


def comparable(r):
    """Rows with the same of these differ in their strategies alone."""
    return r.gpu, r.gpus, tuple(a for a in r.zoo if not a.startswith("vocabulary="))


def evenly(rows, n):
    """About `n` of them, by the order of the file, with all that they are compared with."""
    groups = list(compared.by_key(rows, comparable).values())
    every = 1 if n is None else max(1, math.ceil(len(rows) / n))
    return [r for some in groups[::every] for r in some]


# ---- prediction ----

def write_machine(path, gpu, gpus, tf32):
    name, plain, tensor, half, bandwidth, memory, link = GPUS[gpu]
    kind = {"name": name, "backend": "cuda", "flops_per_s": 1e12 * (tensor if tf32 and tensor else plain),
            "bfloat16_flops_per_s": 1e12 * half, "memory_bytes_per_s": 1e9 * bandwidth, "memory_bytes": memory << 30}
    inside = {"latency_us": 5, "bytes_per_s": 1e9 * link, "shared": False}
    save(path, {"format": "ffsoap-machine", "version": 1, "name": gpu, "overlap": True, "kinds": [kind],
                "nodes": [{"count": 1, "devices": gpus, "kind": name, "inside": inside}]})


def replace_gelu(path):
    """By relu, in a graph's file."""
    graph = load(path)
    for node in graph["nodes"]:
        if node["op"] == "gelu":
            node["op"] = "relu"
            del node["approximate"]
    save(path, graph)


def is_communication(name):
    return name.startswith(COMMUNICATION)


class Predicted(NamedTuple):
    """A row and what is predicted of it, microseconds: the step, and what it is made of on a device."""
    row: Row
    us: float
    terms: tuple  # as TERMS
    curve: tuple = ()  # the same by number of its framework: number, us, terms

    @property
    def error(self):
        return (self.us - self.row.measured) / self.row.measured

    def with_number(self, number):
        """By its framework: on the line between the numbers that were tried."""
        for low, high in zip(self.curve, self.curve[1:]):
            if number <= high[0]:
                break
        share = (number - low[0]) / (high[0] - low[0])
        us, *terms = ((1 - share) * a + share * b for a, b in zip((low[1], *low[2]), (high[1], *high[2])))
        return self._replace(us=us, terms=tuple(terms))


def take_apart(r, plan):
    """The step and its terms; what is updated is left out where the published step ends before."""
    n, tasks = r.gpus, plan["tasks"]
    update = 0 if r.optimizer else tasks.get("update", 0) / n
    moved = sum(us for name, us in tasks.items() if is_communication(name)) / n
    done = sum(us for name, us in tasks.items() if not is_communication(name)) / n - update
    us = plan["us"] - update
    return us, (done, moved, max(0, us - done - moved))


class Predictor:
    """Graphs and machines are files that many rows share."""

    def __init__(self, options):
        self.o = options
        self.folder = os.path.join(options.out, "published")
        self.machines = dict(text.split("=", 1) for text in options.machine)
        self.graphs = {}
        os.makedirs(self.folder, exist_ok=True)

    def graph(self, r):
        key = r.zoo, r.network in RELU
        if key not in self.graphs:
            self.graphs[key] = path = os.path.join(self.folder, f"graph{len(self.graphs)}.json")
            run(f"{self.o.build}/graphs/ffzoo", *r.zoo, "-o", path)
            if r.network in RELU:
                replace_gelu(path)
        return self.graphs[key]

    def machine(self, r):
        nodes = -(-r.gpus // A_NODE)
        name = self.machines.get(r.gpu, MACHINES.get(r.gpu) if nodes > 1 else None)
        if name:
            return [f"{name}:{nodes}" if nodes > 1 else name, "--devices", str(r.gpus)]
        path = os.path.join(self.folder, f"{r.gpu}-{r.gpus}{'-tf32' if r.tf32 else ''}.json")
        if not os.path.exists(path):
            write_machine(path, r.gpu, r.gpus, r.tf32)
        return [path]

    def steps(self, rows, numbers):
        """Of rows that share a graph, a machine and an optimizer, a list of plans each: of our runtime and of the
        framework by each number; or a sentence that says why not."""
        r = rows[0]
        command = [f"{self.o.build}/bench/bench-frameworks", self.graph(r), "--machine", *self.machine(r),
                   "--costs", self.o.costs, "--optimizer", r.optimizer or "sgd"]
        if r.framework == MEGATRON and -(-r.gpus // A_NODE) == 1:  # of sums of one GPU's kernels no GPU is the slowest
            command.append("--alike")
        command += [w for n in numbers for w in ("--framework", f"{FRAMEWORKS[r.framework]}:{n}")]
        lines = [f"{'whole' if x.whole and x.gpus > 1 else 'tuned'} {x.strategy}\n" for x in rows]
        done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return [json.loads(line) if line.startswith("[") else line for line in done.stdout.splitlines()]

    def predict(self, rows):
        """By our runtime and by their framework: of each row that, or why not."""
        numbers, found = NUMBERS[rows[0].framework] if self.o.costs == "analytic" else (), []
        for r, plans in zip(rows, self.steps(rows, numbers)):
            if isinstance(plans, str):
                found.append(plans)
                continue
            (us, terms), *by = (take_apart(r, p) for p in plans)
            found.append(Predicted(r, us, terms, tuple((n, *x) for n, x in zip(numbers, by))))
        return found

    def fastest(self, rows, number):
        """Of rows that were measured as one, by that number."""
        points = []
        for r, plans in zip(rows, self.steps(rows, (number,))):
            if isinstance(plans, str):
                sys.exit(plans)
            points.append(Predicted(r, *take_apart(r, plans[1])))
        return min(points, key=lambda x: x.us)


def predict_all(rows, options):
    """Rows that cannot be predicted are told."""
    predictor, points, why = Predictor(options), [], {}
    groups = list(compared.by_key(rows, lambda r: (r.gpu, r.gpus, r.zoo, r.tf32, r.optimizer, r.framework)).values())
    for some in groups:  # what jobs share is made before
        predictor.graph(some[0]), predictor.machine(some[0])
    for i, found in enumerate(futures.ThreadPoolExecutor(options.jobs).map(predictor.predict, groups)):
        for r, x in zip(groups[i], found):
            if isinstance(x, str):
                why.setdefault(x, []).append(r)
            else:
                points.append(x)
        if sys.stderr.isatty():
            print(f"\r{i + 1} of {len(groups)}", end="", file=sys.stderr)
    for reason, some in why.items():
        print(f"{len(some)} rows are left out, {some[0].network} on {some[0].gpus} {some[0].gpu} first: {reason}")
    return points


# ---- tables of errors ----

def point(x):
    r = x.row
    return compared.Point(r.network, f"{r.gpu} x{r.gpus}", f"{r.strategy}, batch {r.zoo[2]}", x.us, r.measured, {}, {})


def solve(a, b):
    """Gauss without pivots, for a matrix that is symmetric and positive."""
    n = len(b)
    for i in range(n):
        for k in range(i + 1, n):
            f = a[k][i] / a[i][i]
            a[k] = [x - f * y for x, y in zip(a[k], a[i])]
            b[k] -= f * b[i]
    for i in reversed(range(n)):
        b[i] = (b[i] - sum(a[i][k] * b[k] for k in range(i + 1, n))) / a[i][i]
    return b


DRAWN = 0.1  # towards one: as much as a term of a tenth of the step in one row


def worst_term(some):
    """Its name, and what it is off by, as a share of the published step."""
    share = [[t / x.row.measured for t in x.terms] for x in some]
    normal = [[sum(s[i] * s[k] for s in share) + (DRAWN * DRAWN if i == k else 0) for k in range(3)] for i in range(3)]
    rest = [sum(s[i] * (1 - sum(s)) for s in share) for i in range(3)]
    more = solve(normal, rest)
    off = [-m * statistics.mean(s[i] for s in share) for i, m in enumerate(more)]
    worst = max(range(3), key=lambda i: abs(off[i]))
    return f"{TERMS[worst]} {100 * off[worst]:+.0f} %"


TIE = 0.02  # of a published step: what two runs of one differ by


def tau(some, tie=0):
    groups = compared.by_key(some, lambda x: comparable(x.row)).values()
    return compared.kendall([[point(x) for x in g] for g in groups], tie)


def mean_error(some):
    return statistics.mean(abs(x.error) for x in some)


def line(title, some):
    orders = ["" if math.isnan(t) else f"{t:.3f}" for t in (tau(some), tau(some, TIE))]
    print(f"{title:48} {len(some):4} {100 * mean_error(some):8.1f} % "
          f"{100 * statistics.mean(x.error for x in some):+8.1f} % "
          f"{orders[0]:>8} {orders[1]:>8}  {worst_term(some)}")


def table(points):
    print(f"\n{'':48} {'n':>4} {'mean |e|':>10} {'mean e':>10} {'tau':>8} {'no ties':>8}  errs most")
    for key, some in sorted(compared.by_key(points, lambda x: (x.row.gpu, x.row.network, x.row.gpus)).items()):
        line(f"{key[0]}, {key[1]}, {key[2]} GPU{'s' if key[2] > 1 else ''}", some)
    for framework, some in sorted(compared.by_key(points, lambda x: x.row.framework).items()):
        for gpu, part in sorted(compared.by_key(some, lambda x: x.row.gpu).items()):
            line(f"{framework}, {gpu}", part)
    for nodes, some in sorted(compared.by_key(points, lambda x: min(2, -(-x.row.gpus // A_NODE))).items()):
        line("one node" if nodes == 1 else "several nodes", some)
    line("all", points)


STEPS = 160  # from the least number that is tried to the most: hosts by a microsecond


def fit(some):
    """The number with the least mean absolute error."""
    tried = NUMBERS[some[0].row.framework]
    return min((round(tried[0] + i * (tried[-1] - tried[0]) / STEPS, 3) for i in range(STEPS + 1)),
               key=lambda number: mean_error([x.with_number(number) for x in some]))


def held_out(points):
    """By framework the number, and every row by the number of all other networks of its framework."""
    numbers, predicted = {}, []
    for framework, some in compared.by_key(points, lambda x: x.row.framework).items():
        numbers[framework] = fit(some)
        for network, part in compared.by_key(some, lambda x: x.row.network).items():
            rest = [x for x in some if x.row.network != network]
            number = fit(rest) if rest else numbers[framework]
            predicted += [x.with_number(number) for x in part]
    return numbers, predicted


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", help="of the tables")
    p.add_argument("--build", default="build", help="with the commands (preset build)")
    p.add_argument("--out", default="out", help="what is written goes there (preset out)")
    p.add_argument("--costs", default="analytic", choices=("analytic", "peak"), help="ffsearch's (preset analytic)")
    p.add_argument("--rows", type=int, default=250, help="of a table, about (preset 250)")
    p.add_argument("--all", action="store_true", help="all rows")
    p.add_argument("--jobs", type=int, default=1, help="graphs at once (preset 1)")
    p.add_argument("--machine", action="append", default=[], metavar="GPU=MACHINE", help="what a GPU is of")
    p.add_argument("--framework", action="append", choices=tuple(FRAMEWORKS),
                   help="its rows alone (preset: all)")
    p.add_argument("--composed", action="store_true", help="Megatron-DeepSpeed's rows as they were computed")
    p.add_argument("--clusters", action="store_true", help="steps on several nodes, too")
    p.add_argument("--svg", metavar="FILE", help="write a scatter plot of frameworks' steps there")
    p.add_argument("--verbose", action="store_true", help="print each row, too")
    o = p.parse_args()
    wanted = o.framework or tuple(FRAMEWORKS)
    rows = []
    for name, make in TABLES:
        made = [r for r in map(make, read(o.folder, name)) if r]
        made = mean_of_equal(map(as_composed, made) if o.composed else made)
        rows += evenly([r for r in made if r.framework in wanted], None if o.all else o.rows)
    points = predict_all(rows, o)
    if not points:
        sys.exit("nothing to compare")
    if o.verbose:
        compared.show([point(x) for x in points], False)
    table(points)
    plots = [("published", points)]
    if o.costs == "analytic":
        numbers, predicted = held_out(points)
        print("\nBy frameworks, each with one number: " +
              ", ".join(f"{name} {number:g}" for name, number in sorted(numbers.items())) +
              "; below, each network by the number that is fitted to all others")
        if o.clusters and MEGATRON in numbers:
            predicted += [Predictor(o).fastest(of_selene(*one), numbers[MEGATRON]) for one in SELENE]
        table(predicted)
        plots.append(("published-frameworks", predicted))
    save(os.path.join(o.out, "published.json"),
         [dict(x.row._asdict(), predicted=x.us, terms=x.terms, curve=x.curve) for x in points])
    for name, some in plots:
        compared.plot([point(x)._replace(network=x.row.framework) for x in some], os.path.join(o.out, f"{name}.svg"))
    if o.svg:
        compared.plot([point(x)._replace(network=x.row.framework) for x in plots[-1][1]], o.svg)


if __name__ == "__main__":
    main()
