"""What a device computes of a node from its parts of the operands, where that is not the operator itself.

Each row: (run, step, arguments, keywords) -> results; `run` is graph_mode's.  SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch.nn import functional as F

from . import rules
from .moves import largest, local_shape, total


def axes_with(step, dims):
    return [i for i, d in enumerate(step.cut) if d in dims]


def offset(run, step, dim, length):
    """Where this device's part of a dim begins, of `length` elements each."""
    part = 0
    for axis, d in enumerate(step.cut):
        if d == dim:
            part = part * run.sizes[axis] + run.mesh.get_local_rank(axis)
    return part * length


def result_shape(run, step):
    value = step.node.meta["val"]
    return local_shape(value.shape, step.results[0], run.sizes)


def part_of(run, step, whole):
    """This device's, of what lies as the result."""
    for axis, place in enumerate(step.results[0]):
        if place.is_shard():
            whole = whole.chunk(run.sizes[axis], place.dim)[run.mesh.get_local_rank(axis)]
    return whole


def reshape(run, step, args, kwargs):
    return args[0].reshape(result_shape(run, step))


def expand(run, step, args, kwargs):
    return args[0].expand(result_shape(run, step))


def embedding(run, step, args, kwargs):
    weight, ids = args[:2]
    if not axes_with(step, ["vocabulary"]):
        return step.node.target(*args, **kwargs)
    row = ids - offset(run, step, "vocabulary", len(weight))
    mine = (row >= 0) & (row < len(weight))
    return F.embedding(row.where(mine, 0), weight) * mine.unsqueeze(-1)


def dropout(run, step, args, kwargs):
    """Every device draws all of the mask and takes its part, so that it is that of one process."""
    x, p, train = args
    if not train or not p:
        return x, torch.ones_like(x, dtype=torch.bool)
    keep = torch.empty(step.node.meta["val"][0].shape, dtype=x.dtype, device=x.device).bernoulli_(1 - p)
    keep = part_of(run, step, keep)
    return x * (keep / (1 - p)), keep.bool()


