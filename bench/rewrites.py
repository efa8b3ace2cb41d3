#!/usr/bin/env python3
"""Whether merged products pay: predicted for GPUs that are not here, predicted and measured on this host.

usage: bench/rewrites.py [--build build] [--out out/rewrites] [--rounds 5] [--steps 8] [--predict | --unprofiled]

Small networks and small batches, data parallelism of one and two devices, without rewrites and with all
(`ffsearch --rewrite all`): the step of the first over the step of the second, above 1 where merging gains.
Measured: CPU time of so many steps less that of one, in turns, the median of so many rounds.  --predict leaves out
what runs, --unprofiled the predictions for this host, for which kernels are measured.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import resource
import statistics
import subprocess

from commands import load, run

# For an A100 in bfloat16: network, batch, settings.
MODELLED = [("gpt2", 8, []), ("gpt2", 1, ["sequence=128"]), ("llama", 1, ["layers=4"]),
            ("llama", 1, ["layers=4", "sequence=512"]), ("inception_v3", 64, []), ("inception_v3", 4, [])]
HERE = [("gpt2", 4, ["layers=2", "sequence=128", "vocabulary=2000"]),
        ("llama", 2, ["layers=2", "sequence=128", "vocabulary=2000", "width=512", "heads=8", "key_heads=8",
                      "hidden=1376"]),
        ("inception_v3", 4, ["image=75"])]


class Rewrites:
    def __init__(self, options):
        self.o = options

    def command(self, name, *words):
        folder = {"ffzoo": "graphs", "ffsearch": "planner"}.get(name, "runtime")
        return [f"{self.o.build}/{folder}/{name}", *map(str, words)]

    def graph(self, network, batch, sets):
        path = f"{self.o.out}/{network}.json"
        run(*self.command("ffzoo", network, "--batch", batch, *(w for s in sets for w in ("--set", s)), "-o", path))
        return path

    def predicted(self, graph, machine, devices, costs, *words):
        """Step in milliseconds, and the plan."""
        plan, report = (f"{self.o.out}/{'-'.join([kind, str(devices), *words[1:2]])}.json" for kind in ("plan", "report"))
        run(*self.command("ffsearch", graph, "--machine", machine, "--devices", devices, "--costs", costs,
                          "--simulate", "data-parallel", "-o", plan, "--report", report, *words))
        return load(report)["predicted_us"] / 1000, plan

    def spent(self, graph, plan, steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(self.command("ffrun", graph, plan, "--data", "synthetic:64", "--steps", steps), check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime

    def measured(self, graph, plans):
        rounds = [[self.spent(graph, p, 1 + self.o.steps) - self.spent(graph, p, 1) for p in plans]
                  for _ in range(self.o.rounds)]
        return statistics.median(a / b for a, b in rounds)

    def modelled(self):
        for network, batch, sets in MODELLED:
            graph = self.graph(network, batch, sets + ["dtype=bfloat16"])
            apart, _ = self.predicted(graph, "dgx-a100-80", 1, "analytic")
            merged, _ = self.predicted(graph, "dgx-a100-80", 1, "analytic", "--rewrite", "all")
            auto, _ = self.predicted(graph, "dgx-a100-80", 1, "analytic", "--rewrite", "auto")
            print(f"A100 {network} batch {batch} {' '.join(sets)}: {apart:.2f} ms, merged {merged:.2f} "
                  f"({apart / merged:.3f}x), auto {auto:.2f} ({apart / auto:.3f}x)", flush=True)

    def profiled(self, graph, plans, devices):
        """Predicted by costs that were measured here."""
        costs = f"{self.o.out}/costs-{devices}.json"
        for plan in plans:
            run(*self.command("ffprof", graph, "--machine", "cpu2", "--devices", devices, "--strategy", plan, "-o",
                              costs))
        apart, merged = (self.predicted(graph, "cpu2", devices, costs, *w)[0] for w in ([], ["--rewrite", "all"]))
        return f"predicted {apart:.1f} ms, merged {merged:.1f} ({apart / merged:.3f}x), "

    def here(self):
        for network, batch, sets in HERE:
            graph = self.graph(network, batch, sets)
            for devices in (1, 2):
                plans = [self.predicted(graph, "cpu2", devices, "peak", *w)[1] for w in ([], ["--rewrite", "all"])]
                text = "" if self.o.unprofiled else self.profiled(graph, plans, devices)
                print(f"cpu {network} batch {batch}, {devices} ranks: {text}measured "
                      f"{self.measured(graph, plans):.3f}x", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="out/rewrites")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--predict", action="store_true")
    p.add_argument("--unprofiled", action="store_true")
    options = p.parse_args()
    os.makedirs(options.out, exist_ok=True)
    bench = Rewrites(options)
    bench.modelled()
    if not options.predict:
        bench.here()


if __name__ == "__main__":
    main()
