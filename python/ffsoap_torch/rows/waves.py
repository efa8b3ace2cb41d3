"""Complex numbers as pairs of real ones, and Fourier transforms as products with known cosines and sines.
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch

from . import row
from .. import Refused
from ..operands import as_value, picked
from ..values import Complex
from .pointwise import scale, two
from .products import matmul

# What PyTorch does with both parts alike, and what with products of theirs.
BY_PARTS = ("add", "add_", "sub", "sub_", "neg", "view", "reshape", "_unsafe_view", "flatten", "unflatten", "permute",
            "transpose", "t", "movedim", "unsqueeze", "squeeze", "expand", "repeat", "select", "slice", "split",
            "chunk", "unbind", "clone", "alias", "contiguous", "cat", "stack", "roll", "flip", "index", "index_select",
            "slice_scatter", "select_scatter", "copy", "sum", "mean", "constant_pad_nd", "_to_copy", "detach")
OF_PRODUCTS = ("mul", "mul_", "einsum", "matmul", "mm", "bmm")


def part_of(x, which):
    """Of an argument its real or imaginary part."""
    if isinstance(x, Complex):
        return x.parts[which]
    if isinstance(x, torch.Tensor) and x.is_complex():
        return (x.real, x.imag)[which].contiguous()
    if isinstance(x, torch.Tensor) and which:
        return torch.zeros_like(x)
    if isinstance(x, (list, tuple)):
        return [part_of(y, which) for y in x]
    return x


def is_pair(x):
    return isinstance(x, Complex) or isinstance(x, torch.Tensor) and x.is_complex()


def of_pairs(t, name, function, args, kwargs):
    """An operator of which an operand is complex."""
    args = [torch.tensor(x) if isinstance(x, complex) else x for x in args]
    if name == "exp":
        return exponential(t, *(as_value(t, x) for x in args[0].parts))
    if name == "reciprocal" or name in ("div", "div_") and is_pair(args[1]):
        inverse = reciprocal(t, args[-1])
        if name == "reciprocal":
            return inverse
        return of_pairs(t, "mul", lambda t, a, b: two(t, "mul", a, b), (args[0], inverse), {})
    if name in ("div", "div_") and not is_pair(args[1]) or name in OF_PRODUCTS and any(
            isinstance(x, (int, float)) for x in args):
        return paired(*(function(t, *(part_of(x, k) if isinstance(x, Complex) else x for x in args)) for k in (0, 1)))
    if name in BY_PARTS:
        numbers = name.rstrip("_") in ("add", "sub")  # of which the imaginary part is zero
        return paired(*(function(t, *(0 if k and numbers and not is_pair(x) else part_of(x, k) for x in args), **kwargs)
                        for k in (0, 1)))
    if name not in OF_PRODUCTS:
        raise Refused("computes with complex numbers in a way that has no operator")
    before, (a, b) = ((), args) if name != "einsum" else (args[:1], args[1])

    def product(i, k):
        if k and not is_pair(b) or i and not is_pair(a):
            return None
        x, y = part_of(a, i), part_of(b, k)
        return function(t, *before, [x, y]) if before else function(t, x, y)
    made = product(0, 0), product(1, 1), product(0, 1), product(1, 0)
    real = made[0] if made[1] is None else two(t, "sub", made[0], made[1])
    both = [x for x in made[2:] if x is not None]
    return Complex(real, both[0] if len(both) == 1 else two(t, "add", *both))


def exponential(t, real, imaginary):
    size = real.like(t.graph.add("exp", [real.node]))
    return Complex(*(two(t, "mul", size, imaginary.like(t.graph.add(f, [imaginary.node]))) for f in ("cos", "sin")))


def reciprocal(t, x):
    if isinstance(x, torch.Tensor):
        return 1 / x
    real, imaginary = (as_value(t, v) for v in x.parts)
    squares = [v.like(t.graph.add("pow", [v.node], exponent=2)) for v in (real, imaginary)]
    size = two(t, "add", *squares)
    return Complex(two(t, "div", real, size), scale(t, two(t, "div", imaginary, size), -1.0))


def paired(real, imaginary):
    if isinstance(real, (list, tuple)):
        return [Complex(a, b) for a, b in zip(real, imaginary)]
    return Complex(real, imaginary)


@row("complex")
def complex_of(t, real, imaginary):
    return Complex(as_value(t, real), as_value(t, imaginary))


@row("real", "imag")
def half(t, x):
    return x.parts[t.node.target._opname == "imag"] if isinstance(x, Complex) else x


@row("conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj")
def conjugate(t, x):
    if not isinstance(x, Complex) or t.node.target._opname == "resolve_conj":
        return x
    return Complex(x.parts[0], scale(t, as_value(t, x.parts[1]), -1.0))


def length(t, x):
    """Of zero there is no gradient."""
    squares = [v.like(t.graph.add("pow", [v.node], exponent=2)) for v in (as_value(t, part) for part in x.parts)]
    y = two(t, "add", *squares)
    y = y.like(t.graph.add("clip", [y.node], min=1e-30))
    return y.like(t.graph.add("sqrt", [y.node]))


# ---- Fourier transforms ----

def angles(rows, columns, size):
    """Of the product of two places, of a circle of `size`."""
    places = torch.outer(torch.arange(rows), torch.arange(columns)) % size
    turned = places.double() * (2 * math.pi / size)
    return turned.cos().float(), turned.sin().float()


def along(t, x, dim, matrix):
    """The product of an axis with a matrix; None stands for zeros."""
    if x is None:
        return None
    x = as_value(t, x)
    order = [i for i in range(len(x.dims)) if i != dim] + [dim]
    y = matmul(t, x.like(dims=[x.dims[i] for i in order]), matrix)
    return y.like(dims=[y.dims[order.index(i)] for i in range(len(order))])


def sum_of(t, a, b, kind="add"):
    if a is None or b is None:
        return a if b is None else b if kind == "add" else scale(t, b, -1.0)
    return two(t, kind, a, b)


def transformed(t, parts, dim, forward, count=None):
    """One axis of real and imaginary parts; `count`: how many of the frequencies are wanted."""
    n = parts[0].shape[dim]
    cosines, sines = angles(n, n if count is None else count, n)
    sines = -sines if forward else sines
    real, imaginary = parts
    return (sum_of(t, along(t, real, dim, cosines), along(t, imaginary, dim, sines), "sub"),
            sum_of(t, along(t, real, dim, sines), along(t, imaginary, dim, cosines)))


def normal(t, parts, size, how):
    """By PyTorch's number: nothing, or by the root of how many there are, or by how many."""
    by = {0: 1.0, 1: size ** -0.5, 2: 1.0 / size}[how]
    return [scale(t, x, by) for x in parts]


