# One training step as PyTorch computes it, beside the step that ffrun wrote.
# Usage: reference.py GRAPH DUMP [SEED].  DUMP comes from ffrun --dump.
# SPDX-License-Identifier: Apache-2.0
import fnmatch
import json
import os
import sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

torch.set_num_threads(1)
# what ffrun trains on: the backend that tests/runtime take too
DEVICE = os.environ.get("FF_TEST_BACKEND", "cpu")
# Of cases that are alike, one of so many: where programs are slow, with sanitizers or on the
# double, each kind is to be run, and PyTorch has been asked about all of them elsewhere.
SHARE = int(os.environ.get("FF_TEST_SHARE", "1"))
TOLERANCE = 1e-4
# Lengths in bfloat16, of which a number is known to 2^-8: rounded alike, but sums in float32
# fall to the other side of a half now and then.
ROUNDED_TOLERANCE = 2.0 ** -7
# Of some draw: what is rounded in another place is half a unit, 2^-9, apart in each of them.
ROUNDED_ALIKE = 2.0 ** -10


# What batch norm keeps from step to step.
KEPT = (".running_mean", ".running_var")


def shared(cases, first=0):
    """Those to run; `first`: another one, so that lists of the same cases take turns."""
    cases = list(cases)
    return cases[first % max(1, min(SHARE, len(cases)))::SHARE]


# ---- TAP ----

class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def say(self, good, name, notes=()):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}")
        for note in notes:
            for line in str(note).splitlines():
                print(f"# {line}")
        sys.stdout.flush()
        return good

    def end(self):
        print(f"1..{self.count}")


# ---- random numbers: Philox4x32-10 of Salmon et al., SC 2011 ----

def philox(key, hi, lo):
    """Words [4, n] for 64-bit counter halves `hi` and `lo`, arrays or numbers."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    lo, hi = np.broadcast_arrays(np.asarray(lo, np.uint64), np.asarray(hi, np.uint64))
    x = [lo & low, lo >> half, hi & low, hi >> half]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> half) ^ x[1] ^ np.uint64(k[0]), b & low,
             (a >> half) ^ x[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(x)


def philox_words(seed, stream, n):
    """Elements 0 .. n - 1 of a stream: lane i % 4 of counter i / 4."""
    counters = np.arange((n + 3) // 4, dtype=np.uint64)
    return philox(seed, stream, counters).T.reshape(-1)[:n]


def stream(a, b):
    return a << 32 | b


def kept(seed, node, step, shape, p):
    """Which elements dropout keeps: row-major, uniform numbers of 24 bits."""
    words = philox_words(seed, stream(node, step), int(np.prod(shape)))
    uniform = (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0 ** -24)
    return torch.from_numpy((uniform >= np.float32(p)).reshape(shape))


class Shuffle:
    """The order of a training set in an epoch: Fisher and Yates, with Lemire's
    unbiased numbers from a stream of the epoch's own."""

    def __init__(self, samples, seed):
        self.samples, self.seed = samples, seed

    def order(self, epoch):
        words = philox_words(self.seed, stream(0xFFFFFFFE, 0) + epoch, 4 * self.samples + 64)
        next_word = iter(int(w) for w in words)
        order = list(range(self.samples))
        for n in range(self.samples, 1, -1):
            product = next(next_word) * n
            while product % 2 ** 32 < n and product % 2 ** 32 < (2 ** 32 - n) % n:
                product = next(next_word) * n
            k = product >> 32
            order[n - 1], order[k] = order[k], order[n - 1]
        return order

    def batch(self, step, size):
        """Samples of a step; what fills no batch is left out of an epoch."""
        steps = self.samples // size
        at = step % steps * size
        return self.order(step // steps)[at:at + size]


# ---- files ----

def read_safetensors(path):
    """Tensors by name: 8 bytes that say how long the JSON is, the JSON, the data."""
    data = np.memmap(path, np.uint8, "r")
    size = int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:8 + size]))
    types = {"F32": "<f4", "I32": "<i4"}
    end, tensors = 0, {}
    for name, info in header.items():
        start, stop = info["data_offsets"]
        if start != end or stop - start != 4 * int(np.prod(info["shape"], dtype=np.int64)):
            raise ValueError(f"{path}: {name}: offsets {start}..{stop} do not fit")
        end = stop
        raw = data[8 + size + start:8 + size + stop]
        tensors[name] = raw.view(types[info["dtype"]]).reshape(info["shape"])
    if 8 + size + end != len(data):
        raise ValueError(f"{path}: holds {len(data)} bytes, expected {8 + size + end}")
    return tensors


