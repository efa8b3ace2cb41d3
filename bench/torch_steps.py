#!/usr/bin/env python3
"""Training steps of one device, or data-parallel ones, beside PyTorch's, one thread a rank, in turns.

usage: bench/torch_steps.py [--build build] [--rounds 3] [--steps 4] [--ranks 1] [NETWORK...]

Momentum SGD on made-up data.  PyTorch flushes denormal numbers and takes the fastest of what it
offers, found beforehand: as it stands or traced, images as they stand or channels last.  Prints a
table in Markdown: the median step of each, how often ours fits into PyTorch's, and the arithmetic
of our step a second, also as a share of the fastest product of two large matrices, ours or
PyTorch's, between the rounds.  With several ranks PyTorch's are its DistributedDataParallel over gloo,
each in the way that is fastest alone, and the batch is cut among them.  Which BLAS it calls is the system's choice; LD_LIBRARY_PATH may name
OpenBLAS's.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import torch
import torch.distributed
import torch.nn.functional as F
import torchvision.models

nn = torch.nn
CLASSES = 1000
# samples and, of images, pixels; of sequences, places
SIZES = {"alexnet": (16, 224), "vgg16": (8, 64), "resnet50": (16, 64), "inception_v3": (4, 128),
         "densenet121": (16, 64), "mobilenet_v2": (16, 96), "gpt2": (2, 128), "bert": (4, 128),
         "lstm": (16, 32)}
WORDS, WIDTH = 10000, 256  # of the LSTM language model
LAYERS = 2                 # of blocks and cells
ROWS = 2048                # of the matrices whose product tells the processor's rate


class Block(nn.Module):
    """A transformer's: norms before what they are of, or behind the sum."""

    def __init__(self, width, heads, before, approximate, epsilon):
        super().__init__()
        self.heads, self.before, self.approximate = heads, before, approximate
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x, mask):
        n, t, width = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, 2))
        a = q @ k.transpose(2, 3) * (width // self.heads) ** -0.5
        if mask is not None:
            a = a + mask
        return self.out((a.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width))

    def feed(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))

    def forward(self, x, mask):
        if self.before:
            x = x + self.attend(self.norm1(x), mask)
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.feed(x))


