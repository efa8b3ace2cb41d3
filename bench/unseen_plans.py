#!/usr/bin/env python3
"""Searches of models that nobody tuned the search for, on machines where memory is mostly tight, beside the best
strategy by hand that this program finds itself.

usage: bench/unseen_plans.py [--build build] [--cases NAME,...] [--list] [--budget 60s | --proposals N] [--seeds 1]
                             [--most 1500] [--only-hand | --hand FILE] [--json FILE]

One line for each case, in Markdown: the step of the search's plan, of each seed, and the processor time of the longest;
the best by hand, and how many strategies were priced to find it; by how much the plan is slower than that (below 0:
faster).  A plan that is more than half a percent slower is marked with "!".

By hand is megatron:T,D,P,M with words (ffsearch --help), at most --most of them: first all degrees, micro-batches and
ways to recompute, with updates cut, or weights where nothing else is; then other words of the fastest of these that
fit, in turn.  build/bench/bench-by-hand prices them; it shares with a search the evaluator alone, not the grid.
--only-hand stops there and --json keeps it; --hand FILE takes it from such a file.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from commands import load, run

KEPT = 48  # of the first look, whose words are varied
LAID_OUT = 2  # of those that have a layout, the fastest
LLAMA = {"7b": (32, 4096, 32, 11008), "13b": (40, 5120, 40, 13824), "30b": (60, 6656, 52, 17920),
         "65b": (80, 8192, 64, 22016), "70b": (80, 8192, 64, 28672)}
GPT = {"1.3b": (24, 2048, 16), "6.7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56),
       "66b": (64, 9216, 72), "175b": (96, 12288, 96)}


def sets(**settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def llama(size, sequence=2048):
    layers, width, heads, hidden = LLAMA[size]
    more = {"key_heads": 8} if size == "70b" else {"key_heads": heads}
    return ["llama", *sets(layers=layers, width=width, heads=heads, hidden=hidden, sequence=sequence, dtype="bfloat16",
                           **more)]


def gpt(size, dtype="bfloat16"):
    layers, width, heads = GPT[size]
    return ["gpt2", *sets(layers=layers, width=width, heads=heads, sequence=2048, vocabulary=51200, dtype=dtype)]


def vit(layers, width, heads, patch, dtype="bfloat16"):
    return ["vit_b16", *sets(layers=layers, width=width, heads=heads, patch=patch, dtype=dtype)]


BERT = ["bert_large", *sets(task="words")]
MOE = ["moe", *sets(dtype="bfloat16")]
UNET = ["unet", *sets(image=512)]
# network, batch, machine, nodes; an entry of a machine that a link inside or between nodes takes the place of
CASES = {
    "llama-13b": (llama("13b"), 1024, "dgx-a100-40", 8),
    "llama-13b-long": (llama("13b", 4096), 1024, "dgx-a100-40", 8),
    "llama-13b-odd": (llama("13b"), 96, "dgx-a100-40", 3),
    "llama-13b-ethernet": (llama("13b"), 256, "dgx-a100-40", 8, "ethernet"),
    "llama-7b": (llama("7b"), 512, "dgx-a100-40", 1),
    "llama-7b-long": (llama("7b", 4096), 64, "dgx-a100-40", 2),
    "llama-7b-pcie": (llama("7b"), 48, "dgx-a100-40", 2, "pcie"),
    "llama-30b": (llama("30b"), 256, "dgx-a100-80", 4),
    "llama-65b": (llama("65b"), 512, "dgx-a100-80", 8),
    "llama-70b": (llama("70b", 4096), 512, "dgx-h100", 8),
    "llama-70b-256": (llama("70b", 4096), 1024, "dgx-h100", 32),
    "gpt-1.3b-16": (gpt("1.3b", "float32"), 32, "dgx1-v100", 1),
    "gpt-1.3b-32": (gpt("1.3b", "float32"), 512, "dgx1-v100-32", 4),
    "gpt-6.7b-32": (gpt("6.7b", "float32"), 128, "dgx1-v100-32", 4),
    "gpt-6.7b-16": (gpt("6.7b", "float32"), 256, "dgx1-v100", 16),
    "gpt-6.7b-ethernet": (gpt("6.7b"), 256, "dgx-a100-40", 4, "ethernet"),
    "gpt-13b": (gpt("13b"), 512, "dgx-a100-40", 8),
    "gpt-13b-odd": (gpt("13b"), 120, "dgx-a100-40", 5),
    "gpt-30b": (gpt("30b"), 512, "dgx-a100-40", 16),
    "gpt-66b": (gpt("66b"), 512, "dgx-a100-80", 16),
    "gpt-175b": (gpt("175b"), 1536, "dgx-a100-80", 16),
    "gpt-175b-1024": (gpt("175b"), 1536, "dgx-a100-80", 128),
    "gpt2-xl-pcie": (["gpt2_xl", *sets(dtype="bfloat16")], 96, "dgx-a100-40", 1, "pcie"),
    "bert-16": (BERT, 1024, "dgx1-v100", 1),
    "bert-ethernet": (BERT, 4096, "p3.16xlarge", 8),
    "vit-l": (vit(24, 1024, 16, 16, "float32"), 2048, "dgx1-v100", 2),
    "vit-h": (vit(32, 1280, 16, 14), 1536, "dgx-a100-40", 3),
    "moe": (MOE, 256, "dgx-a100-80", 8),
    "moe-h100": (MOE, 128, "dgx-h100", 4),
    "unet": (UNET, 64, "dgx-a100-40", 1),
    "dlrm": (["dlrm_terabyte"], 65536, "dgx-a100-40", 2),
}
LINKS = {"ethernet": ("network", {"latency_us": 15, "bytes_per_s": 3.125e9, "interconnect": "ethernet", "cards": 1}),
         "pcie": ("inside", {"latency_us": 8, "bytes_per_s": 31.5e9, "shared": False, "interconnect": "pcie-4"})}


# ---- by hand ----

class Hand:
    """Prices strategies by name."""

    def __init__(self, command):
        self.child = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        self.known = {}

    def ask(self, name):
        """Step in us and whether it fits; None where there is none."""
        if name not in self.known:
            self.child.stdin.write(name + "\n")
            self.child.stdin.flush()
            said = self.child.stdout.readline().split()
            if not said:
                sys.exit(f"bench-by-hand ended at {name}")
            self.known[name] = None if said[0] == "-" else (float(said[0]), said[1] == "1")
        return self.known[name]

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def divisors(n, most):
    return [d for d in range(1, min(n, most) + 1) if n % d == 0]


def powers(most):
    n = 1
    while n <= most:
        yield n
        n *= 2


def degrees(devices, batch):
    """Tensor, data, pipeline, micro-batches; such first as use the devices best by what is commonly known."""
    found = []
    for tensor in divisors(devices, 16):
        for pipeline in divisors(devices // tensor, 32):
            data = devices // tensor // pipeline
            if batch % data:
                continue
            for micro in powers(batch // data):
                if batch // data % micro == 0:
                    idle = (pipeline - 1) / micro
                    found.append((idle * (tensor > 1 or pipeline > 1), (tensor, data, pipeline, micro)))
    return [d for _, d in sorted(found)]


def first_look(devices, batch):
    for again in "", ",recompute=light", ",recompute":
        for tensor, data, pipeline, micro in degrees(devices, batch):
            words = ",sequence" if tensor > 1 else ""
            updates = [",zero-1", ",zero-3"] if tensor == pipeline == 1 else [",zero-1"]
            for update in updates:
                yield (tensor, data, pipeline, micro), update, words, again, ""


def text(place):
    degree, update, split, again, order = place
    return f"megatron:{','.join(map(str, degree))}{update}{split}{again}{order}"


def variations(place):
    (tensor, _, pipeline, _), update, split, again, order = place
    for other in "", ",zero-1", ",zero-2", ",zero-3", ",zero-1,hybrid", ",zero-2,hybrid", ",zero-3,hybrid":
        yield place[0], other, split, again, order
    for other in ("", ",sequence") if tensor > 1 else ("",):
        yield place[0], update, other, again, order
        yield place[0], update, other + ",experts", again, order
    for other in [",zb-h1", ",zb-v", *(f",interleave={v}" for v in (2, 3, 4, 5, 6, 8, 10, 12))] if pipeline > 1 else []:
        yield place[0], update, split, again, other
    for other in ("", ",recompute=light", ",recompute", *(f",recompute={n}" for n in (1, 2, 3, 4, 6, 8, 12, 16, 24)),
                  *(f",recompute=light,recompute={n}" for n in (1, 2, 4, 8, 16))):
        yield place[0], update, split, other, order


def best_of(hand, most):
    """Step and name of the fastest that fits and has a layout, and how many were priced."""
    fitting = {}

    def look(place):
        known = len(hand.known)
        at = hand.ask(text(place))
        if at and at[1]:
            fitting[place] = at[0]
        return len(hand.known) > known

    for place in first_look(*hand.size):
        if len(hand.known) < most:
            look(place)
    varied, n = set(), len(hand.known)
    while n < most:
        left = sorted((us, place) for place, us in fitting.items() if place not in varied)[:1]
        if not left or len(varied) >= KEPT:
            break
        varied.add(left[0][1])
        for place in variations(left[0][1]):
            n += look(place)
    laid_out = {}
    for us, place in sorted((us, place) for place, us in fitting.items()):
        at = hand.ask("!" + text(place))
        if at and at[1]:
            laid_out[place] = min(at[0], us)
        if len(laid_out) == LAID_OUT:
            break
    least = min(((us, text(place)) for place, us in laid_out.items()), default=(None, "none fits"))
    return {"hand_us": least[0], "hand": least[1], "priced": n}


# ---- cases ----

def machine_of(folder, name, link):
    if not link:
        return name
    build = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "graphs", "machines")
    machine = load(os.path.join(build, f"{name}.json"))
    which, entry = LINKS[link]
    for node in machine["nodes"]:
        node[which] = entry
    machine["name"] = f"{name}-{link}"
    path = f"{folder}/{name}-{link}.json"
    with open(path, "w", encoding="utf-8") as f:
        json.dump(machine, f)
    return path


def measure(args, folder, name, known):
    network, batch, machine, nodes, *link = CASES[name]
    graph, report = f"{folder}/net.json", f"{folder}/report.json"
    run(f"{args.build}/graphs/ffzoo", *network, "--batch", batch, "-o", graph)
    optimizer = "sgd" if "dlrm" in network[0] else "momentum" if network[0] == "unet" else "adamw"
    words = [graph, "--machine", f"{machine_of(folder, machine, link[0] if link else None)}:{nodes}", "--by-nodes",
             "--optimizer", optimizer]
    row = {"case": name, "devices": 8 * nodes, "seeds_us": [], "cpu_s": 0}
    if known:
        row.update({key: known[key] for key in ("hand_us", "hand", "priced")})
    else:
        hand = Hand([f"{args.build}/bench/bench-by-hand", *words])
        hand.size = 8 * nodes, batch
        row.update(best_of(hand, args.most))
        hand.close()
    budget = ["--proposals", args.proposals] if args.proposals else ["--budget", args.budget]
    for seed in range(0 if args.only_hand else args.seeds):
        with subprocess.Popen([str(c) for c in (f"{args.build}/planner/ffsearch", *words, "--costs", "analytic",
                                                *budget, "--seed", seed, "-o", f"{folder}/plan.json", "--report",
                                                report)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        row["cpu_s"] = max(row["cpu_s"], used.ru_utime + used.ru_stime)
        row["seeds_us"].append(load(report)["predicted_us"] if child.returncode == 0 else None)
    return row


def show(row):
    plans, by_hand = row["seeds_us"], row["hand_us"]
    most = max(plans) if plans and None not in plans else None
    slower = f"{100 * (most / by_hand - 1):.1f}" if most and by_hand else "-"
    bad = by_hand and plans and (not most or most > 1.005 * by_hand)
    shown = ", ".join(f"{us / 1e3:.1f}" if us else "none" for us in plans) or "-"
    print(f"| {row['case']} | {row['devices']} | {shown} | {row['cpu_s']:.0f} | "
          f"{by_hand / 1e3 if by_hand else 0:.1f} ({row['hand']}) | {row['priced']} | {slower}{' !' if bad else ''} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--list", action="store_true", help="name the cases")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--proposals", type=int, help="of a search, instead of a time")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--most", type=int, default=1500, help="strategies by hand that are priced, a case")
    parser.add_argument("--only-hand", action="store_true", help="search nothing")
    parser.add_argument("--hand", metavar="FILE", help="what --json wrote before has the best by hand")
    parser.add_argument("--json")
    args = parser.parse_args()
    names = args.cases.split(",")
    unknown = set(names) - set(CASES)
    if args.list or unknown:
        print("\n".join(CASES))
        sys.exit(f"unknown: {', '.join(sorted(unknown))}" if unknown else 0)
    known = {row["case"]: row for row in load(args.hand)} if args.hand else {}
    print("| case | devices | plan, ms | processor, s | best by hand, ms | priced | slower, % |")
    print("|---|---|---|---|---|---|---|", flush=True)
    rows, from_s = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            rows.append(measure(args, folder, name, known.get(name)))
            show(rows[-1])
            if args.json:
                with open(args.json, "w", encoding="utf-8") as f:
                    json.dump(rows, f, indent=1)
    print(f"{len(rows)} cases in {(time.monotonic() - from_s) / 60:.0f} minutes", file=sys.stderr)


if __name__ == "__main__":
    main()