def attention(run, step, args, kwargs):
    """A query knows its place among all of them; of what is dropped a device draws all, and takes its part."""
    given = dict(zip((a.name for a in step.node.target._schema.arguments), args)) | kwargs
    query, key = args[:2]
    rows = step.node.meta["val"].shape[:-1]
    if given.get("is_causal") and (given.get("dropout_p") or axes_with(step, ["query"])):
        first = offset(run, step, "query", query.shape[-2])
        seen = torch.ones(rows[-1], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        given |= {"is_causal": False, "attn_mask": seen[first:first + query.shape[-2]]}
    if not given.get("dropout_p"):
        return step.node.target(**given)
    keep = torch.empty(*rows, key.shape[-2], device=query.device).bernoulli_(1 - given["dropout_p"])
    return dropping(part_of(run, step, keep), **given)


def dropping(keep, query, key, value, dropout_p, attn_mask=None, scale=None, enable_gqa=False, is_causal=False):
    """Attention of which a mask is known."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if hidden else scores + attn_mask
    return (scores.softmax(-1) * (keep / (1 - dropout_p)).to(scores.dtype)) @ value


def batch_norm(run, step, args, kwargs):
    """By the statistics of the whole batch: each sum is one over the devices that have the same channels."""
    x, weight, bias, mean_before, var_before, train, momentum, epsilon = args
    if not train:
        return (F.batch_norm(x, mean_before, var_before, weight, bias, False, momentum, epsilon),
                None, None, mean_before, var_before)
    axes = axes_with(step, [d for d in step.cut if d not in (None, "channel")])
    over = [i for i in range(x.dim()) if i != 1]
    shape = [1, -1] + [1] * (x.dim() - 2)
    n = x.numel() // x.shape[1]
    for i in axes:
        n *= run.sizes[i]
    mean = total(x.sum(over), run.mesh, axes) / n
    apart = x - mean.view(shape)
    var = total(apart.square().sum(over), run.mesh, axes) / n
    y = apart * (var + epsilon).rsqrt().view(shape)
    if weight is not None:
        y = y * weight.view(shape)
    if bias is not None:
        y = y + bias.view(shape)
    with torch.no_grad():
        mean_now = (1 - momentum) * mean_before + momentum * mean
        var_now = (1 - momentum) * var_before + momentum * var * n / (n - 1)
    return y, None, None, mean_now, var_now


def cross_entropy(run, step, args, kwargs):
    """Parts by class exchange the largest logit, the sum of exponentials, and the label's own logit."""
    given = rules.given_to(step.node)
    if given.get("reduction", 1) != 1 or given.get("weight") is not None:
        return step.node.target(*args, **kwargs)
    logits, labels = args[:2]
    ignored, smoothing = given.get("ignore_index", -100), given.get("label_smoothing", 0.0)
    by_class = axes_with(step, ["class"])
    classes = step.node.args[0].meta["val"].shape[1]
    highest = largest(logits.amax(1, keepdim=True), run.mesh, by_class)
    apart = logits - highest
    log_sum = total(apart.exp().sum(1), run.mesh, by_class, "whole").log()
    row = labels - offset(run, step, "class", logits.shape[1])
    mine = (row >= 0) & (row < logits.shape[1])
    own = apart.gather(1, row.where(mine, 0).unsqueeze(1)).squeeze(1) * mine
    each = log_sum - (1 - smoothing) * total(own, run.mesh, by_class, "whole")
    if smoothing:
        each = each - smoothing / classes * total(apart.sum(1), run.mesh, by_class, "whole")
    counts = labels != ignored
    others = [i for i, d in enumerate(step.cut) if d not in (None, "class")]
    number = total(counts.sum().float(), run.mesh, others)
    if run.micro_batches > 1 and number < step.node.args[1].meta["val"].numel():
        raise ValueError("a label is to be ignored: micro-batches with different numbers of labels have no common mean")
    return (each * counts).sum() / number


def likelihood(run, step, args, kwargs):
    """nll_loss: a mean over those that count."""
    given = rules.given_to(step.node)
    if given.get("reduction", 1) != 1:
        return step.node.target(*args, **kwargs)
    ignored = given.get("ignore_index", -100)
    number = total((args[1] != ignored).sum().float(), run.mesh, axes_with(step, [d for d in step.cut if d]))
    return F.nll_loss(*args[:2], ignore_index=ignored, reduction="sum") / number


def mean_loss(run, step, args, kwargs):
    if rules.given_to(step.node).get("reduction", 1) != 1:
        return step.node.target(*args, **kwargs)
    whole = step.node.args[0].meta["val"].numel()
    loss = getattr(F, rules.kind_of(step.node).removeprefix("aten."))
    names = [a.name for a in step.node.target._schema.arguments]
    given = {**dict(zip(names[2:], args[2:])), **kwargs, "reduction": "sum"}
    return loss(args[0], args[1], **given) / whole


def sum_of(run, step, args, kwargs):
    """A mean of all elements is a sum of shares."""
    if step.node.meta["val"].dim() or rules.kind_of(step.node) == "aten.sum":
        return step.node.target(*args, **kwargs)
    return args[0].sum(**kwargs) / step.node.args[0].meta["val"].numel()


ROWS = {"aten.embedding": embedding, "aten.native_dropout": dropout, "aten.expand": expand, rules.ATTENTION: attention,
        "aten.mean": sum_of,
        "aten._native_batch_norm_legit_functional": batch_norm, "aten.cross_entropy_loss": cross_entropy,
        "aten.nll_loss_nd": likelihood, "aten.nll_loss": likelihood,
        **{name: mean_loss for name, rule in rules.ROWS.items() if rule is rules.mean_loss},
        **{name: reshape for name, rule in rules.ROWS.items() if rule is rules.reshape}}


# Computed here even where nothing is cut: the mask that is eager PyTorch's; labels that are ignored.
ALWAYS = ("aten.native_dropout", "aten.cross_entropy_loss")


# What PyTorch decomposes others into (cumsum), and which has no backward.
BARE = {torch.ops.prims.sum.default: lambda x, dims, output_dtype=None: x.sum(dims, dtype=output_dtype),
        torch.ops.prims.convert_element_type.default: lambda x, dtype: x.to(dtype)}


def compute(run, step, args, kwargs):
    kind, cut = rules.kind_of(step.node), any(d is not None for d in step.cut)
    if kind in ROWS and run.has_rule(step) and (cut or kind in ALWAYS):
        return ROWS[kind](run, step, args, kwargs)
    return BARE.get(step.node.target, step.node.target)(*args, **kwargs)
