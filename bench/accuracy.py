#!/usr/bin/env python3
"""Predicted against measured step time of many strategies, on this machine.

usage: bench/accuracy.py [--build build] [--out out] [--data fashion-mnist]
                         [--machine cpu2] [--random 8] [--steps 30] [--kind KIND]...
                         [--network NAME]...

For the demo's networks, or those named (lenet is one more): data parallelism, one
device, the expert's strategy, the searched plan, plans of very short searches and
random strategies; data parallelism with parameters cut (zero), brought again (zero-3)
or served from one device, in micro-batches, with values computed again, and pipelines;
and (kind replicas) strategies some of whose operators both devices compute alike: drawn
ones, and what searches find that may use them.  Each is predicted by `ffsearch
--simulate` and measured by `ffrun`; prints the table, the mean absolute percentage
error and Kendall's tau (tau-a), by network and over all.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import random
import subprocess
import sys

NETWORKS = {
    "alexnet28": ["alexnet", "--set", "image=28", "--batch", "128"],
    "lenet": ["lenet", "--batch", "128"],
    "mlp": ["mlp", "--set", "hidden=4096", "--set", "layers=2", "--batch", "128"],
}


def run(*command):
    """Runs a command; its output is shown only when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def kendall(pairs):
    """Kendall's tau-a of (predicted, measured) pairs."""
    score = total = 0
    for i, (p, m) in enumerate(pairs):
        for q, n in pairs[:i]:
            total += 1
            score += ((p > q) - (p < q)) * ((m > n) - (m < n))
    return score / total if total else float("nan")


MICRO_BATCHES = 4


def save(path, strategy):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(strategy, f)


def phased(options, graph, common):
    """(name, strategy): data parallelism and pipelines with what else a strategy may say."""
    base = f"{options.out}/accuracy.base.json"

    def start(name):
        run(f"{options.build}/planner/ffsearch", graph, *common, "--costs", "analytic",
            "--simulate", name, "-o", base)
        return load(base)

    frugal = start("frugal")
    entries = frugal["operators"]
    plain = [dict(e, recompute=False) for e in entries
             if not any(dim.startswith("axis") for dim in e["degrees"])]
    cut = [dict(e, recompute=False) for e in entries
           if any(dim.startswith("axis") for dim in e["degrees"])]
    again = [e for e in entries if e["name"] in {p["name"] for p in plain}]
    served = [dict(e, degrees={}, devices=[i % 2]) for i, e in enumerate(cut)]
    brought = [dict(e, recompute=True) for e in cut]
    for name, micro_batches, operators in (
            ("zero", 1, plain + cut), ("zero-3", 1, plain + brought), ("server", 1, plain + served),
            ("recompute", 1, again), ("micro-batches", MICRO_BATCHES, plain),
            ("frugal", MICRO_BATCHES, entries)):
        yield name, dict(frugal, micro_batches=micro_batches, operators=operators)
    for order in ("1f1b", "gpipe"):
        yield f"pipeline-{order}", dict(start("pipeline-2"), micro_batches=MICRO_BATCHES,
                                        order=order)


