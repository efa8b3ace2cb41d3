#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits models of devices (graphs/machines/models) to tables of times that others published.

FOLDER has the tables (docs/device-models.md says from where). Times come from build/bench/bench-device, so that what
is fitted is what ffsearch prices with. --check fits on four fifths of the shapes and says how far off the rest is."""
import argparse
import csv
import json
import math
import random
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from figures import scatter

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "graphs/machines/models"

# what eager frameworks add hides kernels below some times their least time
EAGER = 2.5
KERNEL = 4  # what a kernel takes at least, of the least that is measured so
# products of more are no network's, and strides of such rows are slow
LONGEST = 16384

DEEPBENCH = "baidu-research/DeepBench @ da81ba7, results/train (Apache-2.0)"
NEUSIGHT = "sitar-lab/NeuSight @ 6945927, scripts/asplos (MIT)"
AIC = "ai-dynamo/aiconfigurator @ 095f58a (Apache-2.0)"
CLBLAS = "clMathLibraries/clBLAS @ 6311c6b, doc/performance (Apache-2.0): cuBLAS 7.0 at the boost clock"
CUDNN = "NVIDIA/cudnn-frontend @ df73764, 0af834f, benchmark (MIT): cuDNN 9.19, 9.27 on H200, the same chip"
OURS = "bench/h100_kernels.csv: cuDNN 9.19 as PyTorch calls it"
VIDUR = "microsoft/vidur @ 7d47513, data/profiling (MIT)"

# multiprocessors, float32 and tensor core FLOP/s, bytes/s, and the documents that say so
KINDS = {
    "K80": (13, 2.8e12, 0, 240e9, "one of two GK210 at the base clock of 562 MHz, which 300 W for both allow; boost 875 "
            "MHz: NVIDIA Tesla K80 board specification BD-07317-001"),
    "P100-16GB": (56, 10.6e12, 0, 732e9, "SXM2: NVIDIA Tesla P100 whitepaper WP-08019-001"),
    "V100-16GB": (80, 15.7e12, 125e12, 900e9, "SXM2: NVIDIA Tesla V100 whitepaper WP-08608-001"),
    "V100-32GB": (80, 15.7e12, 125e12, 900e9, "SXM2: NVIDIA V100 datasheet"),
    "V100-SXM3-32GB": (80, 16.35e12, 130.8e12, 981e9, "SXM3 of DGX-2, 350 W: 5120 units at 1597 MHz, HBM2 at 958 MHz, "
                       "as users report; no page of NVIDIA's was found"),
    "T4": (40, 8.1e12, 65e12, 320e9, "NVIDIA T4 datasheet"),
    "L4": (58, 30.3e12, 121e12, 300e9, "NVIDIA L4 datasheet"),
    "A10-24GB": (72, 31.2e12, 125e12, 600e9, "NVIDIA A10 datasheet"),
    "A40-48GB": (84, 37.4e12, 149.7e12, 696e9, "NVIDIA A40 datasheet"),
    "RTX-A6000-48GB": (84, 38.7e12, 154.8e12, 768e9, "NVIDIA RTX A6000 datasheet, GA102 whitepaper"),
    "RTX-3090-24GB": (82, 35.6e12, 71e12, 936e9, "NVIDIA Ampere GA102 GPU architecture whitepaper: 16 bits added up in 32"),
    "RTX-4090-24GB": (128, 82.6e12, 165.2e12, 1008e9, "NVIDIA Ada GPU architecture whitepaper: 16 bits added up in 32"),
    "L40S-48GB": (142, 91.6e12, 362e12, 864e9, "NVIDIA L40S datasheet"),
    "A100-PCIE-40GB": (108, 19.5e12, 312e12, 1555e9, "NVIDIA A100 datasheet"),
    "A100-40GB": (108, 19.5e12, 312e12, 1555e9, "SXM4: NVIDIA A100 datasheet"),
    "A100-80GB": (108, 19.5e12, 312e12, 2039e9, "SXM4: NVIDIA A100 datasheet"),
    "H100-PCIE-80GB": (114, 51.2e12, 756e12, 2000e9, "NVIDIA H100 datasheet"),
    "H100-80GB": (132, 66.9e12, 989e12, 3350e9, "SXM5: NVIDIA H100 datasheet"),
    "H200-141GB": (132, 66.9e12, 989e12, 4800e9, "NVIDIA H200 datasheet"),
    "B200-180GB": (148, 80e12, 2250e12, 8000e9, "NVIDIA Blackwell datasheet, HGX B200"),
}
# of tensor cores in TF32, which these know; half of their rate for 16 bits (the same datasheets)
CARDS = ("L4", "A10-24GB", "A40-48GB", "RTX-A6000-48GB", "RTX-3090-24GB", "RTX-4090-24GB", "L40S-48GB")
TF32 = (*CARDS, "A100-PCIE-40GB", "A100-40GB", "A100-80GB", "H100-PCIE-80GB", "H100-80GB", "H200-141GB", "B200-180GB")
# Of the share of the peak that a kernel of Ampere's instructions reaches on A100: FlashAttention-2 reaches 35 % on H100
# (Shah et al., "FlashAttention-3", 2024, abstract), 73 % on A100 (Dao, "FlashAttention-2", 2023, abstract).
AMPERE_SHARE = {"H100-PCIE-80GB": .48, "H100-80GB": .48, "H200-141GB": .48, "B200-180GB": .48}
# least time of a kernel of a stream or a replayed graph: assumed, as tables of memory-bound kernels hide it
FLOOR = {"K80": 6, "P100-16GB": 4, "V100-16GB": 3.5, "V100-32GB": 3.5, "V100-SXM3-32GB": 3.5, "T4": 3.5,
         **dict.fromkeys(CARDS, 2.5), "A100-PCIE-40GB": 2.5, "A100-40GB": 2.5, "A100-80GB": 2.5, "H100-PCIE-80GB": 2,
         "H100-80GB": 2, "H200-141GB": 2, "B200-180GB": 2}
# whose figures stand for a kind where it was not measured
NEAREST = {
    "K80": ["P100-16GB"],
    "P100-16GB": ["V100-16GB"],
    "V100-16GB": ["A100-80GB"],
    "V100-32GB": ["V100-16GB", "A100-80GB"],
    "V100-SXM3-32GB": ["V100-16GB", "A100-80GB"],
    "T4": ["V100-16GB", "A100-80GB"],
    **{kind: ["A100-80GB", "A100-PCIE-40GB", "V100-16GB"] for kind in CARDS},
    "A100-PCIE-40GB": ["A100-80GB", "V100-16GB"],
    "A100-40GB": ["A100-80GB", "A100-PCIE-40GB", "V100-16GB"],
    "A100-80GB": ["A100-PCIE-40GB", "V100-16GB"],
    "H100-PCIE-80GB": ["H100-80GB", "A100-80GB", "A100-PCIE-40GB", "V100-16GB"],
    "H100-80GB": ["A100-80GB", "A100-PCIE-40GB", "V100-16GB"],
    "H200-141GB": ["H100-80GB", "A100-80GB", "A100-PCIE-40GB", "V100-16GB"],
    "B200-180GB": ["H100-80GB", "A100-80GB", "A100-PCIE-40GB", "V100-16GB"],
}
SAME_CHIP = {"V100-32GB": ["V100-16GB"], "V100-SXM3-32GB": ["V100-16GB"], "A100-40GB": ["A100-80GB"],
             "H200-141GB": ["H100-80GB"]}
OTHER_CLOCKS = ("V100-SXM3-32GB",)
# measured on another card of the same chip: what is otherwise there, and the words that say so
MEASURED_ON = {
    "P100-16GB": ({"flops_per_s": 9.3e12},
                  "by its times on the PCIe card of 9.3 TFLOP/s (NVIDIA Tesla P100 PCIe datasheet PB-08248)"),
    "K80": ({"multiprocessors": 15, "flops_per_s": 5.04e12, "memory_bytes_per_s": 288e9},
            "by its times on K40 of 5.04 TFLOP/s at 875 MHz (NVIDIA Tesla K40 board specification BD-06902-001)"),
}

# of which no more was measured than that: the other kind's figures, at rates that are so much higher or lower
SCALED = {("A100-PCIE-40GB", "convolution.float32"): ("V100-16GB", "3 x 3 forward"),
          ("K80", "product.float32"): ("P100-16GB", "n x n")}
# How far the power limit holds the clock down: with this, products that take 20 us and 20 ms are equally far off; without
# it those of over 5 ms are predicted 6 to 9 % fast, those of 0.1 ms 6 % slow.  A100's tables show nothing of the kind.
# V100's tables do not show it, but steps of BERT take 1.13 times as long on V100 of 300 W as on those of 450 W, seven
# tenths of which are products (NVIDIA/DeepLearningExamples, TensorFlow/LanguageModeling/BERT: DGX-1 and DGX-2H).
SUSTAINED = {("H100-80GB", "product.bfloat16"): .88, ("V100-16GB", "product.bfloat16"): .83}
# Kernels that are timed alone and take so long end with half of that: of V100 none does.
BURST_US = {("V100-16GB", "product.bfloat16"): 1e9}
# of instructions that float32 has none of, so that it is inferred from an older kind's
NO_OTHER_TYPE = [("H100-80GB", "attention.bfloat16")]
# classes of which forward alone was measured, and what stands for their gradients
ASSUMED_BACK = {
    "softmax": "forward: 2.6 to 2.95 times its time in operators of BERT and GPT (NeuSight), by 1.5 times its bytes",
    "norm": "forward, by its bytes",
    "attention": "forward: 2.5 times the products, at four fifths of the rate",
}

# Products of rows that are no whole vectors were timed on H100 alone.  Those of other kinds of the same kernels, which
# know no wide loads, are as much slower as multiprocessors and clock say, GHz (the datasheets above).
UNALIGNED = "rows that are no whole vectors: "
CLOCKS = {"V100-16GB": 1.53, "V100-32GB": 1.53, "V100-SXM3-32GB": 1.597, "T4": 1.59, "L4": 2.04,
          "A10-24GB": 1.695, "A40-48GB": 1.74, "RTX-A6000-48GB": 1.8, "RTX-3090-24GB": 1.695, "RTX-4090-24GB": 2.52,
          "L40S-48GB": 2.52,
          "A100-PCIE-40GB": 1.41, "A100-40GB": 1.41, "A100-80GB": 1.41, "H100-80GB": 1.755}

PASSES = ["forward", "image", "filter"]
TILE = 2  # of Winograd's products, as graphs/operator/rows/conv.c has it
PRODUCT = {"floor_us": 4, "memory": .8, "startup": 50, "waves": .7, "split_us": 3, "unaligned": .8, "batched": .7,
           "tile_256x128": .9, "tile_128x128": .9, "tile_128x64": .8, "tile_64x64": .7, "tile_128x32": .6,
           "tile_32x32": .4}
START = {
    "stream": {"floor_us": 3, "share": .8, "backward": 1},
    "softmax": {"floor_us": 3, "share": .6, "backward": .55},
    "norm": {"floor_us": 3, "share": .6, "backward": .8},
    "pool": {"floor_us": 3, "share": .7, "backward": .7},
    "lookup": {"floor_us": 3, "share": .6, "backward": .5},
    "product": PRODUCT,
    "convolution": {**PRODUCT, **{f"{p}_{form}": value for p in PASSES for form, value in
                                      (("pointwise", .9), ("window", .8), ("strided", .6), ("winograd", .6))}},
    "attention": {"floor_us": 5, "share": .5, "startup": 100, "waves": .5, "backward": 3.2, "block_us": .5,
                  "narrow": .5},
    "recurrent": {"step_us": 8, "share": .9, "backward": 1.1},
}
TYPED = ["product", "convolution", "attention", "recurrent"]
LIMITS = {"waves": (0, 1), "tile": (.02, 1.1), "memory": (.2, 1), "share": (.02, 1.2), "startup": (0, 2000),
          "split_us": (.1, 20), "block_us": (.01, 20), "narrow": (.01, 2), "unaligned": (.2, 1),
          "batched": (.05, 1), "floor_us": (.5, 40)}
MEMORY = (.02, 1)  # what is bound by memory is no faster, though what caches hold is


def read(folder, name):
    with open(Path(folder) / f"{name}.csv") as f:
        return list(csv.DictReader(f))


def number(row, *keys):
    return [float(row[k]) for k in keys]


def product(m, n, k, count=1, bf16=False, a_transposed=False):
    size = 2 if bf16 else 4
    return (f"product m={m:.0f} n={n:.0f} k={k:.0f} count={count:.0f} bfloat16={int(bf16)} "
            f"a_transposed={int(a_transposed)} bytes={size * count * (m * k + k * n + m * n):.0f}")


def convolution(r, which, bf16=False):
    """One pass of a table's row, as graphs/operator/rows/conv.c has it."""
    n, c, h, w, k, fr, fs = number(r, "n", "c", "h", "w", "k", "r", "s")
    pads = number(r, "pad", "pad") if "pad" in r else number(r, "pad_h", "pad_w")
    strides = number(r, "stride", "stride") if "stride" in r else number(r, "stride_h", "stride_w")
    oh = (h + 2 * pads[0] - fr) // strides[0] + 1
    ow = (w + 2 * pads[1] - fs) // strides[1] + 1
    taps, stride, size = fr * fs, strides[0] * strides[1], 2 if bf16 else 4
    shape = {"forward": (n * oh * ow, k, c * taps), "image": (n * h * w, c, k * taps / stride),
             "filter": (k, c * taps, n * oh * ow)}[which]
    winograd = 0
    if fr == fs and fr in (3, 5) and stride == 1:
        winograd = math.prod(TILE * math.ceil(x / TILE) / x for x in ((h, w) if which == "image" else (oh, ow)))
    return (f"convolution m={shape[0]:.17g} n={shape[1]:.17g} k={shape[2]:.17g} taps={taps:.0f} stride={stride:.0f} "
            f"winograd={winograd:.17g} pass={PASSES.index(which)} bfloat16={int(bf16)} "
            f"bytes={size * (n * c * h * w + n * k * oh * ow + k * c * taps):.0f}")


