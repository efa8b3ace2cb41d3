#!/usr/bin/env python3
"""Predicted against measured step time of many strategies, on this machine or emulated hosts.

usage: bench/accuracy.py [--table untuned|tuned] [--build build] [--out out] [--data fashion-mnist]
                         [--machine cpu2] [--random 4] [--most N] [--rounds 1] [--seconds S]
                         [--hosts N --bandwidth 1gbit [--latency 0]] [--kernels FILE]
                         [--network NAME]... [--kind KIND]... [--stage STAGE]...
       bench/accuracy.py --together OUT...

There are two tables of networks.  No price was ever adjusted to those of the preset one, `untuned`: its
figures count.  Two of its networks are imported from PyTorch (`bench/torch_networks.py`, by FF_PYTHON,
preset /usr/bin/python3).  For each network of the table, or those named, strategies of these kinds
are made (preset: of `untuned` the first kind, of `tuned` the others):

  usual      what one would try first: data parallelism, its updates cut (zero-1), the searched plan,
             and random splits
  splits     data parallelism, one device, the expert's, the searched plan, plans of very
             short searches, random ones
  phases     data parallelism with parameters cut (zero), gathered again (zero-3) or served
             from one device, in micro-batches, with values computed again; random splits
             with parameters cut
  pipelines  the halves that ffsearch cuts, and stages cut anywhere; of networks that have no
             micro-batches the same places without them: devices take turns
  replicas   drawn ones, some of whose operators both devices compute alike, and what a
             search finds that may use them

--most N takes N of each kind, drawn.  With --hosts there is one rank on each of so many emulated
hosts (./run cluster, as root), whose links are measured, too; --kernels begins with the kernels of
another such run's accuracy.costs.json.  --together shows what was measured in several folders,
and draws OUT/together.svg in the first.

Stages, all unless named: `profile` fills OUT/accuracy.costs.json; `make` writes strategies to
OUT/accuracy/; `measure` trains by each, all networks in turns so that what passes disturbs all
alike, of several times the fastest counts, as what disturbs only delays: once, or with --rounds N
until there are six and the fastest two are within 2 % of each other, at most N times; `table`
predicts them anew and prints networks, the classes of tasks that are furthest off, how well one run
foretells the next, which is what the machine's noise allows, and OUT/accuracy.svg.  What was done
is in OUT/accuracy.results.json: a run that was interrupted, or that --seconds ended, is continued
by the next.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import random
import sys
import time

import compared
from commands import load, on_hosts, profile_hosts, run, save

# name: (ffzoo's arguments or the name in torch_networks.py, data is the data set named or synthetic,
#        trained in micro-batches)
UNTUNED = {
    "bert": (["bert", "--batch", "8", "--set", "layers=2", "--set", "width=256", "--set", "heads=4",
              "--set", "sequence=64", "--set", "vocabulary=2000"], False, True),
    "branchnet": (["branchnet", "--batch", "32"], True, False),
    "cosmoflow": (["cosmoflow", "--batch", "4", "--set", "image=32", "--set", "width=16",
                   "--set", "layers=3"], False, True),
    "dlrm": (["dlrm", "--batch", "256", "--set", "rows=20000"], False, True),
    "llama": (["llama", "--batch", "8", "--set", "layers=2", "--set", "width=192", "--set", "heads=4",
               "--set", "key_heads=2", "--set", "hidden=512", "--set", "sequence=96",
               "--set", "vocabulary=2000"], False, True),
    "moe": (["moe", "--batch", "8", "--set", "layers=2", "--set", "width=128", "--set", "heads=4",
             "--set", "key_heads=2", "--set", "hidden=256", "--set", "experts=4",
             "--set", "sequence=64", "--set", "vocabulary=2000"], False, True),
    "resnet50": (["resnet50", "--batch", "8", "--set", "image=64", "--set", "classes=10"], False, False),
    "rnntc": (["rnntc", "--batch", "32", "--set", "steps=16", "--set", "hidden=256",
               "--set", "layers=2", "--set", "vocabulary=2000"], False, True),
    "vit": (["vit_b16", "--batch", "8", "--set", "layers=2", "--set", "width=192", "--set", "heads=3",
             "--set", "image=64", "--set", "patch=8", "--set", "classes=10"], False, True),
    "torch-gpt": ("wide GPT blocks", False, True),
    "torch-regnet": ("regnet_y_400mf", False, False),
}
TUNED = {
    "alexnet28": (["alexnet", "--set", "image=28", "--batch", "128"], True, True),
    "gpt2": (["gpt2", "--batch", "8", "--set", "layers=2", "--set", "width=128", "--set", "heads=4",
              "--set", "sequence=64", "--set", "vocabulary=2000"], False, True),
    "lenet": (["lenet", "--batch", "128"], True, True),
    "mlp": (["mlp", "--set", "hidden=4096", "--set", "layers=2", "--batch", "128"], True, True),
    "mobilenet": (["mobilenet_v2", "--batch", "16", "--set", "image=28", "--set", "channels=1",
                   "--set", "classes=10"], True, False),
    "rnnlm": (["rnnlm", "--batch", "32", "--set", "steps=16", "--set", "hidden=256",
               "--set", "layers=2", "--set", "vocabulary=2000"], False, True),
    "unet": (["unet", "--batch", "8", "--set", "image=32", "--set", "width=16",
              "--set", "depth=2"], False, False),
}
TABLES = {"untuned": UNTUNED, "tuned": TUNED}
NETWORKS = {**UNTUNED, **TUNED}
KINDS = {"untuned": ("usual",), "tuned": ("splits", "phases", "pipelines", "replicas")}
STAGES = ("profile", "make", "measure", "table")
MICRO_BATCHES = 4
PROFILED = 5  # steps whose tasks are timed
WARMUP = 5
PROFILE_ROUNDS = 3  # of kernels
FEWEST_RUNS = 6  # where a machine is slow for seconds, two runs may be alike as both were slow
SAME = 1.02  # two runs by one strategy that no other program has delayed
MEASURED_US = 1.2e6  # a run is so long, within these steps
FEWEST, MOST = 12, 60


class Bench:
    """Paths, and what was done so far."""

    def __init__(self, options):
        self.options = options
        self.costs = f"{options.out}/accuracy.costs.json"
        self.folder = f"{options.out}/accuracy"
        self.results = f"{options.out}/accuracy.results.json"
        self.scratch = f"{self.folder}/scratch"
        self.points = f"{options.out}/accuracy.points.json"
        os.makedirs(self.scratch, exist_ok=True)
        self.base = options.machine
        self.machine = f"{options.out}/accuracy.machine.json" if options.hosts else options.machine
        self.nodes = {}
        self.done = {"calibration_s": {}, "strategies": []}
        if os.path.exists(self.results):
            self.done.update(load(self.results))
        for s in self.done["strategies"]:  # of old, tasks had what devices wait for each other in them
            s["runs"] = [r for r in s["runs"] if "worked" in r]
        for network in options.network:
            self.make_graph(network)

    def make_graph(self, network):
        made_by, tools = NETWORKS[network][0], f"{self.options.build}/graphs"
        if not isinstance(made_by, str):
            run(f"{tools}/ffzoo", *made_by, "-o", self.graph(network))
        elif not os.path.exists(self.graph(network)):
            model = f"{self.scratch}/{network}.onnx"
            run(os.environ.get("FF_PYTHON", "/usr/bin/python3"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_networks.py"),
                made_by, model)
            run(f"{tools}/ffimport", model, "-o", self.graph(network))

    def graph(self, network):
        return f"{self.folder}/{network}.json"

    def data(self, network):
        return self.options.data if NETWORKS[network][1] else "synthetic"

    def keep(self):
        save(self.results, self.done)

    def ranks(self, *command):
        """A command whose ranks run where strategies are measured."""
        o = self.options
        if o.hosts:
            on_hosts(o.build, o.hosts, o.bandwidth, o.latency, *command)
        else:
            run(*command)

    def search(self, network, costs, *arguments, report=None):
        """The strategy that ffsearch writes for the network."""
        made = f"{self.scratch}/made.json"
        more = ["--report", report] if report else []
        run(f"{self.options.build}/planner/ffsearch", self.graph(network), "--machine",
            self.machine if os.path.exists(self.machine) else self.base, "--costs", costs,
            *arguments, "-o", made, *more)
        return load(made)

    def named(self, network, *name):
        return self.search(network, "peak", "--simulate", *name)

    def is_parameter(self, network, entry):
        """Whether a strategy's entry is about a parameter: what is no node of the file."""
        if network not in self.nodes:
            self.nodes[network] = {n["name"] for n in load(self.graph(network))["nodes"]}
        return entry["name"] not in self.nodes[network]

    def mine(self):
        """Strategies of the networks and kinds that were asked for."""
        return [s for s in self.done["strategies"]
                if s["network"] in self.options.network and s["kind"] in self.options.kind]


