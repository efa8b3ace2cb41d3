"""What axes of its operands and results an ATen operator can be cut along, under the names of ffsoap's dims.

A rule says of every operand and every result, axis by axis, the dim's name, or None where every device needs
the axis whole.  A dim that an operand lacks, it is read whole by all; a dim that the result lacks, parts are
summands.  An operator without a rule is computed whole by every device, which is always right.

SPDX-License-Identifier: Apache-2.0
"""
import dataclasses

import torch

aten = torch.ops.aten
ATTENTION, CROSS_ENTROPY = "aten.scaled_dot_product_attention", "aten.cross_entropy_loss"


@dataclasses.dataclass
class Axes:
    operands: list
    results: list
    linear: bool = False  # of a sum's summands the results are summands of the result
    whole: tuple = ()     # dims after which the results are whole on every device, though they lack them


def named(rank):
    """ffsoap's names of the axes of a tensor."""
    if rank == 0:
        return []
    return ["sample"] + {1: [], 2: ["feature"], 4: ["channel", "height", "width"]}.get(
        rank, [f"axis{i}" for i in range(1, rank)])


def numbered(rank):
    return (["sample"] + [f"axis{i}" for i in range(1, rank)])[:rank]


def broadcast(names, result, shape):
    """The names of an operand's axes: those of the result, from behind; an axis of one element is read by all."""
    names = names[len(names) - len(shape):]
    result = result[len(result) - len(shape):]
    return [d if n == m else None for d, n, m in zip(names, shape, result)]


def elementwise(node, shapes, result):
    names = named(len(result))
    return Axes([broadcast(names, result, s) for s in shapes], [names])


def unary_linear(node, shapes, result):
    axes = elementwise(node, shapes, result)
    axes.linear = True
    return axes


