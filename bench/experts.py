#!/usr/bin/env python3
"""What it costs to bring places to experts by index and by products with ones, predicted.

usage: bench/experts.py [--build build] [--networks mixtral,qwen3] [--machine dgx-h100:8] [--budget 60s] [--proposals N]

moe in the sizes of Mixtral 8x7B and of Qwen3-30B-A3B, sequences of 4096 places, in bfloat16, by AdamW: the step of
zero-3 with a sample a device; of what device 0 computes in it the shares of routing (choosing, and bringing places to
slots and back) and of the experts' products; and the step of the plan that a search of `--budget` finds for four
samples a device.  One line for each network and way, in Markdown; --proposals replaces the budget.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import tempfile

from commands import load, run

# Of Qwen3-30B-A3B half the heads, of 128 features each: here heads make up the width.
NETWORKS = {
    "mixtral": [],
    "qwen3": ["layers=48", "width=2048", "heads=16", "key_heads=4", "hidden=768", "experts=128", "choices=8",
              "vocabulary=151936"]}
EXPERTS = {"gate", "up", "down"}
LAYERS = EXPERTS | {"silu", "gated"}


def shares(trace):
    """What device 0 computes in milliseconds; of that the shares of routing and of experts' products."""
    spent = {"routing": 0, "experts": 0, "other": 0}
    for event in load(trace)["traceEvents"]:
        if event["ph"] != "X" or event["pid"] or event["cat"] != "compute":
            continue
        block, _, name = event["args"].get("node", "").partition(".mlp.")
        kind = "other" if not name or name in LAYERS - EXPERTS else "experts" if name in EXPERTS else "routing"
        spent[kind] += event["dur"]
    whole = sum(spent.values())
    return whole / 1e3, spent["routing"] / whole, spent["experts"] / whole


def measure(args, folder, network, way):
    """The step of a sample a device, shares of what is computed in it, and the plan's of four."""
    devices = 8 * int(args.machine.rpartition(":")[2])
    graph, plan, report, trace = (f"{folder}/{name}.json" for name in ("net", "plan", "report", "trace"))
    settings = ["dtype=bfloat16", f"dispatch={way}", *NETWORKS[network]]
    steps = []
    for samples, words in ((1, ["--simulate", "zero-3", "--trace", trace]),
                           (4, ["--seed", 1, *(["--proposals", args.proposals] if args.proposals else
                                               ["--budget", args.budget])])):
        run(f"{args.build}/graphs/ffzoo", "moe", "--batch", samples * devices,
            *(w for s in settings for w in ("--set", s)), "-o", graph)
        run(f"{args.build}/planner/ffsearch", graph, "--machine", args.machine, "--costs", "analytic", "--optimizer",
            "adamw", "-o", plan, "--report", report, *words)
        steps.append(load(report))
    return steps, shares(trace)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--machine", default="dgx-h100:8")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--proposals", type=int)
    args = parser.parse_args()
    print("| network | way | zero-3, ms | compute, ms | routing, % of it | experts, % | plan of 4 samples each, ms |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for network in args.networks.split(","):
            for way in ("ones", "index"):
                (own, searched), (own_ms, routing, experts) = measure(args, folder, network, way)
                print(f"| {network} | {way} | {own['predicted_us'] / 1e3:.0f} | {own_ms:.0f} | {100 * routing:.1f} "
                      f"| {100 * experts:.1f} | {searched['predicted_us'] / 1e3:.0f} |", flush=True)


if __name__ == "__main__":
    main()
