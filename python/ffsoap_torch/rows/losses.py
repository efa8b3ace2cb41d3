"""Losses.  SPDX-License-Identifier: Apache-2.0"""
import torch

from . import row
from .. import Refused
from ..layout import Value, size_of, unify
from ..operands import as_value, whole
from ..values import Loss

MEAN, SUM = 1, 2


def target_of(t, x):
    if not isinstance(x, Value) or x.node not in t.inputs:
        raise Refused("compares with what is computed; targets are inputs")
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
    if reduction != MEAN:
        raise Refused("is no mean")
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
    return Loss([(node, 1.0)])


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


@row("mse_loss", "binary_cross_entropy_with_logits")
def point_loss(t, x, target, *rest, **named):
    mse = t.node.target._opname == "mse_loss"
    reduction = named.get("reduction", (rest[0] if mse else rest[2]) if len(rest) > (0 if mse else 2) else MEAN)
    if reduction != MEAN:
        raise Refused("is no mean")
    if any(isinstance(v, (torch.Tensor, Value)) for v in [*rest, *named.values()]):
        raise Refused("weighs elements")
    if isinstance(x, Value) and x.node in t.inputs and isinstance(target, Value) and mse:
        x, target = target, x
    target = target_of(t, target)
    if target.whole:
        raise Refused("compares with integers")
    x, target = matched(t, whole(t, as_value(t, x)), target)
    x = t.graph.arranged(x, target.axes)
    return Loss([(t.add("mse" if mse else "bce_with_logits", [x.node, target.node]), 1.0)])

