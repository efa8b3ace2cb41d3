#!/usr/bin/env python3
"""Certified gaps: how much longer a search's plan takes than any strategy could, at most, as ffcheck verifies it.

usage: bench/gaps.py [--build build] [--networks inception_v3,resnet50,gpt2_xl] [--devices 16,64] [--machine A100]
                     [--budget 60s] [--init NAME] [--max-micro-batches N]

One line for each network and number of devices, in Markdown; networks are those of bench/plans.py, and densenet121,
googlenet and vgg16, which are trained as resnet50 is; costs by models of devices; --init and --max-micro-batches are
the search's. Where the bound takes longer than half of the budget there is no certificate, and the line says so.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import subprocess
import tempfile
import time

from commands import load, run
from plans import MACHINES, NETWORKS

LIKE_RESNET = "densenet121", "googlenet", "vgg16"


def watch(*command):
    """Exit status, what was said, processor time in seconds and memory in MiB."""
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, stdout=said, stderr=said) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return child.returncode, said.read(), used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def measure(args, folder, network, devices):
    """The search's report, what ffcheck says, and what both take; None: there is no certificate."""
    samples, settings, optimizer = NETWORKS["resnet50" if network in LIKE_RESNET else network]
    graph, plan, proof, report = (f"{folder}/{name}.json" for name in ("net", "plan", "proof", "report"))
    machine = f"{MACHINES.get(args.machine, args.machine)}:{devices // 8}"
    run(f"{args.build}/graphs/ffzoo", network, "--batch", samples * devices, *settings, "-o", graph)
    more = [word for option, value in (("--init", args.init), ("--max-micro-batches", args.max_micro_batches)) if value
            for word in (option, value)]
    status, said, *searched = watch(f"{args.build}/planner/ffsearch", graph, "--machine", machine, "--costs",
                                    "analytic", "--by-nodes", "--optimizer", optimizer, "--budget", args.budget, "-o",
                                    plan, "--report", report, "--certificate", proof, *more)
    if status:
        return None, said.strip().splitlines()[-1], searched, None
    status, said, *checked = watch(f"{args.build}/planner/ffcheck", graph, machine, "analytic", plan, proof,
                                   "--by-nodes")
    assert not status and "verified: " in said, said
    return load(report), said, searched, checked


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--networks", default="inception_v3,resnet50,gpt2_xl")
    parser.add_argument("--devices", default="16,64")
    parser.add_argument("--machine", default="A100", help="A100, H100, or one by its name, of nodes of eight")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--init")
    parser.add_argument("--max-micro-batches")
    args = parser.parse_args()
    from_s = time.monotonic()
    print("| network | devices | plan, ms | data parallelism, ms | certified bound, ms | gap, % | of micro-batches "
          "| search, s, MiB | ffcheck, s, MiB |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for network in args.networks.split(","):
            for devices in map(int, args.devices.split(",")):
                found, said, searched, checked = measure(args, folder, network, devices)
                if not found:
                    print(f"| {network} | {devices} | {said[:80]} | | | | | {searched[0]:.1f}, {searched[1]} | |",
                          flush=True)
                    continue
                plan, same = (found[key] / 1e3 for key in ("predicted_us", "data_parallel_us"))
                proof = load(f"{folder}/proof.json")
                bound, micro = proof["bound_us"] / 1e3, sorted(p["micro_batches"] for p in proof["micro_batches"])
                gap = 100 * (plan / bound - 1)
                print(f"| {network} | {devices} | {plan:.1f} | {same:.1f} | {bound:.1f} | {gap:.1f} "
                      f"| {', '.join(map(str, micro))} | {searched[0]:.1f}, {searched[1]} "
                      f"| {checked[0]:.1f}, {checked[1]} |", flush=True)
    print(f"\n{time.monotonic() - from_s:.0f} s in all")


if __name__ == "__main__":
    main()
