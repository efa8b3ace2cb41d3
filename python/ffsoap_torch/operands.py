"""Operands of rows: constants and parameters as values, and two values in one arrangement.
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch

from . import Refused
from .layout import MAX_AXES, Value, flat, fresh, size_of, unify, view
from .values import Choice, Param, Rows

SHARED = 1 << 14
LEAST = -1e30  # instead of -infinity, which no file can say: an addend that leaves nothing of a score


def is_number(x):
    return isinstance(x, (int, float, bool)) or (isinstance(x, torch.Tensor) and x.numel() == 1)


def number(x):
    return float(x.item() if isinstance(x, torch.Tensor) else x)


def runs_of(tensor):
    """Pairs, how many elements and what they are."""
    x = tensor.reshape(-1).double().clamp(LEAST, -LEAST)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), (x[1:] != x[:-1]).nonzero()[:, 0] + 1])
    counts = torch.diff(starts, append=torch.tensor([len(x)]))
    values = [float(f"{v:.9g}") for v in x[starts].tolist()]  # as float32 they are the same
    return [int(n) if n == int(n) and abs(n) < 1e15 else n for pair in zip(counts.tolist(), values) for n in pair]


def without_samples(t, x, dims=None):
    """A constant whose axes of samples, if it has any (`dims`: of what it meets), have one element."""
    if dims is None:
        return x
    dims = [[]] * (x.dim() - len(dims)) + dims
    for i, dim in enumerate(dims[len(dims) - x.dim():]):
        if x.shape[i] == 1 or not any(a.samples for a in dim) or x.shape[i] != size_of(dim):
            continue
        shape = list(x.shape)
        parts = x.reshape(shape[:i] + [a.size for a in dim] + shape[i + 1:])
        axis = i + next(k for k, a in enumerate(dim) if a.samples)
        first = parts.narrow(axis, 0, 1)
        if not bool((parts == first).all()):
            raise Refused("a constant differs from sample to sample")
        shape[i] //= t.batch.size
        x = first.reshape(shape)
    return x


def for_samples(t, x, dims):
    """Whether a constant is the same for as many as there are samples, which what it meets does not have: masks are
    expanded so."""
    alone = not any(a.samples for a in flat(dims)) and not (len(dims) == x.dim() and dims[0])
    return alone and x.dim() > max(1, len(dims) - 1) and x.shape[0] == t.batch.size and bool((x == x[:1]).all())


def repeated(t, x, dims):
    """How many rows a constant repeats for every sample, as masks of windows behind each other are; 0: it does not."""
    n = x.shape[0] // t.batch.size if x.dim() > 2 else 0
    alone = not any(a.samples for a in flat(dims)) and not (len(dims) == x.dim() and dims[0])
    if not alone or n < 2 or x.shape[0] != n * t.batch.size or bool((x == x[:1]).all()):
        return 0
    rows = x.reshape(t.batch.size, n, *x.shape[1:])
    return n if bool((rows == rows[:1]).all()) else 0


def spread(x):
    """Axes along which all elements are alike have one."""
    for i in range(x.dim()):
        first = x.narrow(i, 0, 1)
        if x.shape[i] > 1 and bool((x == first).all()):
            x = first
    return x


def constant(t, x, dims=None):
    """A node of numbers that are not trained, the same for every sample; it lacks axes along which all are alike."""
    if dims is not None:
        from .rows.pairs import known_pairs
        found = known_pairs(t, x, dims)
        if found is not None:
            return found
    rows = repeated(t, x, dims) if dims is not None else 0
    shared = rows or dims is not None and for_samples(t, x, dims)
    x = x[:rows or 1] if shared else without_samples(t, x, dims)
    shape, x = list(x.shape), spread(x)
    groups = [fresh(n) for n in x.shape]
    dims = [g or fresh(n) for g, n in zip(groups, shape)]
    if len(groups) >= MAX_AXES:
        groups = [g for g in groups if g] or [[]]
        x = x.reshape([size_of(g) for g in groups])
    if len(groups) >= MAX_AXES:
        raise Refused("a constant of %d axes" % len(groups))
    node = once(t, x)
    return Value(node, [[t.batch], *groups], [[t.batch, *(dims[0] if rows else [])], *dims[1:]] if shared else dims)


def once(t, x):
    """Of many numbers, as the angles that every layer reads, one node."""
    key = (tuple(x.shape), hash(x.detach().float().numpy().tobytes())) if x.numel() > SHARED else None
    if key is None or key not in t.graph.made:
        runs = runs_of(x)
        if len(runs) > 4_000_000:
            raise Refused("a constant of %d numbers, more than a graph's file should have" % x.numel())
        node = t.graph.add("constant", shape=[t.batch.size, *x.shape], runs=runs)
        if key is None:
            return node
        t.graph.made[key] = node
    return t.graph.made[key]


def parameter(t, p):
    """A parameter as a tensor that every sample has; in the shape in which another operator reads it."""
    if p.index is not None and p.name in t.claims:
        p = rows_alone(t, p)
    stored = list(p.tensor.shape) or [1]
    known = t.graph.params.get(p.name)
    turned = bool(known and known.get("transpose"))
    if known and math.prod(known["shape"]) == math.prod(stored):
        stored = known["shape"]
    groups = [fresh(n) for n in stored]
    name = p.name if turned or known and "names" in known else t.graph.parameter(p.name, p.tensor, stored)
    node = t.graph.add("expand", params={"weight": name}, weight=stored, shape=[t.batch.size, *stored])
    value = Value(node, [[t.batch], *groups], groups[::-1] if turned else groups)
    if p.index is None:
        return moved(t, value, p.shape)
    value = moved(t, value, list(p.tensor.shape))
    return rearranged(t, value, p)


def rows_alone(t, p):
    """Of a parameter of which rows are parameters of their own, others, in whatever order: such a one, too."""
    width = p.tensor[0].numel() if p.tensor.dim() else 1
    index = p.index.reshape(-1)
    first, last = int(index.min()) // width, int(index.max()) // width + 1
    name, part = f"{p.name}.{first}-{last}", p.tensor.detach()[first:last]
    if len(index) != (last - first) * width or len(index.unique()) != len(index):
        return p
    t.claim(p.name, [first, last])
    if name not in t.graph.params:
        t.graph.parameter(name, part, list(part.shape), names=p.name, rows=[first, last])
    return Param(name, part, p.shape, p.index - first * width)


def rearranged(t, value, p):
    """Elements of a parameter by their places: whole rows, or one by one."""
    width = p.tensor[0].numel() if p.tensor.dim() > 1 else 1
    index = p.index.reshape(-1)
    if index.numel() % width == 0:
        rows = index.reshape(-1, width)
        if bool((rows == rows[:, :1] + torch.arange(width)).all()) and bool((rows[:, 0] % width == 0).all()):
            return moved(t, picked(t, value, 0, (rows[:, 0] // width).tolist()), p.shape)
    value = moved(t, value, [p.tensor.numel()])
    return moved(t, picked(t, value, 0, index.tolist()), p.shape)


def picked(t, value, dim, indices):
    """Elements of a PyTorch axis, in this order."""
    value, axis = alone(t, value, dim)
    dims = list(value.dims)
    if not dims[dim]:  # one element, which all are
        if len(indices) == 1:
            return value
        dims[dim] = fresh(len(indices))
        return value.like(dims=dims)
    first, step = indices[0], indices[1] - indices[0] if len(indices) > 1 else 1
    if indices == list(range(size_of(dims[dim]))):
        return value
    if step > 0 and indices == list(range(first, indices[-1] + 1, step)):
        node = t.graph.add("slice", [value.node], axis=axis, start=first, stop=indices[-1] + 1,
                           step=step if step > 1 else None)
    else:
        node = t.graph.add("gather", [value.node], axis=axis, indices=indices)
    dims[dim] = fresh(len(indices))
    axes = list(value.axes)
    axes[axis] = dims[dim]
    return value.like(node, axes, dims)


def alone(t, value, dim):
    """With a PyTorch axis as an axis of the node; its number, or None for an axis of one element."""
    want = value.dims[dim]
    if any(a.samples for a in want):
        raise Refused("works along the axis of samples")
    if not want:
        return value, None
    if not set(want) <= value.has():
        value = whole(t, value, want)
    if want not in value.axes:
        value = t.graph.arranged(value, parted(value, want) or value.canonical())
    return value, value.axes.index(want)


def parted(value, want):
    """The node's axes with the atoms `want` as one of them, where they lie side by side in one; else None."""
    for i, group in enumerate(value.axes):
        if want[0] in group:
            at = group.index(want[0])
            if group[at:at + len(want)] != want:
                return None
            pieces = [g for g in (group[:at], want, group[at + len(want):]) if g]
            groups = value.axes[:i] + pieces + value.axes[i + 1:]
            return groups if len(groups) <= MAX_AXES else gathered(groups, want)
    return None


