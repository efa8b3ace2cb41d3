"""Conditions on integers of the data set: numbers that are one where they hold, else zero.
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value
from ..operands import LEAST, constant, is_number, moved, number
from ..values import Choice, Mask, Param, Shifted
from .pointwise import reduced, scale, two

MAX_CHOICES = 1 << 20


def numbers(t, x, below=None):
    """An input of integers as numbers."""
    if below:
        t.classes(x, below)
    return Value(t.add("cast", [x.node]), x.axes, x.dims)


def mask_of(t, x):
    if isinstance(x, Mask):
        return x
    if isinstance(x, Value) and x.whole and t.inputs[x.node].truth:
        return Mask.of(numbers(t, x, 2))
    raise Refused("chooses by a condition that is computed")


def clipped(t, x):
    return Mask.of(x.like(t.add("clip", [x.node], min=0, max=1)))


@row("eq", "ne", "lt", "le", "gt", "ge")
def compare(t, a, b):
    return compare_with(t, t.node.target._opname, a, b)


def of_reals(x):
    return isinstance(x, Param) or isinstance(x, Value) and not x.whole and not isinstance(x, (Mask, Choice))


def compare_reals(t, kind, a, b):
    """One number is above another where their difference is above zero."""
    if kind in ("eq", "ne"):
        both = [compare_reals(t, k, a, b) for k in ("gt", "lt")]
        found = Mask.of(two(t, "add", *both))
        found.computed = True
        return found if kind == "ne" else opposite(t, found)
    if kind in ("ge", "le"):
        return opposite(t, compare_reals(t, "lt" if kind == "ge" else "gt", a, b))
    a, b = (x if is_number(x) or isinstance(x, (Value, Param)) else x.float() for x in (a, b))
    apart = two(t, "sub", *((a, b) if kind == "gt" else (b, a)))
    found = Mask.of(two(t, "mask", constant(t, torch.ones(1)), apart))
    found.computed = True
    return found


def compare_with(t, kind, a, b):
    """Integers differ by at least one, so that their difference is clipped."""
    from .choices import compared
    if isinstance(a, Choice) and not isinstance(b, (Value, Param)):
        return compared(t, kind, a, b)
    if any(of_reals(x) for x in (a, b)):
        return compare_reals(t, kind, a, b)
    known = next((x for x in (a, b) if not isinstance(x, Value)), None)
    if any(isinstance(x, Param) or isinstance(x, Value) and not x.whole for x in (a, b)):
        raise Refused("compares what is computed")
    if known is not None:
        known = torch.as_tensor(known).double()
        if not bool((known == known.floor()).all()):
            raise Refused("compares integers with fractions")
    if known is not None and known.numel() == 0:
        raise Refused("compares with nothing")
    below = None if known is None else int(known.max()) + 2
    a, b = (numbers(t, x, below) if isinstance(x, Value) else x if is_number(x) else x.float() for x in (a, b))
    apart = two(t, "sub", a, b)
    if kind in ("eq", "ne"):
        found = clipped(t, apart.like(t.add("abs", [apart.node])))
        return found if kind == "ne" else opposite(t, found)
    return clipped(t, scale(t, apart, 1.0 if kind[0] == "g" else -1.0, 1.0 if kind[1] == "e" else 0.0))


def opposite(t, x):
    made = Mask.of(scale(t, x, -1.0, 1.0))
    made.computed = x.computed if isinstance(x, Mask) else False
    return made


def ones_at(t, ids, rows):
    """Of integers below `rows`, ones where one is a row's number."""
    x = numbers(t, ids, rows) if ids.whole else ids
    apart = two(t, "sub", x.like(dims=[*x.dims, []]), torch.arange(rows, dtype=torch.float32))
    return plain(opposite(t, clipped(t, apart.like(t.add("abs", [apart.node])))))


def by_ids(t, table, ids):
    """Rows of numbers that are known by an input of integers: products with ones where an integer is a row's."""
    from .products import matmul
    if isinstance(ids, Shifted):
        by, ids = int(ids.by), ids.ids
        table = table[torch.arange(by, len(table))]  # what lies before the first row is at the end
        t.at_most(ids, len(table))
    rows, shape = len(table), [*ids.shape, *table.shape[1:]]
    if math.prod(ids.shape[1:]) * rows > MAX_CHOICES:
        raise Refused(f"looks up {math.prod(ids.shape[1:])} of {rows} rows a sample, more than products are made for")
    return moved(t, matmul(t, ones_at(t, ids, rows), table.reshape(rows, -1).float()), shape)


@row("bucketize", "searchsorted")
def bin_of(t, *args, right=False, out_int32=False, side=None, sorter=None):
    """How many known edges a number is above: conditions, added up."""
    edges, x = args[:2] if t.node.target._opname == "searchsorted" else args[1::-1]
    if not isinstance(edges, torch.Tensor) or edges.dim() != 1 or sorter is not None:
        raise Refused("puts numbers between edges that are computed, or differ")
    from .reductions import reduce
    x = x.like(dims=[*x.dims, []]) if isinstance(x, Value) else x
    above = plain(compare_with(t, "ge" if right or side == "right" else "gt", x, edges))
    return reduce(t, "reduce_sum", above, [len(above.dims) - 1])


@row("logical_not", "bitwise_not")
def negated(t, x):
    return opposite(t, mask_of(t, x))


@row("logical_and", "bitwise_and", "logical_or", "bitwise_or", "__and__", "__or__")
def joined_masks(t, a, b):
    op = "mul" if "and" in t.node.target._opname else "max"
    a, b = (x.float() if isinstance(x, torch.Tensor) else mask_of(t, x) for x in (a, b))
    made = Mask.of(two(t, op, a, b))
    made.computed = any(isinstance(x, Mask) and x.computed for x in (a, b))
    return made


def chosen(t, mask, a, b):
    """What a mask leaves of one, and of the other."""
    if is_number(a) and number(a) < -1e9:
        return two(t, "add", b, scale(t, plain(mask), max(number(a), LEAST)))
    if is_number(b) and number(b) < -1e9:
        low = max(number(b), LEAST)
        return two(t, "add", a, scale(t, plain(mask), -low, low))
    parts = []
    for x, keep in ((a, plain(mask)), (b, plain(opposite(t, mask)))):
        x = reduced(t, x, keep) if isinstance(x, torch.Tensor) else x
        if not is_number(x):
            parts.append(two(t, "mask" if mask.computed else "mul", x, keep))
        elif number(x):
            parts.append(scale(t, keep, number(x)))
    return parts[0] if len(parts) == 1 else two(t, "add", *parts)


def plain(mask):
    return Value(mask.node, mask.axes, mask.dims)
