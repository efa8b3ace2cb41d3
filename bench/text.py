#!/usr/bin/env python3
"""Training on real text: the loss curve of a plan beside that of one device.

usage: bench/text.py [--build build] [--out out] [--graph GRAPH] [--plan STRATEGY]
                     [--devices 2] [--steps 400] [-- FFRUN-OPTION...]

GRAPH reads bytes (an input of ids of 256 classes) and has labels for the next ones; without
it, it is a small GPT: two layers of four heads, 128 features, sequences of 64 bytes, batch
16, trained by AdamW.  Text comes from bench/text.sh.  Trains GRAPH on one device and by
STRATEGY (data-parallel), prints both curves, their largest difference relative to the loss,
and accuracy on the twentieth of the text that is for testing.  Fails if the curves are more
than 2 % apart or the loss does not fall by a tenth.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import sys

from commands import load, run

APART, FALLS = 0.02, 0.9
BATCH, LENGTH, WIDTH, HEADS, LAYERS, BYTES = 16, 64, 128, 4, 2, 256


def linear(name, source, features):
    return {"name": name, "op": "linear", "in": [source], "out_features": features}


def gpt():
    """The nodes of a graph as GPT-2 is built: norms first, what a block does is added."""
    nodes = [{"name": name, "op": "input", "shape": [BATCH, LENGTH], "dtype": "int32",
              "classes": BYTES} for name in ("data", "labels")]
    nodes += [{"name": "embed", "op": "embedding", "in": ["data"], "vocabulary": BYTES,
               "features": WIDTH},
              {"name": "x", "op": "add", "in": ["embed"], "shape": [LENGTH, WIDTH]}]
    x = "x"
    for i in range(LAYERS):
        nodes += [{"name": f"norm{i}a", "op": "layer_norm", "in": [x]}]
        nodes += [linear(f"{part}{i}", f"norm{i}a", WIDTH) for part in ("query", "key", "value")]
        nodes += [{"name": f"attention{i}", "op": "attention", "head_dim": WIDTH // HEADS,
                   "in": [f"query{i}", f"key{i}", f"value{i}"], "causal": True},
                  linear(f"out{i}", f"attention{i}", WIDTH),
                  {"name": f"x{i}a", "op": "add", "in": [x, f"out{i}"]},
                  {"name": f"norm{i}b", "op": "layer_norm", "in": [f"x{i}a"]},
                  linear(f"up{i}", f"norm{i}b", 4 * WIDTH),
                  {"name": f"gelu{i}", "op": "gelu", "in": [f"up{i}"], "approximate": "tanh"},
                  linear(f"down{i}", f"gelu{i}", WIDTH),
                  {"name": f"x{i}b", "op": "add", "in": [f"x{i}a", f"down{i}"]}]
        x = f"x{i}b"
    nodes += [{"name": "norm", "op": "layer_norm", "in": [x]}, linear("logits", "norm", BYTES),
              {"name": "classes", "op": "transpose", "in": ["logits"], "perm": [0, 2, 1]},
              {"name": "loss", "op": "softmax_cross_entropy", "in": ["classes", "labels"]}]
    return nodes


def train(o, graph, plan, *options):
    report = os.path.join(o.out, "text-report.json")
    run(os.path.join(o.build, "runtime/ffrun"), graph, *plan, "--data",
        f"tokens,type=uint8,test=5:{os.path.join(o.out, 'kjv.txt')}", "--steps", str(o.steps),
        "--test", "--report", report, *options)
    return load(report)


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
        graph = os.path.join(o.out, "text-gpt.json")
        options = options or ["--optimizer", "adamw", "--rate", "1e-3"]
        with open(graph, "w", encoding="utf-8") as f:
            json.dump({"format": "ffsoap-graph", "version": 2, "name": "gpt", "nodes": gpt()}, f)
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
