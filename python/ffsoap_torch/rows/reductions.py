"""Sums, means, largest elements; softmax.  SPDX-License-Identifier: Apache-2.0"""
import math

from . import row
from .. import Refused
from ..layout import flat, size_of
from ..operands import alone, as_value
from ..values import Each, Loss
from .pointwise import scale


MAX_FACTORS = 64


def reduce(t, op, x, dims, keep=False):
    if isinstance(x, Loss):
        return of_losses(op, x, dims, len(t.node.args[0].meta["val"].shape))
    x = as_value(t, x)
    rank = len(x.dims)
    dims = sorted({d % rank for d in (dims if dims is not None and len(dims) else range(rank))})
    wanted = flat(x.dims[d] for d in dims)
    if any(a.samples for a in wanted):
        return over_samples(t, op, x, dims, keep)
    for d in dims:
        x, _ = alone(t, x, d)
    groups = [x.dims[d] for d in dims if x.dims[d]]
    if any(g not in x.axes for g in groups):
        x = t.graph.arranged(x, x.canonical())
    axes = [i for i, g in enumerate(x.axes) if g in groups]
    left = [x.dims[i] if i not in dims else [] for i in range(rank) if keep or i not in dims]
    if not axes:
        return x.like(dims=left)
    node = t.add(op, [x.node], axes=axes)
    t.graph.lengths[node] = [size_of(x.axes[i]) for i in axes]
    return x.like(node, [g for i, g in enumerate(x.axes) if i not in axes], left)


def of_losses(op, x, dims, rank):
    if not isinstance(x, Each):
        return x
    if op not in ("reduce_mean", "reduce_sum") or (dims is not None and 0 < len(dims) < rank):
        raise Refused("computes with losses that are no mean yet")
    return x.mean() if op == "reduce_mean" else x.sum()


def over_samples(t, op, x, dims, keep):
    """A mean of errors over all samples is a loss."""
    from .losses import errors, general
    from .pairs import of_batch
    if op not in ("reduce_mean", "reduce_sum"):
        raise Refused("takes the largest along the axis of samples")
    wanted = flat(x.dims[d] for d in dims)
    if len(wanted) < len(flat(x.dims)) or t.node.target._opname not in ("mean", "sum"):
        return of_batch(t, op, x, dims, keep)
    found = errors(t, x) or general(t, x)
    return found.mean() if op == "reduce_mean" else found.sum()


@row("mean")
def mean(t, x, dims=None, keep=False, dtype=None):
    return reduce(t, "reduce_mean", x, [dims] if isinstance(dims, int) else dims, keep)


@row("sum")
def total(t, x, dims=None, keep=False, dtype=None):
    return reduce(t, "reduce_sum", x, [dims] if isinstance(dims, int) else dims, keep)


@row("prod")
def product_of(t, x, dim=None, keep=False, dtype=None):
    """Of halves, of an axis that is not long."""
    from .moving import part
    from .pointwise import two
    x = as_value(t, x)
    n = x.shape[dim] if dim is not None else MAX_FACTORS + 1
    if n > MAX_FACTORS:
        raise Refused(f"multiplies more than {MAX_FACTORS} elements, or all")
    while n > 1:
        half = n // 2
        y = two(t, "mul", part(t, x, dim, list(range(half))), part(t, x, dim, list(range(half, 2 * half))))
        if n % 2 and half > 1:
            first = two(t, "mul", part(t, y, dim, [0]), part(t, x, dim, [n - 1]))
            from .moving import concat
            y = concat(t, [first, part(t, y, dim, list(range(1, half)))], dim % len(x.dims))
        elif n % 2:
            y = two(t, "mul", y, part(t, x, dim, [n - 1]))
        x, n = y, half
    return x if keep else x.like(dims=[d for i, d in enumerate(x.dims) if i != dim % len(x.dims)])


@row("amax", "max")
def largest(t, x, dims=None, keep=False):
    if t.node.target._overloadname == "dim":
        return [reduce(t, "reduce_max", x, [dims], keep), place_of(t, x, dims, keep)]
    if t.node.target._overloadname == "other":
        from .pointwise import two
        return two(t, "max", x, dims)
    return reduce(t, "reduce_max", x, [dims] if isinstance(dims, int) else dims, keep)


def place_of(t, x, dim, keep):
    """Where the largest element is, if that can be said."""
    from .choices import chosen_of, without
    try:
        choice = chosen_of(t, x, dim, 1)
    except Refused:
        return None
    return choice if keep else without(choice, dim)


