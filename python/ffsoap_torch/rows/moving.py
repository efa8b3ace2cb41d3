"""What moves elements: views make no node, parts of axes do.  SPDX-License-Identifier: Apache-2.0"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value, flat, fresh, size_of
from ..operands import alone, as_value, joined, moved, picked, whole
from ..values import Choice, Loss, Mask, Param, Rows, Stopped
from .pairs import turned


def of_parameter(function):
    """Parameters are moved by what PyTorch makes of the places of their elements."""
    def wrapped(t, x, *args, **kwargs):
        if isinstance(x, Param):
            found = t.node.target(x.places(), *args, **kwargs)
            return [x.moved(y) for y in found] if isinstance(found, (list, tuple)) else x.moved(found)
        return function(t, x, *args, **kwargs)
    return wrapped


@row("clone", "contiguous", "alias", "lift_fresh_copy", "positive", "detach_", "requires_grad_")
def same(t, x, *args, **kwargs):
    return x


@row("detach")
def detach(t, x):
    if isinstance(x, Loss):  # to be printed, unless somebody computes with it
        return Stopped(x)
    if isinstance(x, (Param, Rows)):
        x = as_value(t, x)
    if x.whole or isinstance(x, (Choice, Mask)):  # of which there is none
        return x
    return x.like(t.add("detach", [x.node]))


@row("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as")
def reshape(t, x, *_):
    if isinstance(x, Param):
        made = Param(x.name, x.tensor, t.shape(), None if x.index is None else x.index.reshape(t.shape()))
        return made
    return moved(t, x, t.shape())


@row("permute")
@of_parameter
def permute(t, x, order):
    x = turned_rows(t, x, [i % len(x.shape) for i in order])
    return x if isinstance(x, Rows) else turned(t, x.like(dims=[x.dims[i] for i in order]))


@row("transpose", "swapaxes", "t", "mT", "movedim", "numpy_T")
@of_parameter
def transpose(t, x, *args):
    rank = len(x.shape)
    name = t.node.target._opname
    if name in ("transpose", "swapaxes", "t", "mT"):
        i, j = args if len(args) == 2 else (-2, -1)
        if rank < 2:
            return x
        order = list(range(rank))
        order[i], order[j] = order[j], order[i]
    elif name == "movedim":
        order = list(torch.empty(*range(1, rank + 1), device="meta").movedim(*args).shape)
        order = [n - 1 for n in order]
    else:
        order = list(range(rank))[::-1]
    x = turned_rows(t, x, order)
    return x if isinstance(x, Rows) else turned(t, x.like(dims=[x.dims[i] for i in order]))


def turned_rows(t, x, order):
    """Matrices that are chosen stay so if nothing but their own two axes change places."""
    if not isinstance(x, Rows):
        return x
    rank = len(order)
    return x.turned() if order == [*range(rank - 2), rank - 1, rank - 2] else as_value(t, x)


@row("unsqueeze", "unsqueeze_")
@of_parameter
def unsqueeze(t, x, dim):
    dims = list(x.dims)
    dims.insert(dim if dim >= 0 else dim + len(dims) + 1, [])
    return x.like(dims=dims)


@row("squeeze")
@of_parameter
def squeeze(t, x, dim=None):
    return moved(t, x, t.shape())


@row("expand", "broadcast_to", "expand_as")
def expand(t, x, *_, **__):
    return expand_to(t, x, t.shape())


def expand_to(t, x, shape):
    if isinstance(x, torch.Tensor):
        return x.expand(shape)
    if list(x.shape) == list(shape):
        return x
    if isinstance(x, Param):
        return expand_to(t, as_value(t, x), shape)
    x = x if is_ids(x) else as_value(t, x)
    dims = [[]] * (len(shape) - len(x.dims)) + x.dims
    for i, n in enumerate(shape):
        if n > 1 and not dims[i]:
            # the first axis, expanded to as many, is that of samples unless they are another
            taken = any(a.samples for a in flat(dims))
            dims = dims[:i] + [[t.batch] if n == t.batch.size and not taken and i == 0 else fresh(n)] + dims[i + 1:]
    return x.like(dims=dims)


@row("broadcast_tensors")
def broadcast_tensors(t, parts):
    shape = list(torch.broadcast_shapes(*(x.shape for x in parts)))
    return [expand_to(t, x, shape) for x in parts]


@row("repeat")
def repeat(t, x, times):
    x = x if is_ids(x) else as_value(t, x)
    dims = [[]] * (len(times) - len(x.dims)) + x.dims
    x = x.like(dims=dims)
    if not any(a.samples for a in flat(dims)) and times[0] == t.batch.size and not (len(dims) == 1 and dims[0]):
        x = x.like(dims=[[t.batch] + dims[0], *dims[1:]])
        times = [1, *times[1:]]
    dims = [fresh(n) + d for n, d in zip(times, x.dims)]
    return x.like(dims=dims)


@row("repeat_interleave")
def repeat_interleave(t, x, times, dim=None, output_size=None):
    if not isinstance(times, int):
        raise Refused("repeats by a tensor")
    x = x if is_ids(x) else as_value(t, x)
    if dim is None:
        x, dim = moved(t, x, [math.prod(x.shape)]), 0
    dims = list(x.dims)
    dims[dim] = dims[dim] + fresh(times)
    return x.like(dims=dims)


@row("select")
@of_parameter
def select(t, x, dim, index):
    dim %= len(x.dims)
    return moved(t, part(t, x, dim, [index % size_of(x.dims[dim])]), t.shape())


def part(t, x, dim, indices):
    if isinstance(x, Value) and x.whole and x.dims[dim] and not set(x.dims[dim]) & x.has():  # all along it are alike
        return x.like(dims=[*x.dims[:dim], fresh(len(indices)), *x.dims[dim + 1:]])
    if isinstance(x, Value) and x.whole:
        return t.part_of_input(x, dim, indices)
    return picked(t, x, dim, indices)


@row("slice")
@of_parameter
def slice_(t, x, dim=0, start=None, end=None, step=1):
    dim %= len(x.dims)
    n = size_of(x.dims[dim])
    indices = list(range(n))[slice(start, None if end is None else min(end, n), step)]
    if indices == list(range(n)):
        return x
    if not indices:  # it may only be joined with others
        return torch.empty(t.shape())
    return part(t, x, dim, indices)


@row("narrow")
@of_parameter
def narrow(t, x, dim, start, length):
    return slice_(t, x, dim, start, start + length)


@row("flip")
@of_parameter
def flip(t, x, dims):
    for d in dims:
        x = part(t, x, d % len(x.dims), list(range(size_of(x.dims[d])))[::-1])
    return x


@row("roll")
@of_parameter
def roll(t, x, shifts, dims=()):
    if not dims:
        raise Refused("rolls a tensor as if it had one axis")
    for by, d in zip(shifts, dims):
        n = size_of(x.dims[d])
        if by % n == 0:
            continue
        x = whole(t, x)
        head, tail = (picked(t, x, d % len(x.dims), indices) for indices in (
            list(range(n - by % n, n)), list(range(n - by % n))))
        x = concat(t, [head, tail], d % len(x.dims))
    return x


@row("split", "chunk", "split_with_sizes", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")
@of_parameter
def split(t, x, *args, dim=None):
    name = t.node.target._opname
    dim = dim if dim is not None else (args[-1] if len(args) > (0 if name == "unbind" else 1) else 0)
    dim %= len(x.dims)
    parts = [v.shape for v in t.node.meta["val"]]
    sizes = [1] * len(parts) if name == "unbind" else [int(s[dim]) for s in parts]
    if x.whole or len(set(sizes)) > 1 or len(sizes) > 32 or len(sizes) == 1:
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        pieces = [part(t, x, dim, list(range(s, s + n))) for s, n in zip(starts, sizes)]
    else:
        pieces = equal_parts(t, x, dim, len(sizes))
    return [moved(t, p, list(s)) for p, s in zip(pieces, parts)] if name == "unbind" else pieces


def equal_parts(t, x, dim, n):
    x, axis = alone(t, x, dim)
    node = t.graph.add("split", [x.node], axis=axis, parts=n)
    t.graph.sizes[node] = size_of(x.dims[dim]) // n
    pieces = []
    for i in range(n):
        atoms = fresh(size_of(x.dims[dim]) // n)
        axes, dims = list(x.axes), list(x.dims)
        axes[axis], dims[dim] = atoms, atoms
        pieces.append(x.like(f"{node}#{i}" if i else node, axes, dims))
    return pieces


@row("cat", "concat", "concatenate")
def cat(t, parts, dim=0):
    parts = [p for p in parts if not (isinstance(p, torch.Tensor) and p.numel() == 0)]
    with_samples = next((p.dims for p in parts if isinstance(p, Value) and any(
        a.samples for a in flat(p.dims))), None)
    rank = len(t.shape())
    dim %= rank
    others = None if with_samples is None else [d if i != dim else [] for i, d in enumerate(with_samples)]
    made = concat(t, [along(t, p, others, dim) for p in parts], dim)
    if t.node.meta["val"].dtype == torch.bool:
        made = Mask.of(made)
        made.computed = any(isinstance(p, Mask) and p.computed for p in parts)
    return made


def along(t, x, others, dim):
    """As a value that has all of its elements along the axis, were they all alike; `others`: the other axes."""
    n = int(x.shape[dim])
    x = as_value(t, x, others)
    return x if x.shape[dim] == n else x.like(dims=x.dims[:dim] + [fresh(n)] + x.dims[dim + 1:])


def concat(t, values, dim):
    """Along a PyTorch axis, of values that are broadcast along no other one."""
    if any(a.samples for v in values for a in v.dims[dim]):
        raise Refused("joins tensors along the axis of samples")
    if len(values) == 1:
        return values[0]
    values = [v.apart() for v in values]
    first = values[0].like(dims=[d if i != dim else [] for i, d in enumerate(values[0].dims)])
    for i, v in enumerate(values[1:]):
        probe = v.like(dims=[d if k != dim else [] for k, d in enumerate(v.dims)])
        first, probe, dims = joined(t, first, probe)
        first = first.like(dims=dims)
    made = [like_first(t, v, first, dim) for v in values]
    atoms = fresh(sum(v.shape[dim] for v in values))
    dims = [d if i != dim else atoms for i, d in enumerate(first.dims)]
    groups = Value("", [[t.batch]], dims).canonical()
    axis = groups.index(atoms)
    nodes = [m.node for m in made]
    while len(nodes) > 128:
        nodes = [t.graph.add("concat", nodes[:128], axis=axis), *nodes[128:]]
    return Value(t.add("concat", nodes, axis=axis if axis != 1 else None), groups, dims)


def like_first(t, v, first, dim):
    """The value whole, in the order of PyTorch's axes, which are those of the first but for one."""
    if any(a.samples for a in flat(first.dims)) and not any(a.samples for a in flat(v.dims)):
        v = v.like(dims=[d if d or not any(a.samples for a in e) else e for d, e in zip(v.dims, first.dims)])
    has = v.has()  # along what is in none of its axes nothing of it differs
    dims = [d if i == dim or set(d) & has else list(e) for i, (d, e) in enumerate(zip(v.dims, first.dims))]
    v = v.like(dims=dims)
    return t.graph.full(v, v.canonical())


