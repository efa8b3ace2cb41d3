#!/usr/bin/env python3
"""Step times with communication beside compute and without, beside predictions.

usage: bench/overlap.py [--build build] [--out out/overlap] [--link host|1gbit|100mbit]...
                        [--latency 0] [--network NAME]... [--way none|thread|tasks|late]...
                        [--steps 20] [--rounds 3] [--svg FILE]

Data parallelism on two ranks: of this host (link "host"), or of two emulated hosts that are joined
by such a link (./run cluster, as root).  ffprof measures kernels, links and what overlapping costs;
ffrun trains without overlap and by each way of it (FF_OVERLAP) in turns; ffsearch predicts both.
"late" is "tasks" with gradients that are applied one step late (--staleness 1), if asked for: it
changes what is computed.
Prints a line each: medians of all rounds' medians, their least and most; --svg FILE draws them, predicted and measured.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import statistics

import figures
from commands import load, on_hosts, run, save

NETWORKS = {
    "mlp": ["mlp", "--set", "hidden=1024", "--set", "layers=2", "--batch", "128"],
    "alexnet28": ["alexnet", "--set", "image=28", "--batch", "128"],
    "alexnet28x1024": ["alexnet", "--set", "image=28", "--batch", "1024"],
}
WAYS = ["none", "thread", "tasks"]
LATE = ["--staleness", "1"]


class Link:
    def __init__(self, options, name):
        self.o = options
        self.name = name
        self.machine = f"{options.out}/{name}.json"

    def on_hosts(self, *command, **environment):
        if self.name == "host":
            return run(*command, **environment)
        return on_hosts(self.o.build, 2, self.name, self.o.latency, *command, **environment)

    def profile(self, graph, network):
        """Kernels of an earlier run on another link are these."""
        costs = f"{self.o.out}/{network}-{self.name}.costs.json"
        started = ["mpirun", "-q", "--allow-run-as-root", "-n", "2"]
        if self.name != "host":
            started[3:3] = ["--map-by", "ppr:1:node"]
        done = self.on_hosts(*started, f"{self.o.build}/runtime/ffprof", graph, "--machine", "cpu2",
                             "--write-machine", self.machine, "-o", costs, "--largest", "16M")
        self.said = [line for line in done.stdout.splitlines() if line.startswith("overlap: ")]
        return costs

    def with_overlap(self, on):
        machine = load(self.machine)
        machine["overlap"] = on
        path = f"{self.o.out}/{self.name}-{'with' if on else 'without'}.json"
        save(path, machine)
        return path

    def predict(self, graph, costs, way):
        report = f"{self.o.out}/predicted.json"
        run(f"{self.o.build}/planner/ffsearch", graph, "--machine", self.with_overlap(way != "none"),
            "--costs", costs, "--simulate", "data-parallel", "--report", report,
            *(LATE if way == "late" else []))
        return load(report)["predicted_us"]

    def measure(self, graph, way):
        report = f"{self.o.out}/run.json"
        word = {} if way == "none" else {"FF_OVERLAP": "tasks" if way == "late" else way}
        self.on_hosts(f"{self.o.build}/runtime/ffrun", graph, "data-parallel", "--machine",
                      self.with_overlap(way != "none"), "--data", "synthetic", "--steps",
                      str(self.o.steps), "--warmup", "3", "--report", report,
                      *(LATE if way == "late" else []), **word)
        return load(report)["step_us"]["median"]

    def lines(self, network, points):
        graph = f"{self.o.out}/{network}.json"
        run(f"{self.o.build}/graphs/ffzoo", *NETWORKS[network], "-o", graph)
        costs = self.profile(graph, network)
        # of the ways to overlap only what is chosen by itself was measured by ffprof
        predicted = {way: self.predict(graph, costs, way) for way in ("none", "tasks", "late")}
        times = {way: [] for way in self.o.way}
        for _ in range(self.o.rounds):
            for way in self.o.way:
                times[way].append(self.measure(graph, way))
        print(f"{self.name}, {network}: {' '.join(self.said)}")
        for way in self.o.way:
            median = statistics.median(times[way])
            expected = f"{predicted[way] / 1e3:9.1f}" if way in predicted else 9 * " "
            print(f"{self.name:8} {network:10} {way:7} {expected} {median / 1e3:9.1f} "
                  f"({min(times[way]) / 1e3:.1f}, {max(times[way]) / 1e3:.1f}) "
                  f"{statistics.median(times[self.o.way[0]]) / median:6.2f}", flush=True)
            if way in predicted:
                points.setdefault(way, []).append((median / 1e3, predicted[way] / 1e3, f"{network}, {self.name}"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out/overlap")
    p.add_argument("--link", action="append")
    p.add_argument("--latency", default="0")
    p.add_argument("--network", action="append", choices=NETWORKS)
    p.add_argument("--way", action="append", choices=[*WAYS, "late"])
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--svg", metavar="FILE")
    options = p.parse_args()
    options.way = options.way or WAYS
    options.build = os.path.abspath(options.build)
    options.out = os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    print(f"{'link':8} {'network':10} {'overlap':7} {'predicted':>9} {'measured ms':>9} "
          "(least, most) speedup", flush=True)
    points = {}
    for name in options.link or ["host", "1gbit", "100mbit"]:
        link = Link(options, name)
        for network in options.network or ["mlp", "alexnet28"]:
            link.lines(network, points)
    if options.svg and points:
        figures.scatter(options.svg, "steps with communication beside compute", points)


main()
