"""Losses.  SPDX-License-Identifier: Apache-2.0"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value, flat, size_of, unify
from ..operands import as_value, whole
from ..values import Each
from .pointwise import scale, two

NONE, MEAN, SUM = 0, 1, 2


def reduced(t, node, count, reduction):
    """A loss node, which is a mean over `count` elements, by PyTorch's number of a reduction."""
    each = Each([(node, 1.0)], count)
    return {NONE: each, MEAN: each.mean(), SUM: each.sum()}[reduction]


def target_of(t, x):
    if isinstance(x, torch.Tensor):
        raise Refused("compares with numbers that are known; targets are inputs")
    if not isinstance(x, Value) or x.node not in t.inputs:
        raise Refused("compares with what is computed, and no input of real numbers has that shape: make the target an "
                      "input")
    return x


def matched(t, x, target):
    """The value with the target's atoms."""
    target_dims = target.dims
    if len(x.dims) != len(target_dims):
        raise Refused("compares tensors of different axes")
    x = x.apart()
    for i in range(len(x.dims)):
        names = unify(target.dims[i], x.dims[i])
        if names is None:
            raise Refused("compares axes that are made of different parts")
        target, x = target.renamed(names[0]), x.renamed(names[1])
    return x, target


@row("cross_entropy_loss")
def cross_entropy(t, x, labels, weight=None, reduction=MEAN, ignore_index=-100, label_smoothing=0.0):
    x = whole(t, as_value(t, x))
    if weight is not None:
        raise Refused("weighs classes")
    labels = target_of(t, labels)
    if not labels.whole:
        raise Refused("has probabilities for labels")
    classes = 1 if len(x.dims) > 1 else 0
    x, labels = matched_labels(x, classes, labels)
    t.classes(labels, size_of(x.dims[-1]))
    x = t.graph.arranged(x, [[t.batch], x.dims[-1], *labels.axes[1:]])
    node = t.add("softmax_cross_entropy", [x.node, labels.node],
                 ignore_index=int(ignore_index) if ignore_index != -1 else None,
                 label_smoothing=float(label_smoothing) or None)
    if reduction != MEAN:
        t.note(f"{node} is the mean over labels that are not ignored, times a number that is known: PyTorch's differs "
               "if labels are ignored")
    return reduced(t, node, math.prod(labels.shape), reduction)


@row("nll_loss_nd", "nll_loss", "nll_loss2d")
def nll_loss(t, x, labels, weight=None, reduction=MEAN, ignore_index=-100):
    """Of logarithms of probabilities.  They are their own log_softmax, so that this is the cross entropy of what
    they were made of."""
    x = as_value(t, x)
    made = t.graph.find(x.node)
    dim = 1 if len(x.dims) > 1 else 0
    if made["op"] != "log_softmax" or x.dims[dim] != x.axes[made.get("axis", 1)]:
        raise Refused("is of what no log_softmax has made")
    return cross_entropy(t, x.like(made["in"][0]), labels, weight, reduction, ignore_index)


@row("binary_cross_entropy")
def binary_cross_entropy(t, x, target, weight=None, reduction=MEAN):
    """Of probabilities that a sigmoid has made: that of its logits."""
    x = as_value(t, x)
    made = t.graph.find(x.node)
    if made["op"] != "sigmoid":
        raise Refused("is of what no sigmoid has made")
    return logistic_loss(t, x.like(made["in"][0]), target, weight, None, reduction)


def matched_labels(x, classes, labels):
    """Logits whose other axes are the labels', classes last."""
    x = x.apart()
    dims = [d for i, d in enumerate(x.dims) if i != classes]
    x = x.like(dims=dims + [x.dims[classes]])
    for i in range(len(dims)):
        names = unify(labels.dims[i], x.dims[i])
        if names is None:
            raise Refused("compares axes that are made of different parts")
        labels, x = labels.renamed(names[0]), x.renamed(names[1])
    return x, labels


@row("mse_loss", "l1_loss")
def point_loss(t, x, target, reduction=MEAN):
    return by_points(t, t.node.target._opname.removesuffix("_loss"), x, target, reduction)


@row("smooth_l1_loss", "huber_loss")
def smooth_l1_loss(t, x, target, reduction=MEAN, beta=1.0):
    """Both are half a square below beta, the operator's below 1; smooth_l1 is one beta-th of huber."""
    if beta <= 0:
        raise Refused(f"is a square below {beta:g}")
    weight = beta * beta if t.node.target._opname == "huber_loss" else beta
    return by_points(t, "smooth_l1", x, target, reduction, beta).times(weight)


@row("binary_cross_entropy_with_logits")
def logistic_loss(t, x, target, weight=None, pos_weight=None, reduction=MEAN):
    if weight is not None or pos_weight is not None:
        raise Refused("weighs elements")
    return by_points(t, "bce_with_logits", x, target, reduction)


def by_points(t, op, x, target, reduction, unit=1.0):
    of_apart = op != "bce_with_logits"
    if isinstance(x, Value) and x.node in t.inputs and isinstance(target, Value) and of_apart:
        x, target = target, x
    known = isinstance(target, Value) and target.node in t.inputs
    if of_apart and (unit != 1 or not known) and isinstance(target, Value) and not target.whole:
        x, target = by_difference(t, x, target, unit)
    target = target_of(t, target)
    if target.whole:
        raise Refused("compares with integers")
    x, target = matched(t, whole(t, as_value(t, x)), target)
    x = t.graph.arranged(x, target.axes)
    node = t.add(op, [x.node, target.node])
    return reduced(t, node, math.prod(target.shape), reduction)


def by_difference(t, x, target, unit):
    """How far apart the two are, beside an input as target, which is added: its numbers do not matter."""
    apart = scale(t, two(t, "sub", x, target), 1.0 / unit)
    beside = next((v for v in t.values.values() if isinstance(v, Value) and not v.whole and v.node in t.inputs
                   and v.shape == apart.shape), None)
    return (x, target) if beside is None else (two(t, "add", apart, beside), beside)


KEEPING = ("reduce_sum", "reduce_mean", "scale", "reshape", "transpose")


def errors(t, x):
    """The mean over all elements of x, if they are squares or absolute values of differences from a target, perhaps
    summed already."""
    if x.has() != set(flat(x.dims)):
        return None
    node, factor = t.graph.find(x.node), 1.0
    while node["op"] in KEEPING and not node.get("offset"):
        factor *= node.get("factor", 1.0)
        if node["op"] == "reduce_sum":
            factor *= math.prod(t.graph.lengths[node["name"]])
        node = t.graph.find(node["in"][0])
    if node["op"] != "abs" and (node["op"] != "pow" or node["exponent"] != 2):
        return None
    loss, node = "l1" if node["op"] == "abs" else "mse", t.graph.find(node["in"][0])
    if node["op"] != "sub" or node["name"] not in t.graph.alike:
        return None
    computed, target = sorted(node["in"], key=lambda name: name in t.inputs)
    if target not in t.inputs or computed in t.inputs:
        return None
    return Each([(t.add(loss, [computed, target]), factor)], math.prod(x.shape))