def eager(rows, key="us", times=EAGER):
    """Rows and their times without the host's, which is what the least takes; those that it hides are left out."""
    least = min(float(r[key]) for r in rows)
    return [(r, float(r[key]) - least + KERNEL) for r in rows if float(r[key]) > times * least]


def neusight_products(folder, *names):
    ret = []
    for name in names:
        ret += [(product(*number(r, "m", "n", "k", "batch")) if "bmm" in name or r.get("op") == "bmm" else
                 product(float(r["batch"]) * float(r["m"]), *number(r, "n", "k")), us)
                for r, us in eager(read(folder, name)) if float(r["k"]) <= LONGEST]
    return ret


def clblas_products(folder):
    """Square ones, by their rates; the host's time is in those of less."""
    return [(product(*[float(r["n"])] * 3), 2e-3 * float(r["n"]) ** 3 / float(r["GFLOPS"]))
            for r in read(folder, "clblas_sgemm_k40") if float(r["n"]) >= 512]


def deepbench_products(folder, gpu, dtype):
    return [(product(*number(r, "m", "n", "k"), bf16=dtype != "fp32"), float(r["us"]))
            for r in read(folder, f"deepbench_gemm_{gpu}") if r["dtype"] == dtype and r["us"]]


def deepbench_convolutions(folder, gpu, dtype):
    return [(convolution(r, which, dtype != "fp32"), float(r[key])) for r in read(folder, f"deepbench_conv_{gpu}")
            for which, key in zip(PASSES, ("fwd_us", "bwd_data_us", "bwd_weight_us"))
            if r["dtype"] == dtype and r[key] and (which != "image" or float(r["c"]) > 3)]


