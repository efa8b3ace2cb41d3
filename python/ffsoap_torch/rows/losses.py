"""Losses.  SPDX-License-Identifier: Apache-2.0"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value, flat, size_of, unify
from ..operands import as_value, whole
from ..values import Choice, Each
from .pointwise import scale, softplus, two, xlogy
from .reductions import along, reduce

NONE, MEAN, SUM = 0, 1, 2


def reduced(t, node, count, reduction, points):
    """A loss node, which is a mean over `count` elements, by PyTorch's number of a reduction."""
    return by_reduction(Each([(node, 1.0)], count, [(points, 1.0)]), reduction)


def by_reduction(each, reduction):
    return {NONE: each, MEAN: each.mean(), SUM: each.sum()}[reduction]


# ---- of whatever is computed ----

def general(t, x):
    """The mean of anything: of each sample's mean."""
    x = as_value(t, x)
    count, has = math.prod(x.shape), x.has()
    rest = [a for a in flat(x.axes) if not a.samples]
    y = t.graph.arranged(x, [[a for a in flat(x.axes) if a.samples], rest])
    if rest:
        y = y.like(dims=y.axes)
        node = t.graph.add("reduce_mean", [y.node], axes=[1])
        t.graph.lengths[node] = [size_of(rest)]
    else:
        node = t.graph.arranged(y, [y.axes[0]]).node
    if not has - set(rest):
        raise Refused("is a loss of no sample")
    return Each([(t.add("mean", [node]), 1.0)], count, [(lambda: x, 1.0)])


def by_value(t, kind, loss, value):
    """A loss times or by a number that is computed: its elements are."""
    if not loss.summed:
        raise Refused("computes with a loss; losses are added up, each times a number")
    parts = [general(t, two(t, kind, make(), value)).sum().times(factor) for make, factor in loss.summed]
    found = parts[0]
    for part in parts[1:]:
        found = found.plus(part)
    return found


def number_of(t, loss):
    """A loss as a number that every sample has, for whoever computes with it."""
    from .pairs import of_batch
    if isinstance(loss, Each):
        loss = loss.mean() if loss.count == 1 else loss
    if isinstance(loss, Each) or not loss.summed:
        raise Refused("computes with a loss; losses are added up, each times a number")
    found = None
    for make, factor in loss.summed:
        x = as_value(t, make())
        sampled = any(a.samples for a in flat(x.dims))
        x = of_batch(t, "reduce_sum", x, range(len(x.dims))) if sampled else reduce(t, "reduce_sum", x, None)
        x = scale(t, x, factor)
        found = x if found is None else two(t, "add", found, x)
    return found


def value_of(t, each):
    """By element, for what is no mean or sum of losses alone."""
    parts = [scale(t, make(), factor) for make, factor in each.points]
    found = parts[0]
    for part in parts[1:]:
        found = two(t, "add", found, part)
    return found


def is_target(t, x):
    return isinstance(x, Value) and x.node in t.inputs


def target_of(t, x):
    if not is_target(t, x):
        raise Refused("compares with classes that are no input")
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
    classes = 1 if len(x.dims) > 1 else 0
    if isinstance(labels, torch.Tensor) and not labels.is_floating_point():
        return of_known_labels(t, x, classes, labels, weight, reduction, ignore_index, label_smoothing)
    if isinstance(labels, torch.Tensor) or not labels.whole and len(labels.dims) == len(x.dims):
        return of_probabilities(t, x, classes, labels, weight, reduction, label_smoothing)
    if isinstance(labels, Choice):
        return of_choice(t, x, classes, labels, weight, reduction, label_smoothing)
    labels = target_of(t, labels)

    def points(x=x, labels=labels):
        return of_labels(t, along(t, "log_softmax", x, classes), classes, labels, weight, ignore_index, label_smoothing)
    if set(flat(labels.dims)) - labels.has() and weight is None:  # as one for several heads
        weight = torch.ones(x.shape[classes])
    if weight is not None:
        return by_weights(t, points(), labels, weight, ignore_index, reduction)
    x, labels = matched_labels(x, classes, labels)
    t.classes(labels, size_of(x.dims[-1]))
    logits = t.graph.arranged(x, [[t.batch], x.dims[-1], *labels.axes[1:]])
    node = t.add("softmax_cross_entropy", [logits.node, labels.node],
                 ignore_index=int(ignore_index) if ignore_index != -1 else None,
                 label_smoothing=float(label_smoothing) or None)
    if reduction != MEAN:
        t.note(f"{node} is the mean over labels that are not ignored, times a number that is known: PyTorch's differs "
               "if labels are ignored")
    return reduced(t, node, math.prod(labels.shape), reduction, points)


