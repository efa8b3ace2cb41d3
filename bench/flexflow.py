#!/usr/bin/env python3
"""Predicted speedups beside those that FlexFlow's paper has, on the networks and clusters of its figures.

usage: bench/flexflow.py [--build build] [--budget 30s] [--seed 0] [--json FILE]

Published: Jia, Zaharia, Aiken, "Beyond Data and Model Parallelism for Deep Neural Networks", MLSys 2019: 1.3 to 3.3
times data parallelism's throughput; NMT on 64 K80 1.7 to 2.4, 65.8 GB moved a step by data parallelism, 12.1 by
FlexFlow's strategy.  64 samples a GPU, as there, and batch norms over each GPU's samples; costs are by models of
devices.

Of each network and cluster are printed the plan's step, those of two baselines and the speedups over them, and the
bytes moved by data parallelism and by the plan.  "tuned" is data parallelism as ffsearch compares with: the best
bucket, summed beside backward.  "behind" has all gradients in one bucket, summed behind backward, as frameworks of
2018 without buckets had.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import tempfile

from commands import load, run, save

# network, its settings, cluster, samples of a step, published speedups, GB moved by data parallelism and by the plan
LOCAL = ("--set", "norm_group=64")
PUBLISHED = (("inception_v3", LOCAL, "p100x16", 1024, (1.3, 3.3), None),
             ("inception_v3", LOCAL, "k80x64", 4096, (1.3, 3.3), None),
             ("nmt", (), "k80x64", 4096, (1.7, 2.4), (65.8, 12.1)))
WHOLE = 1 << 34  # bytes of a bucket that has all gradients


def measure(o, folder, network, settings, machine, batch):
    """Steps of the plan and the baselines in microseconds, bytes moved, and the share that rests on other kinds."""
    graph, plan, report = (os.path.join(folder, name) for name in ("graph.json", "plan.json", "report.json"))
    search = [f"{o.build}/planner/ffsearch", graph, "--machine", machine, "--costs", "analytic", "--report", report]
    run(f"{o.build}/graphs/ffzoo", network, "--batch", batch, *settings, "-o", graph)
    run(*search, "--simulate", "data-parallel", "-o", plan)
    save(plan, dict(load(plan), bucket_bytes=WHOLE))
    run(*search, "--simulate", plan)
    behind = load(report)["predicted_us"]
    run(*search, "--budget", o.budget, "--seed", o.seed, "-o", plan)
    found = load(report)
    return {"network": network, "machine": machine, "plan_us": found["predicted_us"],
            "tuned_us": found["data_parallel_us"], "behind_us": behind,
            "bytes": [found["data_parallel_comm_bytes"], found["comm_bytes"]], "inferred": found["inferred_share"]}


def line(r, published, moved):
    times = [r[name] / r["plan_us"] for name in ("tuned_us", "behind_us")]
    there = "" if moved is None else f"{moved[0]} and {moved[1]}"
    print(f"{r['network']:12}  {r['machine']:8} {r['plan_us'] / 1e3:8.1f} {r['tuned_us'] / 1e3:8.1f} "
          f"{r['behind_us'] / 1e3:8.1f} {times[0]:7.2f}x {times[1]:7.2f}x  {published[0]} to {published[1]:3}x "
          f"{r['bytes'][0] / 1e9:7.1f} and {r['bytes'][1] / 1e9:5.1f}  {there:13} {100 * r['inferred']:4.0f} %",
          flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", help="with the commands (preset build)")
    p.add_argument("--budget", default="30s", help="of a search (preset 30s)")
    p.add_argument("--seed", default="0", help="of a search (preset 0)")
    p.add_argument("--json", help="write the figures there")
    o = p.parse_args()
    print(f"{'':12}  {'':8} {'step, ms':>26} {'speedup over':>17}  {'':11} {'GB moved':>17}  {'':13} {'':>5}")
    print(f"{'network':12}  {'cluster':8} {'plan':>8} {'tuned':>8} {'behind':>8} {'tuned':>8} {'behind':>8}  "
          f"{'published':11} {'data par., plan':>17}  {'published':13} inferred")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for network, settings, machine, batch, speedups, moved in PUBLISHED:
            rows.append(measure(o, folder, network, settings, machine, batch))
            line(rows[-1], speedups, moved)
    if o.json:
        save(o.json, rows)


if __name__ == "__main__":
    main()
