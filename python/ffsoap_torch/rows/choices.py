"""Places that are chosen by what is computed, as of experts: ones where a class is chosen, so that all are computed and
those that are not chosen count nothing.  SPDX-License-Identifier: Apache-2.0
"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value, flat, fresh, size_of, unify
from ..operands import as_value, is_number, moved, number, whole
from ..values import Choice, Param, Rows
from .pointwise import scale, two
from .reductions import reduce


def chosen_of(t, x, dim, count):
    """Which `count` elements of an axis are the largest, the best first."""
    x = as_value(t, x)
    dim %= len(x.dims)
    mine, rest = x.dims[dim], [a for i, d in enumerate(x.dims) for a in d if i != dim]
    if any(a.samples for a in mine):
        raise Refused("chooses among samples")
    places = [a for a in rest if not a.samples]
    x = t.graph.full(whole(t, x), [[t.batch], places, mine])
    node = t.graph.add("route", [x.node], choices=count if count != 1 else None)
    which, classes = fresh(count), fresh(size_of(mine))
    dims = [*x.dims[:dim], which, *x.dims[dim + 1:]]
    return Choice(node, [[t.batch], places, which + classes], dims, classes, which)


def ones_of(choice):
    """The ones of a choice, whose last axis is that of classes."""
    return Value(choice.node, choice.axes, [*choice.dims, choice.classes])


def taken(t, x, dim, choice):
    """What x has along an axis where the choice says: a sum of one element and zeros."""
    dim %= len(choice.dims)
    x = as_value(t, x)
    if size_of(choice.classes) != x.shape[dim]:
        raise Refused("takes elements at places that are of another axis")
    apart = x.like(dims=[*(d if i != dim else [] for i, d in enumerate(x.dims)), x.dims[dim]])
    return reduce(t, "reduce_sum", two(t, "mul", ones_of(choice), apart), [len(choice.dims)])


def place_of_each(t, x, choice):
    """Of each sample what is at the place that it chose."""
    ones = ones_of(choice)
    ones = ones.like(dims=[*ones.dims, *[[]] * (len(x.dims) - 2)])
    return reduce(t, "reduce_sum", two(t, "mul", x, ones), [1])


@row("topk")
def topk(t, x, count, dim=-1, largest=True, sorted=True):  # noqa: A002
    choice = chosen_of(t, x if largest else scale(t, as_value(t, x), -1.0), dim, count)
    return [taken(t, x, dim, choice), choice]


@row("argmax", "argmin")
def argmax(t, x, dim=None, keep=False):
    if dim is None:
        raise Refused("chooses among all elements")
    if isinstance(x, Value) and x.whole:  # as the last of a text's ids is the largest
        from .masks import numbers
        x = numbers(t, x)
    x = as_value(t, x)
    choice = chosen_of(t, x if t.node.target._opname == "argmax" else scale(t, x, -1.0), dim, 1)
    return choice if keep else without(choice, dim)


def without(choice, dim):
    dim %= len(choice.dims)
    return choice.like(dims=[d for i, d in enumerate(choice.dims) if i != dim])


@row("one_hot")
def one_hot(t, choice, classes=-1):
    if isinstance(choice, Value) and not isinstance(choice, Choice):
        from .masks import ones_at
        if classes < 0:
            raise Refused("has as many classes as the largest integer says")
        return ones_at(t, choice, classes)
    if not isinstance(choice, Choice):
        raise Refused("is of integers that are computed")
    more = classes - size_of(choice.classes)
    if more < 0:
        raise Refused("has fewer classes than there are places")
    ones = ones_of(choice)
    if more:
        from .moving import padded
        return padded(t, ones, [0, more], "constant", 0.0)
    return ones


def compared(t, kind, choice, known):
    """A choice beside integers that are known: by a table of what each class would say."""
    from .masks import Mask
    known = torch.as_tensor(known)
    table = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}[kind](
        torch.arange(size_of(choice.classes)).reshape([-1] + [1] * known.dim()), known)
    table = table.reshape(len(table), -1).float()
    if known.dim() and any(n != 1 for n in known.shape[:-1]):
        raise Refused("compares places with a table")
    if known.dim() == 0 or known.shape[-1] == 1:
        ones = two(t, "mul", ones_of(choice), table[:, 0])
        return Mask.of(reduce(t, "reduce_sum", ones, [len(choice.dims)]))
    if choice.dims[-1]:
        raise Refused("compares places with a table")
    from .products import matmul
    last = choice.like(dims=choice.dims[:-1])
    if table.shape[0] == table.shape[1] and bool((table == torch.eye(len(table))).all()):
        return Mask.of(ones_of(last))
    return Mask.of(matmul(t, ones_of(last), table))


def rows_of(t, table, choice):
    """Rows of a table at places that are chosen."""
    from .products import matmul
    x = matmul(t, ones_of(choice), as_value(t, table) if isinstance(table, Value) else flat_rows(table))
    return moved(t, x, [*choice.shape, *table.shape[1:]])


def flat_rows(table):
    if isinstance(table, Param):
        return table.moved(table.places().reshape(len(table.places()), -1))
    return table.reshape(len(table), -1).float()


def by_experts(t, rows, x):
    """Matrices [..., out, in] of which each place has chosen one, by [..., in]: of all matrices, of which those chosen
    are left.  Places that differ in nothing but their choice are computed once."""
    choice, size = rows.choice, rows.table.shape
    x = x.like(dims=[flat(x.dims[:-1]), x.dims[-1]]).apart()
    names = unify(flat(choice.dims), x.dims[0])
    if names is None:
        raise Refused("multiplies by matrices that other places have chosen")
    choice, x = choice.renamed(names[0]), x.renamed(names[1])
    places, has = x.dims[0], x.has()
    y = of_all(t, rows.table, x.like(dims=[[a for a in places if a in has], x.dims[1]]))
    y = moved(t, y, [y.shape[0], size[0], size[1]])
    y = y.like(dims=[*([a] if a in has else [] for a in places), y.dims[1], y.dims[2]])
    ones = Value(choice.node, choice.axes, [*([a] for a in places), choice.classes, []])
    y = reduce(t, "reduce_sum", two(t, "mul", y, ones), [len(places)])
    return y.like(dims=[flat(y.dims[:-1]), y.dims[-1]])


def of_all(t, table, x):
    """x [S, in] by all of a table [experts, out, in]: a layer of as many outputs, where it lies so."""
    from .products import einsum, layer
    experts, out, inner = table.shape
    if isinstance(table, Param) and table.index is None:
        return layer(t, x, Param(table.name, table.tensor, [experts * out, inner]))
    return moved(t, einsum(t, "si,eoi->seo", [x, as_value(t, table)]), [x.shape[0], experts * out])


def product_of_rows(t, a, b):
    """Products of which one operand is matrices that are chosen, the other a vector a place."""
    rows, x, left = (a, b, True) if isinstance(a, Rows) else (b, a, False)
    x = as_value(t, x)
    if len(rows.table.shape) != 3 or len(x.dims) != 3 or size_of(x.dims[2 if left else 1]) != 1:
        raise Refused("multiplies several rows a place by matrices that are chosen")
    if not left:
        rows = rows.turned()
    y = by_experts(t, rows, x.like(dims=[x.dims[0], x.dims[1 if left else 2]]))
    return y.like(dims=[y.dims[0], y.dims[1], []] if left else [y.dims[0], [], y.dims[1]])


def scattered(t, base, dim, choice, source, adds):
    """Over what is there; a place is chosen once."""
    dim %= len(choice.dims)
    if not adds and not set(choice.dims[dim]) <= set(choice.distinct):
        raise Refused("writes at places that may be the same")
    ones = ones_of(choice)
    if not is_number(source) and list(source.shape) != choice.shape:
        raise Refused("writes a part of what there is")
    if is_number(source):
        at = ones
    elif isinstance(source, torch.Tensor):
        at = two(t, "mul", ones, source.float().unsqueeze(-1))
    else:
        source = as_value(t, source)
        at = two(t, "mul", ones, source.like(dims=[*source.dims, []]))
    order = [*range(dim), len(choice.dims) - 1, *range(dim, len(choice.dims) - 1)]

    def placed(x):
        x = reduce(t, "reduce_sum", x, [dim])
        return x.like(dims=[x.dims[i] for i in order])
    value = placed(at)
    if is_number(source):
        value = scale(t, value, number(source))
    if isinstance(base, torch.Tensor) and not bool(base.any()):
        return value
    if not adds:
        left = scale(t, placed(ones), -1.0, 1.0)
        if isinstance(base, torch.Tensor):
            base = base.float().clamp(-1e30, 1e30)
        base = two(t, "mul", left, base)
    return two(t, "add", value, base)


@row("scatter")
def scatter(t, base, dim, places, source, reduce=None):  # noqa: A002
    if isinstance(places, Value) and places.whole and places.shape[dim] == 1:  # as of labels
        from .masks import ones_at
        ones = ones_at(t, places, base.shape[dim])
        places = Choice(ones.node, ones.axes, ones.dims[:-1], ones.dims[-1], [])
    if not isinstance(places, Choice) or reduce is not None:
        raise Refused("writes at places that are computed")
    return scattered(t, base, dim, places, source, False)


def added_at_ids(t, x, dim, ids, source):
    """At places that an input says: sums of products with ones."""
    from .masks import MAX_CHOICES, ones_at
    dim %= len(ids.shape)
    rows = int(x.shape[dim])
    if list(source.shape) != list(ids.shape) or math.prod(ids.shape[1:]) * rows > MAX_CHOICES:
        raise Refused("adds at places of an input, which are more than products are made for")
    source = as_value(t, source)
    y = two(t, "mul", ones_at(t, ids, rows), source.like(dims=[*source.dims, []]))
    y = reduce(t, "reduce_sum", y, [dim])
    order = list(range(len(ids.shape) - 1))
    order.insert(dim, len(order))
    y = y.like(dims=[y.dims[i] for i in order])
    return y if isinstance(x, torch.Tensor) and not bool(x.any()) else two(t, "add", y, x)


def rows_at_ids(t, x, ids):
    """Of each sample the rows that an input says: a product with ones."""
    from .masks import MAX_CHOICES, ones_at
    from .products import matmul
    rows, count = size_of(x.dims[1]), math.prod(ids.shape[1:])
    if count * rows > MAX_CHOICES:
        raise Refused(f"takes {count} of {rows} rows a sample, more than products are made for")
    ones = moved(t, ones_at(t, ids, rows), [x.shape[0], count, rows])
    table = moved(t, whole(t, x), [x.shape[0], rows, math.prod(x.shape[2:])])
    return moved(t, matmul(t, ones, table), t.shape())
