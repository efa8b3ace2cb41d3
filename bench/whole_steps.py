#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what models of devices predict for whole steps on one GPU beside what others measured."""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parent.parent

TF = "tensorflow/benchmarks, published results of 2017, synthetic data"
LAMBDA = "lambdal/deeplearning-benchmark @ aa5addb"
NEUSIGHT = "sitar-lab/NeuSight @ 6945927, eager PyTorch, without an optimizer"
DROPOUT = ["dropout=10"]
BERT = ["sequence=384", "dropout=10"]
# source, kind, network, settings, type, optimizer, batch, samples a second
PUBLISHED = [
    (TF, "P100-16GB", "resnet50", [], "float32", "momentum", 64, 219),
    (TF, "P100-16GB", "inception_v3", [], "float32", "momentum", 64, 142),
    (TF, "P100-16GB", "vgg16", [], "float32", "momentum", 64, 154),
    (TF, "P100-16GB", "alexnet", [], "float32", "momentum", 512, 2987),
    (LAMBDA, "V100-16GB", "resnet50", [], "float32", "momentum", 128, 369),
    (LAMBDA, "V100-16GB", "resnet50", [], "bfloat16", "momentum", 256, 833),
    (LAMBDA, "A100-PCIE-40GB", "resnet50", [], "bfloat16", "momentum", 720, 1396),
    (LAMBDA, "A100-80GB", "resnet50", [], "bfloat16", "momentum", 1280, 1582),
    (LAMBDA, "H100-PCIE-80GB", "resnet50", [], "bfloat16", "momentum", 1280, 1866),
    (LAMBDA, "H100-80GB", "resnet50", [], "bfloat16", "momentum", 1280, 2790),
    (LAMBDA, "V100-16GB", "bert", BERT, "float32", "adam", 24, 42),
    (LAMBDA, "V100-16GB", "bert_large", BERT, "float32", "adam", 8, 12),
    (LAMBDA, "V100-16GB", "bert", BERT, "bfloat16", "adam", 48, 189),
    (LAMBDA, "V100-16GB", "bert_large", BERT, "bfloat16", "adam", 16, 57),
    (LAMBDA, "A100-PCIE-40GB", "bert", BERT, "bfloat16", "adam", 160, 368),
    (LAMBDA, "A100-80GB", "bert", BERT, "bfloat16", "adam", 320, 443),
    (LAMBDA, "A100-80GB", "bert_large", BERT, "bfloat16", "adam", 112, 152),
    (LAMBDA, "H100-PCIE-80GB", "bert_large", BERT, "bfloat16", "adam", 112, 203),
    (LAMBDA, "H100-80GB", "bert", BERT, "bfloat16", "adam", 320, 870),
    (LAMBDA, "H100-80GB", "bert_large", BERT, "bfloat16", "adam", 112, 309),
    (NEUSIGHT, "V100-16GB", "bert_large", DROPOUT, "float32", "sgd", 2, 2 / .234258),
    (NEUSIGHT, "V100-16GB", "bert_large", DROPOUT, "float32", "sgd", 8, 8 / .841124),
    (NEUSIGHT, "A100-80GB", "bert_large", DROPOUT, "float32", "sgd", 8, 8 / .716219),
    (NEUSIGHT, "H100-80GB", "bert_large", DROPOUT, "float32", "sgd", 8, 8 / .235983),
    (NEUSIGHT, "H100-80GB", "gpt2_large", DROPOUT, "float32", "sgd", 1, 1 / .183977),
    (NEUSIGHT, "H100-80GB", "gpt2_large", DROPOUT, "float32", "sgd", 4, 4 / .638809),
]


def machine(kind, folder):
    model = json.loads((ROOT / f"graphs/machines/models/{kind}.json").read_text())
    device = {"name": kind, "flops_per_s": model["flops_per_s"], "memory_bytes_per_s": model["memory_bytes_per_s"],
              "memory_bytes": 1 << 40}
    if "bfloat16_flops_per_s" in model:
        device["bfloat16_flops_per_s"] = model["bfloat16_flops_per_s"]
    path = folder / f"{kind}.json"
    path.write_text(json.dumps({"format": "ffsoap-machine", "version": 1, "name": kind, "overlap": True,
                                "kinds": [device], "nodes": [{"devices": 1, "kind": kind}]}))
    return path


def predict(build, folder, row, costs):
    _, kind, network, settings, dtype, optimizer, batch, _ = row
    graph, report = folder / "graph.json", folder / "report.json"
    more = [word for setting in settings + [f"dtype={dtype}"] for word in ("--set", setting)]
    subprocess.run([build / "graphs/ffzoo", network, "--batch", str(batch), *more, "-o", graph], check=True)
    subprocess.run([build / "planner/ffsearch", graph, "--machine", machine(kind, folder), "--costs", costs,
                    "--simulate", "data-parallel", "--optimizer", optimizer, "--report", report],
                   check=True, stdout=subprocess.DEVNULL)
    made = json.loads(report.read_text())
    return batch / made["predicted_us"] * 1e6, made["inferred_share"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=ROOT / "build", type=Path)
    parser.add_argument("--svg", metavar="FILE", help="write a scatter plot there")
    options = parser.parse_args()
    rows, points = [], {}
    print("samples a second             published    peak  models  models / published  inferred")
    with tempfile.TemporaryDirectory() as name:
        for row in PUBLISHED:
            source, kind, network, _, dtype, _, batch, published = row
            peak, _ = predict(options.build, Path(name), row, "peak")
            us, inferred = predict(options.build, Path(name), row, "analytic")
            rows.append((f"{source}, {dtype}", us / published))
            said = f"{network} {dtype}, batch {batch}: {published:.1f} published"
            points.setdefault(kind, []).append((published, us, said))
            print(f"{kind:15} {network:12} {dtype:9} {batch:5} {published:8.1f} {peak:8.1f} {us:8.1f} "
                  f"{us / published:6.2f} {100 * inferred:4.0f} %", flush=True)
    if options.svg:
        figures.scatter(options.svg, "whole steps, predicted and published", points, "samples a second", off=0.15)
    for source in dict.fromkeys(r[0] for r in rows):
        ratios = [ratio for s, ratio in rows if s == source]
        factor = math.exp(sum(map(math.log, ratios)) / len(ratios))
        near = sum(abs(ratio / factor - 1) <= .15 for ratio in ratios)
        print(f"{source}: {factor:.2f} times as fast as published; within 15 % of that {near} of {len(ratios)}")


if __name__ == "__main__":
    sys.exit(main())
