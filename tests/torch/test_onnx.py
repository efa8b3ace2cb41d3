# Models that PyTorch exports as ONNX, imported: loss and gradients of a training step equal the
# model's own, on one device and under random strategies; damaged files are refused.
# Usage: test_onnx.py modules|training|sequences|recurrences|networks|families|evaluation|damage FFIMPORT FFRUN FFSEARCH.
# SPDX-License-Identifier: Apache-2.0
import copy
import io
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

import evaluate
import reference
from philox import kept
from pytorch import F, np, torch  # says SKIP and ends without PyTorch
from reference import TOLERANCE

part, ffimport, ffrun, ffsearch = sys.argv[1:5]
tap = reference.Tap()
nn = torch.nn
warnings.filterwarnings("ignore")
# Open MPI's modules leak
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"


def exported(model, inputs, opset, training=True):
    file = io.BytesIO()
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, inputs, file, training=mode, do_constant_folding=not training,
                      opset_version=opset)
    return file.getvalue()


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, timeout=280)


def excess(apart):
    """Right up to 1: what batch norms of few samples do to rounding, they do to PyTorch's too."""
    ours, pytorchs = apart
    return ours / max(TOLERANCE, 4 * pytorchs)


class Model:
    """A module, its graph and its weights as imported."""

    def __init__(self, name, module, inputs, opset=13, classes_last=False, training=True,
                 ours=lambda gradients: gradients, loss=None, drops=False):
        """`ours`: gradients as they are called and lie in the graph; `drops`: dropouts, which
        are called in the order that the module has them in, keep what ffrun keeps."""
        torch.manual_seed(1)
        self.name, self.module, self.last, self.ours = name, module, classes_last, ours
        self.loss, self.drops, self.seed = loss, drops, 1
        for m in module.modules():
            if isinstance(m, nn.Dropout) and not drops:
                m.p = 0.0
        self.keep = tempfile.TemporaryDirectory(prefix="ffonnx")
        self.folder = pathlib.Path(self.keep.name)
        self.graph = self.folder / "graph.json"
        (self.folder / "model.onnx").write_bytes(exported(module, inputs, opset, training))
        done = run(ffimport, self.folder / "model.onnx", "-o", self.graph, "--weights",
                   self.folder / "weights", *(["--classes-last"] if classes_last else []),
                   *(["--loss", loss] if loss else []))
        self.good = done.returncode == 0
        tap.say(self.good, f"{name}: imported, opset {opset}", done.stderr.splitlines())

    def plan(self, seed, devices=3):
        """A random strategy."""
        path = self.folder / f"plan{seed}.json"
        done = run(ffsearch, self.graph, "--machine", "cpu4", "--devices", devices, "--costs",
                   "peak", "--init", "random", "--proposals", 1, "--seed", seed,
                   "--space", "replicas", "-o", path)
        return path if done.returncode == 0 else tap.say(False, f"{self.name}: plan", [done.stderr])

    def step(self, strategy, devices, seed=1):
        batch = json.loads(self.graph.read_text())["nodes"][0]["shape"][0]
        self.seed = seed
        done = run(ffrun, self.graph, strategy, "--devices", devices, "--data",
                   f"synthetic:{batch}", "--seed", seed, "--weights", self.folder / "weights", "--dump",
                   self.folder / "dump")
        if done.returncode:
            tap.say(False, f"{self.name}: ffrun", [done.stderr])
            return None
        return reference.read_safetensors(self.folder / "dump")

    def distances(self, tensors):
        """By name, of the loss and every gradient: ours from the model's, PyTorch's float32 from it."""
        graph = json.loads(self.graph.read_text())
        inputs = [torch.from_numpy(np.array(tensors["input." + n["name"]])) for n in graph["nodes"]
                  if n["op"] == "input" and n["name"] not in ("label", "target")]
        labels = torch.from_numpy(np.array(tensors["input.target" if self.loss else "input.label"]))
        labels = labels if self.loss else labels.long()
        inputs = [x.long() if x.dtype == torch.int32 else x for x in inputs]
        want, own = self.gradients(torch.float64, inputs, labels), self.gradients(
            torch.float32, inputs, labels)
        return {name: (reference.distance(
            tensors[name if name == "loss" or name.endswith(reference.KEPT) else "grad." + name], x),
            reference.distance(own[name], x)) for name, x in want.items()}

    def agrees(self, tensors):
        return max(map(excess, self.distances(tensors).values())) <= 1

    def compare(self, tensors, what):
        apart = self.distances(tensors)
        worst = max(apart, key=lambda name: excess(apart[name]))
        tap.say(excess(apart[worst]) <= 1,
                f"{self.name}: {what}: loss and {len(apart) - 1} gradients",
                ["{} apart by {:.2g}, PyTorch's by {:.2g}".format(worst, *apart[worst])])

    def gradients(self, dtype, inputs, labels):
        """Of the module itself, which stays as it was."""
        module = copy.deepcopy(self.module).to(dtype)
        if self.drops:
            self.keep_as_ffrun(module)
        logits = module(*(x.to(dtype) if x.dtype.is_floating_point else x for x in inputs))
        if self.loss:
            loss = {"mse": F.mse_loss, "bce_with_logits": F.binary_cross_entropy_with_logits}[
                self.loss](logits, labels.to(dtype))
        else:
            loss = F.cross_entropy(logits.movedim(-1, 1) if self.last else logits, labels)
        loss.backward()
        kept = {n: x for n, x in module.named_buffers() if n.endswith(reference.KEPT)}
        return {"loss": loss.detach(), **self.ours({**{
            n: w.grad for n, w in module.named_parameters()
            if w.grad is not None and w.grad.abs().max() > 1e-9}, **(kept if self.drops else {})})}

    def keep_as_ffrun(self, module):
        graph = reference.read_graph(self.graph)
        number = reference.numbers(graph)
        nodes = [n for n in graph["nodes"] if n["op"] == "dropout"]
        names = [n for n, m in module.named_modules() if isinstance(m, nn.Dropout)]
        assert len(names) == len(nodes)
        for name, node in zip(names, nodes):
            p = module.get_submodule(name).p
            assert abs(node["p"] - p) < 1e-6
            owner, _, own = name.rpartition(".")
            setattr(module.get_submodule(owner), own, Keeping(number[node["name"]], self.seed, p))

    def check(self, plans=2, devices=3, seeds=(1,)):
        """`seeds`: of the inputs, for one device (reference.SOME)."""
        if not self.good:
            return
        tensors = reference.first_agreeing(
            seeds, lambda seed: self.step("single", 1, seed), self.agrees)
        if tensors:
            self.compare(tensors, "one device")
        for seed in reference.shared(range(1, plans + 1)):
            plan = self.plan(seed, devices)
            tensors = self.step(plan, devices) if plan else None
            if tensors:
                self.compare(tensors, f"random strategy {seed}")


