#!/usr/bin/env python3
"""Kernels as ffprof measures them beside what they take in steps, and how long ffprof takes.

usage: bench/tasks.py [--build build]... [--out out/tasks] [--network NAME]... [--profiles 2]
                      [--runs 5] [--steps 24] [--rounds 1]

Profiles each network for two ranks on this machine, --profiles times, with each of the builds (say
of two versions) in turns, trains it on one device and data-parallel on two, --runs times each, and
sets every forward and backward task of the predicted timeline against the median of the measured
ones.  Prints, by profile: the seconds that it took; the pace, which is all predicted over all
measured time; the deviation, which is what single tasks are off by in the mean, as a share of their
time and with the pace taken out; and the same ratio by quarters of the tasks, from the shortest to
the longest, over the pace.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import statistics
import time

from commands import load, run

NETWORKS = {
    "googlenet": ["googlenet", "--batch", "8", "--set", "image=64"],
    "inception_v3": ["inception_v3", "--batch", "8", "--set", "image=75"],
    "mobilenet": ["mobilenet_v2", "--batch", "16", "--set", "image=28", "--set", "channels=1",
                  "--set", "classes=10"],
    "unet": ["unet", "--batch", "8", "--set", "image=32", "--set", "width=16", "--set", "depth=2"],
}
STRATEGIES = {"single": 1, "data-parallel": 2}  # and their devices
PARTS = 4


def tasks(timeline):
    """Microseconds of each forward and backward task, by its name, device and part."""
    return {(e["name"], e["pid"], e["args"]["part"]): e["dur"] for e in load(timeline)["traceEvents"]
            if e["ph"] == "X" and e["args"]["kind"] in ("forward", "backward")}


def profile(options, build, graph, costs):
    """Seconds that it took."""
    if os.path.exists(costs):
        os.remove(costs)
    start = time.monotonic()
    run(f"{build}/runtime/ffprof", graph, "--machine", "cpu2", "--rounds", options.rounds, "-o", costs,
        OMP_NUM_THREADS="1")
    return time.monotonic() - start


def measure(options, graph, strategy):
    """The median of each task."""
    seen = {}
    for _ in range(options.runs):
        run(f"{options.build[-1]}/runtime/ffrun", graph, "data-parallel", "--devices",
            STRATEGIES[strategy], "--data", "synthetic:256", "--steps", options.steps, "--profile",
            options.steps - 4, "--trace", f"{options.out}/run.json", OMP_NUM_THREADS="1")
        for key, us in tasks(f"{options.out}/run.json").items():
            seen.setdefault(key, []).append(us)
    return {key: statistics.median(us) for key, us in seen.items()}


def predict(options, graph, costs, strategy):
    timeline = f"{options.out}/predicted.json"
    run(f"{options.build[-1]}/planner/ffsearch", graph, "--machine", "cpu2", "--costs", costs,
        "--simulate", strategy, "-o", f"{options.out}/strategy.json", "--trace", timeline)
    return tasks(timeline)


def ratio(pairs):
    return sum(p for p, _ in pairs) / sum(m for _, m in pairs)


def compare(predicted, measured):
    """Pace, deviation, and by parts of as many tasks the ratio over the pace and the mean task."""
    pairs = sorted(((predicted[k], m) for k, m in measured.items()), key=lambda pair: pair[1])
    pace = ratio(pairs)
    off = sum(abs(p - pace * m) for p, m in pairs) / sum(p for p, _ in pairs)
    parts = [pairs[i * len(pairs) // PARTS:(i + 1) * len(pairs) // PARTS] for i in range(PARTS)]
    return pace, off, [(ratio(some) / pace, statistics.mean(m for _, m in some)) for some in parts]


def bench(options, network):
    graph = f"{options.out}/{network}.json"
    profiles = []
    run(f"{options.build[-1]}/graphs/ffzoo", *NETWORKS[network], "-o", graph)
    for i in range(options.profiles):
        for k, build in enumerate(options.build):
            costs = f"{options.out}/{network}.{k}.{i}.costs.json"
            profiles.append((build, costs, profile(options, build, graph, costs)))
    for strategy in STRATEGIES:
        measured = measure(options, graph, strategy)
        print(f"\n{network}, {strategy}: {len(measured)} tasks, {sum(measured.values()) / 1000:.1f} ms")
        for build, costs, seconds in profiles:
            pace, off, parts = compare(predict(options, graph, costs, strategy), measured)
            print(f"  {build:12} {seconds:6.1f} s  pace {pace:.3f}  deviation {100 * off:5.1f} %  "
                  f"by quarter {', '.join(f'{r:.2f} ({us:.0f} us)' for r, us in parts)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", action="append")
    parser.add_argument("--out", default="out/tasks")
    parser.add_argument("--network", action="append", choices=sorted(NETWORKS))
    parser.add_argument("--profiles", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    options.build = options.build or ["build"]
    os.makedirs(options.out, exist_ok=True)
    for network in options.network or sorted(NETWORKS):
        bench(options, network)


if __name__ == "__main__":
    main()