def sizes_of(x, dims):
    x = x.parts[0] if isinstance(x, Complex) else x
    return math.prod(int(x.shape[d]) for d in dims)


@row("_fft_r2c")
def of_reals(t, x, dims, how, half_of):
    x = as_value(t, x)
    dims = [d % len(x.dims) for d in dims]
    size, last = sizes_of(x, dims), dims[-1]
    parts = transformed(t, (x, None), last, True, x.shape[last] // 2 + 1 if half_of else None)
    for d in dims[:-1]:
        parts = transformed(t, parts, d, True)
    return Complex(*normal(t, parts, size, how))


@row("_fft_c2c")
def of_complex(t, x, dims, how, forward):
    parts = x.parts if isinstance(x, Complex) else (as_value(t, x), None)
    dims = [d % len(parts[0].shape) for d in dims]
    size = sizes_of(x, dims)
    for d in dims:
        parts = transformed(t, parts, d, forward)
    return Complex(*normal(t, parts, size, how))


@row("_fft_c2r")
def to_reals(t, x, dims, how, n):
    """Frequencies but the first and the middle one are there for two."""
    parts = x.parts
    dims = [d % len(parts[0].shape) for d in dims]
    last = dims[-1]
    size = sizes_of(x, dims[:-1]) * n
    for d in dims[:-1]:
        parts = transformed(t, parts, d, False)
    have = parts[0].shape[last]
    if have > n // 2 + 1:
        parts = [picked(t, as_value(t, p), last, list(range(n // 2 + 1))) for p in parts]
        have = n // 2 + 1
    cosines, sines = angles(have, n, n)
    twice = torch.tensor([1.0 if 2 * k in (0, n) else 2.0 for k in range(have)])[:, None]
    y = two(t, "sub", along(t, parts[0], last, twice * cosines), along(t, parts[1], last, twice * sines))
    return normal(t, [y], size, how)[0]