def gathered(groups, want):
    """Neighbours that are not the samples or `want` as one, until there are no more axes than a tensor has."""
    groups = list(groups)
    while len(groups) > MAX_AXES:
        at = next(i for i in range(1, len(groups) - 1) if want not in groups[i:i + 2])
        groups[at:at + 2] = [groups[at] + groups[at + 1]]
    return groups


def whole(t, value, atoms=None):
    """With atoms (preset: all) that the node has no more to lack."""
    atoms = set(flat(value.dims) if atoms is None else atoms)
    if atoms <= value.has():
        return value
    has = value.has() | atoms
    return t.graph.full(value, [[a for a in g if a in has] for g in value.canonical()])


def moved(t, value, shape):
    """The value as PyTorch's `view` has it; atoms are merged where it cuts across them."""
    shape = [int(n) for n in shape]
    found = view(value, shape)
    if found is not None:
        return found
    if value.whole:
        raise Refused("reshapes an input of integers in a way that has no operator")
    value = whole(t, value)
    groups = value.canonical()
    hidden = value.classes if isinstance(value, Choice) else []
    rest = [a for g in groups[1:] for a in g if a not in hidden]
    dims = flat(value.dims)
    sampled = any(a.samples for a in dims)
    if sampled and not dims[0].samples:
        raise Refused("reshapes across the samples")
    others = [hidden] if hidden else []
    value = t.graph.arranged(value, [groups[0], rest, *others])
    atom = fresh(size_of(rest))
    value = value.like(None, [groups[0], atom, *others], [groups[0], atom] if sampled else [atom])
    found = view(value, shape)
    if found is None:
        raise Refused("reshapes across the samples")
    return found