@row("amin", "min")
def smallest(t, x, dims=None, keep=False):
    if t.node.target._overloadname == "other":
        from .pointwise import two
        return two(t, "min", x, dims)
    x = scale(t, as_value(t, x), -1.0)
    y = scale(t, reduce(t, "reduce_max", x, [dims] if isinstance(dims, int) else dims, keep), -1.0)
    return [y, place_of(t, x, dims, keep)] if t.node.target._overloadname == "dim" else y


@row("sort", "argsort", "median", "kthvalue", "mode", "multinomial")
def choose(t, *_, **__):
    raise Refused("chooses elements by what is computed, as experts and tokens are; a graph reads the same elements in "
                  "every step: weigh all of them, or make the choice an input")


@row("linalg_vector_norm", "norm")
def norm(t, x, order=2, dims=None, keep=False, dtype=None):
    dims = [dims] if isinstance(dims, int) else dims
    order = 2 if order is None else order
    if not order > 0:
        raise Refused(f"is a norm of order {order}")
    x = as_value(t, x)
    if order in (1, math.inf):
        return reduce(t, "reduce_sum" if order == 1 else "reduce_max", x.like(t.add("abs", [x.node])), dims, keep)
    if order != 2:
        y = x.like(t.add("abs", [x.node]))
        y = reduce(t, "reduce_sum", y.like(t.add("pow", [y.node], exponent=order)), dims, keep)
        return y.like(t.add("pow", [y.node], exponent=1 / order))
    y = reduce(t, "reduce_sum", x.like(t.add("pow", [x.node], exponent=2)), dims, keep)
    # a norm of zero has no gradient, where a square root's would be infinite
    y = y.like(t.add("clip", [y.node], min=1e-30))
    return y.like(t.add("sqrt", [y.node]))


@row("_cdist_forward", "cdist")
def cdist(t, a, b, order=2.0, mode=None):
    """How far each row of one is from each of the other."""
    from .pointwise import two
    a, b = as_value(t, a), as_value(t, b)
    apart = two(t, "sub", a.like(dims=[*a.dims[:-1], [], a.dims[-1]]), b.like(dims=[*b.dims[:-2], [], *b.dims[-2:]]))
    return norm(t, apart, order, [len(apart.dims) - 1])


@row("var", "var_mean")
def variance(t, x, dims=None, unbiased=True, keep=False, correction=None, keepdim=False):
    """The mean of squared differences from the mean."""
    from .pointwise import two
    keep = keep or keepdim
    dims = [dims] if isinstance(dims, int) else dims
    x = as_value(t, x)
    n = 1
    for d in dims if dims else range(len(x.dims)):
        n *= x.shape[d]
    if correction is None:
        correction = 1 if unbiased in (True, None) else 0
    middle = reduce(t, "reduce_mean", x, dims, True)
    apart = two(t, "sub", x, middle)
    y = reduce(t, "reduce_mean", apart.like(t.add("pow", [apart.node], exponent=2)), dims, keep)
    y = scale(t, y, n / (n - correction))
    if t.node.target._opname == "var":
        return y
    return [y, middle if keep else reduce(t, "reduce_mean", x, dims, False)]


def along(t, op, x, dim):
    x = as_value(t, x)
    x, axis = alone(t, x, dim % len(x.dims))
    if axis is None:  # a share of one, of which the logarithm is zero
        return scale(t, x, 0.0, 1.0 if op == "softmax" else 0.0)
    return x.like(t.add(op, [x.node], axis=axis if axis != 1 else None))


@row("softmax", "_softmax", "log_softmax", "_log_softmax")
def softmax(t, x, dim, *_, **__):
    return along(t, t.node.target._opname.lstrip("_"), x, dim)


@row("logsumexp")
def logsumexp(t, x, dims, keep=False):
    """The largest, plus the logarithm of what is summed without it."""
    from .pointwise import two
    dims = [dims] if isinstance(dims, int) else dims
    x = as_value(t, x)
    top = reduce(t, "reduce_max", x, dims, True)
    small = two(t, "sub", x, top)
    y = reduce(t, "reduce_sum", small.like(t.add("exp", [small.node])), dims, keep)
    if not keep:
        top = reduce(t, "reduce_max", x, dims, False)
    return two(t, "add", y.like(t.add("log", [y.node])), top)