class Transformer(nn.Module):
    """GPT-2, or BERT that tells two classes apart, as the zoo has them."""

    def __init__(self, places, words, gpt, width=768, heads=12):
        super().__init__()
        self.gpt = gpt
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(places, width)
        self.kind = None if gpt else nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.pooler = None if gpt else nn.Linear(width, width)
        self.head = None if gpt else nn.Linear(width, 2)
        self.blocks = nn.ModuleList(Block(width, heads, gpt, "tanh" if gpt else "none", 1e-5)
                                    for _ in range(LAYERS))
        ahead = torch.full((places, places), float("-inf")).triu(1)
        self.register_buffer("mask", ahead if gpt else None)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight
        if not self.gpt:
            x = self.norm(x + self.kind(torch.zeros_like(ids)))
        for block in self.blocks:
            x = block(x, self.mask)
        if self.gpt:
            return F.linear(self.norm(x), self.embed.weight).flatten(0, 1)
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class Words(nn.Module):
    """Layers of LSTM cells: the next word at every step."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.cells = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)

    def forward(self, ids):
        return self.out(self.cells(self.embed(ids))[0]).flatten(0, 1)


def model_of(name, batch, size):
    """A model, what it reads and its labels."""
    if name == "lstm":
        ids = torch.randint(WORDS, (batch, size))
        return Words(), ids, torch.randint(WORDS, (batch * size,))
    if name in ("gpt2", "bert"):
        gpt = name == "gpt2"
        words = 50257 if gpt else 30522
        labels = torch.randint(words, (batch * size,)) if gpt else torch.randint(2, (batch,))
        return Transformer(size, words, gpt), torch.randint(words, (batch, size)), labels
    options = {"inception_v3": {"aux_logits": False, "init_weights": False}}.get(name, {})
    model = getattr(torchvision.models, name)(num_classes=CLASSES, **options)
    if name == "vgg16":  # as large as what is left of such images
        side = size // 32
        model.avgpool = nn.Identity()
        model.classifier[0] = nn.Linear(512 * side * side, 4096)
    return model, torch.randn(batch, 3, size, size), torch.randint(CLASSES, (batch,))


def lstm_graph(batch, steps):
    """The graph of Words."""
    nodes = [{"name": name, "op": "input", "shape": [batch, steps], "dtype": "int32",
              "classes": WORDS} for name in ("data", "labels")]
    nodes.append({"name": "embed", "op": "embedding", "in": ["data"], "vocabulary": WORDS,
                  "features": WIDTH})
    x = "embed"
    for i in range(LAYERS):
        nodes += [{"name": f"gates{i}", "op": "linear", "in": [x], "out_features": 4 * WIDTH},
                  {"name": f"lstm{i}", "op": "lstm", "in": [f"gates{i}"]}]
        x = f"lstm{i}"
    nodes += [{"name": "out", "op": "linear", "in": [x], "out_features": WORDS},
              {"name": "classes", "op": "transpose", "in": ["out"], "perm": [0, 2, 1]},
              {"name": "loss", "op": "softmax_cross_entropy", "in": ["classes", "labels"]}]
    return {"format": "ffsoap-graph", "version": 2, "name": "lstm", "nodes": nodes}


def write_graph(build, name, batch, size, path):
    if name == "lstm":
        path.write_text(json.dumps(lstm_graph(batch, size)))
        return
    sets = [f"image={size}"]
    if name in ("gpt2", "bert"):
        sets = [f"sequence={size}", f"layers={LAYERS}"]
    args = [a for s in sets for a in ("--set", s)]
    subprocess.run([f"{build}/graphs/ffzoo", name, "--batch", str(batch), *args, "-o", path],
                   check=True)


class Torch:
    """Steps in one of the ways that PyTorch offers."""

    def __init__(self, model, x, labels, last, traced):
        if last:
            model, x = model.to(memory_format=torch.channels_last), x.to(
                memory_format=torch.channels_last)
        self.model = torch.jit.trace(model, x, check_trace=False) if traced else model
        self.x, self.labels = x, labels
        self.update = torch.optim.SGD(self.model.parameters(), 0.001, 0.9, foreach=True)

    def step(self):
        begin = time.perf_counter()
        self.update.zero_grad(set_to_none=True)
        F.cross_entropy(self.model(self.x), self.labels).backward()
        self.update.step()
        return (time.perf_counter() - begin) * 1e3


def fastest(name, batch, size):
    """Of all ways the one with the shortest step of two, after two that are not counted."""
    ways = []
    for last in (False, True):
        for traced in (False, True):
            torch.manual_seed(1)
            model, x, labels = model_of(name, batch, size)
            if last and x.dim() != 4:
                continue
            try:
                way = Torch(model, x, labels, last, traced)
                way.step(), way.step()
                ways.append((min(way.step(), way.step()), last, traced))
            except RuntimeError as error:
                print(f"{name}: PyTorch cannot ({str(error).splitlines()[0]})", file=sys.stderr)
            model = way = None
    _, last, traced = min(ways)
    model, x, labels = model_of(name, batch, size)
    words = ("traced" if traced else "eager") + (", channels last" if last else "")
    return Torch(model, x, labels, last, traced), words


def ours(o, graph, report):
    """Median of the steps of a run of its own, in ms."""
    what = ["data-parallel", "--devices", str(o.ranks)] if o.ranks > 1 else ["single"]
    subprocess.run([f"{o.build}/runtime/ffrun", graph, *what, "--data", "synthetic:64",
                    "--steps", str(o.steps + 2), "--warmup", "2", "--rate", "0.001",
                    "--report", report], check=True, capture_output=True)
    return json.loads(report.read_text())["step_us"]["median"] / 1e3


def flops(build, graph):
    """Of a step's kernels, updates left out."""
    run = subprocess.run([f"{build}/bench/bench-kernels", graph, "--flops"], check=True,
                         capture_output=True, text=True)
    return float(run.stdout)


def product(build, folder):
    """GFLOP/s of the faster of our and PyTorch's product of two square matrices."""
    graph = folder / "product.json"
    nodes = [{"name": "data", "op": "input", "shape": [ROWS, ROWS]},
             {"name": "labels", "op": "input", "shape": [ROWS], "dtype": "int32", "classes": ROWS},
             {"name": "product", "op": "linear", "in": ["data"], "out_features": ROWS},
             {"name": "loss", "op": "softmax_cross_entropy", "in": ["product", "labels"]}]
    graph.write_text(json.dumps({"format": "ffsoap-graph", "version": 2, "name": "product",
                                 "nodes": nodes}))
    run = subprocess.run([f"{build}/bench/bench-kernels", graph], check=True, capture_output=True,
                         text=True)
    best = float(next(line.split()[4] for line in run.stdout.split("\n")
                      if line.split()[:3] == ["product", "linear", "forward"]))
    a, b = torch.randn(ROWS, ROWS), torch.randn(ROWS, ROWS)
    for _ in range(3):
        begin = time.perf_counter()
        torch.mm(a, b)
        best = max(best, 2e-9 * ROWS ** 3 / (time.perf_counter() - begin))
    return best


