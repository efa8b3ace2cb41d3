# What becomes of NaN and infinity: the graphs that hold every operator, without what mixes elements, so
# that gradients tell of each element whether it is a number, and of which it is.
# SPDX-License-Identifier: Apache-2.0
import random

import graphs
import operators
import reference
import sequences
from pytorch import np, torch

KINDS = ("nan", "inf", "-inf")
ALL = (graphs.convolutions, graphs.transposed, graphs.pools, graphs.spatial, graphs.pointwise,
       graphs.functions, graphs.joints, graphs.tied, graphs.moves, graphs.pads, graphs.broadcasts,
       graphs.reductions, graphs.products, sequences.words, sequences.attention, sequences.recurrences,
       graphs.norms, graphs.losses, graphs.means)

# Those with kernels that choose among elements, where slow programs run them.
CHOOSING = (graphs.pools, graphs.pointwise, graphs.functions, graphs.broadcasts, graphs.reductions, graphs.products,
            sequences.attention)


class Apart(graphs.Graph):
    """Each case reads elements of two inputs in turns, each with a parameter of its own added; what all
    make lies side by side, each element times a parameter of its own, in a loss that takes each by itself.
    So gradients of the former show what goes backward, those of the latter what comes forward."""
    width = None  # of all that the cases make, once it is known

    def __init__(self, name, shape):
        super().__init__(name, shape)
        self.nodes.insert(1, {"name": "other", "op": "input", "shape": shape})
        self.turns = 0

    def source(self):
        self.turns += 1
        return "other" if self.turns % 2 else "data"

    def own(self, case, x, shape):
        return self.add(f"{case}.own", "add", x, shape=shape)

    def front(self, case, channels=4, n=1, **_):
        fronts = []
        for i in range(n):
            x = self.add(f"{case}.take{i}", "gather", self.source(), axis=1,
                         indices=[(k + i) % self.shape[1] for k in range(channels)])
            fronts.append(self.own(f"{case}.{i}", x, [channels, *self.shape[2:]]))
        return fronts[0] if n == 1 else fronts

    def features(self, case, features=12, **_):
        x = self.add(f"{case}.flat", "reshape", self.source(), shape=[0, -1])
        x = self.add(f"{case}.take", "gather", x, indices=[
            k % int(np.prod(self.shape[1:])) for k in range(features)])
        return self.own(case, x, [features])

    def head(self, case, x):
        self.heads.append(self.add(f"{case}.flatten", "reshape", x, shape=[0, -1]))

    def finish(self):
        x = self.add("features", "concat", *self.heads)
        if self.width:
            x = self.add("outputs", "mul", x, shape=[self.width])
            self.nodes.append({"name": "target", "op": "input", "shape": [self.shape[0], self.width]})
            self.add("loss", "mse", x, "target")
        else:
            x = self.add("logits", "linear", x, out_features=graphs.CLASSES)
            self.add("loss", "softmax_cross_entropy", x, "labels")
        nodes = [{k: v for k, v in n.items() if k != "ignore_index"}  # dense.c's labels are -1 there
                 for n in self.nodes if n["op"] != "input" or any(n["name"] in m.get("in", []) for m in self.nodes)]
        return {"format": "ffsoap-graph", "version": 2, "name": self.name, "nodes": nodes, "heads": self.heads}


def graph_of(make, width=None):
    whole, graphs.Graph, Apart.width = graphs.Graph, Apart, width
    try:
        graph = make()
    finally:
        graphs.Graph = whole
    return graph, graph.pop("heads")


# ---- PyTorch's side, where it multiplies zeros that nobody asked for ----

def cell(net, node, x, *states):
    """PyTorch's own layers are given what gates get by way of an identity, whose zeros infinity meets."""
    weight, op = net.weight(node, "weight"), node["op"]
    n = weight.shape[1]
    bias = net.weight(node, "bias") if node.get("bias", True) else x.new_zeros(len(weight))
    h, c = ([s[:, 0] for s in states] + [x.new_zeros(len(x), n)] * 2)[:2]
    steps = []
    for now in (x.flip(1) if node.get("reverse") else x).unbind(1):
        if op == "gru":
            own = h @ weight.T + bias
            reset, update = (now[:, :2 * n] + own[:, :2 * n]).sigmoid().chunk(2, 1)
            fresh = (now[:, 2 * n:] + reset * own[:, 2 * n:]).tanh()
            h = (1 - update) * fresh + update * h
        elif op == "lstm":
            keep, forget, fresh, out = (now + h @ weight.T + bias).chunk(4, 1)
            c = forget.sigmoid() * c + keep.sigmoid() * fresh.tanh()
            h = out.sigmoid() * c.tanh()
        else:
            h = (now + h @ weight.T + bias).tanh()
        steps.append(h)
    y = torch.stack(steps[::-1] if node.get("reverse") else steps, 1)
    return (y, c[:, None]) if node.get("cell") else y


def recurrence(net, node, *ins):
    return (operators.recurrence if node.get("reset_first") else cell)(net, node, *ins)


class Largest(torch.autograd.Function):
    """Those that are not the largest have no gradient, not zero times one."""
    @staticmethod
    def forward(ctx, x, axes, keep):
        y = torch.amax(x, axes, True)
        ctx.save_for_backward(x, y)
        return y if keep else torch.amax(x, axes)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        best = x == y
        share = gradient.reshape(y.shape) / best.sum([i for i, n in enumerate(y.shape) if n == 1], True)
        return torch.where(best, share, torch.where(y.isnan(), y, torch.zeros_like(y))), None, None


