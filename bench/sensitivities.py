#!/usr/bin/env python3
"""What --explain says that more of something would bring, beside a new search on a machine that has it.

usage: bench/sensitivities.py [--build build] [--proposals 400] [--seed 1] [--svg FILE]

Ten plans of networks on GPUs, by models of devices. Of each, for a GiB more memory and for a tenth more bandwidth inside
nodes and between them: the plan's step, the step that --explain names (the better of the plan as it is and of what is
searched from there), and the step that a search from nothing finds there, with as many proposals as the first. Last, how
far the two are apart at most, and how much is saved in all by each: told, from the best step that --explain knows with
nothing more; searched, from the plan's.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import tempfile

import figures
from commands import load, run, save
from plans import NETWORKS

MACHINES = pathlib.Path(__file__).resolve().parent.parent / "graphs/machines"
# network, machine, devices, --memory (short of what data parallelism takes, or none)
PLANS = (("gpt2_xl", "dgx-a100-40", 16, "16GiB"), ("gpt2_xl", "dgx-a100-40", 64, None),
         ("bert_large", "dgx-a100-40", 16, None), ("vit_b16", "dgx-a100-40", 32, None),
         ("resnet50", "p100x16", 16, None), ("inception_v3", "p100x16", 16, None),
         ("nmt", "p100x16", 16, None), ("rnnlm", "p100x16", 8, None), ("dlrm_terabyte", "dgx-a100-40", 16, None),
         ("unet", "p100x16", 16, "6GiB"))
WITH = {"memory_1_gib": "1 GiB more memory", "inside_10_percent": "10 % faster inside",
        "network_10_percent": "10 % faster network"}
GIB = 1 << 30


def machine(name, devices, folder, key=None):
    """A file of that many devices; its links, with a tenth more bandwidth where `key` says so."""
    path = folder / "machine.json"
    m = json.loads((MACHINES / f"{name}.json").read_text(encoding="utf-8"))
    node = m["nodes"][0]
    node["count"] = max(1, devices // node["devices"])
    for side in ("inside", "network"):
        if key == f"{side}_10_percent":
            node[side]["bytes_per_s"] *= 1.1
    save(path, m)
    return path


def measure(o, folder, network, name, devices, memory):
    samples, settings, optimizer = NETWORKS[network]
    graph, report = folder / "net.json", folder / "report.json"
    run(f"{o.build}/graphs/ffzoo", network, "--batch", samples * devices, *settings, "-o", graph)

    def search(key, limit, *more):
        run(f"{o.build}/planner/ffsearch", graph, "--machine", machine(name, devices, folder, key), "--devices", devices,
            "--costs", "analytic", "--optimizer", optimizer, "--proposals", o.proposals, "--seed", o.seed, "-o",
            folder / "plan.json", "--report", report, *(["--memory", limit] if limit else []), *more)
        return load(report)
    first = search(None, memory, "--explain")
    for key in WITH:
        told = min(us for us in first["explain"][key].values() if us is not None)
        limit = str(first["memory"]["limit"] + GIB) if key == "memory_1_gib" else memory
        none = min(us for us in first["explain"]["nothing"].values() if us is not None)
        yield key, none, first["predicted_us"], told, search(key, limit)["predicted_us"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--proposals", type=int, default=400)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--svg", metavar="FILE", help="write a scatter plot there")
    o = p.parse_args()
    o.build = os.path.abspath(o.build)
    rows, points = [], {}
    print(f"{'plan':34} {'with':22} {'step, ms':>10} {'told':>10} {'searched':>10} {'apart':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for network, name, devices, memory in PLANS:
            plan = f"{network} on {devices} {name}{', ' + memory if memory else ''}"
            for key, none, step, told, again in measure(o, pathlib.Path(folder), network, name, devices, memory):
                rows.append((none, step, told, again))
                points.setdefault(WITH[key], []).append((again / 1e3, told / 1e3, f"{plan}: {told / again - 1:+.1%}"))
                print(f"{plan:34} {WITH[key]:22} {step / 1e3:10.3f} {told / 1e3:10.3f} {again / 1e3:10.3f} "
                      f"{100 * (told / again - 1):+7.2f} %", flush=True)
    far = max(abs(told / again - 1) for _, _, told, again in rows)
    mean = sum(abs(told / again - 1) for _, _, told, again in rows) / len(rows)
    print(f"{len(rows)} answers: {100 * mean:.2f} % apart in the mean, {100 * far:.2f} % at most; saved of all steps: told "
          f"{100 * sum(1 - t / n for n, _, t, _ in rows) / len(rows):.2f} %, searched again "
          f"{100 * sum(1 - a / s for _, s, _, a in rows) / len(rows):.2f} %")
    if o.svg:
        figures.scatter(o.svg, "with more of something: told, and searched again", points)


if __name__ == "__main__":
    main()
