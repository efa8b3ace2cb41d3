"""Whole numbers beside real ones and what is left, which have no gradient or that of the real ones; angles.
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch

from . import row
from .. import Refused
from ..operands import as_value, binary, constant, is_number, number
from ..values import Complex, Param
from .pointwise import scale, two, unary


def floor_of(t, x):
    return x.like(t.graph.add("floor", [x.node]))


@row("floor", "floor_")
def floor(t, x):
    return whole_of(t, x, floor_of)


@row("ceil", "ceil_")
def ceil(t, x):
    return whole_of(t, x, lambda t, x: scale(t, floor_of(t, scale(t, x, -1.0)), -1.0))


@row("trunc", "trunc_", "fix")
def trunc(t, x):
    return whole_of(t, x, towards_zero)


def whole_of(t, x, function):
    """Integers are whole."""
    return function(t, as_value(t, x)) if t.of_reals() else x


def towards_zero(t, x):
    """Of what is above zero, less that of what is below."""
    sides = (y.like(t.graph.add("relu", [y.node])) for y in (x, scale(t, x, -1.0)))
    return binary(t, "sub", *(floor_of(t, y) for y in sides))


@row("round", "round_")
def nearest(t, x, decimals=0):
    by = 10.0 ** decimals
    return whole_of(t, x, lambda t, x: scale(t, unary(t, "round", scale(t, x, by)), 1 / by))


@row("frac")
def frac(t, x):
    x = as_value(t, x)
    return binary(t, "sub", x, towards_zero(t, x))


MODES = {"floor": floor_of, "trunc": towards_zero}


def quotient(t, a, b, mode):
    """A quotient's whole part, which has no gradient."""
    if not t.node.meta["val"].dtype.is_floating_point:
        raise Refused("divides integers")
    return MODES[mode](t, as_value(t, two(t, "div", a, b)))


@row("floor_divide", "floor_divide_")
def floor_divide(t, a, b):
    return quotient(t, a, b, "floor")


@row("remainder", "remainder_", "fmod", "fmod_")
def remainder(t, a, b):
    """What a whole number of the divisor leaves, of the divisor's sign or, of fmod, of the dividend's."""
    whole = quotient(t, a, b, "floor" if t.node.target._opname.startswith("remainder") else "trunc")
    return two(t, "sub", a, two(t, "mul", whole, b))


@row("atan2", "arctan2")
def atan2(t, a, b):
    a, b = (constant(t, torch.full([1], number(x))) if is_number(x) and not isinstance(x, Param) else x for x in (a, b))
    return two(t, "atan2", a, b)


@row("angle")
def angle(t, x):
    """Of real numbers that below zero, which has no gradient."""
    if isinstance(x, Complex):
        return two(t, "atan2", *x.parts[::-1])
    from .masks import compare_reals, plain
    return scale(t, plain(compare_reals(t, "lt", as_value(t, x), 0.0)), math.pi)