def read_graph(path):
    with open(path) as f:
        graph = json.load(f)
    known = set()
    for node in graph["nodes"]:
        if not known.issuperset(name.split("#")[0] for name in node.get("in", [])):
            raise ValueError(f"{path}: {node['name']} stands before its inputs")
        known.add(node["name"])
    return graph


# ---- bfloat16: rounded where it is stored, forward and backward ----

def rounded(x):
    return x.float().bfloat16().to(x.dtype)


class Activation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return rounded(x)

    @staticmethod
    def backward(ctx, gradient):
        return rounded(gradient)


class Parameter(torch.autograd.Function):
    """Read as bfloat16; its gradient stays what it is."""
    @staticmethod
    def forward(ctx, x):
        return rounded(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Read(torch.autograd.Function):
    """What one operator reads, and what those behind it do: their gradients are added last first."""
    @staticmethod
    def forward(ctx, x):
        return x.clone(), x.clone()

    @staticmethod
    def backward(ctx, gradient, behind):
        return rounded(gradient + behind)


class Smooth(torch.autograd.Function):
    """Functions whose backward reads what was stored."""
    @staticmethod
    def forward(ctx, x, function, slope):
        y = rounded(function(x))
        ctx.save_for_backward(y)
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, gradient):
        y, = ctx.saved_tensors
        return gradient * ctx.slope(y), None, None


SMOOTH = {"tanh": (torch.tanh, lambda y: 1 - y * y),
          "sigmoid": (torch.sigmoid, lambda y: y * (1 - y)),
          "exp": (torch.exp, lambda y: y),
          "sqrt": (torch.sqrt, lambda y: 0.5 / y)}


def compute_rounded(net, node, ins):
    """An operator between values in bfloat16: each use has a gradient that is rounded."""
    ins = [Activation.apply(x) if x.is_floating_point() else x for x in ins]
    if node["op"] in SMOOTH:
        return Smooth.apply(ins[0], *SMOOTH[node["op"]])
    out = OPERATORS[node["op"]](net, node, *ins)
    if node["op"] in LOSSES:
        return out
    if isinstance(out, tuple):
        return tuple(Activation.apply(x) for x in out)
    return Activation.apply(out)


# ---- operators ----

def numbers_of(node, name, x, preset):
    """One for each spatial axis of x."""
    v, axes = node.get(name, preset), x.dim() - 2
    return (v,) * axes if isinstance(v, int) else tuple(v)


def pads(node, x):
    """Before and behind, by spatial axis."""
    v, axes = numbers_of(node, "pad", x, 0), x.dim() - 2
    return v[:axes], v[-axes:]


def padded(x, pad, value=0.0):
    before, behind = pad
    return F.pad(x, [n for pair in zip(before[::-1], behind[::-1]) for n in pair], value=value)


def conv(net, node, x):
    function = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    return function(padded(x, pads(node, x)), net.weight(node, "weight"),
                    net.weight(node, "bias") if node.get("bias", True) else None,
                    numbers_of(node, "stride", x, 1), 0, numbers_of(node, "dilation", x, 1),
                    node.get("groups", 1))


def conv_transpose(net, node, x):
    """PyTorch takes as much from both sides: what is asked for here is taken of all of it."""
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[x.dim() - 3]
    before, behind = pads(node, x)
    more = numbers_of(node, "output_pad", x, 0)
    weight, groups = net.weight(node, "weight"), node.get("groups", 1)
    y = function(x, weight, None, numbers_of(node, "stride", x, 1), 0, more, groups,
                 numbers_of(node, "dilation", x, 1))
    y = F.pad(y, [-n for pair in zip(before[::-1], behind[::-1]) for n in pair])
    if node.get("bias", True):
        y = y + net.weight(node, "bias").reshape([-1] + [1] * (x.dim() - 2))
    return y


def linear(net, node, x):
    return F.linear(x, net.weight(node, "weight"),
                    net.weight(node, "bias") if node.get("bias", True) else None)


def pool(net, node, x):
    """With as much padding on both sides PyTorch does it all; else what it is done to is padded."""
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[x.dim() - 3]
    mean = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[x.dim() - 3]
    kernel = numbers_of(node, "kernel", x, 1)
    stride, pad = numbers_of(node, "stride", x, kernel), pads(node, x)
    counts, up = node.get("count_pad", True), node.get("ceil", False)
    if node.get("mode", "max") == "max":
        if pad[0] == pad[1]:
            return largest(x, kernel, stride, pad[0], ceil_mode=up)
        return largest(padded(x, pad, -np.inf), kernel, stride)
    if pad[0] == pad[1]:
        return mean(x, kernel, stride, pad[0], ceil_mode=up, count_include_pad=counts)
    y = mean(padded(x, pad), kernel, stride)
    return y if counts else y / mean(padded(torch.ones_like(x), pad), kernel, stride)


