#!/usr/bin/env python3
"""Bubbles of pipelines: in closed form, as the simulator has them, and as two ranks do.

usage: bench/pipelines.py [--build build] [--out out/pipelines] [--micro-batches 8] [--rounds 5]
                          [--way tasks]

A network of 8 equal products between two small ones, in 4 stages on 4 devices that communicate for free, and in 2
on 2 ranks of this host; interleaved, each has two stages in turn, in ZB-V two down and up again.  The bubble is the
time, from a pipeline's first forward to its last backward, that the busiest device does not compute, as a share of
what it computes; measured, the median of so many runs, all orders in turns.  The closed forms of ZB-H1 and ZB-V are
those of forward and both halves of backward as long, where gradients of parameters are made apart in all layers.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import statistics

from commands import load, run, save

NETWORK = ["mlp", "--set", "layers=9", "--set", "hidden=1024", "--set", "image=4"]
STAGES = 2  # of the interleaved order, each device
CLOSED = {"gpipe": lambda p, m: (p - 1) / m, "1f1b": lambda p, m: (p - 1) / m,
          "interleaved": lambda p, m: (p - 1) / (STAGES * m), "zb-h1": lambda p, m: (p - 1) / (3 * m),
          "zb-v": lambda p, m: (p - 1) / (6 * m)}
WORDS = {"interleaved": f",interleave={STAGES}", "zb-h1": ",zb-h1", "zb-v": ",zb-v"}


def machine(path, devices, latency_us, bytes_per_s):
    """Cores whose messages travel while they compute."""
    save(path, {"format": "ffsoap-machine", "version": 1, "name": "cores", "overlap": True,
                "kinds": [{"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 2e10,
                           "memory_bytes": 8 << 30}],
                "nodes": [{"devices": devices, "kind": "cpu",
                           "inside": {"latency_us": latency_us, "bytes_per_s": bytes_per_s, "shared": False}}]})
    return path


def bubble(trace):
    """Of the busiest device of a timeline."""
    spans = [e for e in load(trace)["traceEvents"]
             if e.get("ph") == "X" and e["args"].get("kind") in ("forward", "backward")]
    busy = {}
    for e in spans:
        busy[e["pid"]] = busy.get(e["pid"], 0) + e["dur"]
    whole = max(e["ts"] + e["dur"] for e in spans) - min(e["ts"] for e in spans)
    return whole / max(busy.values()) - 1


class Pipelines:
    def __init__(self, options):
        self.o = options
        self.graph = f"{options.out}/net.json"
        run(f"{options.build}/graphs/ffzoo", *NETWORK, "--batch", str(64 * options.micro_batches), "-o", self.graph)

    def plan(self, order, devices, machine):
        """Writes the plan; its bubble in the simulation."""
        path, trace = f"{self.o.out}/{order}-{devices}.json", f"{self.o.out}/{order}-{devices}.trace.json"
        start = f"megatron:1,1,{devices},{self.o.micro_batches}"
        simulate = [f"{self.o.build}/planner/ffsearch", self.graph, "--machine", machine, "--costs", "peak",
                    "--trace", trace, "--simulate"]
        run(*simulate, start + WORDS.get(order, ""), "-o", path)
        if order == "gpipe":
            save(path, dict(load(path), order=order))
            run(*simulate, path)
        return bubble(trace)

    def measure(self, order, devices):
        trace = f"{self.o.out}/run.trace.json"
        run(f"{self.o.build}/runtime/ffrun", self.graph, f"{self.o.out}/{order}-{devices}.json", "--data",
            "synthetic", "--machine", f"{self.o.out}/two.json", "--steps", "4", "--trace", trace,
            OMP_NUM_THREADS="1", FF_OVERLAP=self.o.way)
        return bubble(trace)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="out/pipelines")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--way", default="tasks", choices=["tasks", "thread"])
    parser.add_argument("--rounds", type=int, default=5)
    o = parser.parse_args()
    os.makedirs(o.out, exist_ok=True)
    p, m = Pipelines(o), o.micro_batches
    machines = {4: machine(f"{o.out}/four.json", 4, 0, 1e15), 2: machine(f"{o.out}/two.json", 2, 1, 8e9)}
    simulated = {n: {order: p.plan(order, n, machines[n]) for order in CLOSED} for n in machines}
    runs = {order: [] for order in CLOSED}
    for _ in range(o.rounds):
        for order in CLOSED:
            runs[order].append(p.measure(order, 2))
    print(f"{m} micro-batches    4 stages, closed  simulated    2 ranks, closed  simulated  measured (least, most)")
    for order, closed in CLOSED.items():
        print(f"{order:16} {100 * closed(4, m):18.2f} % {100 * simulated[4][order]:8.2f} % {100 * closed(2, m):16.2f} %"
              f" {100 * simulated[2][order]:8.2f} % {100 * statistics.median(runs[order]):7.2f} %"
              f" ({100 * min(runs[order]):.2f}, {100 * max(runs[order]):.2f})")


if __name__ == "__main__":
    main()
