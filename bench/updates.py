#!/usr/bin/env python3
"""What sharded updates cost beside data parallelism: predicted and measured.

usage: bench/updates.py [--build build] [--out out/updates] [--network NAME]... [--rounds 4]
                        [--micro-batches M] [--hosts N --bandwidth 1gbit [--latency 0]]

For each network ffprof measures kernels and links, on two ranks of this machine or, with --hosts, on as
many emulated hosts (./run cluster, as root).  ffsearch writes data parallelism, zero-1, zero-2, zero-3, and
zero-1 with all parameters cut along their first axis instead (by-axes), in M micro-batches if there are several
(as megatron:1,N,1,M has it), and
ffrun trains by each in turns, --rounds times; of a strategy's runs the fastest median step counts.
Prints a line a strategy: predicted and measured step, both against data parallelism's, and bytes sent.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os

from commands import load, on_hosts, profile_hosts, run

NETWORKS = {
    "mlp": ["mlp", "--set", "hidden=1024", "--set", "layers=2", "--batch", "128"],
    "alexnet28": ["alexnet", "--set", "image=28", "--batch", "64"],
    "gpt2": ["gpt2", "--batch", "8", "--set", "layers=2", "--set", "width=128", "--set", "heads=4",
             "--set", "sequence=64", "--set", "vocabulary=2000"],
}
STRATEGIES = ("data-parallel", "zero-1", "zero-2", "zero-3", "by-axes")
DEVICES = 2
WARMUP = 5
MEASURED_US = 2e6  # a run is so long, within these steps
FEWEST, MOST = 8, 100


class Bench:
    """One network on one machine."""

    def __init__(self, options, name):
        self.options = options
        place = f"-{options.bandwidth}" if options.hosts else ""
        base = f"{options.out}/{name}{place}"
        self.graph, self.costs, self.report = f"{base}.json", f"{base}.costs.json", f"{base}.report.json"
        self.machine = f"{base}.machine.json" if options.hosts else f"cpu{DEVICES}"
        self.plan = {s: f"{base}.{s}.json" for s in STRATEGIES}
        self.by_hand = f"{base}.by-hand.json"  # no input of ffsearch is an output, too
        run(f"{options.build}/graphs/ffzoo", *NETWORKS[name], "-o", self.graph)

    def profile(self):
        o = self.options
        if o.hosts:
            profile_hosts(o.build, o.hosts, o.bandwidth, o.latency, self.graph, self.machine, self.costs,
                          "--largest", "16M", "--rounds", "3")
        else:
            run(f"{o.build}/runtime/ffprof", self.graph, "--machine", self.machine, "-o", self.costs,
                "--rounds", "3")

    def spelt(self, strategy):
        """For ffsearch, in so many micro-batches."""
        if strategy == "by-axes":
            return self.cut()
        if self.options.micro_batches == 1:
            return strategy
        update = "" if strategy == STRATEGIES[0] else f",{strategy}"
        return f"megatron:1,{self.options.hosts or DEVICES},1,{self.options.micro_batches}{update}"

    def cut(self):
        """zero-1's plan, each parameter cut along its first axis where that is updated flat."""
        plan, devices = load(self.plan["zero-1"]), list(range(self.options.hosts or DEVICES))
        for entry in plan["operators"]:
            if entry.pop("update", None):
                entry.update(degrees={"axis0": len(devices)}, devices=devices)
        with open(self.by_hand, "w", encoding="utf-8") as to:
            json.dump(plan, to)
        return self.by_hand

    def predict(self, strategy):
        """Microseconds, and bytes sent, of the strategy that is written."""
        run(f"{self.options.build}/planner/ffsearch", self.graph, "--machine", self.machine, "--costs",
            self.costs, "--simulate", self.spelt(strategy), "-o", self.plan[strategy], "--report", self.report)
        report = load(self.report)
        return report["predicted_us"], report["comm_bytes"]

    def measure(self, strategy, expected_us):
        """The median step of one run, microseconds."""
        o = self.options
        steps = int(min(MOST, max(FEWEST, MEASURED_US / expected_us)))
        command = [f"{o.build}/runtime/ffrun", self.graph, self.plan[strategy], "--machine", self.machine,
                   "--data", "synthetic", "--steps", str(WARMUP + steps), "--warmup", str(WARMUP),
                   "--report", self.report]
        if o.hosts:
            on_hosts(o.build, o.hosts, o.bandwidth, o.latency, *command)
        else:
            run(*command)
        return load(self.report)["step_us"]["median"]


def compare(bench, name, rounds):
    """Prints the network's lines; returns the errors of prediction."""
    bench.profile()
    predicted = {s: bench.predict(s) for s in STRATEGIES}
    runs = {s: [] for s in STRATEGIES}
    for _ in range(rounds):
        for s in STRATEGIES:
            runs[s].append(bench.measure(s, predicted[s][0]))
    base_us, base = predicted["data-parallel"][0], min(runs["data-parallel"])
    for s in STRATEGIES:
        us, sent, measured = *predicted[s], min(runs[s])
        print(f"{name:10} {s:14} predicted {us / 1e3:9.3f} ms ({us / base_us:5.3f}), measured "
              f"{measured / 1e3:9.3f} ms ({measured / base:5.3f}), {100 * (us / measured - 1):+5.1f} %, "
              f"{sent / 2**20:8.2f} MiB", flush=True)
    return [abs(predicted[s][0] / min(runs[s]) - 1) for s in STRATEGIES]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="out/updates")
    parser.add_argument("--network", action="append", choices=sorted(NETWORKS))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--bandwidth", default="1gbit")
    parser.add_argument("--latency", default="0")
    options = parser.parse_args()
    options.build, options.out = os.path.abspath(options.build), os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    if options.hosts:
        os.environ["OMP_NUM_THREADS"] = "1"
    errors = []
    for name in options.network or NETWORKS:
        errors += compare(Bench(options, name), name, options.rounds)
    print(f"mean absolute error {100 * sum(errors) / len(errors):.1f} %")


if __name__ == "__main__":
    main()
