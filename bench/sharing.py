#!/usr/bin/env python3
"""What several uses of one value share: plans that split layers by parameter, predicted and run.

usage: bench/sharing.py [--build build]... [--out out/sharing] [--devices 4] [--machine p100x16]
                        [--network NAME]... [--run] [--steps 10]

Writes plans in which operators that read the same value are cut alike: Megatron's of a
transformer, whose queries, keys and values are cut by head and whose norms by sample, and of
convolutions by output channel, so that all branches of a module gather one value.  Prints what a step
of them moves, what it is predicted to take, and memory; with --run also what it takes on this
machine's cores, of smaller batches.  Several builds, say of two versions, are printed beside each
other.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os

from commands import load, run, save

NETWORKS = {
    "gpt2": (["gpt2", "--set", "layers=2"], ["--batch", "4", "--set", "sequence=64"]),
    "inception_v3": (["inception_v3"], ["--batch", "4", "--set", "image=107"]),
    "resnet50": (["resnet50"], ["--batch", "4", "--set", "image=64"]),
}
# of an operator: the dim that is cut; else the sample
BY_PARAMETER = {"conv2d": "out_channel", "attention": "head"}
BY_REDUCTION = (".attention.out", ".mlp.down")


def dim_of(node):
    if node["op"] == "linear":
        return "in_feature" if node["name"].endswith(BY_REDUCTION) else "out_feature"
    return BY_PARAMETER.get(node["op"], "sample")


def cut(plan, graph, devices):
    """`plan`, data parallelism, with every operator cut along its own dim."""
    dim = {n["name"]: dim_of(n) for n in graph["nodes"]}
    for o in plan["operators"]:
        o["degrees"] = {dim.get(o["name"], "sample"): devices}
    for key in [k for k in plan if k.startswith("predicted") or k == "memory_bytes"]:
        del plan[key]
    return plan


def predict(build, options, graph, plan, report, *more):
    run(f"{build}/planner/ffsearch", graph, "--machine", options.machine, "--devices",
        str(options.devices), "--costs", "peak", "--simulate", plan, "--report", report, *more)
    return load(report)


def plan_of(options, name, what, settings):
    at = f"{options.out}/{name}-{what}"
    run(f"{options.build[0]}/graphs/ffzoo", *settings, "-o", f"{at}.json")
    predict(options.build[0], options, f"{at}.json", "data-parallel", f"{at}.report.json", "-o",
            f"{at}.plan.json")
    save(f"{at}.plan.json", cut(load(f"{at}.plan.json"), load(f"{at}.json"), options.devices))
    return f"{at}.json", f"{at}.plan.json", f"{at}.report.json"


def show_run(build, options, name):
    graph, plan, report = plan_of(options, name, "run", NETWORKS[name][0] + NETWORKS[name][1])
    run(f"{build}/runtime/ffrun", graph, plan, "--data", "synthetic", "--steps", str(options.steps),
        "--report", report, OMP_NUM_THREADS="1")
    step = load(report)["step_us"]
    print(f"{'':12} {build}: run {step['median'] / 1e3:.1f} ms "
          f"({step['p10'] / 1e3:.1f} to {step['p90'] / 1e3:.1f})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", action="append")
    parser.add_argument("--out", default="out/sharing")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--machine", default="p100x16")
    parser.add_argument("--network", action="append", choices=list(NETWORKS))
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    options.build = options.build or ["build"]
    os.makedirs(options.out, exist_ok=True)
    for name in options.network or NETWORKS:
        graph, plan, report = plan_of(options, name, "plan", NETWORKS[name][0])
        for build in options.build:
            r = predict(build, options, graph, plan, report)
            print(f"{name:12} {build}: {r['comm_bytes'] / 1e6:.1f} MB moved, "
                  f"{r['predicted_us'] / 1e3:.2f} ms, {max(r['memory_bytes']) / 1e6:.1f} MB a "
                  f"device", flush=True)
        for build in options.build if options.run else []:
            show_run(build, options, name)


if __name__ == "__main__":
    main()
