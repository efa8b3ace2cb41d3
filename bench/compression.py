#!/usr/bin/env python3
"""Steps with compressed gradients between two emulated hosts, beside predictions.

usage: bench/compression.py [--build build] [--out out/compression] [--link 100mbit]...
                            [--latency 100us] [--network NAME]... [--plan NAME]... [--steps 9]
                            [--rounds 2]

Two ranks, of two hosts that are joined by such a link (./run cluster, as root), and plans whose gradients
are all-reduced (data-parallel), moved to updates that are cut (zero-1) or on one device each (served, the
parameters in turns).  ffprof measures kernels, codecs and links; ffrun trains with each codec and with none
in turns; ffsearch predicts all, once with the codecs' rates and once with what they are estimated to be.
Prints a line each: medians of all rounds' medians, and what a step sends.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import statistics

from commands import load, on_hosts, profile_hosts, run, save

NETWORKS = {
    "mlp": ["mlp", "--set", "hidden=1024", "--set", "layers=2", "--batch", "128"],
    "alexnet28": ["alexnet", "--set", "image=28", "--batch", "64"],
}
CODECS = ["none", "bfloat16", "ternary"]
PLANS = ["data-parallel", "zero-1", "served"]


def write_plan(o, graph, machine, costs, name):
    """The strategy file of a plan, without predictions."""
    path = f"{o.out}/{name}.json"
    run(f"{o.build}/planner/ffsearch", graph, "--machine", machine, "--costs", costs, "--simulate",
        "zero-1" if name == "served" else name, "-o", path)
    plan = {k: v for k, v in load(path).items() if not k.startswith("predicted")}
    operators = {n["name"] for n in load(graph)["nodes"]}
    parameters = [e for e in plan["operators"] if e["name"] not in operators]
    if name == "served":
        plan["operators"] = [e for e in plan["operators"] if e["name"] in operators] + [
            {"name": e["name"], "degrees": {}, "devices": [i % 2]} for i, e in enumerate(parameters)]
    save(path, plan)
    return path


def predict(o, graph, machine, costs, plan, codec):
    report = f"{o.out}/predicted.json"
    run(f"{o.build}/planner/ffsearch", graph, "--machine", machine, "--costs", costs, "--simulate",
        plan, "--compress", codec, "--report", report)
    return load(report)["predicted_us"]


def measure(o, link, graph, plan, codec):
    report = f"{o.out}/run.json"
    on_hosts(o.build, 2, link, o.latency, f"{o.build}/runtime/ffrun", graph, plan,
             "--devices", "2", "--data", "synthetic:512", "--steps", str(o.steps), "--warmup", "1",
             "--compress", codec, "--report", report)
    return load(report)


def lines(o, link, network):
    at = f"{o.out}/{network}"
    graph, machine, costs, without = (f"{at}{end}" for end in (
        ".json", f"-{link}.machine.json", f"-{link}.costs.json", f"-{link}.estimated.json"))
    run(f"{o.build}/graphs/ffzoo", *NETWORKS[network], "-o", graph)
    profile_hosts(o.build, 2, link, o.latency, graph, machine, costs, "--largest", "4M")
    measured = load(costs)
    rates = {k: v[0]["bytes_per_s"] / 1e9 for k, v in measured["rates"].items() if "code_" in k}
    print(f"{link} {network}: " + ", ".join(f"{k} {v:.1f} GB/s" for k, v in rates.items()))
    measured["rates"] = {k: v for k, v in measured["rates"].items() if k not in rates}
    save(without, measured)
    for name in o.plan or PLANS:
        plan = write_plan(o, graph, machine, costs, name)
        told = {c: [] for c in CODECS}
        for _ in range(o.rounds):
            for c in CODECS:
                told[c].append(measure(o, link, graph, plan, c))
        for c in CODECS:
            median = statistics.median(r["step_us"]["median"] for r in told[c])
            priced = [predict(o, graph, machine, x, plan, c) for x in (costs, without)]
            print(f"{link:8} {network:10} {name:14} {c:9} {told[c][0]['sent_bytes']:>10} "
                  f"{median / 1e3:9.1f} {priced[0] / 1e3:9.1f} {100 * (priced[0] / median - 1):+6.1f} % "
                  f"{priced[1] / 1e3:9.1f} {100 * (priced[1] / median - 1):+6.1f} %", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out/compression")
    p.add_argument("--link", action="append")
    p.add_argument("--latency", default="100us")
    p.add_argument("--network", action="append", choices=NETWORKS)
    p.add_argument("--plan", action="append", choices=PLANS)
    p.add_argument("--steps", type=int, default=9)
    p.add_argument("--rounds", type=int, default=2)
    options = p.parse_args()
    options.build = os.path.abspath(options.build)
    options.out = os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    print(f"{'link':8} {'network':10} {'plan':14} {'codec':9} {'bytes':>10} {'ms':>9} "
          f"{'predicted':>18} {'estimated':>18}")
    for link in options.link or ["100mbit"]:
        for network in options.network or NETWORKS:
            lines(options, link, network)


main()