def adaptive_pool(net, node, x):
    mean = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[x.dim() - 3]
    return mean(x, tuple(node["size"]))


def upsample(net, node, x):
    if node.get("mode", "nearest") == "nearest":
        return F.interpolate(x, tuple(node["size"]), mode="nearest")
    mode = ("linear", "bilinear", "trilinear")[x.dim() - 3]
    return F.interpolate(x, tuple(node["size"]), mode=mode,
                         align_corners=node.get("align_corners", False))


def hardswish(net, node, x):
    """At 3, which bfloat16 meets, PyTorch's slope is 1 or 1.5, as an element's place has it."""
    return x * torch.clamp(x + 3, 0, 6) / 6 if net.rounds else F.hardswish(x)


def local_response_norm(net, node, x):
    """PyTorch has it of three axes and more."""
    shape = x.shape
    x = x.unsqueeze(-1) if x.dim() < 3 else x
    return F.local_response_norm(x, node.get("size", 5), node.get("alpha", 1e-4),
                                 node.get("beta", 0.75), node.get("k", 1.0)).reshape(shape)


def reshape(net, node, x):
    return x.reshape([n or x.shape[i] for i, n in enumerate(node["shape"])])


def dropout(net, node, x):
    p = node.get("p", 0.5)
    shape = [len(x)] + [1] * (x.dim() - 1) if node.get("per") == "sample" else x.shape
    keep = kept(net.seed, net.number[node["name"]], net.step, shape, p)
    return torch.where(keep, x * (1 / (1 - p)), torch.zeros_like(x))


def softmax_cross_entropy(net, node, x, labels):
    """The mean over the labels of the batch that are not ignored."""
    return F.cross_entropy(x, labels, ignore_index=node.get("ignore_index", -1),
                           label_smoothing=node.get("label_smoothing", 0.0))


def slice_axis(net, node, x):
    where = torch.arange(node.get("start", 0), node["stop"], node.get("step", 1))
    return x.index_select(node.get("axis", 1), where)


def pad(net, node, x):
    ends = [n for both in zip(node["before"], node["after"]) for n in reversed(both)]
    mode = node.get("mode", "constant")
    if mode == "constant":
        return F.pad(x, ends[::-1], value=node.get("value", 0.0))
    return F.pad(x, ends[:3:-1], "replicate" if mode == "edge" else mode)


def cast(net, node, x):
    return rounded(x.to(torch.float64)) if net.rounds else x.to(torch.float64)


def expand(net, node, *x):
    return (x[0] if x else net.weight(node, "weight")).expand(node["shape"])


def gather(net, node, x):
    return x.index_select(node.get("axis", 1), torch.tensor(node["indices"]))


def constant(net, node):
    runs = node["runs"]
    row = [x for n, x in zip(runs[::2], runs[1::2]) for _ in range(int(n))]
    return torch.tensor(row, dtype=torch.float64).reshape(node["shape"][1:]).expand(node["shape"])


def split(net, node, x):
    return x.chunk(node["parts"], node.get("axis", 1))


def embedding(net, node, ids):
    """Ids of -1 give zeros."""
    rows = F.embedding(ids.clamp(min=0), net.weight(node, "weight"))
    return torch.where((ids >= 0).unsqueeze(-1), rows, torch.zeros_like(rows))


def binary(function):
    """Of two tensors, or of one and a parameter."""
    return lambda net, node, *x: function(*x, *([] if len(x) > 1 else [net.weight(node, "weight")]))


def matmul(net, node, a, b):
    a = a.mT if node.get("transpose_a") else a
    return a @ (b.mT if node.get("transpose_b") else b)


class Weighed(torch.autograd.Function):
    """softmax(scores) value, whose backward reads what was stored of it; weights times `factor`."""
    @staticmethod
    def forward(ctx, scores, value, factor):
        blind = (scores == -np.inf).all(-1, True)
        weights = torch.softmax(scores, -1).masked_fill(blind, 0)
        out = rounded((weights * factor) @ value)
        ctx.save_for_backward(weights, value, out, factor)
        return out

    @staticmethod
    def backward(ctx, gradient):
        weights, value, out, factor = ctx.saved_tensors
        slope = gradient @ value.mT * factor - (gradient * out).sum(-1, True)
        return weights * slope, (weights * factor).mT @ gradient, None


