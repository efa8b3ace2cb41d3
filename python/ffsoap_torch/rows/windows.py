"""Convolutions, pooling, enlarging.  SPDX-License-Identifier: Apache-2.0"""
import torch

from . import row
from .. import Refused
from ..layout import Value, fresh
from ..operands import as_value, moved, picked, whole
from ..values import Param
from .products import biased, einsum, trained, weight_of


def image(t, x, axes=None):
    """[N, C, ...] as windows want it."""
    x = whole(t, as_value(t, x))
    if x.dims[0] != [t.batch] or (axes and len(x.dims) != axes + 2):
        raise Refused("takes images that are not one a sample: its first axis must be that of samples")
    return t.graph.arranged(x, x.canonical())


def made(t, node, shape):
    groups = [[t.batch], *(fresh(int(n)) for n in shape[1:])]
    return Value(node, groups, [list(g) for g in groups])


def short(numbers, axes, preset):
    """One number where all are alike, none where that is the preset."""
    numbers = [numbers] * axes if isinstance(numbers, int) else [int(n) for n in numbers]
    numbers = numbers * axes if len(numbers) == 1 else numbers
    if all(n == numbers[0] for n in numbers):
        return numbers[0] if numbers[0] != preset else None
    return numbers


def convolved(t, op, x, w, bias, channels, **attributes):
    w = trained(t, w)
    params = {"weight": weight_of(t, w, w.shape)}
    own = isinstance(bias, Param) and len(bias.shape) == 1
    if own:
        params["bias"] = weight_of(t, bias, bias.shape)
    axes = len(w.shape) - 2
    node = t.add(f"{op}{axes}d", [x.node], params=params, out_channels=channels,
                 kernel=short(w.shape[2:], axes, None), bias=None if own else False, **attributes)
    y = made(t, node, t.shape())
    if own or bias is None:
        return y
    return biased(t, y, by_channels(bias, axes))


def by_channels(bias, axes):
    shape = [-1] + [1] * axes
    if isinstance(bias, Param):
        return bias.moved(bias.places().reshape(shape))
    return bias.reshape(shape) if isinstance(bias, torch.Tensor) else bias


def each(numbers, axes):
    """A number an axis."""
    numbers = [numbers] if isinstance(numbers, int) else [int(n) for n in numbers]
    return numbers * axes if len(numbers) == 1 else numbers


