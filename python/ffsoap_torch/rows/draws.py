"""What is drawn in every step: dropout, of elements, channels or samples.  SPDX-License-Identifier: Apache-2.0"""
import torch

from . import row
from .. import Refused
from ..layout import fresh
from ..operands import as_value, binary, constant
from ..values import Noise


def drop(t, x, p):
    if not p:
        return x
    if p >= 1:
        raise Refused("drops everything")
    x = as_value(t, x)
    return x.like(t.add("dropout", [x.node], p=float(p)))


@row("dropout", "dropout_")
def dropout(t, x, p, train):
    return drop(t, x, p if train else 0)


@row("native_dropout")
def native_dropout(t, x, p, train):
    return [drop(t, x, p if train is None or train else 0), None]


@row("bernoulli")
def bernoulli(t, x, p=None, generator=None):
    if not isinstance(p, float) or isinstance(p, torch.Tensor):
        raise Refused("draws with probabilities that are computed")
    return Noise(t.shape(), p)


def dropped(t, x, noise):
    """x times noise / keep: of whole samples, or of ones of the noise's shape."""
    p = 1.0 - noise.keep
    if p <= 0:
        return x
    if noise.shape[:1] != [t.batch.size] or x.dims[:1] != [[t.batch]]:
        raise Refused("drops what is not of one sample")
    if all(n == 1 for n in noise.shape[1:]):
        return x.like(t.add("dropout", [x.node], p=round(p, 9), per="sample"))
    ones = constant(t, torch.ones([1, *noise.shape[1:]]))
    dims = [[t.batch], *(fresh(n) for n in noise.shape[1:])]
    ones = t.graph.full(ones.like(dims=dims), [list(d) for d in dims])
    return binary(t, "mul", x, ones.like(t.add("dropout", [ones.node], p=round(p, 9))))


@row("rand", "randn", "rand_like", "randn_like", "randint", "randperm", "normal", "uniform", "alpha_dropout")
def draw(t, *_, **__):
    raise Refused("draws random numbers that are not dropout's: draw them outside and give them as an input")