operators.OPERATORS.update(
    rnn=recurrence, lstm=recurrence, gru=recurrence,
    reduce_max=lambda net, node, x: Largest.apply(x, node["axes"], node.get("keep", False)))


def multiplies_neighbours(graph):
    """Cases where PyTorch takes of a neighbour nothing, but of one that is no number; on GPUs keys that are
    masked get nothing of a query whose row is none either."""
    blind = {"mask-of-keys"} if reference.DEVICE != "cpu" else set()
    return blind | {node["name"].split(".")[0] for node in graph["nodes"]
            if node["op"] == "upsample" and node.get("mode") == "linear"}


def multiplies_padding(graph):
    """Weights of convolutions with zeros around what they read: here nobody multiplies by those, and what
    would come of a gradient that is no number is not in their sum."""
    return {reference.parameter(node, "weight") for node in graph["nodes"]
            if node["op"].startswith("conv") and "pad" in node}


def strays(got, want, forward, less):
    """Where an element is a number and PyTorch's is none, unless there may be `less`; forward, where it is
    none and PyTorch's is one, too: backward a zero times what is no number may be either."""
    got, want = np.isfinite(got), np.isfinite(want)
    lost, made = got & ~want & ~np.bool_(less), ~got & want & np.bool_(forward)
    return lost | made


def largest(x):
    return np.abs(x[np.isfinite(x)]).max(initial=0)


def apart(got, want, least):
    """Of what is a number on both sides; what is zero but for rounding is no measure of itself."""
    both = np.isfinite(got) & np.isfinite(want)
    return np.abs(got[both] - want[both]).max(initial=0) / max(largest(want[both]), least)


def differences(graph, tensors, widths, seed):
    """By case: what is no number in one of both, and how many of PyTorch's elements are none."""
    net = reference.Network(graph, tensors, seed)
    net.backward(net.forward(reference.inputs_of(tensors)))
    found, none, padded, less = {}, {}, multiplies_padding(graph), multiplies_neighbours(graph)
    least = 1e-3 * max(largest(weight.grad.numpy()) for weight in net.weights.values())
    strict = "dtype" not in graph  # oneDNN multiplies pairs in bfloat16, which zeros fill up
    for name, weight in net.weights.items():
        if name in padded:
            continue
        got, want = np.asarray(tensors["grad." + name]), weight.grad.numpy()
        parts = [(name.split(".")[0], name, got, want)]
        if name == "outputs.weight":
            at = np.cumsum([0] + [n for _, n in widths])
            parts = [(case, "out", got[a:b], want[a:b]) for (case, _), a, b in zip(widths, at, at[1:])]
        for case, what, one, other in parts:
            if strict and apart(one, other, least) > reference.TOLERANCE:
                found.setdefault(case, []).append(f"{what}: numbers are apart by {apart(one, other, least):.2g}")
            stray = strays(one, other, strict and what == "out", case in less)
            none[case] = none.get(case, 0) + int((~np.isfinite(other)).sum())
            if stray.any():
                where = np.argwhere(stray)[0]
                found.setdefault(case, []).append(
                    f"{what}: {int(stray.sum())} elements, such as {where.tolist()}: "
                    f"{one[tuple(where)]} for PyTorch's {other[tuple(where)]}")
    return found, none


def poisons(graph, widths, rng):
    """What to put where, as the data set of dense.c is told."""
    shape = next(n["shape"] for n in graph["nodes"] if n["name"] in ("data", "other"))
    size = int(np.prod(shape[1:]))
    for kind in KINDS:
        for name in [n["name"] for n in graph["nodes"] if n["name"] in ("data", "other")]:
            for first in (6, size):  # of the first few elements, which vectors take, and of any
                at = rng.randrange(shape[0]) * size + rng.randrange(first)
                yield f"{kind} in the data", f"{name}={kind}@{at}"
            at = rng.randrange(shape[0]) * size
            yield f"{kind} all over a sample", f"{name}={kind}@{at}-{at + size - 1}"
    total, at, spec = sum(n for _, n in widths), 0, []
    for i, (_, n) in enumerate(widths):
        spec.append(f"target={KINDS[1 + i % 2]}@{rng.randrange(shape[0]) * total + at + rng.randrange(n)}")
        at += n
    yield "in gradients", ",".join(spec)


def check(tap, new_case, make, ffrun_dense, seed, alter=lambda graph: graph):
    """`new_case(name, seed)` gives a test_torch.Case."""
    rng = random.Random(seed)
    graph, heads = graph_of(make)
    case = new_case(graph["name"], seed).made(graph)
    if case.run(program=ffrun_dense, data="dense") is None:
        return
    net = reference.Network(case.graph, case.tensors, seed)
    net.forward(reference.inputs_of(case.tensors))
    widths = [(h.split(".")[0], net.value[h].shape[1]) for h in heads]
    graph, _ = graph_of(make, sum(n for _, n in widths))
    graph = alter(graph)
    bad, none = {}, {}
    for what, spec in poisons(graph, widths, rng):
        case.made(graph)
        if case.run(program=ffrun_dense, data=spec) is None:
            return
        found, of = differences(case.graph, case.tensors, widths, seed)
        for group, n in of.items():
            none[group] = none.get(group, 0) + n
        for group, notes in found.items():
            bad.setdefault(group, []).extend(f"{what}, {spec[:60]}, {note}" for note in notes)
    for group in dict.fromkeys(c for c, _ in widths):
        tap.say(group not in bad and none.get(group, 0) > 0, f"{graph['name']}{' in ' + graph['dtype'] if 'dtype' in graph else ''}: {group}", bad.get(
            group, [f"seed {seed}: {none.get(group, 0)} elements are no numbers"]))
