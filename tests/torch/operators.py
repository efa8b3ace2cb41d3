# Every operator of a graph as PyTorch computes it.
# SPDX-License-Identifier: Apache-2.0
from philox import kept
from pytorch import F, np, torch
from rounding import Activation, Smooth, rounded


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


def mean_loss(net, node, x, target):
    """The mean where the target is a number, or a label that counts."""
    if target.dtype.is_floating_point:
        return x[target == target].mean()
    return x[target != node.get("ignore_index", -1)].mean()


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
    rows = F.embedding(ids.clamp(min=0), net.weight(node, "weight"), sparse=net.sparse and node.get("sparse", False))
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
    """Of each place a row with a one for each slot that it got, or for each of its choices.  By index the experts that
    took it, and of their slots the places that have them."""
    capacity, experts = node.get("capacity"), x.shape[2]
    order = (-x.detach()).argsort(dim=2, stable=True)
    if not capacity:
        return F.one_hot(order[..., :node.get("choices", 1)], experts).flatten(2).to(x.dtype)
    y = x.new_zeros(*x.shape[:2], capacity * experts)
    for sample in range(len(x)):
        taken = [0] * experts
        for choice in range(node.get("choices", 1)):
            for place, e in enumerate(order[sample, :, choice].tolist()):
                if taken[e] < capacity:
                    y[sample, place, taken[e] * experts + e] = 1
                    taken[e] += 1
    if not node.get("index"):
        return y
    y = y.unflatten(2, (capacity, experts))
    places = torch.where(y.sum(1) > 0, y.argmax(1), -1)
    return y.sum(2), places.transpose(1, 2).int()


def dispatch(net, node, x, places):
    """Rows that are selected, a sample after the other."""
    rows = [x[i].index_select(0, p.flatten().clamp(min=0).long()) * (p.flatten() >= 0).unsqueeze(1)
            for i, p in enumerate(places)]
    return torch.stack(rows).unflatten(1, places.shape[1:]).transpose(2, 3).flatten(1, 2).unsqueeze(3)


def combine(net, node, x, shares, places):
    """What slots have is added to the rows of their places."""
    rows = x.squeeze(3).unflatten(1, (places.shape[1], -1)).transpose(2, 3)
    sums = []
    for row, share, p in zip(rows, shares, places.long()):
        to, e = p.clamp(min=0).flatten(), torch.arange(len(p)).repeat_interleave(p.shape[1])
        weight = (share[to, e] * (p.flatten() >= 0)).unsqueeze(1)
        sums.append(row.new_zeros(len(share), row.shape[2]).index_add(0, to, row.flatten(0, 1) * weight))
    return torch.stack(sums)


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
    "l1": lambda net, node, x, target: F.l1_loss(x, target),
    "smooth_l1": lambda net, node, x, target: F.smooth_l1_loss(x, target),
    "bce_with_logits": lambda net, node, x, target:
        F.binary_cross_entropy_with_logits(x, target),
    "mean": mean_loss,
}

OPERATORS = {
    "matmul": matmul, "attention": attention, "rope": rope, "softmax": softmax, "log_softmax": softmax,
    "reduce_sum": reduction(torch.sum), "reduce_mean": reduction(torch.mean),
    "reduce_max": reduction(torch.amax),
    "sub": binary(torch.sub), "mul": binary(torch.mul), "div": binary(torch.div),
    "min": binary(torch.minimum), "max": binary(torch.maximum),
    "atan2": binary(torch.atan2),
    "mask": binary(lambda x, y: torch.where(y > 0, x, torch.zeros_like(x))),
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
    "sin": lambda net, node, x: torch.sin(x),
    "cos": lambda net, node, x: torch.cos(x),
    "asin": lambda net, node, x: torch.asin(x),
    "acos": lambda net, node, x: torch.acos(x),
    "atan": lambda net, node, x: torch.atan(x),
    "floor": lambda net, node, x: torch.floor(x),
    "round": lambda net, node, x: torch.round(x),
    "lgamma": lambda net, node, x: torch.lgamma(x),
    "digamma": lambda net, node, x: torch.digamma(x),
    "detach": lambda net, node, x: x.detach(),
    "add": lambda net, node, *x: sum(x[1:], x[0]) if len(x) > 1 else binary(torch.add)(net, node, *x),
    "concat": lambda net, node, *x: torch.cat(x, node.get("axis", 1)),
    "pad": pad, "cast": cast, "expand": expand, "gather": gather, "constant": constant,
    "split": split, "slice": slice_axis, "embedding": embedding,
    "transpose": lambda net, node, x: x.permute(node["perm"]),
    "layer_norm": layer_norm, "rms_norm": rms_norm, "group_norm": group_norm,
    "batch_norm": batch_norm,
    "route": route, "dispatch": dispatch, "combine": combine, "rnn": recurrence, "lstm": recurrence, "gru": recurrence,
}

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
        return tuple(Activation.apply(x) if x.is_floating_point() else x for x in out)
    return Activation.apply(out)
