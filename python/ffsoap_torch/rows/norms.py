"""Norms.  SPDX-License-Identifier: Apache-2.0"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value, flat
from ..operands import as_value, moved, whole
from ..values import Param
from .pointwise import two
from .products import weight_of
from .windows import image


def last(t, x, axes):
    """With the last of PyTorch's axes last in the node."""
    x = as_value(t, x)
    x = whole(t, x, flat(x.dims[-axes:]))
    if x.axes[-axes:] != x.dims[-axes:]:
        x = t.graph.arranged(x, x.canonical())
    if x.axes[-axes:] != x.dims[-axes:]:
        raise Refused("normalises over an axis of one element")
    return x


def affine(t, op, x, weight, bias, **attributes):
    """With the norm's own weight and bias where they are parameters, else behind it."""
    own = isinstance(weight, Param)
    params = {"weight": weight_of(t, weight, weight.shape)} if own else {}
    biased = own and isinstance(bias, Param)
    if biased:
        params["bias"] = weight_of(t, bias, bias.shape)
    if op != "rms_norm":
        attributes["bias"] = None if biased or not own else False
    y = x.like(t.add(op, [x.node], params=params, affine=None if own else False, **attributes))
    if weight is not None and not own:
        y = two(t, "mul", y, weight)
    return y if bias is None or biased else two(t, "add", y, bias)


@row("layer_norm")
def layer_norm(t, x, shape, weight=None, bias=None, epsilon=1e-5, *_):
    x = last(t, x, len(shape))
    return affine(t, "layer_norm", x, weight, bias, axes=len(shape) if len(shape) > 1 else None, epsilon=epsilon)


@row("native_layer_norm")
def native_layer_norm(t, x, shape, weight, bias, epsilon):
    return [layer_norm(t, x, shape, weight, bias, epsilon), None, None]


@row("rms_norm")
def rms_norm(t, x, shape, weight=None, epsilon=None):
    x = last(t, x, len(shape))
    return affine(t, "rms_norm", x, weight, None, axes=len(shape) if len(shape) > 1 else None,
                  epsilon=torch.finfo(torch.float32).eps if epsilon is None else epsilon)


@row("group_norm")
def group_norm(t, x, groups, weight=None, bias=None, epsilon=1e-5, *_):
    x = as_value(t, x)
    if x.dims[0] == [t.batch]:
        x = image(t, x)
        return affine(t, "group_norm", x, weight, bias, groups=groups, epsilon=epsilon)
    # of several images a sample: each group by itself
    shape = x.shape
    x = moved(t, x, [shape[0], groups, math.prod(shape[1:]) // groups])
    x = last(t, x, 1)
    y = moved(t, x.like(t.add("layer_norm", [x.node], affine=False, epsilon=epsilon)), shape)
    return by_channel(t, y, weight, bias)


def by_channel(t, y, weight, bias):
    """Times weight, plus bias, each of the second axis."""
    def channels(v):
        shape = [-1] + [1] * (len(y.dims) - 2)
        return v.moved(v.places().reshape(shape)) if isinstance(v, Param) else (
            v.reshape(shape) if isinstance(v, torch.Tensor) else moved(t, v, [v.shape[0], *shape[1:]]))
    y = y if weight is None else two(t, "mul", y, channels(weight))
    return y if bias is None else two(t, "add", y, channels(bias))


@row("instance_norm")
def instance_norm(t, x, weight, bias, mean, variance, training, momentum, epsilon, *_):
    if not training:
        raise Refused("normalises by running statistics")
    return group_norm(t, x, x.shape[1], weight, bias, epsilon)


@row("_native_batch_norm_legit_functional", "_native_batch_norm_legit")
def batch_norm(t, x, weight, bias, mean, variance, training, momentum=None, epsilon=None):
    if epsilon is None:  # arguments less than others have
        return [unkept_norm(t, x, weight, bias, training), None, None]
    if not training:
        return [frozen_norm(t, x, weight, bias, mean, variance, epsilon), None, None, "kept", "kept"]
    found = whole(t, as_value(t, x))
    x, more = Value(found.node, found.axes, found.dims), [a for a in found.dims[0] if not a.samples]
    if more and found.dims[0][0].samples:  # of several rows or images a sample
        x = x.like(dims=[[t.batch], x.dims[1], more + flat(x.dims[2:])])
    x = image(t, x)
    name = t.stateful.get(t.node.args[3])
    if name is None:  # they are what another norm has made of them
        raise Refused("is called a second time in one step, and a batch norm has one pair of running statistics")
    if not name.endswith(".running_mean"):
        raise Refused("is a batch norm whose statistics are not called running_mean")
    name = name[:-len(".running_mean")]
    own = isinstance(weight, Param)
    params = {"weight": weight_of(t, weight, weight.shape)} if own else {}
    biased = own and isinstance(bias, Param)
    if biased:
        params["bias"] = weight_of(t, bias, bias.shape)
    for kind, tensor in (("running_mean", mean), ("running_var", variance)):
        t.graph.parameter(f"{name}.{kind}", tensor, tensor.shape, kept=True)
    node = t.graph.add("batch_norm", [x.node], name=name, params=params, epsilon=epsilon, momentum=momentum,
                       affine=None if own else False, bias=None if biased or not own else False)
    return [x.like(node, dims=found.dims), None, None, "kept", "kept"]


def unkept_norm(t, x, weight, bias, epsilon):
    """Without running statistics: those of the batch, or of filters."""
    from .reductions import reduce
    x = as_value(t, x)
    others = [i for i in range(len(x.dims)) if i != 1]
    x = two(t, "sub", x, reduce(t, "reduce_mean", x, others, True))
    spread = reduce(t, "reduce_mean", x.like(t.graph.add("pow", [x.node], exponent=2)), others, True)
    spread = spread.like(t.graph.add("scale", [spread.node], offset=epsilon))
    spread = spread.like(t.graph.add("pow", [spread.node], exponent=-0.5))
    return by_channel(t, two(t, "mul", x, spread), weight, bias)


@row("_native_batch_norm_legit_no_training", "batch_norm")
def batch_norm_evaluated(t, x, weight, bias, mean, variance, *rest):
    if t.node.target._opname == "batch_norm":
        raise Refused("is a batch norm without running statistics")
    return [frozen_norm(t, x, weight, bias, mean, variance, rest[-1]), None, None]


def frozen_norm(t, x, weight, bias, mean, variance, epsilon):
    """By statistics that stay: (x - mean) / deviation, times weight, plus bias."""
    def channels(v):
        shape = [-1] + [1] * (len(x.dims) - 2)
        return v.moved(v.places().reshape(shape)) if isinstance(v, Param) else v.reshape(shape)
    y = two(t, "sub", x, channels(mean))
    y = two(t, "mul", y, channels((variance + epsilon).rsqrt()))
    y = y if weight is None else two(t, "mul", y, channels(weight))
    return y if bias is None else two(t, "add", y, channels(bias))
