#!/usr/bin/env python3
"""How far seeds are apart, on networks, batches and machines that are drawn.

usage: bench/seeds.py [--build build] [--cases 40 | --only N,...] [--draw 0] [--seeds 3]
                      [--seconds 10 | --proposals N] [--hand 60] [--processor-time] [--networks NAME,...]
                      [--json FILE]

Each case is one of ffzoo's networks with a drawn batch, on one to eight nodes of a drawn machine: one that comes
along, or one of few devices a node behind a slow network.  --draw begins another series; --only does some of it.
Searches of more and more proposals tell how many take about --seconds of processor time; all seeds then make that
many, so that other work on the computer changes no plan.  With --proposals all make that many.  With
--processor-time --hand is of that, not by the clock.
A line a case, in Markdown: the case, its proposals, the step of each seed (before a simpler plan within 1 % is
preferred), by how much they differ, the best of the grid by hand where that is found in --hand seconds (marked with "!"
if a seed is slower), and the longest processor time and most memory of a search.  At the end: how many cases are within
2 %.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import random
import tempfile

from commands import run, save
from plans import by_hand, search

TRANSFORMER = ["--set", "dtype=bfloat16"], "adamw"
SMALL = [], "sgd"
NETWORKS = {
    "mlp": SMALL, "alexnet": SMALL, "branchnet": SMALL, "vgg16": SMALL, "resnet50": SMALL, "mobilenet_v2": SMALL,
    "googlenet": SMALL, "inception_v3": SMALL, "densenet121": SMALL, "unet": SMALL, "cosmoflow": SMALL, "rnn": SMALL,
    "rnnlm": SMALL, "rnntc": SMALL, "nmt": SMALL, "lm": SMALL, "dlrm": SMALL, "dlrm_terabyte": SMALL,
    "gpt2": TRANSFORMER, "bert_large": TRANSFORMER, "vit_b16": TRANSFORMER,
    "llama": (["--set", "dtype=bfloat16", "--set", "layers=8"], "adamw"),
    "moe": (["--set", "dtype=bfloat16", "--set", "layers=3"], "adamw"),
}
BATCHES = (24, 32, 48, 64, 96, 100, 128, 256, 500)
NAMED = ("dgx1-v100", "dgx-a100-40", "p4d.24xlarge", "dgx-h100")
NODES = (1, 2, 3, 4, 8)
INSIDE = ({"latency_us": 5, "bytes_per_s": 300e9, "interconnect": "nvswitch-3"},
          {"latency_us": 10, "bytes_per_s": 12e9, "interconnect": "pcie-4"},
          {"latency_us": 5, "bytes_per_s": 50e9})
BETWEEN = ({"latency_us": 8, "bytes_per_s": 2.5e9, "interconnect": "ethernet", "cards": 1},
           {"latency_us": 8, "bytes_per_s": 12.5e9, "interconnect": "infiniband", "cards": 1},
           {"latency_us": 20, "bytes_per_s": 2.5e9})
A100 = {"name": "A100-80GB", "backend": "cuda", "flops_per_s": 19.5e12, "bfloat16_flops_per_s": 312e12,
        "memory_bytes_per_s": 2039e9, "memory_bytes": 80000000000}
FEW, MOST = 1000, 1000000  # proposals


def draw_machine(drawn, folder):
    """What --machine takes, and how the table names it."""
    nodes = drawn.choice(NODES)
    if drawn.random() < 0.5:
        name = f"{drawn.choice(NAMED)}:{nodes}"
        return name, name
    inside, between = drawn.choice(list(zip(INSIDE, BETWEEN))) if drawn.random() < 0.5 else (
        drawn.choice(INSIDE[:2]), drawn.choice(BETWEEN[:2]))
    node = {"devices": drawn.choice((2, 3, 4, 6)), "kind": A100["name"], "inside": inside, "network": between}
    path = f"{folder}/machine.json"
    save(path, {"format": "ffsoap-machine", "version": 1, "name": "drawn", "overlap": True, "kinds": [A100],
                "nodes": [node] * nodes})
    return path, (f"{nodes} x {node['devices']} A100, {inside.get('interconnect', 'unnamed')}, "
                  f"{between.get('interconnect', 'unnamed')} {between['bytes_per_s'] / 1e9:g} GB/s")


def enough(seconds, takes_s):
    """How many proposals take about so long.  Starts take a share, so that the first guess is too low."""
    proposals = FEW
    while proposals < MOST:
        used_s = takes_s(proposals)
        if used_s > seconds / 3:
            break
        proposals = min(MOST, int(proposals * min(8, seconds / max(used_s, 1e-3))))
    return proposals


def measure(args, drawn, folder):
    """One case: a row of the table."""
    network = drawn.choice(args.networks)
    settings, optimizer = NETWORKS[network]
    batch = drawn.choice(BATCHES)
    machine, said = draw_machine(drawn, folder)
    graph, report = f"{folder}/net.json", f"{folder}/report.json"
    run(f"{args.build}/graphs/ffzoo", network, "--batch", batch, *settings, "-o", graph)
    base = [f"{args.build}/planner/ffsearch", graph, "--machine", machine, "--costs", "analytic", "--optimizer",
            optimizer]
    row = {"network": network, "batch": batch, "machine": said, "seeds_us": [], "cpu_s": 0, "bytes": 0}

    def one(proposals, seed):
        found, error, used = search(args, [*base, "--proposals", proposals, "--seed", seed, "-o",
                                           f"{folder}/plan.json", "--report", report], report)
        return found, error, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024

    row["proposals"] = args.proposals or enough(args.seconds, lambda proposals: one(proposals, 0)[2])
    for seed in range(args.seeds):
        found, error, cpu_s, most_bytes = one(row["proposals"], seed)
        row["cpu_s"], row["bytes"] = max(row["cpu_s"], cpu_s), max(row["bytes"], most_bytes)
        if found:
            row["seeds_us"].append(found.get("irregular_us") or found["predicted_us"])
        else:
            row["error"] = error
    row["hand_us"], row["hand"] = by_hand(args, base, folder, None)
    return row


def apart(row):
    """Percent between the fastest seed and the slowest; None without a plan."""
    return 100 * (max(row["seeds_us"]) / min(row["seeds_us"]) - 1) if row["seeds_us"] else None


def show(row):
    if not row["seeds_us"]:
        print(f"| {row['network']}, {row['batch']} | {row['machine']} | {row['error'][:80]} |", flush=True)
        return
    hand_us = row["hand_us"]
    worse = " !" if hand_us and max(row["seeds_us"]) > hand_us * 1.0001 else ""
    hand = f"{hand_us / 1e3:.4g} ({row['hand']}){worse}" if hand_us else row["hand"]
    print(f"| {row['network']}, {row['batch']} | {row['machine']} | {row['proposals']:,} | "
          f"{', '.join(f'{us / 1e3:.4g}' for us in row['seeds_us'])} | {apart(row):.1f} | {hand} | "
          f"{row['cpu_s']:.0f} | {row['bytes'] / 2**30:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--proposals", type=int)
    parser.add_argument("--only", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--hand", type=int, default=60)
    parser.add_argument("--processor-time", action="store_true", help="--hand is of that")
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    parser.add_argument("--json")
    parser.set_defaults(priced=0)  # as bench/plans.py has it
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    rows = []
    print("| network, batch | machine | proposals | seeds, ms | apart, % | best by hand, ms | processor, s | GiB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in args.only or range(args.cases):
            rows.append(measure(args, random.Random(f"{args.draw}/{case}"), folder))
            show(rows[-1])
    spreads = [apart(row) for row in rows if row["seeds_us"]]
    near = sum(spread <= 2 for spread in spreads)
    print(f"{near} of {len(rows)} cases within 2 %, the furthest {max(spreads, default=0):.1f} %")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