def merged(t, value, dim):
    """A PyTorch axis as a single atom."""
    value = whole(t, value, value.dims[dim])
    value, axis = alone(t, value, dim)
    atom = fresh(size_of(value.dims[dim]))
    axes, dims = list(value.axes), list(value.dims)
    axes[axis], dims[dim] = atom, atom
    return value.like(axes=axes, dims=dims)


def as_value(t, x, dims=None):
    if isinstance(x, Value):
        if x.whole and t.inputs[x.node].truth:
            from .rows.masks import mask_of
            return mask_of(t, x)
        if x.whole:
            raise Refused("computes with an input of integers")
        return x
    if isinstance(x, Param):
        return parameter(t, x)
    if isinstance(x, Rows):
        from .rows.choices import rows_of
        return rows_of(t, x.table, x.choice)
    if isinstance(x, torch.Tensor):
        return constant(t, x, dims)
    raise Refused(f"has an operand of kind {type(x).__name__}")


def joined(t, a, b):
    """Two values with axes of the same atoms, and the dims of what is broadcast from them."""
    rank = max(len(a.dims), len(b.dims))
    b = b.apart()
    a = a.like(dims=[[]] * (rank - len(a.dims)) + a.dims)
    b = b.like(dims=[[]] * (rank - len(b.dims)) + b.dims)
    for i in range(rank):
        if not a.dims[i] or not b.dims[i]:
            continue
        a, b = for_all(a, b, i), for_all(b, a, i)
        names = unify(a.dims[i], b.dims[i])
        if names is None and size_of(a.dims[i]) == size_of(b.dims[i]):
            a, b = broadcast_as(a, b, i), broadcast_as(b, a, i)
            names = unify(a.dims[i], b.dims[i])
        if names is None:
            if any(x.samples for x in a.dims[i] + b.dims[i]):
                raise Refused("mixes the axis of samples with another")
            a, b = merged(t, a, i), merged(t, b, i)
            names = unify(a.dims[i], b.dims[i])
        a, b = a.renamed(names[0]), b.renamed(names[1])
    return a, b, [p or q for p, q in zip(a.dims, b.dims)]


