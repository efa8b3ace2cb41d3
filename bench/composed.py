#!/usr/bin/env python3
"""Says what published steps of Megatron-DeepSpeed are made of: a simulator's sums, not measurements.

usage: bench/composed.py FOLDER

FOLDER has vtrain_e2e_open.csv and vtrain_nccl_allreduce.csv (VIA-Research/vTrain @ f8dda84, MIT).  Printed is how many
sets of steps that differ in the number of layers alone lie on a line; and, of steps of one stage that differ in data
parallelism alone and have more than 1 GiB of gradients, how far their differences are from those of vTrain's formula
(src/predictor.py, compute_comm_time): MiB by the bus bandwidth of 1 GiB, without a ring's 2 (n - 1) / n.  Gradients are
in 16 bits, of two tables of 50257 // t words each (src/model/gpt_modeling.py).

SPDX-License-Identifier: Apache-2.0
"""
import csv
import itertools
import os
import sys

import compared

WORDS, MIB = 50257, 1 << 20
LINE = 1e-4  # of a step


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def number(row, *keys):
    return tuple(int(row[k]) for k in keys)


def off_line(points):
    """Of (x, y), the farthest from the line by least squares, as a share of y's mean."""
    n, mx, my = len(points), *(sum(v) / len(points) for v in zip(*points))
    slope = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
    return max(abs(y - my - slope * (x - mx)) for x, y in points) / my if n else 0


def gradients_mib(row):
    """In 16 bits, of one of t shards: two tables of words, places, and each layer's weights and biases."""
    layers, w, t = number(row, "layers", "hidden", "t")
    layer = 6 * w + 3 * w * (w // t) + 3 * w // t + w * (w // t) + 8 * w * (w // t) + 4 * w // t
    return round(2 * (2 * (WORDS // t) * w + int(row["seq"]) * w + layers * layer) / MIB)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = [r for r in read(sys.argv[1], "vtrain_e2e_open.csv") if r["set"] == "single"]
    speeds = {int(r["gpus"]): float(r["busbw_ip"]) for r in read(sys.argv[1], "vtrain_nccl_allreduce.csv")
              if r["gpu"] == "a100" and int(r["bytes"]) == 1 << 30}
    micro = {id(r): int(r["global_batch"]) // int(r["d"]) // int(r["micro_batch"]) for r in rows}
    deep = compared.by_key(rows, lambda r: (*number(r, "hidden", "t", "d", "p", "micro_batch"), micro[id(r)]))
    lines = [off_line([(int(r["layers"]), float(r["iter_ms"])) for r in some]) for some in deep.values() if len(some) > 2]
    print(f"{sum(x < LINE for x in lines)} of {len(lines)} sets of three or four depths are within 0.01 % of a line")
    wide = compared.by_key([r for r in rows if r["p"] == "1" and int(r["d"]) > 1 and gradients_mib(r) > 1024],
                           lambda r: (*number(r, "hidden", "t", "layers", "micro_batch"), micro[id(r)]))
    off = []
    for some in wide.values():
        for a, b in itertools.combinations(some, 2):
            formula = sum(s * gradients_mib(r) / (1.024 * speeds[int(r["d"])]) for s, r in ((1, b), (-1, a)))
            off.append(abs(1e3 * (float(b["iter_ms"]) - float(a["iter_ms"])) - 1e3 * formula))
    print(f"{len(off)} differences by data parallelism of gradients above 1 GiB are the formula's to {max(off):.3f} us")


if __name__ == "__main__":
    main()