def attention(net, node, query, key, value, mask=None):
    """PyTorch has it from 2.0 on."""
    size = node["head_dim"]
    query, key, value = (x.reshape(*x.shape[:2], -1, size).transpose(1, 2)
                         for x in (query, key, value))
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.mT * (node.get("scale", 0) or size ** -0.5)
    if mask is not None:
        scores = scores + mask
    if node.get("causal"):
        ahead = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, -np.inf)
    p, factor = node.get("dropout", 0), torch.ones(())
    if p and net.training:
        factor = kept(net.seed, net.number[node["name"]], net.step, scores.shape, p).double() / (1 - p)
    if net.rounds:
        out = Weighed.apply(scores, value, factor)
    else:
        blind = (scores == -np.inf).all(-1, True)  # which PyTorch's softmax makes NaN
        weights = torch.softmax(scores.masked_fill(blind, 0), -1).masked_fill(blind, 0)
        out = (weights * factor) @ value
    return out.transpose(1, 2).flatten(2)


def rope(net, node, x):
    """Of LLaMA in Hugging Face's form."""
    size = node["head_dim"]
    angle = node.get("base", 10000) ** (-torch.arange(0, size, 2, dtype=x.dtype) / size)
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * angle
    angle = torch.cat([angle, angle], -1)[:, None]
    heads = x.unflatten(2, (-1, size))
    a, b = heads.chunk(2, -1)
    return (heads * angle.cos() + torch.cat([-b, a], -1) * angle.sin()).flatten(2)


def softmax(net, node, x):
    """Backward goes by what is read, from which ffrun computes anew what was not rounded."""
    function = torch.log_softmax if node["op"] == "log_softmax" else torch.softmax
    return function(x, node.get("axis", 1))


def reduction(function):
    return lambda net, node, x: function(x, node["axes"], node.get("keep", False))


def reset_first(weight, bias, x, h):
    """ONNX' GRU with linear_before_reset 0, step by step; gates in PyTorch's order."""
    n, steps = weight.shape[1], []
    for step in x.unbind(1):
        reset, update = (step[:, :2 * n] + F.linear(h, weight[:2 * n], bias[:2 * n])).sigmoid().chunk(2, 1)
        fresh = (step[:, 2 * n:] + F.linear(reset * h, weight[2 * n:], bias[2 * n:])).tanh()
        h = (1 - update) * fresh + update * h
        steps.append(h)
    return torch.stack(steps, 1)


def recurrence(net, node, x, *states):
    """PyTorch's layers, whose input is what the gates get of it: its weights are the identity."""
    weight = net.weight(node, "weight")
    hidden, gates = weight.shape[1], weight.shape[0]
    bias = net.weight(node, "bias") if node.get("bias", True) else x.new_zeros(gates)
    weights = [torch.eye(gates, dtype=x.dtype), weight, x.new_zeros(gates), bias]
    states = [s.transpose(0, 1) for s in states]
    states = states or [x.new_zeros(1, x.shape[0], hidden)] * (2 if node["op"] == "lstm" else 1)
    x = x.flip(1) if node.get("reverse") else x
    how = (weights, True, 1, 0.0, net.training, False, True)
    if node["op"] == "lstm":
        y, _, cell = torch.lstm(x, states, *how)
    elif node.get("reset_first"):
        y = reset_first(weight, bias, x, states[0][0])
    else:
        y, _ = (torch.gru if node["op"] == "gru" else torch.rnn_tanh)(x, states[0], *how)
    y = y.flip(1) if node.get("reverse") else y
    return (y, cell.transpose(0, 1)) if node.get("cell") else y


def route(net, node, x):
    """Of each place a row with a one for each slot that it got."""
    capacity, experts = node["capacity"], x.shape[2]
    y = x.new_zeros(*x.shape[:2], capacity * experts)
    order = (-x.detach()).argsort(dim=2, stable=True)
    for sample in range(len(x)):
        taken = [0] * experts
        for choice in range(node.get("choices", 1)):
            for place, e in enumerate(order[sample, :, choice].tolist()):
                if taken[e] < capacity:
                    y[sample, place, taken[e] * experts + e] = 1
                    taken[e] += 1
    return y


def affine(net, node):
    """Weight and bias of a norm, those that it has."""
    has = node.get("affine", True)
    bias = has and node["op"] != "rms_norm" and node.get("bias", True)
    return (net.weight(node, "weight") if has else None, net.weight(node, "bias") if bias else None)


