#!/usr/bin/env python3
"""Figures of torch_kernels.py beside a device's model, to which they were not fitted.

usage: bench/torch_kernels_model.py TIMES.csv [--build build] [--kind H100-80GB] [--worst N]

Prints by class and direction how many there are, the median error and the median of the model's time over that of
PyTorch.  Elementwise kernels, norms and softmax are compared by their bytes.  SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import csv
import statistics
import subprocess
import sys
from pathlib import Path

from fit_devices import MODELS, ROOT, attention_pass, convolution, product, torch_product

PASSES = {"forward": "forward", "backward data": "image", "backward weights": "filter"}
# arrays of the operand's size that are read and written
STREAMS = {("gelu", "forward"): 2, ("gelu", "backward"): 3, ("add", "forward"): 3, ("copy", "forward"): 2}
NORMS = {("layer_norm", "forward"): 2, ("rms_norm", "forward"): 2, ("layer_norm", "backward"): 3,
         ("rms_norm", "backward"): 3}
SOFTMAX = {("softmax", "forward"): 2, ("softmax", "backward"): 3}
SHORTEST_US = 8  # of less the events tell as much as the kernel


def shape_of(row):
    """In bench-device's words; None: it has none for it."""
    bf16, way = row["type"] == "bfloat16", row["direction"]
    sizes = [float(x.strip("(),")) for x in row["sizes"].split()]
    of = row["class"], way
    if row["class"] == "product":
        return torch_product(row)
    if row["class"] == "batched":
        b, m, n, k = sizes
        return product(m, n, k, b, bf16)
    if row["class"] == "convolution":
        names = ("n", "c", "h", "w", "k", "r", "s", "stride", "pad_h", "pad_w")
        return convolution(dict(zip(names, sizes)), PASSES[way], bf16)
    if row["class"] == "attention":
        return attention_pass(row["sizes"], int(way == "backward"))
    for word, passes in (("stream", STREAMS), ("norm", NORMS), ("softmax", SOFTMAX)):
        if of in passes:
            size = (2 if bf16 else 4) * passes[of] * sizes[0] * sizes[1]
            return f"{word} bytes={size:.0f} back={int(way == 'backward')} bfloat16={int(bf16)}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--kind", default="H100-80GB")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="rows of each class that are farthest off")
    options = parser.parse_args()
    with open(options.times, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    rows = [(r, shape_of(r)) for r in rows if float(r["us"]) >= SHORTEST_US and r["type"] != "tf32"]
    rows = [(r, shape) for r, shape in rows if shape]
    done = subprocess.run([options.build / "bench/bench-device", MODELS / f"{options.kind}.json"], text=True,
                          input="\n".join(shape for _, shape in rows) + "\n", capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"torch_kernels_model: {done.stderr.strip()}")
    by = collections.defaultdict(list)
    for (row, shape), us in zip(rows, map(float, done.stdout.split())):
        by[row["class"], row["type"], row["direction"]].append((us / float(row["us"]), row["sizes"], row["us"], us))
    print(f"{'class':44} {'n':>5} {'error':>7} {'model/PyTorch':>14}")
    for key, found in by.items():
        error = statistics.median(abs(f[0] - 1) for f in found)
        print(f"{' '.join(key):44} {len(found):5} {100 * error:6.1f}% {statistics.median(f[0] for f in found):14.2f}")
        for ratio, sizes, measured, us in sorted(found, key=lambda f: -abs(f[0] - 1))[:options.worst]:
            print(f"    {sizes}: {measured} us, model {us:.1f}")


if __name__ == "__main__":
    main()