def neusight_convolutions(folder, name):
    """Of those whose channels and images networks have: all others are of random sizes."""
    return [(convolution(r, "forward"), us) for r, us in eager(read(folder, name), "fwd_us")
            if float(r["c"]) >= 16 and float(r["k"]) >= 16 and float(r["h"]) >= 7]


def memory_bound(folder, gpu, which):
    ops = {"stream": {"add": 3, "mul": 3, "div": 3, "addu": 2, "mulu": 2, "divu": 2, "relu": 2, "tanh": 2, "gelu": 2},
           "softmax": {"softmax": 2}, "norm": {"ln": 2}}[which]
    rows = eager(read(folder, f"neusight_vec_{gpu}"))
    return [(f"{which} bytes={4 * ops[r['op']] * float(r['rows']) * float(r['cols']):.0f}", us)
            for r, us in rows if r["op"] in ops]


def vidur(folder, gpu, op, which, passes):
    return [(f"{which} bytes={2 * passes * float(r['m_or_rows']) * float(r['n_or_cols']):.0f}", float(r["median_us"]))
            for r in read(folder, f"vidur_ops_{gpu}") if r["op"] == op and float(r["median_us"]) >= 8]


def aic_products(folder, gpu):
    return [(product(*number(r, "m", "n", "k"), bf16=True), float(r["us"]))
            for r in read(folder, f"aic_gemm_bfloat16_{gpu}")]