def layer_norm(net, node, x):
    return F.layer_norm(x, x.shape[x.dim() - node.get("axes", 1):], *affine(net, node),
                        node.get("epsilon", 1e-5))


def rms_norm(net, node, x):
    """PyTorch has it from 2.4 on."""
    axes = tuple(range(-node.get("axes", 1), 0))
    y = x * torch.rsqrt(x.square().mean(axes, keepdim=True) + node.get("epsilon", 1e-5))
    return y * net.weight(node, "weight") if node.get("affine", True) else y


def group_norm(net, node, x):
    return F.group_norm(x, node["groups"], *affine(net, node), node.get("epsilon", 1e-5))


def batch_norm(net, node, x):
    """What PyTorch keeps is kept."""
    kind = torch.promote_types(x.dtype, torch.float32)
    kept = net.kept.setdefault(node["name"], (x.new_zeros(x.shape[1], dtype=kind),
                                              x.new_ones(x.shape[1], dtype=kind)))
    momentum, epsilon = node.get("momentum", 0.1), node.get("epsilon", 1e-5)
    if node.get("sync", True) or not net.training:
        return F.batch_norm(x, *kept, *affine(net, node), net.training, momentum, epsilon)
    parts = []  # what is kept is the mean of what would be of each group, by samples
    mean, variance = (old * (1 - momentum) for old in kept)
    for part in x.split(node["group"]):
        own = [torch.zeros_like(old) for old in kept]
        parts.append(F.batch_norm(part, *own, *affine(net, node), True, 1, epsilon))
        share = momentum * len(part) / len(x)
        mean, variance = mean + share * own[0], variance + share * own[1]
    net.kept[node["name"]] = mean, variance
    return torch.cat(parts)


LOSSES = {
    "softmax_cross_entropy": softmax_cross_entropy,
    "mse": lambda net, node, x, target: F.mse_loss(x, target),
    "bce_with_logits": lambda net, node, x, target:
        F.binary_cross_entropy_with_logits(x, target),
}
OPERATORS = {
    "matmul": matmul, "attention": attention, "rope": rope, "softmax": softmax, "log_softmax": softmax,
    "reduce_sum": reduction(torch.sum), "reduce_mean": reduction(torch.mean),
    "reduce_max": reduction(torch.amax),
    "sub": binary(torch.sub), "mul": binary(torch.mul), "div": binary(torch.div),
    "min": binary(torch.minimum), "max": binary(torch.maximum),
    "conv1d": conv, "conv2d": conv, "conv3d": conv, "linear": linear, "reshape": reshape,
    "conv_transpose1d": conv_transpose, "conv_transpose2d": conv_transpose,
    "conv_transpose3d": conv_transpose,
    "local_response_norm": local_response_norm, "adaptive_pool": adaptive_pool, "upsample": upsample, "pool1d": pool, "pool2d": pool, "pool3d": pool,
    "dropout": dropout, **LOSSES,
    "relu": lambda net, node, x: F.relu(x),
    "tanh": lambda net, node, x: torch.tanh(x),
    "sigmoid": lambda net, node, x: torch.sigmoid(x),
    "leaky_relu": lambda net, node, x: F.leaky_relu(x, node.get("slope", 0.01)),
    "gelu": lambda net, node, x: F.gelu(x, approximate=node.get("approximate", "none")),
    "silu": lambda net, node, x: F.silu(x),
    "scale": lambda net, node, x: node.get("factor", 1) * x + node.get("offset", 0),
    "hardswish": hardswish,
    "exp": lambda net, node, x: torch.exp(x),
    "log": lambda net, node, x: torch.log(x),
    "sqrt": lambda net, node, x: torch.sqrt(x),
    "pow": lambda net, node, x: torch.pow(x, node["exponent"]),
    "neg": lambda net, node, x: -x,
    "abs": lambda net, node, x: torch.abs(x),
    "clip": lambda net, node, x: torch.clamp(x, node.get("min"), node.get("max")),
    "erf": lambda net, node, x: torch.erf(x),
    "add": lambda net, node, *x: sum(x[1:], x[0]) if len(x) > 1 else binary(torch.add)(net, node, *x),
    "concat": lambda net, node, *x: torch.cat(x, node.get("axis", 1)),
    "pad": pad, "cast": cast, "expand": expand, "gather": gather, "constant": constant,
    "split": split, "slice": slice_axis, "embedding": embedding,
    "transpose": lambda net, node, x: x.permute(node["perm"]),
    "layer_norm": layer_norm, "rms_norm": rms_norm, "group_norm": group_norm,
    "batch_norm": batch_norm,
    "route": route, "rnn": recurrence, "lstm": recurrence, "gru": recurrence,
}