class Keeping(nn.Module):
    """Dropout of what ffrun drops in its first step."""

    def __init__(self, number, seed, p):
        super().__init__()
        self.number, self.seed, self.p = number, seed, p

    def forward(self, x):
        return x * kept(self.seed, self.number, 0, x.shape, self.p) / (1 - self.p)


class Trained(nn.Module):
    """What is written otherwise while training, and from opset to opset: dropout, also of
    attention's weights, and norms by what the batch has, with numbers of their own and without."""

    def __init__(self, width=8):
        super().__init__()
        self.norm, self.plain = nn.BatchNorm2d(6, 1e-3, 0.3), nn.BatchNorm1d(5, affine=False)
        nn.init.normal_(self.norm.weight)
        self.conv, self.rows = nn.Conv2d(2, 6, 3, bias=False), nn.Linear(10, width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.weights, self.last = (nn.Dropout(p) for p in (0.2, 0.4, 0.3))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.out = nn.Linear(6 * width, 5)

    def forward(self, x):  # n, 2, 7, 12
        x = self.first(torch.tanh(self.norm(self.conv(x))))
        x = self.norm1(self.rows(x.mean(2)))
        q, k, v = (y.view(len(x), 6, 2, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, 2))
        a = self.weights((q @ k.transpose(2, 3) / 2.0).softmax(-1)) @ v
        x = x + self.last(self.mix(a.transpose(1, 2).reshape(x.shape)))
        return self.plain(self.out(self.norm2(x).flatten(1)))


class Cell(nn.Module):
    """An unrolled recurrence over embedded words: shared weights, shapes that are computed."""

    def __init__(self, words=11, width=6):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.input, self.state = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        h = torch.tanh(self.input(x[:, 0]))
        for t in range(1, ids.shape[1]):
            h = torch.tanh(self.input(x[:, t]) + self.state(h)) * torch.sigmoid(x.select(1, t))
        return self.out(h)


class Shapes(nn.Module):
    """What moves and reshapes."""

    def __init__(self, last=False):
        super().__init__()
        self.last = last
        self.a, self.b = nn.Linear(6, 8), nn.Linear(4, 5)

    def forward(self, x):  # n, 4, 6
        y = F.relu(self.a(x))
        y, z, w = torch.split(y, [2, 2, 4], dim=2)
        y = torch.cat([y + z, w[:, :, 1:3]], dim=2).transpose(1, 2)
        y = y.reshape(y.size(0), y.shape[1] // 2, -1, 4).flatten(1, 2)
        y = self.b(y).mul(self.b(y.unsqueeze(3).squeeze(-1)))
        return y if self.last else y.flatten(1)


class Images(nn.Module):
    """Convolutions of every kind, pooling, branches."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4, bias=False)
        self.c = nn.Conv2d(8, 4, (1, 3), padding=(0, 1))
        self.out = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(12, 5))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 3, 2, 1)
        y = torch.cat([torch.tanh(self.b(x)) + x, torch.sigmoid(self.c(x))], 1)
        return self.out(F.avg_pool2d(y, 3, 1, 1))


class Windows(nn.Module):
    """Windows along one axis and along three, sizes rounded up, padding that does not count."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 6, 3, padding=1)
        self.line = nn.Conv1d(6, 5, 4, stride=2, padding=3, dilation=2)
        self.volume = nn.Conv3d(6, 4, (1, 2, 3), padding=(0, 1, 2), groups=2)
        self.out = nn.Linear(self.parts(torch.zeros(1, 3, 10, 9)).shape[1], 5)

    def parts(self, x):
        x = torch.tanh(self.a(x))
        y = F.max_pool2d(F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), 3, 2, ceil_mode=True)
        line = F.max_pool1d(self.line(x.flatten(2)), 3, 2, ceil_mode=True)
        volume = F.max_pool3d(self.volume(x.reshape(-1, 6, 2, 5, 9)), (1, 2, 3), 2, ceil_mode=True)
        return torch.cat([y.flatten(1), line.flatten(1), volume.flatten(1)], 1)

    def forward(self, x):
        return self.out(self.parts(x))


class Transposed(nn.Module):
    """Transposed convolutions along one to three axes, the largest of whole images."""

    def __init__(self):
        super().__init__()
        self.a = nn.ConvTranspose2d(3, 6, 3, stride=2, padding=1, output_padding=1)
        self.b = nn.ConvTranspose2d(6, 4, (2, 3), dilation=(1, 2), groups=2, bias=False)
        self.line = nn.ConvTranspose1d(6, 5, 4, stride=3, padding=2)
        self.volume = nn.ConvTranspose3d(6, 4, (1, 2, 3), stride=(2, 1, 2), groups=2)
        self.out = nn.Linear(13, 5)

    def forward(self, x):
        x = torch.tanh(self.a(F.pad(x, (1, 2, 0, 1), "reflect")))
        x = F.pad(x, (0, 1, 2, 0), "replicate")
        volume = self.volume(x.reshape(-1, 6, 2, x.shape[2] // 2, x.shape[3]))
        parts = [F.adaptive_max_pool2d(self.b(x), 1), F.adaptive_max_pool1d(
            self.line(x.flatten(2)), 1), F.adaptive_avg_pool3d(volume, 1)]
        return self.out(torch.cat([p.flatten(1) for p in parts], 1))


class Neighbours(torch.autograd.Function):
    """PyTorch writes its response norm as what it is made of, others as one operator."""

    @staticmethod
    def symbolic(g, x):
        return g.op("LRN", x, size_i=3, alpha_f=0.3, beta_f=0.6, bias_f=1.5)

    @staticmethod
    def forward(ctx, x):
        return F.local_response_norm(x, 3, 0.3, 0.6, 1.5)


class Resized(nn.Module):
    """Other sizes, by factors and as they are told, of one to three axes; norms of few channels."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.norm, self.plain = nn.InstanceNorm2d(8, affine=True), nn.InstanceNorm2d(8)
        self.groups = nn.GroupNorm(4, 8)
        nn.init.normal_(self.norm.weight), nn.init.normal_(self.groups.bias)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.tanh(self.groups(self.a(x)))
        small = F.avg_pool2d(x, 2)
        parts = [F.interpolate(small, scale_factor=2), F.interpolate(small, size=x.shape[2:]),
                 F.interpolate(x, size=(7, 5)), F.interpolate(x, size=(13, 11)),
                 F.interpolate(small, scale_factor=2, mode="bilinear"),
                 F.interpolate(x, size=(5, 13), mode="bilinear"),
                 F.interpolate(x, size=(11, 3), mode="bilinear", align_corners=True),
                 F.interpolate(x.flatten(2), size=29, mode="linear"),
                 F.interpolate(x.reshape(-1, 8, 2, 4, 10), size=(3, 5, 7), mode="trilinear")]
        norms = [F.local_response_norm(x, 3, 0.3, 0.6, 1.5) if not torch.onnx.is_in_onnx_export()
                 else Neighbours.apply(x), self.norm(x), self.plain(small)]
        return self.out(sum((i + 1) * (y * y).flatten(2).mean(2) for i, y in enumerate(parts + norms)))


class UNet(nn.Module):
    """U-Net of three levels: classes for every pixel."""

    def __init__(self, width=4, norm=False, classes=3):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]

        def twice(a, b):
            return nn.Sequential(*(layer for i in (a, b) for layer in (
                nn.Conv2d(i, b, 3, padding=1, bias=not norm),
                *([nn.BatchNorm2d(b)] if norm else []), nn.ReLU())))
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([2] + sizes, sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * a, a, 2, 2) for a in sizes[-2::-1])
        self.join = nn.ModuleList(twice(2 * a, a) for a in sizes[-2::-1])
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(F.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1]):
            x = up(x)
            high, wide = (b - a for a, b in zip(x.shape[2:], skip.shape[2:]))
            x = F.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
            x = join(torch.cat([skip, x], 1))
        return self.out(x)


class Picks(nn.Module):
    """Numbers around tensors, elements in other orders, tensors and parameters that are expanded,
    conditions, masks and tables that are known."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 5)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.register_buffer("table", torch.randn(3, 8))
        self.register_buffer("order", torch.tensor([3, 0, 3, 1]))

    def forward(self, x):  # n, 4, 6
        y = self.a(x)
        y = torch.cat([self.token.expand(len(y), -1, -1), y], 1)  # 5 rows
        z = F.pad(y[:, ::2], (1, 2), value=0.5)[:, :, 1:9] + F.pad(y, (0, 0, -1, -1))
        z = torch.where(torch.ones(3, 8).tril(2) > 0, z, y[:, 1:4])
        z = z.masked_fill(torch.ones(8).cumsum(0) % 4 == 0, -0.25)
        w = y[:, :1].expand(-1, 3, -1) * y.index_select(1, self.order)[:, :3]
        return self.b(z * 2.0 + w).flatten(1)[:, 1::2]


class Decoder(nn.Module):
    """Words, places, masked attention of several heads, the next word."""

    def __init__(self, words=11, width=8, places=5):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.out = nn.Linear(width, words)
        self.register_buffer("mask", torch.ones(places, places).tril().view(1, 1, places, places))

    def forward(self, ids):
        n, t = ids.shape
        x = self.words(ids) + self.places(torch.arange(t))
        q, k, v = (y.view(n, t, 2, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, 2))
        a = (q @ k.transpose(-2, -1)) / 2.0
        a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        return self.out(x + self.mix((a @ v).transpose(1, 2).reshape(n, t, -1)))[:, -1]


class Attention(nn.Module):
    """PyTorch's own attention and encoder: sequences before samples, heads and samples as one."""

    def __init__(self, width=8):
        super().__init__()
        self.front = nn.Linear(6, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 12, dropout=0.0)
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        y = self.layer(self.front(x).transpose(0, 1))
        return self.out(y.mean(0))


class Words(nn.Module):
    """Two layers of LSTM cells, the next word."""

    def __init__(self, words=11, width=8, hidden=6):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width), nn.Linear(hidden, words)
        self.cells = nn.LSTM(width, hidden, 2, batch_first=True)

    def forward(self, ids):
        return self.out(self.cells(self.embed(ids))[0])[:, -1]


class Recurrent(nn.Module):
    """A recurrence of PyTorch's, all that it gives: every step's state and what it ends with."""

    def __init__(self, kind, begin, **how):
        """`begin`: from zeros, or a state (and cell) that is trained or computed."""
        super().__init__()
        self.cells = getattr(nn, kind)(5, 6, **how)
        two = 2 if how.get("bidirectional") else 1
        self.both, self.begin, self.states = two, begin, 2 if kind == "LSTM" else 1
        if begin == "trained":
            self.start = nn.ParameterList(nn.Parameter(torch.randn(two, 1, 6))
                                          for _ in range(self.states))
        if begin == "computed":
            self.start = nn.ModuleList(nn.Linear(5, 6 * two) for _ in range(self.states))
        self.out = nn.Linear(6 * two, 7)

    def first(self, x):
        if self.begin == "trained":
            return [s.expand(-1, len(x), -1) for s in self.start]
        return [s(x[:, 0]).view(len(x), self.both, 6).transpose(0, 1) for s in self.start]

    def forward(self, x):
        states = self.first(x) if self.begin else None
        states = states[0] if states and self.states == 1 else states
        if not self.cells.batch_first:
            y, last = self.cells(x.transpose(0, 1), states)
            y = y.mean(0)
        else:
            y, last = self.cells(x, states)
            y = y.mean(1)
        last = sum(last) if self.states == 2 else last
        return self.out(y + last.transpose(0, 1).flatten(1))


class Cells(torch.autograd.Function):
    """A GRU with the samples first, or whose reset gate is for the state, which PyTorch does not
    export."""

    @staticmethod
    def symbolic(g, x, w, r, b, first, both, before):
        lengths = g.op("prim::Constant")
        lengths.setType(torch._C.OptionalType.ofTensor())
        how = {} if before is None else {"linear_before_reset_i": before}
        return g.op("GRU", x, w, r, b, lengths, first, hidden_size_i=6, layout_i=1, **how,
                    direction_s="bidirectional" if both else "forward", outputs=2)

    @staticmethod
    def forward(ctx, x, w, r, b, first, both, before):
        n = 2 if both else 1
        return x.new_zeros(len(x), x.shape[1], n, 6), x.new_zeros(len(x), n, 6)


class SamplesFirst(nn.Module):
    """`before`: ONNX' linear_before_reset, where it is written."""

    def __init__(self, both, before=1):
        super().__init__()
        self.both, self.before = both, before
        self.cells = nn.GRU(5, 6, batch_first=True, bidirectional=both)
        self.start, self.out = nn.Linear(5, 12 if both else 6), nn.Linear(12 if both else 6, 7)

    def weights(self, what):
        """Of both directions, gates in ONNX' order."""
        return torch.stack([torch.cat([getattr(self.cells, f"{what}_l0{way}")[6 * k:6 * k + 6] for k in (1, 0, 2)])
                            for way in ("", "_reverse")[:1 + self.both]])

    def forward(self, x):
        first = self.start(x[:, 0]).view(len(x), 1 + self.both, 6)
        if torch.onnx.is_in_onnx_export():
            bias = torch.cat([self.weights("bias_ih"), self.weights("bias_hh")], 1)
            y, last = Cells.apply(x, self.weights("weight_ih"), self.weights("weight_hh"), bias,
                                  first, self.both, self.before)
            y = y.flatten(2)
        elif not self.before:
            y, last = self.reset_first(x, first)
        else:
            y, last = self.cells(x, first.transpose(0, 1).contiguous())
            last = last.transpose(0, 1)
        return self.out(y.mean(1) + last.flatten(1))


    def reset_first(self, x, first):
        """As ONNX writes it, step by step."""
        y, last = [], []
        for i, way in enumerate(("", "_reverse")[:1 + self.both]):
            w, r, b, c = (getattr(self.cells, f"{what}_l0{way}").split(6)
                          for what in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            h, steps = first[:, i], []
            for step in (x.flip(1) if way else x).unbind(1):
                reset, update = (torch.sigmoid(step @ w[k].T + h @ r[k].T + b[k] + c[k]) for k in (0, 1))
                fresh = torch.tanh(step @ w[2].T + (reset * h) @ r[2].T + c[2] + b[2])
                h = (1 - update) * fresh + update * h
                steps.append(h)
            last.append(h)
            y.append(torch.stack(steps[::-1] if way else steps, 1))
        return torch.cat(y, 2), torch.stack(last, 1)


class Translator(nn.Module):
    """An encoder's last states begin a decoder, which attends to all of the encoder's."""

    def __init__(self, words=11, width=6):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encoder, self.cells = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.out = nn.Linear(2 * width, words)

    def forward(self, ids):
        x = self.embed(ids)
        keys, state = self.encoder(x[:, :4])
        y = self.cells(x[:, 4:], state)[0]
        read = (y @ keys.transpose(1, 2)).softmax(-1) @ keys
        return self.out(torch.cat([y, read], 2))


def recurrent_names(gradients):
    """Parameters of PyTorch's recurrences are called after the nodes, which count layers."""
    done = {}
    for name, x in gradients.items():
        layer = re.fullmatch(r"(cells|encoder)\.(\w+)_l(\d)(_reverse)?", name)
        if layer:
            node = RECURRENT[layer[1]] + f"_{layer[3]}" * (layer[3] != "0")
            name = f"{node}.{layer[2]}{layer[4] or ''}"
        done[name] = x
    return done


RECURRENT = {}


def recurrence(name, module, inputs, kind="LSTM", plans=2, **how):
    RECURRENT.update(cells=f"cells/{kind}", encoder=f"encoder/{kind}")
    got = Model(name, module, inputs, ours=recurrent_names, **how)
    got.check(plans)
    return [n["op"] for n in json.loads(got.graph.read_text())["nodes"]] if got.good else []


def recurrences():
    recurrence("LSTM of two layers", Words(), torch.randint(11, (4, 4)), plans=3)
    for kind in ("RNN", "GRU", "LSTM"):
        for begin, how in ((None, {}), ("computed", {"batch_first": True}),
                           ("computed", {"bidirectional": True}), ("trained", {"bias": False})):
            text = ", ".join([kind, "states " + begin if begin else "zeros", *how])
            ops = recurrence(text, Recurrent(kind, begin, **how), torch.randn(5, 4, 5), kind, 1)
            tap.say(ops.count(kind.lower()) == 1 + ("bidirectional" in how),
                    f"{text}: an operator a direction", [" ".join(ops)])
    recurrence("GRU, for evaluation", Recurrent("GRU", None), torch.randn(5, 4, 5), "GRU", 0,
               training=False)
    for both, before in itertools.product((False, True), (1, 0, None)):
        name = f"samples first{', both ways' * both}{'' if before else ', reset first'}"
        name += ", unsaid" * (before is None)
        got = Model(name, SamplesFirst(both, before), torch.randn(5, 4, 5), 14)
        nodes = json.loads(got.graph.read_text())["nodes"] if got.good else []
        base = next((n["params"]["weight"].split(".")[0] for n in nodes if n["op"] == "gru"), "")
        got.ours = lambda g: {re.sub(r"^cells\.(\w+)_l0", base + r".\1", n): x for n, x in g.items()}
        got.check(2)
    recurrence("translator", Translator(), torch.randint(11, (4, 7)), plans=1, classes_last=True)
    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        class Last(Recurrent):
            def forward(self, x):
                return self.out(self.cells(x)[0][:, -1])

        for text, how, why in (
                ("relu", {"kind": "RNN", "nonlinearity": "relu", "batch_first": True}, "sigmoid and tanh"),
                ("samples behind steps", {"kind": "LSTM"}, "sequences, samples")):
            module = Last(begin=None, **how)
            refused(text, exported(module, torch.randn(4, 3, 5), 13), pathlib.Path(keep), why)


def sequences():
    Model("picks", Picks(), torch.randn(6, 4, 6)).check(4)
    Model("decoder", Decoder(), torch.randint(11, (4, 5))).check(3)
    Model("attention", Attention(), torch.randn(4, 5, 6)).check(3)


def modules():
    ids = torch.randint(11, (4, 5))
    Model("cell", Cell(), ids).check(4)
    Model("moves", Shapes(), torch.randn(6, 4, 6)).check(4)
    last = Model("classes behind", Shapes(True), torch.randn(6, 4, 6), classes_last=True)
    nodes = {n["name"]: n for n in json.loads(last.graph.read_text())["nodes"]}
    logits, label = nodes["logits"], nodes["label"]
    tap.say(logits["perm"] == [0, 2, 1] and label["shape"] == [6, 4] and label["classes"] == 5,
            "labels for each place, classes moved to axis 1", [logits, label])
    for opset in (11, 13, 16):
        Model("images", Images(), torch.randn(4, 3, 20, 24), opset).check(4 if opset == 13 else 0)
    Model("windows", Windows(), torch.randn(4, 3, 10, 9)).check(4)
    Model("transposed", Transposed(), torch.randn(4, 3, 4, 5)).check(4)
    for opset in (11, 13, 17):
        # a norm of groups is exported as one of channels, and a weight that broadcasts
        Model("resized", Resized(), torch.randn(4, 3, 8, 10), opset, ours=lambda g: {
            n: x.view(-1, 1, 1) if n.startswith("groups") else x for n, x in g.items()}).check(
                4 if opset == 13 else 0)
    class Cubic(nn.Module):
        def forward(self, x):
            return F.interpolate(x, size=(8, 9), mode="bicubic").mean((2, 3))

    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        status = refused("cubic", exported(Cubic(), torch.randn(2, 3, 4, 5), 13),
                         pathlib.Path(keep), "only modes nearest and linear")
        tap.say(status == 2, "cubic: refused")
    Model("unet", UNet(), torch.randn(4, 2, 16, 12)).check(4)
    Model("unet, normed, of odd sizes", UNet(norm=True), torch.randn(4, 2, 15, 13)).check(2)
    for opset in (13, 17):  # norms as they are computed, and as one operator
        Model("block", Block(), torch.randint(13, (4, 6)), opset).check(4)
    Model("images to numbers", Images(), torch.randn(4, 3, 20, 24), loss="mse").check(2)
    Model("rows to bits", Shapes(), torch.randn(6, 4, 6), loss="bce_with_logits").check(2)
    Model("images for evaluation", Images().eval(), torch.randn(4, 3, 20, 24),
          training=False).check(0)


def trained_forms():
    """Exports for training by every opset that writes something in another way."""
    for opset in (11, 12, 13, 14, 15, 17):
        got = Model("forms while training", Trained(), torch.randn(6, 2, 7, 12), opset, drops=True,
                    ours=lambda g: {n.replace("plain.", "plain/BatchNormalization."): x
                                    for n, x in g.items()})
        if not got.good:
            continue
        got.check(2 if opset in (11, 17) else 0)
        trained = {n for n, _ in got.module.named_parameters()}
        have = {n for n in reference.read_safetensors(got.folder / "weights")
                if not n.endswith(reference.KEPT)}
        tap.say(have == trained, f"opset {opset}: the module's parameters and no others",
                sorted(have ^ trained))


def networks():
    import torchvision.models as zoo

    def scaled(model):
        """Activations that neither vanish nor explode without normalisation."""
        for m in model.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_uniform_(m.weight)
        return model

    torch.manual_seed(1)
    for name, image in (("alexnet", 63), ("vgg11", 32), ("squeezenet1_1", 63)):
        options = {"weights": None, "num_classes": 7}
        model = getattr(zoo, name)(**options)
        if name == "vgg11":  # averaging to 7x7 from less is no pooling
            model.avgpool = nn.Identity()
            model.classifier[0] = nn.Linear(512, 64)
            model.classifier[3] = nn.Linear(64, 64)
            model.classifier[6] = nn.Linear(64, 7)
        if name == "alexnet":
            model.avgpool = nn.Identity()
            model.classifier[1] = nn.Linear(256, 64)
            model.classifier[4] = nn.Linear(64, 64)
            model.classifier[6] = nn.Linear(64, 7)
        Model(name, scaled(model), torch.randn(2, 3, image, image)).check(1, 2)
    # of the last two rounding grows so far that no two orders of summing agree
    for name, plans, seeds in (("resnet18", 1, (1,)), ("mobilenet_v3_small", 1, (1,)),
                               ("shufflenet_v2_x0_5", 1, (1,)), ("mnasnet0_5", 0, reference.SOME),
                               ("regnet_y_400mf", 0, reference.SOME)):
        model = getattr(zoo, name)(weights=None, num_classes=7)
        Model(name, model, torch.randn(8, 3, 64, 64)).check(plans, 2, seeds)


def families():
    """Small members of families that want more than convolutions."""
    import torchvision.models as zoo

    torch.manual_seed(1)
    vit = zoo.VisionTransformer(image_size=32, patch_size=16, num_layers=2, num_heads=2,
                                hidden_dim=8, mlp_dim=16, num_classes=7)
    for p in vit.parameters():
        nn.init.normal_(p, 0, 0.3)
    Model("vit", vit, torch.randn(4, 3, 32, 32)).check(2)
    from torchvision.models.convnext import CNBlockConfig
    convnext = zoo.ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)],
                            layer_scale=0.5, num_classes=7)
    Model("convnext", convnext, torch.randn(4, 3, 32, 32)).check(2)
    swin = zoo.SwinTransformer([4, 4], 8, [2], [2], [4, 4], stochastic_depth_prob=0.0,
                               num_classes=7)
    Model("swin", swin, torch.randn(4, 3, 32, 32),
          ours=lambda g: {n: x for n, x in g.items() if "bias_table" not in n}).check(2)
    efficientnet = zoo.efficientnet_b0(weights=None, num_classes=7, stochastic_depth_prob=0.0)
    Model("efficientnet", efficientnet, torch.randn(8, 3, 64, 64)).check(0)