def by_weights(t, x, labels, weight, ignore_index, reduction):
    """The mean is by what the weights of a batch's labels add up to."""
    t.classes(labels, len(weight))
    each = general(t, x)
    if reduction != MEAN:
        return by_reduction(each, reduction)
    where = t.node.all_input_nodes[[t.values[n] is labels for n in t.node.all_input_nodes].index(True)]

    def told(ids):
        return torch.where(ids == ignore_index, 0.0, weight.double()[ids.clamp(0, len(weight) - 1)])
    x = as_value(t, two(t, "div", x, t.batch_sum(where, told)))
    if set(flat(labels.dims)) - labels.has():
        return general(t, x).sum()
    x, labels = matched(t, whole(t, x), labels)
    count = math.prod(labels.shape)
    x = t.graph.arranged(x, labels.axes)
    node = t.add("mean", [x.node, labels.node], ignore_index=int(ignore_index) if ignore_index != -1 else None)
    return Each([(node, float(count))], count, [(lambda: x, float(count))]).mean()


def of_labels(t, x, classes, labels, weight, ignore_index, smoothing=0.0):
    """Of logarithms of probabilities the labels', by ones where a class is the label."""
    from .masks import ones_at
    x = x.like(dims=[*(d for i, d in enumerate(x.dims) if i != classes), x.dims[classes]])
    count, last = x.shape[-1], len(x.dims) - 1
    ones = ones_at(t, labels, count)
    if 0 <= ignore_index < count:
        ones = two(t, "mul", ones, (torch.arange(count) != ignore_index).float())
    if smoothing:
        counts = reduce(t, "reduce_sum", ones, [last], True)
        ones = two(t, "add", scale(t, ones, 1 - smoothing), scale(t, counts, smoothing / count))
    if weight is not None:
        ones = two(t, "mul", ones, weight)
    return scale(t, reduce(t, "reduce_sum", two(t, "mul", x, ones), [last]), -1.0)


def of_known_labels(t, x, classes, labels, weight, reduction, ignore_index, smoothing):
    """As of every sample beside all of the batch, of which it is itself the label."""
    from .pairs import ones_of_labels
    if len(x.dims) != 2 or weight is not None:
        raise Refused("compares with labels that are known of parts of a sample")
    ones, count = ones_of_labels(t, labels, x.shape[classes], ignore_index)
    each = of_probabilities(t, x, classes, ones, None, NONE, smoothing)
    return by_reduction(each.times(len(labels) / count) if reduction == MEAN else each, reduction)


def of_choice(t, x, classes, labels, weight, reduction, smoothing):
    """As what a network itself is surest of."""
    from .choices import ones_of
    if size_of(labels.classes) != x.shape[classes] or weight is not None and reduction == MEAN:
        raise Refused("compares with places that are chosen of others, or that weights divide by")
    ones = ones_of(labels)
    ones = ones.like(dims=[*ones.dims[:classes], ones.dims[-1], *ones.dims[classes:-1]])
    return of_probabilities(t, x, classes, ones, weight, reduction, smoothing)


def of_probabilities(t, x, classes, labels, weight, reduction, smoothing):
    x = along(t, "log_softmax", x, classes)
    count = x.shape[classes]
    if smoothing:
        labels = two(t, "add", two(t, "mul", labels, 1 - smoothing), smoothing / count)
    if weight is not None:
        labels = two(t, "mul", labels, weight.reshape([-1] + [1] * (len(x.dims) - 1 - classes)))
    each = general(t, scale(t, reduce(t, "reduce_sum", two(t, "mul", x, labels), [classes]), -1.0))
    return by_reduction(each, reduction)


@row("nll_loss_nd", "nll_loss", "nll_loss2d")
def nll_loss(t, x, labels, weight=None, reduction=MEAN, ignore_index=-100):
    """Of logarithms of probabilities.  They are their own log_softmax, so that this is the cross entropy of what
    they were made of."""
    x = as_value(t, x)
    made = t.graph.find(x.node)
    dim = 1 if len(x.dims) > 1 else 0
    if made["op"] != "log_softmax" or x.dims[dim] != x.axes[made.get("axis", 1)]:
        points = of_labels(t, x, dim, target_of(t, labels), weight, ignore_index)
        return by_weights(t, points, labels, torch.ones(x.shape[dim]) if weight is None else weight, ignore_index,
                          reduction)
    return cross_entropy(t, x.like(made["in"][0]), labels, weight, reduction, ignore_index)


