#!/usr/bin/env python3
"""Certified gaps: how much longer a search's plan takes than any strategy could, at most, as ffcheck verifies it.

usage: bench/gaps.py [--build build] [--networks inception_v3,resnet50,gpt2_xl] [--devices 16,64] [--machine A100]
                     [--budget 60s]

One line for each network and number of devices, in Markdown; networks are those of bench/plans.py, costs by models
of devices. Where the bound takes longer than a tenth of the budget there is no certificate, and the line says so.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import subprocess
import tempfile
import time

from commands import load, run
from plans import MACHINES, NETWORKS


def measure(args, folder, network, devices):
    """The search's report, and what ffcheck says and takes; None: there is no certificate."""
    samples, settings, optimizer = NETWORKS[network]
    graph, plan, proof, report = (f"{folder}/{name}.json" for name in ("net", "plan", "proof", "report"))
    machine = f"{MACHINES.get(args.machine, args.machine)}:{devices // 8}"
    run(f"{args.build}/graphs/ffzoo", network, "--batch", samples * devices, *settings, "-o", graph)
    done = subprocess.run([f"{args.build}/planner/ffsearch", graph, "--machine", machine, "--costs", "analytic",
                           "--by-nodes", "--optimizer", optimizer, "--budget", args.budget, "-o", plan,
                           "--report", report, "--certificate", proof], capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1], 0
    from_s = os.times().children_user
    said = run(f"{args.build}/planner/ffcheck", graph, machine, "analytic", plan, proof, "--by-nodes").stdout
    assert said.startswith("verified: "), said
    return load(report), said, os.times().children_user - from_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--networks", default="inception_v3,resnet50,gpt2_xl")
    parser.add_argument("--devices", default="16,64")
    parser.add_argument("--machine", default="A100", help="A100, H100, or one by its name, of nodes of eight")
    parser.add_argument("--budget", default="60s")
    args = parser.parse_args()
    from_s = time.monotonic()
    print("| network | devices | plan, ms | data parallelism, ms | certified bound, ms | gap, % | ffcheck, s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for network in args.networks.split(","):
            for devices in map(int, args.devices.split(",")):
                found, said, seconds = measure(args, folder, network, devices)
                if not found:
                    print(f"| {network} | {devices} | {said[:80]} | | | | |", flush=True)
                    continue
                keys = ("predicted_us", "data_parallel_us", "lower_bound_us")
                plan, same, bound = (found[key] / 1e3 for key in keys)
                print(f"| {network} | {devices} | {plan:.1f} | {same:.1f} | {bound:.1f} | {100 * (plan / bound - 1):.1f} "
                      f"| {seconds:.1f} |", flush=True)
    print(f"\n{time.monotonic() - from_s:.0f} s in all")


if __name__ == "__main__":
    main()