# Of those that are counted as nodes beside their own.
PRELUDES = {"batch_norm": ".moments", "attention": ".statistics", "softmax": ".statistics",
            "log_softmax": ".statistics", "reduce_max": ".statistics"}


def parameter(node, name):
    """The name of a node's parameter, which others may share."""
    return node.get("params", {}).get(name, f"{node['name']}.{name}")


def has_operand(node):
    """Whether an operand is a parameter."""
    return node["op"] == "expand" and "weight" in node or node["op"] in ("add", "sub", "mul", "div", "min", "max") and "shape" in node


def parameters(node):
    """Names of what a node has."""
    bias = ["bias"] * node.get("bias", True)
    if node["op"].startswith("conv") or node["op"] in ("linear", "rnn", "lstm", "gru"):
        return ["weight"] + bias
    if node["op"] in ("layer_norm", "group_norm", "batch_norm") and node.get("affine", True):
        return ["weight"] + bias
    if node["op"] == "embedding" or has_operand(node) or node["op"] == "rms_norm" and node.get("affine", True):
        return ["weight"]
    return []


def numbers(graph):
    """By name, what ffrun counts nodes as: parameters stand before their first reader."""
    number = {}
    for node in graph["nodes"]:
        for name in parameters(node):
            number.setdefault(parameter(node, name), len(number))
        if node["op"] in PRELUDES:
            number[node["name"] + PRELUDES[node["op"]]] = len(number)
        number[node["name"]] = len(number)
    return number


class Network:
    """A graph with its weights.  float64, so that what differs is ffrun's doing."""

    def __init__(self, graph, tensors, seed=1):
        self.graph, self.seed, self.step = graph, seed, 0
        self.number = numbers(graph)
        self.kept = {}  # by batch norm: running mean and variance
        self.training = True
        self.weights = {name: torch.from_numpy(value.astype(np.float64)).requires_grad_()
                        for name, value in tensors.items()
                        if not name.startswith(("grad.", "input.")) and name != "loss"
                        and not name.endswith(KEPT)}
        self.value = {}
        self.rounds = graph.get("dtype") == "bfloat16"

    def weight(self, node, name):
        weight = self.weights[parameter(node, name)]
        return Parameter.apply(weight) if self.rounds else weight

    def read(self, name):
        if not self.rounds or not self.value[name].is_floating_point():
            return self.value[name]
        use, self.value[name] = Read.apply(self.value[name])
        return use

    def forward(self, inputs, step=0):
        """`inputs`: arrays by input node.  The loss, and every value in self.value."""
        self.step, self.value = step, {}
        for node in self.graph["nodes"]:
            name = node["name"]
            if node["op"] == "input":
                whole = np.array(inputs[name])
                kind = torch.long if node.get("dtype") == "int32" else torch.float64
                self.value[name] = torch.from_numpy(whole).to(kind)
                if self.rounds and kind == torch.float64:
                    self.value[name] = rounded(self.value[name])
            else:
                ins = [self.read(i) for i in node.get("in", [])]
                if self.rounds:
                    out = compute_rounded(self, node, ins)
                else:
                    out = OPERATORS[node["op"]](self, node, *ins)
                if isinstance(out, tuple):  # several outputs: name, name#1, ...
                    self.value.update((f"{name}#{i}", x) for i, x in enumerate(out))
                    out = out[0]
                self.value[name] = out
        return sum(node.get("weight", 1.0) * self.value[node["name"]]
                   for node in self.graph["nodes"] if node["op"] in LOSSES)

    def margin(self):
        """How near the last forward pass came to a choice that rounding could
        turn: a relu's sign, the largest of a window; relative to the tensor."""
        least = (np.inf, "")
        for node in self.graph["nodes"]:
            if node["op"] == "relu":
                x = self.value[node["in"][0]].detach()
                gap = x[x != 0].abs()
            elif node["op"].startswith("pool") and node.get("mode", "max") == "max":
                x = self.value[node["in"][0]].detach()
                kernel = numbers_of(node, "kernel", x, 1)
                windows = padded(x, pads(node, x), -1e30)
                for i, step in enumerate(numbers_of(node, "stride", x, kernel)):
                    windows = windows.unfold(2 + i, kernel[i], step)
                windows = windows.flatten(x.dim())
                best = windows.topk(min(2, windows.shape[-1]), -1).values
                gap = best[..., 0] - best[..., -1]
                gap = gap[gap > 0]
                x = x[x > -1e30]
            else:
                continue
            if gap.numel():
                least = min(least, (float(gap.min() / x.std()), node["name"]))
        return least