def by_windows(t, x, w, bias, stride, widths, dilation, groups, sizes):
    """A convolution by a kernel that is computed, as of weight_norm: windows are copied, and multiplied by it.
    `widths`: of zeros, before and behind, by axis."""
    from .moving import padded
    kernel, axes, w = w.shape[2:], len(w.shape) - 2, as_value(t, w)
    x = padded(t, image(t, x, axes), [n for pair in widths[::-1] for n in pair], "constant", 0.0)
    for i, (n, k, step, apart) in enumerate(zip(sizes, kernel, each(stride, axes), each(dilation, axes))):
        x = picked(t, x, 2 + 2 * i, [o * step + j * apart for o in range(n) for j in range(k)])
        x = moved(t, x, [*x.shape[:2 + 2 * i], n, k, *x.shape[3 + 2 * i:]])
    inner = "".join(a + b for a, b in zip("xyz", "uvw"[:axes]))
    x = moved(t, x, [x.shape[0], groups, w.shape[1], *x.shape[2:]])
    w = moved(t, w, [groups, w.shape[0] // groups, *w.shape[1:]])
    y = einsum(t, f"ngc{inner},gfc{'uvw'[:axes]}->ngf{'xyz'[:axes]}", [x, w])
    y = moved(t, y, [y.shape[0], groups * y.shape[2], *y.shape[3:]])
    return biased(t, y, None if bias is None else by_channels(bias, axes))


def by_spread_windows(t, x, w, bias, stride, padding, output_padding, groups, dilation):
    """The same of a transposed one: zeros between elements, the kernel from behind, inputs for outputs."""
    from .moving import padded
    axes, kernel, w = len(w.shape) - 2, w.shape[2:], as_value(t, w)
    x, widths = image(t, x, axes), []
    for i, (k, step, pad, more, apart) in enumerate(zip(kernel, *(each(v, axes) for v in (
            stride, padding, output_padding, dilation)))):
        n, reach = x.shape[2 + i], apart * (k - 1) - pad
        if reach < 0:
            raise Refused("has a kernel that is computed, and cuts more than the kernel adds")
        if step > 1:
            x = padded(t, x, [0, 0] * (axes - 1 - i) + [0, 1], "constant", 0.0)
            x = picked(t, x, 2 + i, [n if j % step else j // step for j in range((n - 1) * step + 1)])
        w = picked(t, w, 2 + i, list(range(k))[::-1])
        widths.append((reach, reach + more))
    w = moved(t, w, [groups, w.shape[0] // groups, *w.shape[1:]])
    w = w.like(dims=[w.dims[i] for i in (0, 2, 1, *range(3, 3 + axes))])
    w = moved(t, w, [groups * w.shape[1], *w.shape[2:]])
    return by_windows(t, x, w, bias, 1, widths, dilation, groups, t.shape()[2:])


@row("conv1d", "conv2d", "conv3d")
def conv(t, x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    axes = len(w.shape) - 2
    if padding == "valid":
        padding = 0
    if padding == "same":
        dil = short(dilation, axes, None)
        dil = [dil] * axes if isinstance(dil, int) else dil
        total = [d * (k - 1) for d, k in zip(dil, w.shape[2:])]
        padding = [n // 2 for n in total] + [n - n // 2 for n in total]
        pad = padding if any(n % 2 for n in total) else short(padding[:axes], axes, 0)
    else:
        pad = short(padding, axes, 0)
    if trained(t, w) is None:
        before = each(pad or 0, axes)
        widths = list(zip(before[:axes], before[-axes:]))
        return by_windows(t, x, w, bias, stride, widths, dilation, groups, t.shape()[2:])
    return convolved(t, "conv", image(t, x, axes), w, bias, w.shape[0], stride=short(stride, axes, 1), pad=pad,
                     dilation=short(dilation, axes, 1), groups=groups if groups != 1 else None)


@row("convolution")
def convolution(t, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        return conv_transpose(t, x, w, bias, stride, padding, output_padding, groups, dilation)
    return conv(t, x, w, bias, stride, padding, dilation, groups)


@row("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(t, x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    axes = len(w.shape) - 2
    if trained(t, w) is None:
        return by_spread_windows(t, x, w, bias, stride, padding, output_padding, groups, dilation)
    return convolved(t, "conv_transpose", image(t, x, axes), w, bias, w.shape[1] * groups,
                     stride=short(stride, axes, 1), pad=short(padding, axes, 0),
                     output_pad=short(output_padding, axes, 0), dilation=short(dilation, axes, 1),
                     groups=groups if groups != 1 else None)


def pooled(t, mode, x, kernel, stride, padding, ceil, count=True, axes=2):
    x = image(t, x, axes)
    shape = t.node.meta["val"]
    shape = (shape[0] if isinstance(shape, (tuple, list)) else shape).shape
    node = t.add(f"pool{axes}d", [x.node], mode="avg" if mode == "avg" else None, kernel=short(kernel, axes, None),
                 stride=short(stride, axes, None) if stride else None, pad=short(padding, axes, 0),
                 ceil=ceil or None, count_pad=None if count else False)
    return made(t, node, shape)


def _axes(t):
    return int(next(c for c in t.node.target._opname if c.isdigit()))


@row("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices",
     "max_pool1d_with_indices")
def max_pool(t, x, kernel, stride=(), padding=0, dilation=1, ceil=False):
    axes = _axes(t)
    if short(dilation, axes, 1):
        raise Refused("pools windows with gaps")
    y = pooled(t, "max", x, kernel, stride, padding, ceil, axes=axes)
    return [y, None] if "indices" in t.node.target._opname else y


@row("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(t, x, kernel, stride=(), padding=0, ceil=False, count=True, divisor=None):
    if divisor:
        raise Refused("divides by a number of its own")
    return pooled(t, "avg", x, kernel, stride, padding, ceil, count, _axes(t))


@row("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
     "_adaptive_avg_pool3d")
def adaptive_avg_pool(t, x, size):
    axes = _axes(t)
    sizes = t.shape()[2:]
    if all(n == 1 for n in sizes) and x.dims[0] == [t.batch]:
        from .reductions import reduce
        return reduce(t, "reduce_mean", x, list(range(2, 2 + axes)), True)
    x = image(t, x, axes)
    if x.shape[2:] == sizes:
        return x
    return made(t, t.add("adaptive_pool", [x.node], size=sizes), t.shape())


@row("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(t, x, size):
    axes = _axes(t)
    sizes = [int(n) for n in t.node.meta["val"][0].shape[2:]]
    if all(n == 1 for n in sizes):
        from .reductions import reduce
        return [reduce(t, "reduce_max", x, list(range(2, 2 + axes)), True), None]
    have = x.shape[2:]
    if any(n % m for n, m in zip(have, sizes)):
        raise Refused("takes the largest of uneven shares")
    return [pooled(t, "max", x, [n // m for n, m in zip(have, sizes)], (), 0, False, axes=axes), None]


@row("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d",
     "upsample_trilinear3d")
def upsample(t, x, size=None, *rest, **__):
    x = image(t, x, _axes(t))
    linear = "linear" in t.node.target._opname
    sizes = t.shape()[2:]
    factors = rest[-1] if rest and isinstance(rest[-1], (list, tuple)) else None
    if factors and any(abs(n * f - m) > 1e-6 for n, f, m in zip(x.shape[2:], factors, sizes)):
        raise Refused("enlarges by factors that make no whole sizes")
    corners = bool(rest[0]) if linear and rest and isinstance(rest[0], bool) else False
    node = t.add("upsample", [x.node], size=sizes, mode="linear" if linear else None,
                 align_corners=corners or None)
    return made(t, node, t.shape())


@row("pixel_shuffle")
def pixel_shuffle(t, x, r):
    """Channels to places: atoms alone move."""
    from ..operands import moved
    n, c, h, w = x.shape
    x = moved(t, x, [n, c // r // r, r, r, h, w])
    x = x.like(dims=[x.dims[i] for i in (0, 1, 4, 2, 5, 3)])
    return moved(t, x, t.shape())