def vidur_products(folder, gpu):
    return [(product(*number(r, "m_or_rows", "n_or_cols", "k"), bf16=True), float(r["median_us"]))
            for r in read(folder, f"vidur_ops_{gpu}") if r["op"].startswith("gemm") and float(r["median_us"]) >= 8]


def attention_pass(sizes, back):
    """Of bench/torch_kernels.py's sizes; what names a shape comes first."""
    batch, heads, kv, places, size, causal = map(float, sizes.split())
    share = (places + 1) / 2 / places if causal else 1
    return (f"attention count={batch * heads:.0f} m={places:.0f} n={places:.0f} k={size:.0f} share={share:.17g} "
            f"back={back} bfloat16=1 bytes={2 * batch * places * size * (2 + 2 * back) * (heads + kv):.0f}")


def torch_product(r):
    """Of bench/torch_kernels.py's sizes, which are those of the layer's forward."""
    m, n, k = map(float, r["sizes"].split())
    sizes = {"forward": (m, n, k), "backward data": (m, k, n), "backward weights": (n, k, m)}[r["direction"]]
    return product(*sizes, bf16=r["type"] == "bfloat16", a_transposed=r["direction"] == "backward weights")


def flops_of(shape):
    """Of a product."""
    size = dict(word.split("=") for word in shape.split()[1:])
    return 2 * float(size["m"]) * float(size["n"]) * float(size["k"])