@row("stack")
def stack(t, parts, dim=0):
    rank = len(t.shape())
    dim %= rank
    dims = next((p.dims for p in parts if isinstance(p, Value)), None)
    made = []
    for p in parts:
        p = as_value(t, p, dims)
        made.append(p.like(dims=p.dims[:dim] + [[]] + p.dims[dim:]))
    return concat(t, made, dim)


@row("constant_pad_nd", "pad")
def pad(t, x, widths, mode="constant", value=0.0):
    if isinstance(mode, (int, float)):
        mode, value = "constant", mode
    if not any(widths):
        return x
    if mode == "circular":
        return wrapped(t, x, widths)
    if mode not in ("constant", "reflect", "replicate"):
        raise Refused(f"pads in mode {mode}")
    return padded(t, as_value(t, x), widths, {"replicate": "edge"}.get(mode, mode), value)


@row("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(t, x, widths):
    return padded(t, as_value(t, x), widths, "reflect", 0.0)


@row("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(t, x, widths):
    return padded(t, as_value(t, x), widths, "edge", 0.0)


def wrapped(t, x, widths):
    """The other end of an axis before and behind it."""
    x = as_value(t, x)
    for i in range(len(widths) // 2):
        dim = len(x.dims) - 1 - i
        n = size_of(x.dims[dim])
        places = [k % n for k in range(-widths[2 * i], n + widths[2 * i + 1])]
        x = picked(t, whole(t, x), dim, places)
    return x


def padded(t, x, widths, mode, value):
    """`widths`: before and behind, the last axis first."""
    x = whole(t, x)
    x = t.graph.arranged(x, x.canonical())
    before, behind = [0] * len(x.axes), [0] * len(x.axes)
    dims, axes = list(x.dims), list(x.axes)
    for i in range(len(widths) // 2):
        a, b = widths[2 * i], widths[2 * i + 1]
        if not a and not b:
            continue
        dim = len(dims) - 1 - i
        x, axis = alone(t, x, dim) if dims[dim] else (x, [k for k, g in enumerate(axes) if not g][0])
        before[axis], behind[axis] = a, b
        dims[dim] = axes[axis] = fresh(size_of(dims[dim]) + a + b)
    node = t.add("pad", [x.node], before=before, after=behind, mode=mode if mode != "constant" else None,
                 value=float(value or 0) or None)
    return x.like(node, axes, dims)


def is_ids(x):
    return isinstance(x, Value) and x.whole


@row("cumprod")
def cumprod(t, x, dim, dtype=None):
    """Each time products with what lies twice as far before."""
    from .pointwise import two
    x = whole(t, as_value(t, x))
    dim %= len(x.dims)
    n, far = size_of(x.dims[dim]), 1
    while far < n:
        ahead = [0, 0] * (len(x.dims) - 1 - dim) + [far, 0]
        x = two(t, "mul", x, padded(t, picked(t, x, dim, list(range(n - far))), ahead, "constant", 1.0))
        far *= 2
    return x


@row("logcumsumexp")
def logcumsumexp(t, x, dim):
    """Each time beside what lies twice as far before."""
    from .pointwise import logaddexp
    x = whole(t, as_value(t, x))
    dim %= len(x.dims)
    n, far = size_of(x.dims[dim]), 1
    while far < n:
        head, rest, before = (picked(t, x, dim, list(r)) for r in (range(far), range(far, n), range(n - far)))
        x = concat(t, [head, logaddexp(t, rest, before)], dim)
        far *= 2
    return x


@row("diagonal")
def diagonal(t, x, offset=0, dim1=0, dim2=1):
    """Every element of the axis that the two make which is one further than the last."""
    x = as_value(t, x)
    dim1, dim2 = dim1 % len(x.dims), dim2 % len(x.dims)
    rows, columns = size_of(x.dims[dim1]), size_of(x.dims[dim2])
    rest = [d for i, d in enumerate(x.dims) if i not in (dim1, dim2)]
    x = x.like(dims=[*rest, x.dims[dim1], x.dims[dim2]])
    x = moved(t, whole(t, x), [*x.shape[:-2], rows * columns])
    places = [i * columns + i + offset for i in range(rows) if 0 <= i + offset < columns]
    return picked(t, x, len(x.dims) - 1, places)


@row("unfold")
def unfold(t, x, dim, size, step):
    """Windows along an axis, and what is in them last."""
    x = as_value(t, x)
    dim %= len(x.dims)
    starts = range(0, size_of(x.dims[dim]) - size + 1, step)
    x = picked(t, whole(t, x), dim, [i + k for i in starts for k in range(size)])
    x = moved(t, x, [*x.shape[:dim], len(starts), size, *x.shape[dim + 1:]])
    return x.like(dims=[d for i, d in enumerate(x.dims) if i != dim + 1] + [x.dims[dim + 1]])


@row("as_strided")
def as_strided(t, x, size, stride, offset=0):
    """Windows that lie one behind the other, as of a spectrum; a tensor lies as it has axes."""
    shape, step = [int(n) for n in x.shape], stride[-2] if len(stride) > 1 else 0
    places = torch.arange(math.prod(shape)).reshape(shape)
    found = places.unfold(-1, size[-1], step) if shape and 0 < size[-1] <= shape[-1] and step > 0 else places
    if not t.node.args[0].meta["val"].is_contiguous() or list(found.shape) != list(size) or not torch.equal(
            found, places.as_strided(size, stride, offset or 0)):
        raise Refused("takes elements by their places in memory")
    return unfold(t, x, -1, size[-1], step)


@row("slice_scatter", "select_scatter")
def scatter(t, x, source, dim=0, start=None, end=None, step=1):
    """Around the part that is replaced."""
    n = int(x.shape[dim])
    dim %= len(x.shape)
    if t.node.target._opname == "select_scatter":
        start, end = start % n, start % n + 1
        source = source.unsqueeze(dim) if isinstance(source, torch.Tensor) else source.like(
            dims=source.dims[:dim] + [[]] + source.dims[dim:])
    if isinstance(source, Value):  # which says what axis of a constant is that of samples
        x = along(t, x, [d if i != dim else [] for i, d in enumerate(source.dims)], dim)
    x = as_value(t, x)
    indices = list(range(n))[slice(start, None if end is None else min(end, n), step)]
    if len(indices) == n:
        return source
    others = [d if i != dim else [] for i, d in enumerate(x.dims)]
    if step != 1:
        at = dict(zip(indices, range(n, n + len(indices))))
        joined = concat(t, [x, along(t, source, others, dim)], dim)
        return picked(t, joined, dim, [at.get(i, i) for i in range(n)])
    pieces = [picked(t, x, dim, list(range(indices[0])))] if indices[0] else []
    pieces.append(along(t, source, others, dim))
    pieces += [picked(t, x, dim, list(range(indices[-1] + 1, n)))] if indices[-1] + 1 < n else []
    return concat(t, pieces, dim)


@row("copy")
def copy(t, x, source, non_blocking=False):
    """What is written over all of a tensor."""
    return source.expand(t.shape()) if isinstance(source, torch.Tensor) else expand(t, source)


@row("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_empty", "new_full")
def like(t, x, *args, **kwargs):
    """The shape of what is computed is known."""
    example = t.node.meta["val"]
    value = 0.0
    if "ones" in t.node.target._opname:
        value = 1.0
    if "full" in t.node.target._opname:
        value = args[-1]
    return torch.full([int(n) for n in example.shape], value, dtype=example.dtype)


@row("fill", "fill_", "zero", "zero_")
def fill(t, x, value=0):
    return torch.full([int(n) for n in t.node.meta["val"].shape], value)