def evaluation():
    """Exports for evaluation, whose norms are folded or have their statistics, of several opsets:
    what they make of known samples without training."""
    import torchvision.models as zoo

    for name, opsets in (("resnet18", (11, 13, 17)), ("mobilenet_v3_small", (11, 17)),
                         ("shufflenet_v2_x0_5", (13,)), ("squeezenet1_1", (17,))):
        torch.manual_seed(1)
        model = getattr(zoo, name)(weights=None, num_classes=7)
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):  # statistics that are not what they begin with
                nn.init.uniform_(m.running_mean, -0.5, 0.5)
                nn.init.uniform_(m.running_var, 0.5, 2)
        images, labels = torch.randn(4, 3, 64, 64), torch.tensor([1, 6, 0, 3])
        for opset in opsets:
            got = Model(f"{name} for evaluation", model.eval(), images, opset, training=False)
            if not got.good:
                continue
            loss, why = evaluate.test_loss(ffrun, got.graph, got.folder / "weights", got.folder,
                                           images.numpy(), labels.numpy().astype(np.int32))
            with torch.no_grad():
                want = F.cross_entropy(copy.deepcopy(model).double()(images.double()), labels).item()
            tap.say(loss is not None and abs(loss - want) <= 1e-4 * want,
                    f"{name}, opset {opset}: as PyTorch evaluates it",
                    [why or f"{loss:.6f}, expected {want:.6f}"])