def replicated(options, graph, common):
    """(name, strategy): data parallelism and random splits, some of whose operators both
    devices compute alike."""
    base = f"{options.out}/accuracy.base.json"
    for seed in range(2 * options.random):
        draw = random.Random(seed)
        start = ["data-parallel"] if seed % 2 == 0 else ["random", "--seed", str(seed)]
        run(f"{options.build}/planner/ffsearch", graph, *common, "--costs", "analytic",
            "--simulate", *start, "-o", base)
        made = load(base)
        entries = made["operators"]
        alike = draw.sample(range(len(entries)), draw.randint(1, max(1, len(entries) // 2)))
        for i in alike:
            entries[i].update(degrees={}, replicas=2, devices=[0, 1])
        yield f"replicas-{seed}", made


def strategies(options, network, common):
    """(kind, name, ffsearch arguments that write it)."""
    graph = f"{options.out}/{network}.json"
    for name, arguments in splits(options):
        yield "splits", name, arguments
    made = []
    if "phases" in options.kind:
        made += [("phases", *m) for m in phased(options, graph, common)]
    if "replicas" in options.kind:
        made += [("replicas", *m) for m in replicated(options, graph, common)]
        for seed in range(3):
            yield "replicas", f"search-r{seed}", ["--space", "replicas", "--budget", "3s",
                                                  "--seed", str(seed)]
    for kind, name, strategy in made:
        path = f"{options.out}/accuracy.{network}.{name}.made.json"
        save(path, strategy)
        yield kind, name, ["--simulate", path]


def splits(options):
    """(name, ffsearch arguments)."""
    yield "data-parallel", ["--simulate", "data-parallel"]
    yield "single", ["--simulate", "single"]
    yield "expert", ["--simulate", "expert"]
    yield "plan", ["--budget", "5s", "--seed", "1"]
    for seed in range(4):
        yield f"search-{seed}", ["--proposals", "8", "--init", "random", "--seed", str(seed)]
    for seed in range(options.random):
        yield f"random-{seed}", ["--simulate", "random", "--seed", str(seed)]


def measure(options, network, costs):
    out, build = options.out, options.build
    graph = f"{out}/{network}.json"
    common = ["--machine", options.machine]
    seen = []
    for kind, name, arguments in strategies(options, network, common):
        if kind not in options.kind:
            continue
        base = f"{out}/accuracy.{network}.{name}"
        run(f"{build}/planner/ffsearch", graph, *common, "--costs", costs, *arguments,
            "-o", f"{base}.json", "--report", f"{base}.search.json")
        made = load(f"{base}.json")
        operators = [made.get(key) for key in ("operators", "micro_batches", "order")]
        if operators in seen:  # a strategy counts once
            continue
        seen.append(operators)
        run(f"{build}/runtime/ffrun", graph, f"{base}.json", *common, "--data", options.data,
            "--steps", str(options.steps), "--warmup", "5", "--report", f"{base}.run.json")
        predicted = load(f"{base}.search.json")["predicted_us"]
        measured = load(f"{base}.run.json")["step_us"]["median"]
        print(f"{network:10} {name:14} {predicted / 1e3:12.3f} {measured / 1e3:12.3f} "
              f"{100 * (predicted - measured) / measured:+9.1f} %", flush=True)
        yield predicted, measured


def summary(title, pairs):
    error = sum(abs(p - m) / m for p, m in pairs) / len(pairs)
    print(f"{title}: {len(pairs)} strategies, mean absolute percentage error {100 * error:.1f} %, "
          f"Kendall tau {kendall(pairs):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="out")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--machine", default="cpu2")
    parser.add_argument("--random", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--kind", action="append", choices=("splits", "phases", "replicas"))
    parser.add_argument("--network", action="append", choices=sorted(NETWORKS))
    options = parser.parse_args()
    options.kind = options.kind or ["splits", "phases"]
    networks = options.network or ["alexnet28", "mlp"]
    os.makedirs(options.out, exist_ok=True)
    costs = f"{options.out}/costs.json"
    everything = []
    by_network = {}
    for network in networks:
        arguments = NETWORKS[network]
        run(f"{options.build}/graphs/ffzoo", *arguments, "-o", f"{options.out}/{network}.json")
        run(f"{options.build}/runtime/ffprof", f"{options.out}/{network}.json", "--machine",
            options.machine, "--data", options.data, "-o", costs, "--replace",
            "--micro-batches", str(MICRO_BATCHES if "phases" in options.kind else 1))
    print(f"{'network':10} {'strategy':14} {'predicted ms':>12} {'measured ms':>12} {'error':>11}")
    for network in networks:
        by_network[network] = list(measure(options, network, costs))
        everything += by_network[network]
    for network, pairs in by_network.items():
        summary(network, pairs)
    summary("all", everything)


if __name__ == "__main__":
    main()