@row("binary_cross_entropy")
def binary_cross_entropy(t, x, target, weight=None, reduction=MEAN):
    """Of probabilities that a sigmoid has made: that of its logits."""
    x = as_value(t, x)
    made = t.graph.find(x.node)
    if made["op"] != "sigmoid":
        return by_reduction(general(t, of_shares(t, x, target, weight)), reduction)
    return logistic_loss(t, x.like(made["in"][0]), target, weight, None, reduction)


def of_shares(t, x, target, weight):
    """Logarithms are -100 at least, as PyTorch has them."""
    def log(y):
        y = y.like(t.graph.add("clip", [y.node], min=1e-38))
        y = y.like(t.graph.add("log", [y.node]))
        return y.like(t.graph.add("clip", [y.node], min=-100.0))
    other = two(t, "mul", log(scale(t, x, -1.0, 1.0)), two(t, "sub", 1, target))
    y = scale(t, two(t, "add", two(t, "mul", log(x), target), other), -1.0)
    return y if weight is None else two(t, "mul", y, weight)


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


@row("log_sigmoid_forward")
def log_sigmoid(t, x):
    return [scale(t, softplus(t, scale(t, as_value(t, x), -1.0)), -1.0), None]


@row("binary_cross_entropy_with_logits")
def logistic_loss(t, x, target, weight=None, pos_weight=None, reduction=MEAN):
    if weight is None and pos_weight is None:
        return by_points(t, "bce_with_logits", x, target, reduction)
    x = as_value(t, x)
    up, of_ones = softplus(t, scale(t, x, -1.0)), target
    if pos_weight is not None:
        of_ones = two(t, "mul", target, pos_weight)
        up = two(t, "mul", two(t, "add", two(t, "sub", of_ones, target), 1), up)
    y = two(t, "add", two(t, "mul", two(t, "sub", 1, target), x), up)
    return by_reduction(general(t, y if weight is None else two(t, "mul", y, weight)), reduction)


def at_points(t, op, x, target):
    """What the loss is at every element."""
    if op == "bce_with_logits":
        x = as_value(t, x)
        return two(t, "sub", softplus(t, x), two(t, "mul", x, target))
    apart = as_value(t, two(t, "sub", x, target))
    if op == "mse":
        return apart.like(t.graph.add("pow", [apart.node], exponent=2))
    apart = apart.like(t.graph.add("abs", [apart.node]))
    if op == "l1":
        return apart
    near = apart.like(t.graph.add("clip", [apart.node], max=1.0))
    half = scale(t, near.like(t.graph.add("pow", [near.node], exponent=2)), 0.5)
    return two(t, "add", half, two(t, "sub", apart, near))


@row("kl_div")
def kl_div(t, x, target, reduction=MEAN, log_target=False):
    if log_target:
        target = as_value(t, target) if not isinstance(target, torch.Tensor) else target
        shares = target.exp() if isinstance(target, torch.Tensor) else target.like(t.graph.add("exp", [target.node]))
        y = two(t, "mul", two(t, "sub", target, x), shares)
    else:
        y = two(t, "sub", xlogy(t, target, target), two(t, "mul", target, x))
    return by_reduction(general(t, y), reduction)


def by_points(t, op, x, target, reduction, unit=1.0):
    def points(x=x, target=target):
        far, to = (two(t, "div", v, unit) for v in (x, target)) if unit != 1 else (x, target)
        return at_points(t, op, far, to)
    of_apart = op != "bce_with_logits"
    if isinstance(x, Value) and x.node in t.inputs and isinstance(target, Value) and of_apart:
        x, target = target, x
    known = isinstance(target, Value) and target.node in t.inputs
    if of_apart and (unit != 1 or not known) and isinstance(target, Value) and not target.whole:
        x, target = by_difference(t, x, target, unit)
    if not is_target(t, target) or target.whole or set(flat(target.dims)) - target.has():
        return by_reduction(general(t, points()), reduction)
    predicted, target = matched(t, whole(t, as_value(t, x)), target)
    predicted = t.graph.arranged(predicted, target.axes)
    node = t.add(op, [predicted.node, target.node])
    return reduced(t, node, math.prod(target.shape), reduction, points)


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
    return Each([(t.add(loss, [computed, target]), factor)], math.prod(x.shape), [(lambda: x, 1.0)])
