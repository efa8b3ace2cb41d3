#!/usr/bin/env python3
"""Plans beside what people would write: searches, the best of the whole grid by hand, data parallelism that
fits, and the lower bound.

usage: bench/plans.py [--build build] [--networks gpt2_xl,llama,...] [--devices 8,64,256,1024]
                      [--machines A100,H100] [--budget 60s | --proposals N] [--processor-time] [--seeds 3]
                      [--hand 600] [--priced 0] [--json FILE] [--svg FOLDER]

One line for each network, number of devices and kind of GPU, in Markdown: the step of the search's plan, least and
most of the seeds, and by how much these differ; the best of the grid by hand (ffsearch --simulate megatron), and
which it is, where that is found in --hand seconds (0: it is not sought), or else of at most --priced strategies as
bench/unseen_plans.py prices them; data parallelism with its best buckets, or what it comes to where that does not fit; the bound, and the gap between it and the plan; the longest until a search
had a plan that fits; the most processor time and memory that one took. A search that is slower than the best by hand
is marked with "!", one that finds nothing says so. With --proposals budgets are that many: plans are then the same
whatever else runs. With --processor-time budgets and --hand are of that, not by the clock.  --json FILE is written
after every cell; cells that are there already are not measured again.
Networks are ffzoo's, with as many samples a device as their row below says, bfloat16 and AdamW where that is
usual. Costs are by models of devices, collectives in stages.  A search may use 4 GiB.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

import figures
import unseen_plans
from commands import load, run, save

MOST_BYTES = 4 << 30
TRANSFORMER = ["--set", "dtype=bfloat16"], "adamw"
# samples a device, settings, optimizer
NETWORKS = {
    "gpt2_xl": (4, *TRANSFORMER),
    "llama": (4, *TRANSFORMER),
    "bert_large": (8, *TRANSFORMER),
    "moe": (4, *TRANSFORMER),
    "vit_b16": (32, *TRANSFORMER),
    "resnet50": (64, [], "momentum"),
    "inception_v3": (64, [], "momentum"),
    "unet": (4, [], "momentum"),
    "rnnlm": (64, [], "sgd"),
    "nmt": (64, [], "sgd"),
    "dlrm_terabyte": (256, [], "sgd"),
}
MACHINES = {"A100": "dgx-a100-40", "H100": "dgx-h100"}


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def clock(args):
    """The environment of what reads the clock."""
    return dict(os.environ, LD_PRELOAD=f"{args.build}/bench/libbench-processor-time.so") if args.processor_time else None


def search(args, command, report):
    """Report, the sentence of an error, and what it used."""
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=said, env=clock(args),
                              preexec_fn=limit_memory) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        error = said.read().strip()
    found = load(report) if child.returncode == 0 else None
    return found, error, used


def by_hand(args, base, folder, size):
    """Step in us and name of the best of the grid; None where there is none, or no time to find it."""
    if not args.hand:
        return None, "not sought"
    report = f"{folder}/hand.json"
    limit = ["sh", "-c", 'ulimit -S -t "$0" && exec "$@"', str(args.hand)] if args.processor_time else []
    try:
        done = subprocess.run([*limit, *base, "--simulate", "megatron", "--report", report], capture_output=True,
                              text=True, timeout=None if limit else args.hand, check=False)
    except subprocess.TimeoutExpired:
        return of_priced(args, base, size)
    if done.returncode < 0:
        return of_priced(args, base, size)
    if done.returncode:
        return None, "none fits"
    found = load(report)
    return found["predicted_us"], found["strategy"]


def of_priced(args, base, size):
    """The same of what another program prices, which shares the evaluator alone with a search."""
    if not args.priced:
        return None, f"not found in {args.hand} s"
    words = [word for word in base[1:] if word not in ("--costs", "analytic")]
    hand = unseen_plans.Hand([f"{args.build}/bench/bench-by-hand", *words])
    hand.size = size
    found = unseen_plans.best_of(hand, args.priced)
    hand.close()
    return found["hand_us"], found["hand"]


def measure(args, folder, network, devices, kind):
    samples, settings, optimizer = NETWORKS[network]
    graph = f"{folder}/net.json"
    run(f"{args.build}/graphs/ffzoo", network, "--batch", samples * devices, *settings, "-o", graph)
    base = [f"{args.build}/planner/ffsearch", graph, "--machine", f"{MACHINES[kind]}:{devices // 8}", "--costs",
            "analytic", "--by-nodes", "--optimizer", optimizer]
    budget = ["--proposals", args.proposals] if args.proposals else ["--budget", args.budget]
    row = {"network": network, "devices": devices, "machine": kind, "seeds_us": [], "first_s": 0, "cpu_s": 0,
           "bytes": 0}
    for seed in range(args.seeds):
        report = f"{folder}/report.json"
        found, error, used = search(args, [*base, *budget, "--seed", seed, "-o", f"{folder}/plan.json", "--report",
                                           report], report)
        row["bytes"] = max(row["bytes"], used.ru_maxrss * 1024)
        row["cpu_s"] = max(row["cpu_s"], used.ru_utime + used.ru_stime)
        if not found:
            row["error"] = error
            continue
        row["seeds_us"].append(found["predicted_us"])
        row["first_s"] = max(row["first_s"], found["first_plan_s"])
        row.update(baseline=found["baseline"], baseline_us=found["data_parallel_us"], bound_us=found["lower_bound_us"],
                   baseline_fits=found["data_parallel_fits"] or found["baseline"] != "data-parallel",
                   proposals_per_s=found["proposals_per_s"])
    row["hand_us"], row["hand"] = by_hand(args, base, folder, (devices, samples * devices))
    return row


def text(us):
    return f"{us / 1e3:.1f}" if us else "-"


def show(row):
    least, most = min(row["seeds_us"], default=None), max(row["seeds_us"], default=None)
    worse = row["hand_us"] and (not most or most > row["hand_us"] * 1.0001)
    plan = f"{text(least)} to {text(most)}{' !' if worse else ''}" if least else row.get("error", "nothing")[:60]
    spread = f"{100 * (most / least - 1):.1f}" if least else "-"
    bound = row.get("bound_us")
    gap = f"{100 * (least / bound - 1):.0f}" if least and bound else "-"
    dp = f"{text(row['baseline_us'])} ({row['baseline']})" if row.get("baseline_fits") else "-"
    print(f"| {row['network']} | {row['devices']} {row['machine']} | {plan} | {spread} | "
          f"{text(row['hand_us'])} ({row['hand']}) | {dp} | {text(bound)} | {gap} | {row['first_s']:.1f} | "
          f"{row['cpu_s']:.1f} | {row['bytes'] / 2**30:.1f} |", flush=True)


def draw(rows, folder):
    """Steps over devices, each strategy a curve."""
    for network, machine in dict.fromkeys((r["network"], r["machine"]) for r in rows):
        lines = {}
        for row in rows:
            steps = {"plan": min(row["seeds_us"], default=None), "best by hand": row["hand_us"],
                     "data parallelism": row.get("baseline_us") if row.get("baseline_fits") else None,
                     "lower bound": row.get("bound_us")}
            for name, us in steps.items() if (row["network"], row["machine"]) == (network, machine) else ():
                if us:
                    said = f"{name}, {row['devices']}: {us / 1e3:.1f} ms"
                    lines.setdefault(name, []).append((row["devices"], us / 1e3, said))
        if lines:
            figures.curves(os.path.join(folder, f"{network}-{machine}.svg"), f"{network}, {machine}", lines,
                           f"{machine}, {NETWORKS[network][0]} samples each", "step, ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--devices", default="8,64,256,1024")
    parser.add_argument("--machines", default="A100,H100")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--proposals", type=int, help="of a search, instead of a time")
    parser.add_argument("--processor-time", action="store_true", help="budgets are of that")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hand", type=int, default=600)
    parser.add_argument("--priced", type=int, default=0, help="strategies, where the grid takes longer than --hand")
    parser.add_argument("--json")
    parser.add_argument("--svg", metavar="FOLDER", help="write curves over devices there, a figure a network and GPU")
    args = parser.parse_args()
    unknown = set(args.networks.split(",")) - set(NETWORKS) | set(args.machines.split(",")) - set(MACHINES)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join([*NETWORKS, *MACHINES])}")
    if args.processor_time and not os.path.exists(clock(args)["LD_PRELOAD"]):
        sys.exit(f"{clock(args)['LD_PRELOAD']} is missing")
    rows = load(args.json) if args.json and os.path.exists(args.json) else []
    known = [(row["network"], row["devices"], row["machine"]) for row in rows]
    print("| network | devices | plan, ms | spread, % | best by hand, ms | data parallelism, ms | bound, ms | gap, % | "
          "first, s | processor, s | GiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    from_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for network in args.networks.split(","):
            for devices in map(int, args.devices.split(",")):
                for kind in args.machines.split(","):
                    if (network, devices, kind) in known:
                        continue
                    rows.append(measure(args, folder, network, devices, kind))
                    show(rows[-1])
                    if args.json:
                        save(args.json, rows)
    print(f"{len(rows)} cells in {(time.monotonic() - from_s) / 60:.0f} minutes", file=sys.stderr)
    if args.svg:
        os.makedirs(args.svg, exist_ok=True)
        draw(rows, args.svg)


if __name__ == "__main__":
    main()
