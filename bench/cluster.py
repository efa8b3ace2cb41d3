#!/usr/bin/env python3
"""Predicted against measured step time on emulated hosts (./run cluster), as root.

usage: bench/cluster.py [--build build] [--out out/cluster] [--hosts 2] [--bandwidth 1gbit]...
                        [--latency 0] [--network NAME]... [--steps 20] [--budget 10s]

At each bandwidth ffprof measures the links between the hosts, and of each network the
kernels, once; ffsearch searches a plan; ffrun trains the plan and data parallelism in
turns, one rank a host, --steps of each, fewer where they are long.  Prints a line each, and the mean
absolute percentage error; OUT/cluster.svg is a scatter plot.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os

import figures
from commands import load, on_hosts, profile_hosts, run, save

NETWORKS = {
    "mlp": ["mlp", "--set", "hidden=1024", "--set", "layers=2", "--batch", "128"],
    "alexnet28": ["alexnet", "--set", "image=28", "--batch", "64"],
    "lenet": ["lenet", "--batch", "128"],
    # the others of FlexFlow's paper, made small
    "inception_v3": ["inception_v3", "--batch", "8", "--set", "image=75"],
    "resnet101": ["resnet101", "--batch", "16", "--set", "image=32"],
    "rnntc": ["rnntc", "--batch", "32", "--set", "steps=16", "--set", "hidden=256",
              "--set", "vocabulary=2000"],
    "rnnlm": ["rnnlm", "--batch", "32", "--set", "steps=16", "--set", "hidden=256",
              "--set", "vocabulary=2000"],
    "nmt": ["nmt", "--batch", "32", "--set", "steps=10", "--set", "hidden=256",
            "--set", "vocabulary=2000"],
}
PRESET = ("mlp", "alexnet28", "lenet")
MOST_US, FEWEST = 30e6, 4  # predicted of all steps measured, but so many at least


class Bench:
    """Commands on hosts that are joined by one kind of link."""

    def __init__(self, options, bandwidth, points):
        self.options = options
        self.points = points  # by network and link, for the figure
        self.bandwidth = bandwidth
        self.machine = f"{options.out}/hosts-{bandwidth}.json"
        self.links = None

    def tell_links(self, done):
        """What the hosts' links are, by the first command that ran there."""
        if self.links is None:
            self.links = [line for line in done.stderr.splitlines() if line.startswith("cluster: ")]
            print(*self.links, sep="\n", flush=True)

    def profile(self, graph, name):
        """Kernels of a run on other links are these, and links of a run of other kernels."""
        o = self.options
        costs = f"{o.out}/{name}-{self.bandwidth}.costs.json"
        kernels, links = f"{o.out}/{name}.kernels.json", f"{o.out}/{self.bandwidth}.links.json"
        base = load(kernels) if os.path.exists(kernels) else None
        if base is None and os.path.exists(links):
            base = dict(load(links), entries=[])
        if base is not None and not os.path.exists(costs):
            comm = load(links)["comm"] if os.path.exists(links) else []
            save(costs, dict(base, comm=comm))
        self.tell_links(profile_hosts(o.build, o.hosts, self.bandwidth, o.latency, graph,
                                      self.machine, costs, "--largest", "16M"))
        done = load(costs)
        save(kernels, done)
        save(links, done)
        return costs

    def predict(self, graph, costs, name):
        o = self.options
        base = f"{o.out}/{name}-{self.bandwidth}"
        run(f"{o.build}/planner/ffsearch", graph, "--machine", self.machine, "--costs", costs,
            "--budget", o.budget, "-o", f"{base}.plan.json", "--report", f"{base}.search.json")
        report = load(f"{base}.search.json")
        return f"{base}.plan.json", report["predicted_us"], report["data_parallel_us"]

    def measure(self, graph, plan, name, data_us):
        o = self.options
        steps = min(o.steps, max(FEWEST, int(MOST_US / data_us)))
        report = f"{o.out}/{name}-{self.bandwidth}.run.json"
        on_hosts(o.build, o.hosts, self.bandwidth, o.latency, f"{o.build}/runtime/ffrun", graph, plan,
                 "--devices", o.hosts, "--machine", self.machine, "--data", "synthetic", "--steps",
                 steps, "--warmup", "2", "--compare", "--report", report)
        done = load(report)
        return done["step_us"]["median"], done["compare"]["step_us"]["median"]

    def lines(self, name):
        o = self.options
        graph = f"{o.out}/{name}.json"
        run(f"{o.build}/graphs/ffzoo", *NETWORKS[name], "-o", graph)
        costs = self.profile(graph, name)
        plan, plan_us, data_us = self.predict(graph, costs, name)
        plan_measured, data_measured = self.measure(graph, plan, name, data_us)
        for what, predicted, measured in (("data-parallel", data_us, data_measured),
                                          ("plan", plan_us, plan_measured)):
            error = 100 * (predicted - measured) / measured
            print(f"{self.bandwidth:9} {name:10} {what:14} {predicted / 1e3:12.3f} "
                  f"{measured / 1e3:12.3f} {error:+9.1f} %", flush=True)
            self.points.setdefault(f"{name}, {self.bandwidth}", []).append(
                (measured / 1e3, predicted / 1e3, f"{name} {what}, {self.bandwidth}: {error:+.1f} %"))
            yield abs(error)
        print(f"{self.bandwidth:9} {name:10} {'speedup':14} {data_us / plan_us:12.2f} "
              f"{data_measured / plan_measured:12.2f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out/cluster")
    p.add_argument("--hosts", type=int, default=2)
    p.add_argument("--bandwidth", action="append")
    p.add_argument("--latency", default="0")
    p.add_argument("--network", action="append", choices=NETWORKS)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--budget", default="10s")
    options = p.parse_args()
    options.build = os.path.abspath(options.build)
    options.out = os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    errors, points = [], {}
    print(f"{'link':9} {'network':10} {'strategy':14} {'predicted ms':>12} {'measured ms':>12} "
          f"{'error':>11}", flush=True)
    for bandwidth in options.bandwidth or ["1gbit", "100mbit"]:
        bench = Bench(options, bandwidth, points)
        for name in options.network or PRESET:
            errors += bench.lines(name)
    figures.scatter(f"{options.out}/cluster.svg", "steps between hosts, predicted and measured", points)
    print(f"mean absolute percentage error of {len(errors)}: {sum(errors) / len(errors):.1f} %")


main()
