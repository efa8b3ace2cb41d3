#!/usr/bin/env python3
"""Training that converges: a convolutional network on Fashion-MNIST by a plan that was searched.

usage: bench/fashion.py [--build build] [--out out] [--data fashion-mnist] [--epochs 4]
                        [--devices 2] [--budget 20s] [--goal 91] [-- FFRUN-OPTION...]

Profiles alexnet for 28x28 images on this machine, searches a plan and trains it, data
parallelism in turns with it.  Prints both test accuracies by epoch, the losses, and the times of
steps.  Fails if the plan does not reach GOAL percent of the test images.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import sys
import time

from commands import load, run

BATCH, IMAGES = 128, 60000
NETWORK = ["alexnet", "--set", "image=28", "--set", "dropout=25", "--batch", str(BATCH)]
OPTIMIZER = "nesterov"
SETTINGS = ["--rate", "0.03", "--schedule", "cosine", "--ramp", "200", "--ramp-from", "0.1",
            "--decay", "5e-4", "--group", "bias:decay=0"]


def found(o, graph, plan):
    """Costs of this machine, and the plan of them."""
    costs = os.path.join(o.out, "fashion-costs.json")
    run(os.path.join(o.build, "runtime/ffprof"), graph, "--machine", f"cpu{o.devices}", "--data",
        o.data, "-o", costs, "--replace")
    run(os.path.join(o.build, "planner/ffsearch"), graph, "--machine", f"cpu{o.devices}", "--costs",
        costs, "--optimizer", OPTIMIZER, "--budget", o.budget, "--seed", "1", "-o", plan)


def tell(report, steps, seconds):
    other = report["compare"]
    print(f"{'epoch':>7} {'loss, plan':>12} {'data-parallel':>14} {'test, plan':>12} "
          f"{'data-parallel':>14}")
    for i, tests in enumerate(zip(report["tests"], other["tests"])):
        losses = [r["loss"][i * steps:(i + 1) * steps] for r in (report, other)]
        a, b = (sum(x) / len(x) for x in losses)
        print(f"{i + 1:>7} {a:12.4f} {b:14.4f} {100 * tests[0]['accuracy']:10.2f} % "
              f"{100 * tests[1]['accuracy']:12.2f} %")
    print("step, median: {:.2f} ms and {:.2f} ms; sent a step: {:.2f} and {:.2f} MiB; {:.0f} s of training, "
          "both in turns".format(report["step_us"]["median"] / 1e3, other["step_us"]["median"] / 1e3,
                                 report["sent_bytes"] / 2 ** 20, other["sent_bytes"] / 2 ** 20, seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name, preset in (("build", "build"), ("out", "out"), ("data", "fashion-mnist"),
                         ("budget", "20s")):
        parser.add_argument(f"--{name}", default=preset)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--goal", type=float, default=91)
    parser.add_argument("options", nargs="*", help="more options for ffrun, behind --")
    o = parser.parse_args()
    graph, plan, path = (os.path.join(o.out, f"fashion{name}.json") for name in ("", "-plan", "-report"))
    steps = IMAGES // BATCH
    os.makedirs(o.out, exist_ok=True)
    run(os.path.join(o.build, "graphs/ffzoo"), *NETWORK, "-o", graph)
    found(o, graph, plan)
    began = time.monotonic()
    run(os.path.join(o.build, "runtime/ffrun"), graph, plan, "--data", o.data, "--steps", o.epochs * steps,
        "--optimizer", OPTIMIZER, *SETTINGS, "--compare", "--test", "--test-every", steps, "--report", path,
        *o.options)
    report = load(path)
    tell(report, steps, time.monotonic() - began)
    return 100 * report["accuracy"] < o.goal


sys.exit(main())
