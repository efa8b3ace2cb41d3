"""Every sample of a batch beside all others: products of matrices whose rows are samples, and what is made of them.
SPDX-License-Identifier: Apache-2.0
"""
import torch

from .. import Refused
from ..layout import Value, flat, fresh, size_of

OF_ELEMENTS = ("relu", "leaky_relu", "tanh", "sigmoid", "gelu", "silu", "hardswish", "exp", "log", "sqrt", "pow", "neg",
               "scale", "abs", "clip", "erf", "sin", "cos", "asin", "acos", "atan", "floor", "round", "lgamma",
               "digamma", "detach", "add", "sub", "mul", "div", "min", "max", "mask", "atan2")


def over_samples(t, a, b):
    """a [samples, K] by b [K, samples], or [samples, samples] by [samples, P], or [K, samples] by [samples, P], which
    is the sum of each sample's products; None: it is neither."""
    own = [t.batch]
    if [d == own for d in a.dims] == [False, True] and [d == own for d in b.dims] == [True, False]:
        from .pointwise import two
        each = two(t, "mul", a.like(dims=[own, a.dims[0], []]), b.like(dims=[own, [], b.dims[1]]))
        return of_batch(t, "reduce_sum", each, [0])
    if len(a.dims) != 2 or len(b.dims) != 2 or a.dims[0] != own or own not in b.dims:
        return None
    from .products import alike
    if b.dims[1] == own:
        b = b.apart()
        a, b = alike(t, a, b, 1, 0)
        inner, columns, other = a.dims[1], fresh(t.batch.size), [own, b.dims[0]]
    else:
        inner, columns, other = a.dims[1], b.dims[1], [own, b.dims[1]]
    a, b, turned = t.graph.full(a, [own, inner]), t.graph.full(b, other), b.dims[1] == own
    node = t.graph.add("matmul", [a.node, b.node], transpose_b=turned or None)
    if turned:
        t.graph.pairs[node] = a.node, b.node
    return Value(node, [own, columns], [own, columns])


def of_batch(t, op, x, dims, keep=False):
    """What elements add up to in the whole batch, or their mean, which every sample has: a product with a table of
    samples by samples.  One of `dims` has the axis of samples."""
    dims = [d % len(x.dims) for d in dims]
    gone = [a for d in dims for a in x.dims[d] if not a.samples]
    left = [a for i, d in enumerate(x.dims) if i not in dims for a in d]
    y = t.graph.full(x, [g for g in ([t.batch], gone, left) if g])
    if gone:
        node = t.graph.add(op, [y.node], axes=[1])
        t.graph.lengths[node] = [size_of(gone)]
        y = Value(node, [[t.batch], *([left] if left else [])], [])
    count = t.batch.size
    ones, groups = torch.full((count, count), 1.0 / count if op == "reduce_mean" else 1.0), [[t.batch], fresh(count)]
    y = over_samples(t, Value(table(t, ones), groups, groups), y.like(dims=[[t.batch], left]))
    rest = [d if i not in dims else [] for i, d in enumerate(x.dims) if keep or i not in dims]
    return Value(y.node, [[t.batch], left] if left else [[t.batch], []], rest)


def beside(t, a, b):
    """Two of two axes, of which the second of one may be the samples: then every sample has all of its numbers."""
    def across(x, other):
        dims = [[]] * (2 - len(x.dims)) + x.dims
        if dims != [[], [t.batch]] or len(other.dims) != 2 or other.dims[0] != [t.batch]:
            return x
        from ..operands import constant
        ones = constant(t, torch.ones(1)).like(dims=[[t.batch], []])
        return over_samples(t, ones, x.like(dims=dims))
    return across(a, b), across(b, a)


def turned(t, x):
    """What has a number for every two samples, the other way round, with the samples first again; as it is if it was
    made of anything else."""
    own = [t.batch]
    if len(x.dims) != 2 or x.dims[1] != own or x.axes != [own, x.dims[0]] or size_of(x.dims[0]) != t.batch.size:
        return x
    node = turned_node(t, x.node, {})
    if node is None:
        return x
    columns = fresh(t.batch.size)
    return x.like(node, [own, columns], [own, columns])


def turned_node(t, name, known):
    """The node that has [j, i] where this one has [i, j]; None: there is none."""
    if name in known:
        return known[name]
    node, made = t.graph.find(name), None
    if name in t.graph.pairs:
        a, b = t.graph.pairs[name]
        made = t.graph.add("matmul", [b, a], transpose_b=True)
        t.graph.pairs[made] = b, a
    elif for_all(t, node):
        made = name
    elif node["op"] == "constant" and name in t.graph.tables:
        made = table(t, t.graph.tables[name].T)
    elif node["op"] in OF_ELEMENTS and "params" not in node and "shape" not in node and node.get("in"):
        parts = [turned_node(t, part, known) for part in node["in"]]
        if None not in parts:
            rest = {k: v for k, v in node.items() if k not in ("name", "op", "in")}
            made = t.graph.add(node["op"], parts, **rest)
    elif node["op"] in OF_ELEMENTS and node.get("shape") == [1]:  # a parameter of one number
        part = turned_node(t, node["in"][0], known)
        if part is not None:
            rest = {k: v for k, v in node.items() if k not in ("name", "op", "in", "params")}
            params = node.get("params") or {"weight": f"{name}.weight"}
            made = t.graph.add(node["op"], [part], params=params, **rest)
    known[name] = made
    return made


def for_all(t, node):
    """Whether it is one number, the same for all samples."""
    if node["op"] in ("expand", "constant"):
        return node["name"] not in t.graph.tables and "in" not in node and all(n == 1 for n in node["shape"][1:])
    return node["op"] in OF_ELEMENTS + ("reshape",) and bool(node.get("in")) and "params" not in node and all(
        for_all(t, t.graph.find(part)) for part in node["in"])


def table(t, x):
    """A node of numbers that are known, of each sample its own."""
    from ..operands import runs_of
    node = t.graph.add("constant", shape=list(x.shape), runs=runs_of(x))
    t.graph.tables[node] = x
    return node


def known_pairs(t, x, dims):
    """A constant that differs from sample to sample, beside what has dims `dims`; None: it is no such."""
    dims = [[]] * (x.dim() - len(dims)) + list(dims)
    dims = dims[len(dims) - x.dim():]
    if not x.dim() or dims[0] != [t.batch] or x.shape[0] != t.batch.size or any(a.samples for a in flat(dims[1:])):
        return None
    if bool((x == x[:1]).all()):
        return None
    groups = [[t.batch], *(fresh(n) for n in x.shape[1:])]
    return Value(table(t, x), groups, [list(g) for g in groups])


def ones_of_labels(t, labels, classes, ignored):
    """Of labels that are known, each sample's, ones where a class is the label; zeros where it is ignored."""
    if labels.dim() != 1 or len(labels) != t.batch.size:
        raise Refused("compares with labels that are known of parts of a sample")
    here = labels != ignored
    if not bool(here.any()) or not bool(((labels >= 0) & (labels < classes) | ~here).all()):
        raise Refused("compares with labels that are no classes")
    return torch.nn.functional.one_hot(labels.clamp(0, classes - 1), classes) * here[:, None].float(), int(here.sum())