# ---- comparison ----

# Of hundreds of thousands of relus one or two are so near zero that rounding, which each kind of
# processor does in its own way, turns them: what is right agrees with some of these seeds.
SOME = (1, 4, 5, 6, 7, 8)


def first_agreeing(seeds, draw, agrees):
    """What is drawn from the first seed that agrees, or from the last; None as soon as nothing is."""
    for seed in seeds:
        drawn = draw(seed)
        if drawn is None or seed == seeds[-1] or agrees(drawn):
            return drawn


def distances_of_kept(net, tensors):
    """Of what batch norms keep, after the step."""
    return {name + KEPT[i]: distance(tensors[name + KEPT[i]], kept[i])
            for name, kept in net.kept.items() for i in range(2)}


def inputs_of(tensors):
    return {name[6:]: value for name, value in tensors.items() if name.startswith("input.")}


def distance(a, b):
    """max |a - b| / max |b|; infinite where there is nothing to compare."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or not np.abs(b).max() > 0:
        return np.inf
    d = np.abs(a - b).max() / np.abs(b).max()
    return np.inf if np.isnan(d) else d


def length_apart(a, b):
    """The length of a - b by that of b."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or not np.abs(b).max() > 0:
        return np.inf
    d = np.linalg.norm(a - b) / np.linalg.norm(b)
    return np.inf if np.isnan(d) else d


def tolerance(graph):
    return ROUNDED_TOLERANCE if graph.get("dtype") == "bfloat16" else TOLERANCE


def compare(graph, tensors, seed=1):
    """Distances of the loss and of every gradient by name, and the network.  A gradient that is
    zero but for rounding (biases of keys, which attention does not see) is measured by the
    network's largest."""
    net = Network(graph, tensors, seed)
    loss = net.forward(inputs_of(tensors))
    loss.backward()
    apart = {"loss": distance(tensors["loss"], loss.detach())}
    largest = max(float(weight.grad.abs().max()) for weight in net.weights.values())
    for name, weight in net.weights.items():
        measure = length_apart if net.rounds else distance
        if float(weight.grad.abs().max()) < 1e-12 * largest:
            apart[name] = np.abs(tensors["grad." + name]).max() / largest
        else:
            apart[name] = measure(tensors["grad." + name], weight.grad)
    apart.update(distances_of_kept(net, tensors))
    return apart, net


# Of parameters, or of groups of them with settings of their own.
OPTIMIZERS = {
    "sgd": lambda weights, rate=0.01, decay=0.0:
        torch.optim.SGD(weights, rate, weight_decay=decay),
    "momentum": lambda weights, rate=0.01, momentum=0.9, decay=0.0:
        torch.optim.SGD(weights, rate, momentum, weight_decay=decay),
    "nesterov": lambda weights, rate=0.01, momentum=0.9, decay=0.0:
        torch.optim.SGD(weights, rate, momentum, weight_decay=decay, nesterov=True),
    "adam": lambda weights, rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0:
        torch.optim.Adam(weights, rate, (beta1, beta2), epsilon, decay),
    "adamw": lambda weights, rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.01:
        torch.optim.AdamW(weights, rate, (beta1, beta2), epsilon, decay),
}


# What a group's settings are called there.
SETTINGS = {"rate": "lr", "decay": "weight_decay", "momentum": "momentum", "epsilon": "eps"}


def kinds_of(graph):
    """The kinds of every parameter by name."""
    kinds = {}
    for node in graph["nodes"]:
        for name in parameters(node):
            kinds.setdefault(parameter(node, name), [kind for kind, is_it in (
                ("bias", name == "bias"), ("norm", node["op"].endswith("_norm"))) if is_it])
    return kinds


def groups_of(net, rules, rate):
    """One group a parameter, by the rules SELECT:NAME=VALUE,... that hold for it."""
    kinds, groups = kinds_of(net.graph), []
    for name, weight in net.weights.items():
        group, factor = {"params": [weight]}, 1
        for rule in rules:
            select, _, settings = rule.rpartition(":")
            if not any(word in kinds[name] or word not in ("bias", "norm") and
                       fnmatch.fnmatchcase(name, word) for word in select.split(",")):
                continue
            for key, _, value in (setting.partition("=") for setting in settings.split(",")):
                if key == "factor":
                    factor = float(value)
                else:
                    group[SETTINGS[key]] = float(value)
        if factor != 1:
            group["lr"] = group.get("lr", rate) * factor
        groups.append(group)
    return groups