def broadcast_as(a, b, i):
    """An axis along which nothing of a differs is made of the same parts as b's."""
    return a if set(a.dims[i]) & a.has() else a.like(dims=[b.dims[i] if k == i else d for k, d in enumerate(a.dims)])


def for_all(a, b, i):
    """Where an axis of b is of samples and more, and a has only what is more, a's is the same for all samples."""
    first = b.dims[i][0]
    if not first.samples or any(x.samples for x in flat(a.dims)) or size_of(b.dims[i]) == size_of(a.dims[i]):
        return a
    return a.like(dims=[[first] + d if k == i else d for k, d in enumerate(a.dims)])


def layout_for(a, b, dims):
    """Groups in which both lie without a group that one has in part."""
    has_a, has_b = a.has(), b.has()
    big, small = (a, b) if len(has_a - has_b) or size_of(flat(a.axes)) >= size_of(flat(b.axes)) else (b, a)
    groups = big.axes
    if small.has() - big.has():
        groups = Value("", big.axes, dims).canonical()
    parted = []
    for group in groups:
        group = [x for x in group if x in has_a or x in has_b]
        pieces = []
        for x in group:
            kind = (x in has_a, x in has_b)
            if pieces and pieces[-1][0] == kind:
                pieces[-1][1].append(x)
            else:
                pieces.append((kind, [x]))
        parted += [piece for _, piece in pieces]
    while len(parted) > MAX_AXES:
        at = next((i for i in range(1, len(parted) - 1) if len(
            {(x in has_a, x in has_b) for x in parted[i] + parted[i + 1]}) == 1), None)
        if at is None:
            raise Refused("broadcasts tensors of more than %d axes" % MAX_AXES)
        parted[at:at + 2] = [parted[at] + parted[at + 1]]
    return parted


def binary(t, op, a, b):
    """A function of two elements of values."""
    from .rows.pairs import beside
    a, b = beside(t, a, b)
    a, b, dims = joined(t, a, b)
    groups = layout_for(a, b, dims)
    a, b = t.graph.arranged(a, groups), t.graph.arranged(b, groups)
    node = t.add(op, [a.node, b.node])
    if a.has() == b.has():
        t.graph.alike.add(node)
    return Value(node, groups, dims)


def with_parameter(t, op, a, p):
    """A function of a value and a parameter, as the operator's own; None where it cannot be that."""
    if p.index is not None or len(p.shape) > len(a.dims):
        return None
    wanted = {}
    for n, dim in zip(p.shape[::-1], a.dims[::-1]):
        if n == 1:
            continue
        if size_of(dim) != n or any(x.samples for x in dim) or not set(dim) <= a.has():
            return None
        wanted[tuple(dim)] = n
    if not _fits(a, wanted):
        a = t.graph.arranged(a, a.canonical())
    if not _fits(a, wanted):
        return None
    shape = [wanted.get(tuple(g), 1) for g in a.axes[1:]]
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    known = t.graph.params.get(p.name)
    if known and known["shape"] != shape:
        return None
    t.graph.parameter(p.name, p.tensor, shape or [1])
    return a.like(t.add(op, [a.node], params={"weight": p.name}, shape=shape or [1]))


def _fits(a, wanted):
    """Whether the axes have these groups, in this order."""
    have = [tuple(g) for g in a.axes]
    last_first = list(wanted)
    if any(g not in have for g in wanted):
        return False
    places = [have.index(g) for g in last_first]
    return places == sorted(places, reverse=True)