def unaligned_products(name):
    """Of a table in bench/, those in bfloat16 of rows that are multiples of 2 bytes, and those of 8."""
    with open(ROOT / "bench" / name, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    rows = [r for r in rows if r["class"] == "product" and r["type"] == "bfloat16"]
    return [[(torch_product(r), float(r["us"])) for r in rows
             if math.gcd(8, *(int(x) for x in r["sizes"].split()[1:])) == elements] for elements in (1, 4)]


def cudnn_attention(name):
    """Of a table in bench/, both ways."""
    with open(ROOT / "bench" / name, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    return [(attention_pass(r["sizes"], int(r["direction"] == "backward")), float(r["us"])) for r in rows
            if r["class"] == "attention"]


def attention(folder, gpu):
    ret = []
    for r in read(folder, f"aic_attnfwd_{gpu}"):
        batch, seq, heads, kv, size = number(r, "batch", "seq", "heads", "kv_heads", "head_dim")
        ret.append((f"attention count={batch * heads:.0f} m={seq:.0f} n={seq:.0f} k={size:.0f} share="
                    f"{(seq + 1) / 2 / seq:.17g} bfloat16=1 bytes={2 * batch * seq * size * 2 * (heads + kv):.0f}",
                    float(r["us"])))
    return ret


def recurrent(folder, gpu):
    gates = {"vanilla": 1, "lstm": 4, "gru": 3}
    ret = []
    for r in read(folder, f"deepbench_rnn_{gpu}"):
        hidden, batch, steps = number(r, "hidden", "batch", "timesteps")
        if r["dtype"] == "fp32":
            for back, key in enumerate(("fwd_us", "bwd_data_us")):
                if r[key]:
                    ret.append((f"recurrent count={steps:.0f} m={batch:.0f} n={gates[r['cell']] * hidden:.0f} "
                                f"k={hidden:.0f} back={back}", float(r[key])))
    return ret


def tables(folder):
    """What was measured: of kind and class its rows by source."""
    half = "fp16_tensorcore_mixed"
    cores = ", float16 on tensor cores"
    ret = {}

    def add(kind, which, source, rows):
        ret.setdefault((kind, which), []).append((source, rows))

    if (Path(folder) / "clblas_sgemm_k40.csv").exists():
        add("K80", "product.float32", CLBLAS, clblas_products(folder))
    for kind, gpu in ("P100-16GB", "p100"), ("V100-16GB", "v100"), ("A100-PCIE-40GB", "a100_pcie40"):
        for op in "linear", "bmm":
            add(kind, "product.float32", f"{NEUSIGHT}: {op}", neusight_products(folder, f"neusight_{op}_{gpu}"))
        for which in "stream", "softmax", "norm":
            add(kind, which, NEUSIGHT, memory_bound(folder, gpu, which))
    for kind, gpu in ("P100-16GB", "p100"), ("V100-16GB", "v100"), ("T4", "t4"):
        add(kind, "product.float32", DEEPBENCH, deepbench_products(folder, gpu, "fp32"))
        add(kind, "convolution.float32", DEEPBENCH, deepbench_convolutions(folder, gpu, "fp32"))
        if gpu != "p100":
            add(kind, "product.bfloat16", DEEPBENCH + cores, deepbench_products(folder, gpu, half))
            add(kind, "convolution.bfloat16", DEEPBENCH + cores, deepbench_convolutions(folder, gpu, half))
        if gpu != "t4":
            add(kind, "recurrent.float32", DEEPBENCH, recurrent(folder, gpu))
    add("A100-PCIE-40GB", "convolution.float32", f"{NEUSIGHT}: forward, on the 80 GB card", neusight_convolutions(
        folder, "neusight_convfwd_a100_pcie80"))
    for kind, gpu, name in ("A100-80GB", "a100_sxm80", "a100"), ("H100-80GB", "h100_sxm80", "h100"):
        add(kind, "product.bfloat16", AIC, aic_products(folder, gpu))
        add(kind, "product.bfloat16", f"{VIDUR}: products of layers, float16", vidur_products(folder, name))
        add(kind, "stream", f"{VIDUR}: add", vidur(folder, name, "add", "stream", 3))
        add(kind, "norm", f"{VIDUR}: input_layernorm", vidur(folder, name, "input_layernorm", "norm", 2))
    add("A100-80GB", "attention.bfloat16", f"{AIC}: forward", attention(folder, "a100_sxm80"))
    add("H100-80GB", "attention.bfloat16", OURS, cudnn_attention("h100_kernels.csv"))
    add("H100-80GB", "attention.bfloat16", CUDNN, cudnn_attention("cudnn_attention.csv"))
    add("H100-80GB", "product.float32", NEUSIGHT, neusight_products(folder, "neusight_test_gemm_h100_sxm80"))
    return ret


def skeleton(kind):
    multiprocessors, flops, short, memory, source = KINDS[kind]
    ret = {"format": "ffsoap-device-model", "version": 1, "name": kind, "source": source,
           "multiprocessors": multiprocessors, "flops_per_s": flops}
    if short:
        ret["bfloat16_flops_per_s"] = short
    if kind in TF32:
        ret["tf32_flops_per_s"] = short / 2
    if kind in AMPERE_SHARE:
        ret["ampere_share"] = AMPERE_SHARE[kind]
    ret["memory_bytes_per_s"] = memory
    ret["classes"] = {}
    for name, start in START.items():
        for key in ([f"{name}.float32"] + [f"{name}.bfloat16"] * (short > 0)) if name in TYPED else [name]:
            parameters = dict(start)
            if name not in TYPED:
                parameters["floor_us"] = FLOOR[kind]
            if (kind, key) in SUSTAINED:
                parameters["sustained"] = SUSTAINED[kind, key]
            if (kind, key) in BURST_US:
                parameters["burst_us"] = BURST_US[kind, key]
            ret["classes"][key] = {"basis": "inferred from nothing", "parameters": parameters}
    return ret


def is_eager(source):
    """Whether its least time is the host's, so that it tells no kernel's floor."""
    return source.startswith(NEUSIGHT)


def is_forward(named):
    """Whether no gradient was timed."""
    return not any(" back=1" in shape for _, rows in named for shape, _ in rows)


class Fit:
    """Coordinate descent on the mean of the errors' logarithms."""

    def __init__(self, tool, model, which, no_floor=False, forward=False):
        self.no_floor, self.forward = no_floor, forward
        self.tool, self.model, self.which = tool, model, which
        self.parameters = model["classes"][which]["parameters"]
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")

    def predict(self, lines):
        if not lines:
            return []
        self.file.seek(0)
        self.file.truncate()
        json.dump(self.model, self.file)
        self.file.flush()
        done = subprocess.run([self.tool, self.file.name], input="\n".join(lines) + "\n", text=True,
                              capture_output=True)
        if done.returncode:
            raise SystemExit(f"{self.which} of {self.model['name']}: {done.stderr}")
        return [float(line) for line in done.stdout.split()]

    def error(self, rows):
        """Without the farthest twentieth: tables have rows that no rule explains."""
        off = sorted(abs(math.log(us / have)) for us, (_, have) in zip(self.predict([r[0] for r in rows]), rows))
        return sum(off[:len(off) - len(off) // 20]) / max(1, len(off) - len(off) // 20)

    def absolute(self, rows):
        return [abs(us / have - 1) for us, (_, have) in zip(self.predict([r[0] for r in rows]), rows)]

    def points(self, rows):
        """Of a figure."""
        return [(have, us, f"{self.model['name']}, {shape}: {have:g} us, predicted {us:.3g}")
                for us, (shape, have) in zip(self.predict([r[0] for r in rows]), rows)]

    def free(self):
        bound = "." not in self.which
        return [p for p in self.parameters if not (bound and p in ("floor_us", "backward")) and
                not (self.no_floor and p == "floor_us") and p not in ("sustained", "burst_us") and
                not (self.forward and p == "backward")]

    def move(self, name, step):
        old = self.parameters[name]
        low, high = LIMITS.get(name.split("_1")[0].split("_2")[0].split("_6")[0].split("_3")[0], (1e-3, 50))
        if name == "share" and not self.which.startswith("recurrent"):
            low, high = MEMORY
        new = old + step / 2 if name == "waves" else max(old, 1e-3) * math.exp(step)
        self.parameters[name] = min(max(new, low), high)
        return old

    def descend(self, rows, step, rounds=20):
        best = self.error(rows)
        for _ in range(rounds):
            before = best
            for name in self.free():
                for sign in (1, -1):
                    old = self.move(name, sign * step)
                    now = self.error(rows)
                    if now < best - 1e-6:
                        best = now
                        break
                    self.parameters[name] = old
            if best > before - .002:
                step /= 2
            if step < .015:
                break
        return best

    def run(self, rows, starts=3):
        """From several starts, drawn around the best: there are minima that are none of all."""
        draw = random.Random(1)
        best = self.descend(rows, .4)
        for _ in range(starts):
            kept = dict(self.parameters)
            for name in self.free():
                self.move(name, draw.uniform(-.5, .5))
            now = self.descend(rows, .3)
            if now < best:
                best = now
            else:
                self.parameters.update(kept)
        for name, value in self.parameters.items():
            self.parameters[name] = float(f"{value:.4g}")


def thinned(rows, most):
    return rows[::max(1, len(rows) // most)]


def balanced(sources, most=900):
    """As many of each source, however long its table is: the longest are of random shapes."""
    ret = []
    for rows in sources:
        ret += thinned(rows, most // len(sources))
    return ret


def rates_of(parameters):
    """Of a convolution by pass, else by tile."""
    passes = [name for name in parameters if name.split("_")[0] in PASSES]
    return passes or [name for name in parameters if name.startswith("tile")]


def scale(f, other, rows):
    """The other kind's parameters, all rates times the number that suits these rows best."""
    f.parameters.update({name: v for name, v in other.items() if name != "floor_us"})
    rates = rates_of(other)
    times, step, best = 1, .2, f.error(rows)
    while step > .004:
        for trial in times * math.exp(step), times * math.exp(-step):
            f.parameters.update({name: float(f"{other[name] * trial:.4g}") for name in rates})
            now = f.error(rows)
            if now < best:
                times, best = trial, now
                break
        else:
            step /= 2
    f.parameters.update({name: float(f"{other[name] * times:.4g}") for name in rates})


def fit(tool, models, model, which, named, starts=3):
    """`named` are rows by source."""
    kind, sources = model["name"], [rows for _, rows in named]
    f = Fit(tool, model, which, all(is_eager(source) for source, _ in named), is_forward(named))
    if f.no_floor:
        f.parameters["floor_us"] = FLOOR[kind]
    if (kind, which) in SCALED:
        scale(f, models[SCALED[kind, which][0]]["classes"][which]["parameters"], balanced(sources))
    else:
        f.run(balanced(sources), starts)
    return f


def order(keys):
    """Products first: convolutions and recurrences rest on them; last what rests on another kind."""
    return sorted(keys, key=lambda k: (k in SCALED, k[0], not k[1].startswith("product"), k[1]))


def held_out(tool, models, model, which, named, folds=5):
    """By source, errors of shapes that the fit has not seen: it begins anew without a fifth of them."""
    ret = [[] for _ in named]
    for i in range(folds):
        trial = json.loads(json.dumps(model))
        trial["classes"][which] = skeleton(model["name"])["classes"][which]
        f = fit(tool, models, trial, which,
                [(source, [r for r in rows if fold(r[0], folds) != i]) for source, rows in named], 1)
        for k, (_, rows) in enumerate(named):
            ret[k] += f.absolute([r for r in rows if fold(r[0], folds) == i])
    return ret


def mean(values):
    return sum(values) / len(values)


def fold(shape, folds):
    """The same of equal shapes, and of both ways through attention."""
    return zlib.crc32((shape.split(" back=")[0] if shape.startswith("attention") else shape).encode()) % folds


def infer(models, kind, key):
    """The same class of the nearest kind that was measured, or of another type of the same kind."""
    for other in NEAREST[kind]:
        c = models[other]["classes"].get(key)
        if c and (c["basis"] == "measured" or "but for" in c["basis"]):
            return other, c
    other_type = key.replace("float32", "X").replace("bfloat16", "float32").replace("X", "bfloat16")
    for other in [kind, *NEAREST[kind]]:
        c = models[other]["classes"].get(other_type)
        if (other, other_type) in NO_OTHER_TYPE:
            continue
        if c and c["basis"] == "measured":
            return f"{other} in {other_type.split('.')[1]}", c
    name = {"pool": "stream", "lookup": "stream", "softmax": "stream", "attention": "softmax"}.get(key.split(".")[0])
    return (f"{name} kernels, by what such kernels do", None) if name else ("what such kernels do", None)


def complete(models):
    for (kind, which), (other, known) in SCALED.items():
        models[kind]["classes"][which]["basis"] = f"inferred from {other}, but for {known}"
    for kind in KINDS:
        for key, c in models[kind]["classes"].items():
            if c["basis"] != "inferred from nothing":
                continue
            origin, known = infer(models, kind, key)
            if origin in SAME_CHIP.get(kind, []):
                clocks = "as shares of its peak" if kind in OTHER_CLOCKS else "at the same clocks"
                c["basis"], c["source"] = "measured", f"on {origin}, the same chip {clocks}"
                if "backward" in known:
                    c["backward"] = known["backward"]
            else:
                c["basis"] = f"inferred from {origin}"
            if known:
                c["parameters"] = dict(known["parameters"])
                if "." not in key:
                    c["parameters"]["floor_us"] = FLOOR[kind]


def best_tile(model):
    """Of its peak; none is faster."""
    return min(1, max(v for name, v in model["classes"]["product.float32"]["parameters"].items()
                      if name.startswith("tile")))


def slow_down(models):
    """Windows are multiplied by the same units as rows and columns.  Where convolutions are another kind's, their rates
    are as much lower as the best tile of products is; and no tile is faster than that."""
    for kind, model in models.items():
        c = model["classes"]["convolution.float32"]
        other = c["basis"].removeprefix("inferred from ").split(",")[0]
        if c["basis"] == "measured":
            continue
        times = 1 if "but for" in c["basis"] else best_tile(model) / best_tile(models[other])
        if times != 1:
            c["basis"] += ", as much slower as products are"
        for name in rates_of(c["parameters"]):
            c["parameters"][name] = float(f"{c['parameters'][name] * times:.4g}")
        c["parameters"]["most"] = best_tile(model)


def tensor_flops(kind):
    """Of a multiprocessor in a clock."""
    multiprocessors, _, flops_per_s = KINDS[kind][:3]
    return flops_per_s / multiprocessors / CLOCKS[kind] / 1e9


def feed(models):
    """Cards whose multiprocessors multiply more slowly than those that were measured, but load operands as fast, reach
    a larger share of their peak: what a tile takes beyond its multiplications stays as it is."""
    for kind in CARDS:
        for key, other in (("product.bfloat16", "A100-80GB"), ("convolution.bfloat16", "V100-16GB")):
            c = models[kind]["classes"][key]
            times = tensor_flops(kind) / tensor_flops(other)
            if times > .99 and key != "product.bfloat16":
                continue
            c["basis"] += ", with slower tensor cores"
            for name, share in c["parameters"].items():
                if name.split("_")[0] in ("tile", *PASSES):
                    c["parameters"][name] = float(f"{1 / (1 + (1 / share - 1) * times):.4g}")


def tell_unaligned(c, low, high, source):
    """Shares of rows that begin at multiples of their elements, and of 8 bytes, and where they are from."""
    shares = {"unaligned": float(f"{low:.4g}"), "half_vectors": float(f"{high / low:.4g}")}
    rest = {name: v for name, v in c["parameters"].items() if name not in shares}
    c["parameters"] = {}
    for name, v in rest.items():
        c["parameters"].update(shares if name == "batched" else {})
        c["parameters"][name] = v
    old = c.get("source", "").split(UNALIGNED)[0]
    c["source"] = (old if old.endswith("; ") or not old else f"{old}; ") + UNALIGNED + source


def fit_unaligned(tool, model):
    """The rest as it is.  By geometric means, so that the passes of a layer together are right."""
    c = model["classes"]["product.bfloat16"]
    groups = unaligned_products("h100_kernels.csv")
    shares = [1, 1]
    for _ in range(4):
        tell_unaligned(c, *shares, "bench/h100_kernels.csv")
        f = Fit(tool, model, "product.bfloat16")
        shares = [share * math.exp(mean([math.log(us / have) for us, (_, have) in zip(f.predict([r[0] for r in rows]),
                                                                                     rows)]))
                  for share, rows in zip(shares, groups)]
    for rows, share in zip(groups, shares):
        print(f"{len(rows)} products of rows that are no whole vectors: share {share:.3f}, "
              f"{mean(f.absolute(rows)):.3f} off")


def infer_unaligned(models):
    """Of older kinds: at as many FLOP/s as on H100, but for multiprocessors and clock."""
    units = {kind: KINDS[kind][0] * clock for kind, clock in CLOCKS.items()}
    there = [math.exp(mean([math.log(flops_of(shape) / us * 1e6) for shape, us in rows])) for rows in
             unaligned_products("h100_kernels.csv")]
    for kind in (kind for kind in CLOCKS if kind != "H100-80GB"):
        c = models[kind]["classes"]["product.bfloat16"]
        best = models[kind]["bfloat16_flops_per_s"] * max(
            v for name, v in c["parameters"].items() if name.startswith("tile"))
        tell_unaligned(c, *(min(1, flops * units[kind] / units["H100-80GB"] / best) for flops in there),
                       "inferred from H100-80GB, by multiprocessors and clock")


def is_known(c):
    """Whether it was fitted on that kind."""
    return c["basis"] == "measured" and not c["source"].startswith("on ") or "but for" in c["basis"]


def there_are(kind):
    """The model that there is, without what it has from others."""
    path, bare = MODELS / f"{kind}.json", skeleton(kind)
    for which, c in json.loads(path.read_text())["classes"].items() if path.exists() else ():
        if is_known(c):
            bare["classes"][which] = c
    return bare


def write(model):
    text = json.dumps(model, indent=2)
    (MODELS / f"{model['name']}.json").write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--build", default=ROOT / "build", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", help="KIND: fit that alone, and infer nothing")
    parser.add_argument("--refit", action="append", metavar="KIND:CLASS",
                        help="fit that alone, keep what else was fitted, and infer anew what rests on it; of what no "
                        "table has, as H100-80GB:unaligned, none but the shares of rows that are no whole vectors")
    parser.add_argument("--json", type=Path, help="where --check's figures go")
    parser.add_argument("--svg", type=Path, help="a scatter plot of what was fitted goes there, some rows of each table")
    options = parser.parse_args()
    tool = options.build / "bench/bench-device"
    known = tables(options.folder)
    models = {kind: there_are(kind) if options.refit else skeleton(kind) for kind in KINDS}
    for kind, (there, _) in MEASURED_ON.items():
        models[kind].update(there)
    figures, points = [], {}
    for kind, which in order(known):
        if options.only and kind != options.only or options.refit and f"{kind}:{which}" not in options.refit:
            continue
        named = known[kind, which]
        sources = [rows for _, rows in named]
        c = models[kind]["classes"][which] = skeleton(kind)["classes"][which]
        f = fit(tool, models, models[kind], which, named)
        fitted = [f.absolute(rows) for rows in sources]
        points.setdefault(which, []).extend(f.points([r for rows in sources for r in thinned(rows, 60)]))
        on = [MEASURED_ON[kind][1]] if kind in MEASURED_ON else []
        c.update(basis="measured", source="; ".join([source for source, _ in named] + on), rows=sum(map(len, sources)),
                 error=round(mean([mean(off) for off in fitted]), 3))
        if which.split(".")[0] in ASSUMED_BACK and is_forward(named):
            c["backward"] = f"inferred from {ASSUMED_BACK[which.split('.')[0]]}"
        held = held_out(tool, models, models[kind], which, named) if options.check else fitted
        for (source, rows), near, far in zip(named, fitted, held):
            figures.append({"kind": kind, "class": which, "source": source, "rows": len(rows),
                            "fitted": round(mean(near), 3), "held_out": round(mean(far), 3),
                            "held_out_median": round(sorted(far)[len(far) // 2], 3)})
            print("{kind:16} {class:20} {rows:5} rows, fitted {fitted:.3f}, held out {held_out:.3f} "
                  "(median {held_out_median:.3f}), {source:.30}".format(**figures[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.svg:
        scatter(options.svg, "Kernels, predicted and measured", points, unit="us")
    if not options.check and not options.only:
        for kind, (there, _) in MEASURED_ON.items():
            models[kind].update({name: skeleton(kind)[name] for name in there})
        fit_unaligned(tool, models["H100-80GB"])
        complete(models)
        slow_down(models)
        feed(models)
        infer_unaligned(models)
        for model in models.values():
            write(model)


if __name__ == "__main__":
    sys.exit(main())