def scheduler(optimizer, steps, schedule="constant", ramp=0, ramp_from=1 / 3, step_size=1, gamma=0.1,
              floor=0.0):
    """PyTorch's, to be asked after each step."""
    kinds = torch.optim.lr_scheduler
    made = {"constant": lambda: kinds.LambdaLR(optimizer, lambda step: 1.0),
            "step": lambda: kinds.StepLR(optimizer, step_size, gamma),
            "cosine": lambda: kinds.CosineAnnealingLR(optimizer, steps - ramp, floor)}[schedule]()
    if not ramp:
        return made
    return kinds.SequentialLR(optimizer, [kinds.LinearLR(optimizer, ramp_from, 1, ramp), made],
                              [ramp])


SCHEDULED = ("schedule", "ramp", "ramp_from", "step_size", "gamma", "floor")


def trained_losses(graph, tensors, batches, seed=1, optimizer="momentum", test=None, groups=(),
                   rates=None, clip=None, staleness=0, **settings):
    """The loss of each step of PyTorch's optimizer on `batches`, one after the other; then the
    one of `test`, if there is such a batch, without training.  `rates` gets the first
    parameter's rates.  Gradients are applied `staleness` steps late, the last ones not at all."""
    net = Network(graph, tensors, seed)
    told = {key: settings.pop(key) for key in SCHEDULED if key in settings}
    weights = net.weights.values()
    if groups:
        preset = OPTIMIZERS[optimizer](weights, **settings).defaults["lr"]
        weights = groups_of(net, groups, preset)
    optimizer = OPTIMIZERS[optimizer](weights, **settings)
    schedule = scheduler(optimizer, len(batches), **told)
    losses, waiting = [], []
    for step, inputs in enumerate(batches):
        if rates is not None:
            rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        loss = net.forward(inputs, step)
        loss.backward()
        waiting.append([w.grad.clone() for w in net.weights.values()])
        if step >= staleness:
            for w, due in zip(net.weights.values(), waiting.pop(0)):
                w.grad = due
            if clip:
                torch.nn.utils.clip_grad_norm_(net.weights.values(), clip)
            optimizer.step()
        schedule.step()
        losses.append(float(loss))
    if test:
        net.training = False
        losses.append(float(net.forward(test)))
    return losses


def averaged_losses(graph, tensors, batches, seed, every, ranks, optimizer="momentum", **settings):
    """The same of `ranks` networks, each with its share of the samples and their mean loss by how
    many they are of an even share; after `every` steps, and the last, all that they have becomes
    its mean."""
    nets = [Network(graph, tensors, seed) for _ in range(ranks)]
    optimizers = [OPTIMIZERS[optimizer](net.weights.values(), **settings) for net in nets]
    losses = []
    for step, inputs in enumerate(batches):
        samples = len(next(iter(inputs.values())))
        total = first = 0
        for i, (net, own) in enumerate(zip(nets, optimizers)):
            end = first + samples // ranks + (i < samples % ranks)
            own.zero_grad()
            loss = net.forward({name: x[first:end] for name, x in inputs.items()}, step)
            loss = loss * ((end - first) / samples)
            (loss * ranks).backward()
            own.step()
            total += float(loss)
            first = end
        losses.append(total)
        if (step + 1) % every and step + 1 < len(batches):
            continue
        with torch.no_grad():
            for same in zip(*(net.weights.values() for net in nets)):
                mean = sum(w.clone() for w in same) / ranks
                states = [own.state[w] for own, w in zip(optimizers, same)]
                for w in same:
                    w.copy_(mean)
                for key in states[0]:
                    if torch.is_tensor(states[0][key]) and states[0][key].shape == mean.shape:
                        between = sum(s[key].clone() for s in states) / ranks
                        for s in states:
                            s[key].copy_(between)
    return losses


def main(args):
    if len(args) not in (2, 3):
        print(__doc__ or "Usage: reference.py GRAPH DUMP [SEED]", file=sys.stderr)
        return 2
    tap = Tap()
    apart, net = compare(read_graph(args[0]), read_safetensors(args[1]),
                         int(args[2]) if len(args) == 3 else 1)
    for name, d in apart.items():
        tap.say(d <= tolerance(net.graph), name, [f"apart by {d:.2g}"])
    print("# nearest choice: {:.2g} of {}".format(*net.margin()))
    tap.end()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