# ---- strategies ----

def usual(bench, network):
    for name in ("data-parallel", "zero-1"):
        yield name, bench.named(network, name)
    yield "plan", bench.search(network, bench.costs, "--proposals", "3000", "--seed", "1")
    for seed in range(bench.options.random):
        yield f"random-{seed}", bench.named(network, "random", "--seed", str(seed))


def splits(bench, network):
    for name in ("data-parallel", "single", "expert"):
        yield name, bench.named(network, name)
    yield "plan", bench.search(network, bench.costs, "--proposals", "3000", "--seed", "1")
    for seed in range(2):
        yield f"search-{seed}", bench.search(network, bench.costs, "--proposals", "8", "--init",
                                             "random", "--seed", str(seed))
    for seed in range(bench.options.random):
        yield f"random-{seed}", bench.named(network, "random", "--seed", str(seed))


def phases(bench, network):
    frugal = bench.named(network, "frugal")
    entries = frugal["operators"]
    cut = [dict(e, recompute=False) for e in entries if bench.is_parameter(network, e)]
    again = [e for e in entries if not bench.is_parameter(network, e)]
    plain = [dict(e, recompute=False) for e in again]
    served = [dict(e, degrees={}, devices=[i % 2]) for i, e in enumerate(cut)]
    brought = [dict(e, recompute=True) for e in cut]
    made = [("zero", 1, plain + cut), ("zero-3", 1, plain + brought), ("server", 1, plain + served),
            ("recompute", 1, again)]
    if NETWORKS[network][2]:
        made += [("micro-batches", MICRO_BATCHES, plain), ("frugal", MICRO_BATCHES, entries)]
    for name, micro_batches, operators in made:
        yield name, dict(frugal, micro_batches=micro_batches, operators=operators)
    for seed in range(bench.options.random // 2):
        drawn = bench.named(network, "random", "--seed", str(1000 + seed))
        drawn["operators"] = [e for e in drawn["operators"] if not bench.is_parameter(network, e)] + cut
        yield f"zero-random-{seed}", drawn


def staged(start, first, names, micro_batches):
    """Operators up to name `first` on one device, all others on the other."""
    at = names.index(first)
    operators = []
    for i, name in enumerate(names):
        stage = int(i >= at)
        operators.append({"name": name, "degrees": {}, "devices": [stage]})
        if stage and micro_batches > 1:
            operators[-1]["stage"] = stage
    return dict(start, micro_batches=micro_batches, operators=operators)


def pipelines(bench, network):
    start = bench.named(network, "single")
    names = [e["name"] for e in start["operators"] if not bench.is_parameter(network, e)]
    draw = random.Random(len(names))
    cuts = draw.sample(names[1:-1], min(bench.options.random // 2 + 1, len(names) - 2))
    if NETWORKS[network][2]:
        for order in ("1f1b", "gpipe"):
            yield f"pipeline-{order}", dict(bench.named(network, "pipeline-2"),
                                            micro_batches=MICRO_BATCHES, order=order)
        for i, first in enumerate(cuts):
            order = ("1f1b", "gpipe")[i % 2]
            yield f"stages-{first}", dict(staged(start, first, names, MICRO_BATCHES), order=order)
    yield f"turns-{cuts[0]}", staged(start, cuts[0], names, 1)
    for i in range(0 if NETWORKS[network][2] else bench.options.random // 2):
        yield f"turns-{cuts[i + 1]}", staged(start, cuts[i + 1], names, 1)


def replicas(bench, network):
    for seed in range(bench.options.random // 2):
        start = ["data-parallel"] if seed % 2 == 0 else ["random", "--seed", str(seed)]
        made = bench.named(network, *start)
        draw = random.Random(seed)
        entries = made["operators"]
        alike = [i for i, e in enumerate(entries) if not bench.is_parameter(network, e)]
        for i in draw.sample(alike, draw.randint(1, max(1, len(alike) // 2))):
            entries[i].update(degrees={}, replicas=2, devices=[0, 1])
        yield f"replicas-{seed}", made
    yield "search-r", bench.search(network, bench.costs, "--space", "replicas", "--proposals",
                                   "2000", "--seed", "0")


def drawn_from(bench, kind, strategies):
    """As many of a kind as were asked for, in order."""
    most = bench.options.most
    if not most or most >= len(strategies):
        return strategies
    draw = random.Random(f"{kind} {len(strategies)}")
    return [strategies[i] for i in sorted(draw.sample(range(len(strategies)), most))]


def make(bench):
    """Writes the strategies that are not there yet; one that says what another does counts once."""
    makers = {"usual": usual, "splits": splits, "phases": phases, "pipelines": pipelines, "replicas": replicas}
    for network in bench.options.network:
        known = [s for s in bench.done["strategies"] if s["network"] == network]
        seen = [load(s["path"]) for s in known]
        for kind in bench.options.kind:
            if any(s["kind"] == kind for s in known):
                continue
            for name, made in drawn_from(bench, kind, list(makers[kind](bench, network))):
                path = f"{bench.folder}/{network}.{name}.json"
                save(path, made)
                made = bench.search(network, "peak", "--simulate", path)
                what = [[s.get(key) for key in ("operators", "micro_batches", "order")]
                        for s in seen + [made]]
                if what[-1] in what[:-1]:
                    continue
                seen.append(made)
                save(path, made)
                bench.done["strategies"].append({"network": network, "kind": kind, "name": name,
                                                 "path": path, "runs": []})
        bench.keep()


# ---- figures ----

def profile_network(bench, network):
    """Its kernels and, where hosts are emulated, their links."""
    o = bench.options
    micro_batches = MICRO_BATCHES if NETWORKS[network][2] else 1
    more = ["--data", bench.data(network), "--replace", "--micro-batches", str(micro_batches),
            "--rounds", str(PROFILE_ROUNDS)]
    if o.hosts:
        profile_hosts(o.build, o.hosts, o.bandwidth, o.latency, bench.graph(network), bench.machine,
                      bench.costs, "--largest", "16M", *more)
    else:
        run(f"{o.build}/runtime/ffprof", bench.graph(network), "--machine", bench.base, "-o",
            bench.costs, *more)


def profile(bench):
    options = bench.options
    if options.kernels and not os.path.exists(bench.costs):
        known = load(options.kernels)
        save(bench.costs, {k: [] if k == "comm" else v for k, v in known.items()
                           if k not in ("link", "overlap")})
    for network in options.network:
        start = time.monotonic()
        try:
            profile_network(bench, network)
        finally:
            spent = bench.done["calibration_s"]
            spent[network] = spent.get(network, 0) + time.monotonic() - start
            bench.keep()
        print(f"{network}: profiled in {spent[network]:.0f} s", flush=True)


def is_settled(s):
    """Whether more runs by a strategy would hardly be faster."""
    steps = sorted(r["step_us"] for r in s["runs"])
    return len(steps) >= FEWEST_RUNS and steps[1] <= SAME * steps[0]


def measure(bench):
    options = bench.options
    start = time.monotonic()
    order = bench.mine()
    at = {network: 0 for network in options.network}
    for s in order:  # in turns: the first of each network, the second of each, ...
        s["turn"] = at[s["network"]]
        at[s["network"]] += 1
    order.sort(key=lambda s: s["turn"])
    for s in order:
        del s["turn"]
    for k in range(options.rounds):
        for s in order:
            if len(s["runs"]) > k or is_settled(s):
                continue
            if options.seconds and time.monotonic() - start > options.seconds:
                print("the time is over: run again to continue")
                return
            s["runs"].append(measured(bench, s))
            bench.keep()


def measured(bench, s):
    """One run's median step, and what its tasks took by class, without what devices wait for each
    other in communication; microseconds."""
    options = bench.options
    report = f"{bench.scratch}/run.json"
    guess = s["runs"][0]["step_us"] if s["runs"] else load(s["path"])["predicted_us"]
    steps = int(min(MOST, max(FEWEST, MEASURED_US / guess)))
    bench.ranks(f"{options.build}/runtime/ffrun", bench.graph(s["network"]), s["path"], "--machine",
                bench.machine, "--data", bench.data(s["network"]), "--steps",
                str(WARMUP + steps + PROFILED), "--warmup", str(WARMUP), "--profile",
                str(PROFILED), "--report", report)
    r = load(report)
    return {"step_us": r["step_us"]["median"], "p10_us": r["step_us"]["p10"],
            "p90_us": r["step_us"]["p90"],
            "worked": {t["class"]: t["measured_us"] - (t.get("waited_us") or 0) for t in r["tasks"]}}


def predicted(bench, s):
    """The step's time by the costs as they are, and its tasks' by class; microseconds."""
    report = f"{bench.scratch}/search.json"
    made = bench.search(s["network"], bench.costs, "--simulate", s["path"], report=report)
    return load(report)["predicted_us"], made["predicted_tasks"]


def table(bench):
    points = []
    for s in bench.mine():
        if not s["runs"]:
            continue
        us, tasks = predicted(bench, s)
        fastest = min(s["runs"], key=lambda r: r["step_us"])
        points.append(compared.Point(s["network"], s["kind"], s["name"], us, fastest["step_us"], tasks,
                                     fastest["worked"]))
    if not points:
        sys.exit("nothing was measured yet: run the stages make and measure")
    save(bench.points, points)
    compared.show(points, bench.options.verbose)
    compared.repeated([(s["network"], [r["step_us"] for r in s["runs"]]) for s in bench.mine()])
    if bench.options.rounds > 1:
        print(f"{sum(is_settled(s) for s in bench.mine())} strategies have two runs within 2 %")
    for network, seconds in bench.done["calibration_s"].items():
        print(f"{network}: profiled in {seconds:.0f} s")
    compared.plot(points, f"{bench.options.out}/accuracy.svg")


def together(folders):
    """What several runs came to: networks by folder."""
    points = []
    for folder in folders:
        name = os.path.basename(os.path.normpath(folder))
        points += [compared.Point(*p)._replace(network=f"{name} {p[0]}")
                   for p in load(f"{folder}/accuracy.points.json")]
    compared.summary(points)
    compared.plot([p._replace(network=p.network.split()[0]) for p in points], f"{folders[0]}/together.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--table", choices=TABLES, default="untuned")
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="out")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--machine", default="cpu2")
    parser.add_argument("--random", type=int, default=4)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--bandwidth", default="1gbit")
    parser.add_argument("--latency", default="0")
    parser.add_argument("--kernels")
    parser.add_argument("--together", nargs="+", metavar="OUT")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="classes of every strategy")
    parser.add_argument("--kind", action="append", choices=sum(KINDS.values(), ()))
    parser.add_argument("--stage", action="append", choices=STAGES)
    parser.add_argument("--network", action="append", choices=sorted(NETWORKS))
    options = parser.parse_args()
    if options.together:
        together(options.together)
        return
    if options.hosts:
        options.build, options.out = os.path.abspath(options.build), os.path.abspath(options.out)
        options.machine = f"cpu{options.hosts}"
        os.environ["OMP_NUM_THREADS"] = "1"
    options.kind = options.kind or KINDS[options.table]
    options.stage = options.stage or STAGES
    options.network = options.network or sorted(TABLES[options.table])
    bench = Bench(options)
    for stage in STAGES:
        if stage in options.stage:
            {"profile": profile, "make": make, "measure": measure, "table": table}[stage](bench)


if __name__ == "__main__":
    main()
