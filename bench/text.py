#!/usr/bin/env python3
"""Training on real text: the loss curve of a plan beside that of one device.

usage: bench/text.py [--build build] [--out out] [--graph GRAPH] [--plan STRATEGY]
                     [--devices 2] [--steps 400] [-- FFRUN-OPTION...]

GRAPH reads bytes (an input of ids of 256 classes) and has labels for the next ones; without
it, it is the zoo's lm with a context of 16 bytes.  Text comes from bench/text.sh.  Trains
GRAPH on one device and by STRATEGY (data-parallel), prints both curves, their largest
difference relative to the loss, and accuracy on the twentieth of the text that is for
testing.  Fails if the curves are more than 2 % apart or the loss does not fall by a tenth.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess
import sys

APART, FALLS = 0.02, 0.9


def run(*command):
    """Runs a command; its output is shown only when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def train(o, graph, plan, *options):
    report = os.path.join(o.out, "text-report.json")
    run(os.path.join(o.build, "runtime/ffrun"), graph, *plan, "--data",
        f"tokens,type=uint8,test=5:{os.path.join(o.out, 'kjv.txt')}", "--steps", str(o.steps),
        "--test", "--report", report, *options)
    with open(report, encoding="utf-8") as f:
        return json.load(f)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name, preset in (("build", "build"), ("out", "out"), ("graph", None),
                         ("plan", "data-parallel"), ("devices", "2")):
        parser.add_argument(f"--{name}", default=preset)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("options", nargs="*", help="more options for ffrun, behind --")
    o = parser.parse_args()
    os.makedirs(o.out, exist_ok=True)
    run(os.path.join(os.path.dirname(os.path.abspath(__file__)), "text.sh"),
        os.path.join(o.out, "kjv.txt"))
    graph = o.graph
    options = o.options
    if not graph:
        graph = os.path.join(o.out, "text-lm.json")
        options = options or ["--rate", "0.1"]
        run(os.path.join(o.build, "graphs/ffzoo"), "lm", "--batch", "64", "--set", "vocabulary=256",
            "--set", "context=16", "--set", "features=32", "--set", "hidden=256", "-o", graph)
    one = train(o, graph, ["single"], *options)
    other = train(o, graph, [o.plan, "--devices", o.devices], *options)
    print(f"{'steps':>12} {'one device':>12} {o.plan:>16}")
    window = max(1, o.steps // 10)
    means = [[sum(r["loss"][i:i + window]) / len(r["loss"][i:i + window]) for r in (one, other)]
             for i in range(0, o.steps, window)]
    for i, (a, b) in enumerate(means):
        print(f"{i * window + 1:>6}-{min((i + 1) * window, o.steps):<5} {a:12.4f} {b:16.4f}")
    apart = max(abs(a - b) / a for a, b in zip(one["loss"], other["loss"]))
    print(f"test accuracy {100 * one['accuracy']:.2f} % and {100 * other['accuracy']:.2f} %; "
          f"losses of single steps at most {100 * apart:.3g} % apart")
    return apart > APART or means[-1][1] > FALLS * means[0][1]


sys.exit(main())