def grouped(before, after):
    """Pairs of the first axes of runs of axes with as many elements, before and after a reshape."""
    pairs, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        first, a, b = (i, j), before[i], after[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b and i < len(before):
                a, i = a * before[i], i + 1
            elif j < len(after):
                b, j = b * after[j], j + 1
            else:
                return pairs
        pairs.append((first, (i, j)))
    return pairs


def outermost(shape, begin, end):
    """The first axis of a run with more than one element."""
    return next((i for i in range(begin, end) if shape[i] > 1), begin)


def reshape(node, shapes, result):
    before, after = [None] * len(shapes[0]), [None] * len(result)
    for (i, j), (k, m) in grouped(shapes[0], result):
        i, j = outermost(shapes[0], i, k), outermost(result, j, m)
        before[i] = after[j] = named(len(result))[j]
    return Axes([before], [after], linear=True)


def permuted(order):
    def rule(node, shapes, result):
        names, before = named(len(result)), [None] * len(result)
        for i, axis in enumerate(order(node, len(result))):
            before[axis % len(result)] = names[i]
        return Axes([before], [names], linear=True)
    return rule


def swapped(node, rank):
    order = list(range(rank))
    a, b = node.args[1:3] if len(node.args) > 1 else (0, 1)
    order[a], order[b] = order[b], order[a]
    return order


def along(argument, default=0, drops=False):
    """All axes but the one that an argument names."""
    def rule(node, shapes, result):
        rank, given = len(shapes[0]), node.args[argument] if len(node.args) > argument else default
        given = [a % rank for a in (given if isinstance(given, (list, tuple)) else [given])]
        keeps = len(result) == rank
        names = named(rank)
        if drops and not keeps:  # the names of the result's axes
            left = iter(named(len(result)))
            names = [None if i in given else next(left) for i in range(rank)]
        names = [None if i in given else d for i, d in enumerate(names)]
        after = names if keeps else [d for i, d in enumerate(names) if i not in given]
        return Axes([names for _ in shapes], [after])
    return rule


def given_dims(argument, drops=True):
    """`along`, if axes are given: without, all are one's."""
    def rule(node, shapes, result):
        given = node.args[argument] if len(node.args) > argument else None
        if given is None or given == [] or len(shapes) > 1:
            return None
        return along(argument, drops=drops)(node, shapes, result)
    return rule


def sum_of(node, shapes, result):
    """Of all elements each device's sum is a summand."""
    if not result:
        return Axes([named(len(shapes[0]))], [[]])
    return given_dims(1)(node, shapes, result)


def strided(node, shapes, result):
    """unfold: windows along an axis, and what each has behind."""
    axis = node.args[1] % len(shapes[0])
    names = [None if i == axis else d for i, d in enumerate(named(len(result))[:-1])]
    return Axes([names], [names + [None]])


def looked_up(node, shapes, result):
    """Elements by places along an axis, of which there may be fewer along the others, too."""
    axis = node.args[1] % max(len(result), 1)
    places = shapes[1]
    if len(places) != len(result) or len(shapes[0]) != len(result):
        return None
    alike = [len({s[i] for s in (*shapes, result)}) == 1 for i in range(len(result))]
    names = [d if i != axis and same else None for i, (d, same) in enumerate(zip(named(len(result)), alike))]
    return Axes([names for _ in shapes], [names])


def picked(node, shapes, result):
    """index_select: places that are the same for all."""
    names = named(len(result))
    names[node.args[1] % len(result)] = None
    return Axes([names, [None]], [names])


def added_at(node, shapes, result):
    """index_add: rows that are added to those of an axis."""
    axis = node.args[1] % len(result)
    names = [None if i == axis else d for i, d in enumerate(named(len(result)))]
    return Axes([names, [None], names], [names])


def in_pairs(node, shapes, result):
    """Complex numbers as an axis of two, and back."""
    names = named(min(len(result), len(shapes[0])))
    return Axes([names + [None] * (len(shapes[0]) - len(names))], [names + [None] * (len(result) - len(names))])


def einsum(node, shapes, result):
    """By the first letter of the result, if each operand has it once."""
    terms, _, made = node.args[0].replace(" ", "").partition("->")
    terms = terms.split(",")
    if not made or "." in node.args[0] or any(t.count(made[0]) > 1 for t in terms):
        return None
    operands = [["sample" if letter == made[0] else None for letter in t] for t in terms]
    return Axes(operands, [["sample"] + [None] * (len(result) - 1)])


def stacked(node, shapes, result):
    axis = (node.args[1] if len(node.args) > 1 else 0) % len(result)
    names = [None if i == axis else d for i, d in enumerate(named(len(result)))]
    return Axes([[d for i, d in enumerate(names) if i != axis] for _ in shapes], [names])


def repeated(node, shapes, result):
    ahead = len(result) - len(shapes[0])
    names = [d if i >= ahead and n == shapes[0][i - ahead] else None
             for i, (d, n) in enumerate(zip(named(len(result)), result))]
    return Axes([names[ahead:]], [names])


def ones_of(node, shapes, result):
    """one_hot: an axis behind."""
    names = named(len(result))[:-1]
    return Axes([names], [names + [None]])


def triangle(node, shapes, result):
    names = named(len(result))[:-2] + [None, None]
    return Axes([names], [names])


def samples(node, shapes, result):
    """Of each operand and of the result axis 0 is that of samples."""
    alike = all(s and s[0] == shapes[0][0] for s in shapes)
    return Axes([["sample"] + [None] * (len(s) - 1) for s in shapes], [["sample"] + [None] * (
        len(result) - 1)]) if alike and result else None


def indexed(node, shapes, result):
    """What is before and behind the axes that tensors say, if those lie side by side."""
    index = list(node.args[1])
    at = [i for i, x in enumerate(index) if x is not None]
    if not at or at[-1] - at[0] + 1 != len(at) or any(getattr(
            index[i].meta["val"], "dtype", None) in (torch.bool, torch.uint8) for i in at):
        return None
    ahead, behind = at[0], len(shapes[0]) - at[-1] - 1
    names = named(len(result))
    names = [d if i < ahead or i >= len(names) - behind else None for i, d in enumerate(names)]
    before = names[:ahead] + [None] * len(at) + names[len(names) - behind:]
    return Axes([before] + [[None] * len(s) for s in shapes[1:]], [names])


def linear(node, shapes, result):
    lead = numbered(len(result) - 1)
    operands = [lead + ["in_feature"], ["out_feature", "in_feature"], ["out_feature"]]
    return Axes(operands[:len(shapes)], [lead + ["out_feature"]])


def matmul(node, shapes, result):
    lead = numbered(len(result) - 2) or []
    row = "row" if lead else "sample"
    names = lead + [row, "column"]
    if min(map(len, shapes)) < 2:
        return None
    a = broadcast(lead, result[:-2], shapes[0][:-2]) if lead and len(shapes[0]) > 2 else []
    b = broadcast(lead, result[:-2], shapes[1][:-2]) if lead and len(shapes[1]) > 2 else []
    return Axes([a + [row, "inner"], b + ["inner", "column"]], [names])


def embedding(node, shapes, result):
    ids = numbered(len(shapes[1]))
    padding = len(node.args) > 2 and node.args[2] is not None and node.args[2] >= 0
    return Axes([[None if padding else "vocabulary", "feature"], ids], [ids + ["feature"]])


def convolution(node, shapes, result, transposed=False):
    rank, space = len(result), [None] * (len(result) - 2)
    groups = node.args[6] if len(node.args) > 6 else 1
    out, inner = ("out_channel", "in_channel") if groups == 1 else (None, None)
    filters = [inner, out] if transposed else [out, inner]
    operands = [["sample", inner] + space, filters + space, [out]]
    return Axes(operands[:len(shapes)], [["sample", out] + space]) if rank > 2 else None


def conv_transpose(node, shapes, result):
    return convolution(node, shapes, result, transposed=True)


def padded(node, shapes, result):
    """All axes but those behind, which grow."""
    names = named(len(result))
    kept = len(result) - len(node.args[1]) // 2
    names = names[:kept] + [None] * (len(result) - kept)
    return Axes([names], [names])


def windows(node, shapes, result):
    names = ["sample", "channel"] + [None] * (len(result) - 2)
    return Axes([names], [names])


def normalised(node, shapes, result):
    last = len(node.args[1])
    names = numbered(len(result) - last) + [None] * last
    return Axes([names] + [[None] * len(s) for s in shapes[1:]], [names])


def group_norm(node, shapes, result):
    names = ["sample"] + [None] * (len(result) - 1)
    return Axes([names] + [[None] * len(s) for s in shapes[1:]], [names])


def batch_norm(node, shapes, result):
    names = ["sample", "channel"] + named(len(result))[2:] if len(result) != 2 else ["sample", "channel"]
    return Axes([names] + [["channel"]] * (len(shapes) - 1), [names] + [["channel"]] * 4,
                whole=tuple(d for d in names if d != "channel"))


def attention(node, shapes, result):
    if len(result) != 4:
        return None
    names = ["sample", "head", "query", None]
    operands = [names, ["sample", "head", None, None], ["sample", "head", None, None]]
    if len(shapes) > 3:
        operands.append(broadcast(names[:3], result[:3], shapes[3][:-1]) + [None])
    return Axes(operands, [names])


def given_to(node):
    """A node's arguments by name."""
    return dict(zip((a.name for a in node.target._schema.arguments), node.args)) | node.kwargs


def drops(node):
    """Does it draw a mask?"""
    kind = kind_of(node)
    return kind == "aten.native_dropout" or kind == ATTENTION and bool(given_to(node).get("dropout_p"))


def recurrent(node, shapes, result):
    """LSTM and GRU: sequences, states, weights."""
    train, dropout, batch_first = node.args[6], node.args[5], node.args[8]
    if train and dropout:
        return None
    names = ["sample", None, None] if batch_first else [None, "sample", None]
    states = len(node.args[1]) if isinstance(node.args[1], (list, tuple)) else 1
    state = [[None, "sample", None]] * states
    return Axes([names] + state + [[None] * len(s) for s in shapes[1 + states:]], [names] + state)


def dropout(node, shapes, result):
    names = named(len(result))
    return Axes([names], [names, names])


def cross_entropy(node, shapes, result):
    """Also nll_loss; by class where nothing is known of classes but their labels."""
    given = given_to(node)
    kinds, reduction = given.get("weight") is not None, given.get("reduction", 1)
    if len(shapes[0]) < 2 or len(shapes[1]) != len(shapes[0]) - 1 or kinds and reduction != 0:
        return None
    rest = [f"axis{i}" for i in range(2, len(shapes[0]))]
    if len(rest) == 2:
        rest = ["height", "width"]
    by_class = "class" if reduction == 1 and kind_of(node) == CROSS_ENTROPY else None
    operands = [["sample", by_class] + rest, ["sample"] + rest] + [[None]] * kinds
    return Axes(operands, [[] if reduction else ["sample"] + rest], whole=("class",))


def mean_loss(node, shapes, result):
    """Of elements; they are alike, but for weights."""
    if result:
        return elementwise(node, shapes, result)
    names = named(len(shapes[0]))
    if shapes[0] != shapes[1]:
        return None
    return Axes([broadcast(names, shapes[0], s) for s in shapes], [[]])


def rows_of():
    rows = {}

    def put(rule, *names):
        for name in names:
            rows[name] = rule

    put(elementwise, "aten.relu", "aten.gelu", "aten.tanh", "aten.sigmoid", "aten.silu", "aten.hardswish",
        "aten.hardsigmoid", "aten.hardtanh", "aten.leaky_relu", "aten.elu", "aten.exp", "aten.log", "aten.sqrt",
        "aten.rsqrt", "aten.pow", "aten.abs", "aten.erf", "aten.clamp", "aten.add", "aten.sub", "aten.mul",
        "aten.div", "aten.minimum", "aten.maximum", "aten.where", "aten.masked_fill", "aten.cos", "aten.sin",
        "aten.eq", "aten.ne", "aten.lt", "aten.le", "aten.gt", "aten.ge", "aten.logical_and", "aten.logical_or",
        "aten.logical_not", "aten.bitwise_not", "aten.square", "aten.reciprocal", "aten.relu6",
        "aten.softplus", "aten.celu", "aten.log1p", "aten.expm1", "aten.sign", "aten.floor", "aten.ceil", "aten.round",
        "aten.mish", "aten.selu", "aten.log_sigmoid", "aten.softshrink", "aten.hardshrink", "aten.threshold",
        "aten.addcmul", "aten.addcdiv", "aten.lerp", "aten.rsub", "aten.clamp_min", "aten.clamp_max", "aten.atan2",
        "aten.log2", "aten.log10", "aten.exp2", "aten.sinh", "aten.cosh", "aten.tan", "aten.hypot", "aten.logaddexp",
        "aten.xlogy", "aten.bitwise_and", "aten.bitwise_or", "aten.logical_xor", "aten.isnan", "aten.isinf",
        "aten.nan_to_num", "aten.zeros_like", "aten.ones_like", "aten.full_like", "aten.true_divide",
        "aten.floor_divide", "aten.remainder", "aten.trunc", "aten.frac", "aten.erfc", "aten.logit", "aten.copy",
        "aten.type_as", "aten.conj", "aten.real", "aten.imag", "aten.broadcast_tensors", "aten.__or__", "aten.__and__",
        "aten.__xor__", "aten.log_sigmoid_forward")
    put(unary_linear, "aten.clone", "aten.contiguous", "aten.detach", "aten.alias", "aten._to_copy", "aten.to",
        "aten.neg", "aten.lift_fresh_copy")
    put(reshape, "aten.view", "aten.reshape", "aten._unsafe_view", "aten.flatten", "aten.unflatten",
        "aten.unsqueeze", "aten.squeeze")
    put(permuted(swapped), "aten.transpose", "aten.t")
    put(permuted(lambda node, rank: node.args[1]), "aten.permute")
    put(elementwise, "aten.expand")
    put(along(2), "aten.split", "aten.chunk", "aten.split_with_sizes")
    put(along(1), "aten.slice", "aten.cat", "aten.flip", "aten.softmax", "aten.log_softmax", "aten._softmax",
        "aten._log_softmax")
    put(along(1, drops=True), "aten.select", "aten.unbind")
    put(sum_of, "aten.mean", "aten.sum")
    put(given_dims(1), "aten.amax", "aten.amin", "aten.var", "aten.std", "aten.var_mean", "aten.max",
        "aten.min", "aten.argmax", "aten.argmin", "aten.logsumexp", "aten.prod", "aten.any", "aten.all")
    put(given_dims(2), "aten.linalg_vector_norm", "aten.norm")
    put(along(1), "aten.cumsum", "aten.cumprod", "aten.logcumsumexp")
    put(strided, "aten.unfold")
    put(along(1, -1), "aten.glu", "aten.sort", "aten.argsort", "aten._fft_r2c", "aten._fft_c2c", "aten._fft_c2r")
    put(given_dims(2, drops=False), "aten.roll", "aten.repeat_interleave")
    put(along(2, -1), "aten.topk")
    put(looked_up, "aten.gather", "aten.scatter", "aten.scatter_add")
    put(picked, "aten.index_select")
    put(added_at, "aten.index_add")
    put(in_pairs, "aten.view_as_real", "aten.view_as_complex")
    put(einsum, "aten.einsum")
    put(indexed, "aten.index")
    put(stacked, "aten.stack")
    put(repeated, "aten.repeat")
    put(ones_of, "aten.one_hot")
    put(triangle, "aten.tril", "aten.triu")
    put(samples, "aten.pixel_shuffle", "aten.pixel_unshuffle", "aten.channel_shuffle", "aten.im2col", "aten.col2im",
        "aten.grid_sampler", "aten.cdist", "aten.instance_norm")
    put(linear, "aten.linear")
    put(matmul, "aten.matmul", "aten.bmm", "aten.mm")
    put(embedding, "aten.embedding")
    put(convolution, "aten.conv1d", "aten.conv2d", "aten.conv3d")
    put(conv_transpose, "aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d")
    put(padded, "aten.pad", "aten.constant_pad_nd")
    put(windows, "aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d", "aten.avg_pool1d", "aten.avg_pool2d",
        "aten.avg_pool3d", "aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d",
        "aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d", "aten.upsample_linear1d",
        "aten.upsample_bilinear2d", "aten.upsample_trilinear3d")
    put(normalised, "aten.layer_norm", "aten.rms_norm")
    put(group_norm, "aten.group_norm")
    put(batch_norm, "aten._native_batch_norm_legit_functional")
    put(attention, ATTENTION)
    put(recurrent, "aten.lstm", "aten.gru")
    put(dropout, "aten.native_dropout")
    put(cross_entropy, CROSS_ENTROPY, "aten.nll_loss_nd", "aten.nll_loss")
    put(mean_loss, "aten.mse_loss", "aten.l1_loss", "aten.smooth_l1_loss", "aten.huber_loss",
        "aten.binary_cross_entropy_with_logits", "aten.binary_cross_entropy", "aten.kl_div")
    return rows


ROWS = rows_of()


def kind_of(node):
    """`aten.linear` of torch.ops.aten.linear.default."""
    target = node.target
    return f"aten.{target._schema.name.split('::')[1]}" if hasattr(target, "_schema") else str(target)


def is_elementwise(node):
    return ROWS.get(kind_of(node)) in (elementwise, unary_linear)


def axes_of(node, shapes, result):
    """The rule's answer; None: there is none, or none for these arguments."""
    rule = ROWS.get(kind_of(node))
    if rule is None or any(s is None for s in shapes) or not shapes:
        return None
    if any(isinstance(n, torch.SymInt) for s in (*shapes, result or ()) for n in s):  # as many as a condition leaves
        return None
    return rule(node, shapes, result)
