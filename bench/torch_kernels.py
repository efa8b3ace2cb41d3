#!/usr/bin/env python3
"""Times kernels as PyTorch calls them on the GPU that is here: products, convolutions, attention, norms, updates.

usage: bench/torch_kernels.py [--budget SECONDS] [--only CLASS]... -o TIMES.csv

Each row is a median over launches that are timed by events of their own, with caches cleared in between: what a device
model says of a kernel in a step (docs/device-models.md).  Shapes are those of networks: shards of transformers by width
and tensor degree, layers of ResNet-50, VGG-16, Inception-v3.  Rows are drawn in an order that a budget may cut anywhere:
each class has its share of it.  SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import itertools
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F

SEED = 7
LAUNCHES, WARM = 9, 2
CLEAR_BYTES = 512 << 20  # more than any L2 cache; the host launches meanwhile
TYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "tf32": torch.float32}
HEADER = ("class", "direction", "type", "sizes", "us")


def timed_us(launch, clear):
    """The median of some launches, each behind a cleared cache."""
    times = []
    for i in range(WARM + LAUNCHES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
        clear.zero_()
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        if i >= WARM:
            times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def of(dtype, *shape, grad=False):
    x = torch.randn(shape, device="cuda", dtype=TYPES[dtype]) * 0.1
    return x.requires_grad_() if grad else x


def both_ways(run, *ins):
    """Launches of a function of tensors that want gradients: forward, backward."""
    out = run(*ins)
    dy = torch.randn_like(out)
    return {"forward": lambda: run(*ins),
            "backward": lambda: torch.autograd.grad(out, ins, dy, retain_graph=True)}


def product(dtype, m, n, k):
    x, w, dy = of(dtype, m, k), of(dtype, n, k), of(dtype, m, n)
    return {"forward": lambda: x @ w.t(), "backward data": lambda: dy @ w, "backward weights": lambda: dy.t() @ x}


def batched(dtype, b, m, n, k):
    x, y = of(dtype, b, m, k), of(dtype, b, k, n)
    return {"forward": lambda: torch.bmm(x, y)}


def convolution(dtype, n, c, h, w, k, r, s, stride, pad):
    x = of(dtype, n, c, h, w).to(memory_format=torch.channels_last)
    f = of(dtype, k, c, r, s).to(memory_format=torch.channels_last)
    dy = torch.randn_like(F.conv2d(x, f, None, stride, pad))

    def backward(*mask):
        return lambda: torch.ops.aten.convolution_backward(dy, x, f, None, [stride] * 2, list(pad), [1, 1], False,
                                                           [0, 0], 1, [*mask, False])
    return {"forward": lambda: F.conv2d(x, f, None, stride, pad), "backward data": backward(True, False),
            "backward weights": backward(False, True)}


def attention(dtype, b, heads, kv_heads, sequence, head, causal):
    q = of(dtype, b, heads, sequence, head, grad=True)
    k, v = (of(dtype, b, kv_heads, sequence, head, grad=True) for _ in "kv")
    return both_ways(lambda *x: F.scaled_dot_product_attention(*x, is_causal=bool(causal),
                                                               enable_gqa=heads != kv_heads), q, k, v)


def rows_of(run):
    return lambda dtype, rows, columns: both_ways(run, of(dtype, rows, columns, grad=True))


def layer_norm(dtype, rows, columns):
    weight, bias = (of(dtype, columns, grad=True) for _ in "wb")
    return both_ways(lambda x, w, b: F.layer_norm(x, (columns,), w, b), of(dtype, rows, columns, grad=True), weight, bias)


def rms_norm(dtype, rows, columns):
    return both_ways(lambda x, w: F.rms_norm(x, (columns,), w), of(dtype, rows, columns, grad=True),
                     of(dtype, columns, grad=True))


def add(dtype, rows, columns):
    x, y = of(dtype, rows, columns), of(dtype, rows, columns)
    return {"forward": lambda: x + y}


def copy(dtype, rows, columns):
    x, y = of(dtype, rows, columns), of(dtype, rows, columns)
    return {"forward": lambda: y.copy_(x)}


def sum_rows(dtype, rows, columns):
    x = of(dtype, rows, columns)
    return {"forward": lambda: x.sum(0)}


def batch_norm(dtype, n, c, h):
    x = of(dtype, n, c, h, h).to(memory_format=torch.channels_last).requires_grad_()
    w, b = (torch.ones(c, device="cuda").requires_grad_() for _ in "wb")
    return both_ways(lambda *i: F.batch_norm(i[0], None, None, i[1], i[2], True), x, w, b)


def max_pool(dtype, n, c, h):
    x = of(dtype, n, c, h, h).to(memory_format=torch.channels_last).requires_grad_()
    return both_ways(lambda i: F.max_pool2d(i, 3, 2, 1), x)


def cross_entropy(dtype, rows, classes):
    ids = torch.randint(classes, (rows,), device="cuda")
    return both_ways(lambda x: F.cross_entropy(x, ids), of(dtype, rows, classes, grad=True))


def embedding(dtype, words, width, places):
    ids = torch.randint(words, (places,), device="cuda")
    return both_ways(lambda w: F.embedding(ids, w), of(dtype, words, width, grad=True))


def adamw(dtype, millions, tensors):
    ws = [of(dtype, millions * 1000000 // tensors, grad=True) for _ in range(tensors)]
    for w in ws:
        w.grad = torch.randn_like(w)
    fused, each = (torch.optim.AdamW(ws, 1e-4, **way) for way in ({"fused": True}, {"foreach": True}))
    return {"fused": fused.step, "foreach": each.step}


def lstm(dtype, batch, steps, hidden):
    net = torch.nn.LSTM(hidden, hidden, device="cuda", dtype=TYPES[dtype])
    x = of(dtype, steps, batch, hidden, grad=True)
    return both_ways(lambda x, *_: net(x)[0], x, *net.parameters())


def transformer_products():
    """(m, n, k) of a GPT's layers by width and tensor degree."""
    for width, t, m in itertools.product((768, 1024, 1600, 2304, 2560, 4096, 5120, 6144, 8192, 12288), (1, 2, 4, 8),
                                         (1024, 2048, 4096, 8192, 16384)):
        for n, k in ((3 * width // t, width), (width, width // t), (4 * width // t, width), (width, 4 * width // t)):
            if n % 8 == 0 and k % 8 == 0 and n * k * m < 2.5e12:
                yield m, n, k
    for width, m, words in itertools.product((768, 1600, 4096), (1024, 2048, 4096, 8192), (50304, 50257, 12564, 32000)):
        yield m, words, width


def small_products():
    for m, n, k in itertools.product((64, 128, 256, 512, 1024), (1000, 4096, 1024, 9216, 2048), (1024, 4096, 2048)):
        yield m, n, k


CONVOLUTIONS = [  # c, h, k, r, s, stride, pad
    (3, 224, 64, 7, 7, 2, (3, 3)), (64, 56, 64, 1, 1, 1, (0, 0)), (64, 56, 64, 3, 3, 1, (1, 1)),
    (64, 56, 256, 1, 1, 1, (0, 0)), (256, 56, 64, 1, 1, 1, (0, 0)), (128, 56, 128, 3, 3, 2, (1, 1)),
    (128, 28, 128, 3, 3, 1, (1, 1)), (128, 28, 512, 1, 1, 1, (0, 0)), (512, 28, 128, 1, 1, 1, (0, 0)),
    (256, 56, 512, 1, 1, 2, (0, 0)), (256, 14, 256, 3, 3, 1, (1, 1)), (256, 14, 1024, 1, 1, 1, (0, 0)),
    (1024, 14, 256, 1, 1, 1, (0, 0)), (512, 7, 512, 3, 3, 1, (1, 1)), (512, 7, 2048, 1, 1, 1, (0, 0)),
    (64, 224, 64, 3, 3, 1, (1, 1)), (128, 112, 128, 3, 3, 1, (1, 1)), (256, 56, 256, 3, 3, 1, (1, 1)),
    (512, 28, 512, 3, 3, 1, (1, 1)), (32, 147, 64, 3, 3, 1, (1, 1)), (192, 17, 192, 1, 7, 1, (0, 3)),
    (192, 17, 192, 7, 1, 1, (3, 0)), (48, 35, 64, 5, 5, 1, (2, 2)), (96, 35, 96, 3, 3, 1, (1, 1)),
    (3, 224, 64, 11, 11, 4, (2, 2)), (64, 27, 192, 5, 5, 1, (2, 2)), (192, 13, 384, 3, 3, 1, (1, 1))]


def convolutions():
    for batch, (c, h, k, r, s, stride, pad) in itertools.product((16, 64, 128), CONVOLUTIONS):
        if batch * c * h * h < 5e8:
            yield batch, c, h, h, k, r, s, stride, pad


def by_rows():
    return itertools.product((1024, 4096, 16384), (768, 1600, 4096, 8192))


CLASSES = [  # name, what makes launches, types, shapes, share of the budget
    ("product", product, ("bfloat16",), list(transformer_products()), 8),
    ("product", product, ("float32", "tf32"), list(transformer_products())[::9] + list(small_products()), 3),
    ("product", product, ("bfloat16",), list(small_products()), 1),
    ("batched", batched, ("bfloat16", "float32"),
     [(b * h, s, s, d) for b, h, s, d in itertools.product((1, 8), (12, 16, 32), (128, 512, 1024, 2048), (64, 128))], 1),
    ("convolution", convolution, ("bfloat16", "tf32", "float32"), list(convolutions()), 8),
    ("attention", attention, ("bfloat16",),
     [(b, h, kv, s, d, c) for b, (h, kv), s, d, c in
      itertools.product((1, 4, 16), ((12, 12), (16, 16), (32, 32), (32, 8), (8, 1)), (128, 512, 1024, 2048, 4096, 8192),
                        (64, 128), (0, 1)) if b * h * s * d < 3e8], 4),
    ("layer_norm", layer_norm, ("bfloat16", "float32"), list(by_rows()), 1),
    ("rms_norm", rms_norm, ("bfloat16",), list(by_rows()), 1),
    ("softmax", rows_of(lambda x: F.softmax(x, -1)), ("bfloat16", "float32"), list(by_rows()), 1),
    ("gelu", rows_of(F.gelu), ("bfloat16", "float32"), list(by_rows()), .5),
    ("dropout", rows_of(lambda x: F.dropout(x, .1)), ("bfloat16",), list(by_rows()), .5),
    ("add", add, ("bfloat16", "float32"), list(by_rows()), .5),
    ("copy", copy, ("bfloat16", "float32"), list(by_rows()) + [(1, 1), (64, 64), (256, 256), (32768, 16384)], .5),
    ("sum_rows", sum_rows, ("bfloat16", "float32"), list(by_rows()), .5),
    ("batch_norm", batch_norm, ("bfloat16", "float32"),
     list(itertools.product((32, 128), (64, 256), (14, 28, 56, 112))), 1),
    ("max_pool", max_pool, ("bfloat16", "float32"), list(itertools.product((32, 128), (64, 256), (28, 56, 112))), .5),
    ("cross_entropy", cross_entropy, ("bfloat16", "float32"),
     list(itertools.product((512, 4096, 16384), (1000, 32000, 50304))), .5),
    ("embedding", embedding, ("bfloat16", "float32"),
     list(itertools.product((32000, 50304, 1000000), (64, 768, 4096), (2048, 16384)))[:-3], .5),
    ("adamw", adamw, ("float32", "bfloat16"), [(4, 4), (25, 16), (100, 150), (400, 300)], 1),
    ("lstm", lstm, ("float32", "bfloat16"), list(itertools.product((16, 64, 256), (25, 100), (256, 512, 1024, 2048))), 2),
]


def measure(name, make, dtype, shape, clear):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    try:
        for direction, launch in make(dtype, *shape).items():
            yield name, direction, dtype, " ".join(str(x) for x in shape), round(timed_us(launch, clear), 3)
    except (RuntimeError, torch.OutOfMemoryError) as why:
        print(f"{name} {dtype} {shape}: {str(why).splitlines()[0]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=120, metavar="SECONDS", help="of all (120)")
    parser.add_argument("--only", action="append", default=[], metavar="CLASS", help="may be repeated")
    parser.add_argument("-o", dest="out", required=True, metavar="TIMES.csv")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch_kernels: PyTorch sees no GPU here")
    torch.backends.cudnn.benchmark = True
    classes = [c for c in CLASSES if not options.only or c[0] in options.only]
    clear, draw = torch.empty(CLEAR_BYTES, dtype=torch.uint8, device="cuda"), random.Random(SEED)
    whole = sum(c[4] for c in classes)
    with open(options.out, "w", encoding="utf-8", newline="") as f:
        out = csv.writer(f)
        f.write(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}\n")
        out.writerow(HEADER)
        for name, make, types, shapes, share in classes:
            end, rows = time.monotonic() + options.budget * share / whole, 0
            cells = [(t, s) for t in types for s in dict.fromkeys(shapes)]
            draw.shuffle(cells)
            for dtype, shape in cells:
                if time.monotonic() > end:
                    break
                for row in measure(name, make, dtype, shape, clear):
                    out.writerow(row)
                    rows += 1
            f.flush()
            print(f"{name} {' '.join(types)}: {rows} rows", flush=True)


if __name__ == "__main__":
    main()
