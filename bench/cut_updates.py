#!/usr/bin/env python3
"""What a step is predicted to take where parameters have configs of their own, beside flat updates.

usage: bench/cut_updates.py [--build build] [--out out/cut_updates] [--devices 64] [--cut 8]...

gpt2_xl (batch 512, bfloat16, AdamW) on DGX-A100, estimated costs: zero-1, its plan in hybrid shards of --cut, and its
plan with all parameters cut along their first axis instead: over all devices; over --cut of them, with as many copies
as that leaves room for; over --cut of them alone, and these gathered again for backward; and copied to all.  Prints a
line each: the step, the most memory of a device, and bytes sent.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os

from commands import load, run, save

NODE = 8


class Bench:
    """Plans of one network on one machine."""

    def __init__(self, options):
        self.options = options
        self.plan, self.by_hand, self.report = (f"{options.out}/{name}.json" for name in ("plan", "by-hand", "report"))
        self.graph = f"{options.out}/gpt2_xl.json"
        run(f"{options.build}/graphs/ffzoo", "gpt2_xl", "--batch", "512", "--set", "dtype=bfloat16", "-o", self.graph)

    def predict(self, name, strategy, *more):
        """Prints its line."""
        nodes = f":{self.options.devices // NODE}" if self.options.devices > NODE else ""
        run(f"{self.options.build}/planner/ffsearch", self.graph, "--machine", f"dgx-a100-40{nodes}", "--costs",
            "analytic", "--optimizer", "adamw", "--memory", "200G", "--simulate", strategy, "--report", self.report,
            *more)
        report = load(self.report)
        print(f"{name:34} {report['predicted_us'] / 1e3:9.1f} ms {max(report['memory_bytes']) / 2**30:6.1f} GiB "
              f"{report['comm_bytes'] / 2**30:7.1f} GiB sent", flush=True)

    def predict_cut(self, name, config, **more):
        """The same of zero-1's plan with `config` for all parameters that it updates flat."""
        plan = load(self.plan)
        for entry in plan["operators"]:
            if entry.pop("update", None):
                entry.update(config, **more)
        save(self.by_hand, plan)
        self.predict(name, self.by_hand)

    def predict_hybrid(self, shards):
        """zero-1's plan in groups of so many."""
        save(self.by_hand, {**load(self.plan), "shards": shards})
        self.predict(f"zero-1, shards of {shards}", self.by_hand)


def config_of(cut, copies):
    """Along the first axis over the first devices."""
    return {"degrees": {"axis0": cut}, "replicas": copies, "devices": list(range(cut * copies))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="out/cut_updates")
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--cut", type=int, action="append")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    bench, n = Bench(options), options.devices
    bench.predict("zero-1", "zero-1", "-o", bench.plan)
    bench.predict_cut(f"cut over {n}", config_of(n, 1))
    bench.predict_cut("copied", config_of(1, n))
    for cut in options.cut or [NODE, 2 * NODE]:
        bench.predict_hybrid(cut)
        bench.predict_cut(f"cut over {cut}, {n // cut} copies", config_of(cut, n // cut))
        bench.predict_cut(f"cut over {cut} alone", config_of(cut, 1))
        bench.predict_cut(f"cut over {cut} alone, again", config_of(cut, 1), recompute=True)


if __name__ == "__main__":
    main()