def refused(name, data, folder, why=None):
    path = folder / "damaged.onnx"
    path.write_bytes(data)
    done = run(ffimport, path, "-o", folder / "graph", "--weights", folder / "weights")
    fine = done.returncode == 0 and not why
    one = done.returncode == 2 and done.stderr.count("\n") == 1 and "damaged.onnx" in done.stderr
    left = not fine and ((folder / "graph").exists() or (folder / "weights").exists())
    if not (fine or one) or left or (why and why not in done.stderr):
        tap.say(False, name, [f"status {done.returncode}", *done.stderr.splitlines()[-30:]])
    for file in ("graph", "weights"):
        (folder / file).unlink(missing_ok=True)
    return done.returncode


class Block(nn.Module):
    """A transformer's block: norms, attention, functions of one element, weights that broadcast."""

    def __init__(self, width=8, words=13, places=6):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Parameter(torch.randn(1, places, width))
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=b) for b in (True, False, True))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.embed(ids) + self.place
        y = self.before(x)
        q, k, v = (m(y).view(*y.shape[:2], 2, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
        a = F.softmax(q @ k.transpose(2, 3) / 2.0, -1) @ v
        x = x + a.transpose(1, 2).reshape(x.shape)
        y = self.down(F.gelu(self.up(self.behind(x))))
        x = (x + y * torch.sigmoid(y)).mean(1)
        return self.out(1.5 - F.hardswish(x) + x.clamp(-0.5, 0.7) ** 2 - F.leaky_relu(-x, 0.1))


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return torch.atan(self.a(torch.cos(self.a(x)))) + torch.atan(x)


def damage():
    with tempfile.TemporaryDirectory(prefix="ffonnx") as keep:
        folder = pathlib.Path(keep)
        refused("unknown operators", exported(Unknown(), torch.randn(3, 4), 13), folder, "Cos (1")
        refused("unknown operators", exported(Unknown(), torch.randn(3, 4), 13), folder, "Atan (2")
        refused("empty", b"", folder, "not empty")
        refused("text", b"hello, world\n" * 9, folder, "no ONNX model")
        good = exported(Cell(), torch.randint(11, (4, 3)), 13)
        refused("an old opset", good.replace(b"\x42\x02\x10\x0d", b"\x42\x02\x10\x09"), folder,
                "opset 9")
        goods = [good, exported(Picks(), torch.randn(2, 4, 6), 13),
                 exported(Words(), torch.randint(11, (2, 2)), 13)]
        seed = int(os.environ.get("FF_SEED", "1"))
        print(f"# seed {seed} (set FF_SEED to repeat or vary)")
        dice, ended, i = random.Random(seed), {0: 0, 2: 0}, 0
        # as many as there are to be, and more until both ends were met
        while i < 150 // reference.SHARE or (i < 1500 and not (ended[0] > 5 and ended[2] > 20)):
            data = bytearray(goods[i % 3])
            for _ in range(dice.choice((1, 1, 2, 8))):
                data[dice.randrange(len(data))] = dice.randrange(256)
            if i % 10 == 0:
                data = data[:dice.randrange(len(data))]
            status = refused(f"damage {i}", bytes(data), folder)
            ended[status] = ended.get(status, 0) + 1
            i += 1
        tap.say(ended[0] > 5 and ended[2] > 20 and sum(ended.values()) == ended[0] + ended[2],
                f"{i} damaged files are read or refused: {ended}")


{"modules": modules, "training": trained_forms, "sequences": sequences, "recurrences": recurrences,
 "networks": networks, "families": families, "evaluation": evaluation, "damage": damage}[part]()
tap.end()