# ---- several ranks ----

def work(o, name):
    """A rank of DistributedDataParallel: the first one prints its median step."""
    batch, size = SIZES[name]
    torch.distributed.init_process_group("gloo", rank=o.rank, world_size=o.ranks)
    torch.manual_seed(1)
    model, x, labels = model_of(name, batch // o.ranks, size)
    way = Torch(model, x, labels, "channels last" in o.way, "traced" in o.way)
    way.model = nn.parallel.DistributedDataParallel(way.model, gradient_as_bucket_view=True)
    steps = [way.step() for _ in range(o.steps + 2)][2:]
    torch.distributed.destroy_process_group()
    if o.rank == 0:
        print(statistics.median(steps))


def theirs_together(o, name, words):
    """Median of the steps of so many ranks, in ms."""
    with socket.socket() as s:  # a port that is free
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    ranks = [subprocess.Popen([sys.executable, __file__, "--ranks", str(o.ranks), "--rank", str(r),
                               "--steps", str(o.steps), "--way", words, name], env=env,
                              stdout=subprocess.PIPE, text=True) for r in range(o.ranks)]
    said = [r.communicate()[0] for r in ranks]
    if any(r.returncode for r in ranks):
        sys.exit(f"{name}: DistributedDataParallel failed")
    return float(said[0])


def compare_ranks(o, name, folder):
    """A row of the table of several ranks."""
    batch, size = SIZES[name]
    graph, report = folder / "graph.json", folder / "report.json"
    write_graph(o.build, name, batch, size, graph)
    words = fastest(name, batch // o.ranks, size)[1]
    a, b = [], []
    for _ in range(o.rounds):
        a.append(ours(o, graph, report))
        b.append(theirs_together(o, name, words))
    a, b = statistics.median(a), statistics.median(b)
    print(f"| {name} | {batch} of {size} | {a:.1f} | {b:.1f} ({words}) | {b / a:.2f} |", flush=True)
    return b / a


def measure(o, name, folder):
    """A row of the table."""
    batch, size = SIZES[name]
    graph, report = folder / "graph.json", folder / "report.json"
    write_graph(o.build, name, batch, size, graph)
    theirs, words = fastest(name, batch, size)
    a, b, rates = [], [], []
    theirs.step()
    for _ in range(o.rounds):
        rates.append(product(o.build, folder))
        a.append(ours(o, graph, report))
        theirs.step()
        b += [theirs.step() for _ in range(o.steps)]
    a, b = statistics.median(a), statistics.median(b)
    rate = flops(o.build, graph) / a * 1e-6
    print(f"| {name} | {batch} of {size} | {a:.1f} | {b:.1f} ({words}) | {b / a:.2f} | "
          f"{rate:.0f} | {max(rates):.0f} | {100 * rate / max(rates):.0f} % |", flush=True)
    return b / a


def blas():
    """The library that PyTorch's matrix products come from."""
    maps = pathlib.Path("/proc/self/maps")
    names = {line.split("/")[-1] for line in maps.read_text().split("\n") if "blas" in line} if (
        maps.exists()) else set()
    return ", ".join(sorted(names)) or "its own"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rank", type=int, help="to be this one")
    parser.add_argument("--way", default="eager")
    parser.add_argument("networks", nargs="*", default=[])
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    if o.rank is not None:
        work(o, o.networks[0])
        return
    print(f"PyTorch {torch.__version__}, BLAS: {blas()}\n")
    head = ["network", "batch", "ours, ms", "PyTorch, ms", "times"]
    head += [] if o.ranks > 1 else ["GFLOP/s", "products'", "share"]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        times = [(compare_ranks if o.ranks > 1 else measure)(o, name, pathlib.Path(folder))
                 for name in o.networks or SIZES]
    print(f"geometric mean {statistics.geometric_mean(times):.2f}, least {min(times):.2f}")


if __name__ == "__main__":
    main()
