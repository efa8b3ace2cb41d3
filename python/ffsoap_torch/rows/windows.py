"""Convolutions, pooling, enlarging.  SPDX-License-Identifier: Apache-2.0"""
import torch

from . import row
from .. import Refused
from ..layout import Value, flat, fresh, size_of
from ..operands import as_value, moved, picked, whole
from ..values import Param
from .pointwise import scale, two
from .products import biased, einsum, trained, weight_of


class Images:
    """What windows go over, [N, C, ...].  If PyTorch's first axis has more than samples, as of frames, that is an axis
    before the others, and a window's size along it is one; if it has none, as of what is known of places, all samples
    have the same."""

    def __init__(self, t, x, axes=None):
        if isinstance(x, torch.Tensor) and x.shape[0] == t.batch.size and bool((x == x[:1]).all()):
            x = as_value(t, x[:1])
            x = x.like(dims=[[t.batch], *x.dims[1:]])
        x = whole(t, as_value(t, x))
        first = x.dims[0]
        self.more = [a for a in first if not a.samples]
        self.sampled = len(self.more) < len(first)
        if any(a.samples for a in self.more + flat(x.dims[1:])) or self.sampled and not first[0].samples or (
                axes and len(x.dims) != axes + 2):
            raise Refused("takes images that are not one a sample: its first axis must be that of samples")
        self.t, self.size = t, [size_of(self.more)] if self.more else []
        if axes and axes + len(self.size) > 3:
            raise Refused("takes volumes of which a sample has several")
        x = x.like(dims=[[t.batch], x.dims[1], *([self.more] if self.more else []), *x.dims[2:]])
        self.x = t.graph.arranged(x, x.canonical())

    def lead(self, numbers, preset):
        """A number an axis, before them that of what is no axis in PyTorch; of paddings perhaps all before and all
        behind."""
        ahead = [preset] * len(self.size)
        axes = len(self.x.dims) - 2 - len(ahead)
        numbers = each(numbers, axes)
        numbers = [n for i in range(0, len(numbers), axes) for n in ahead + numbers[i:i + axes]]
        return short(numbers, axes + len(ahead), preset)

    def made(self, node, shape):
        """The node's value, with PyTorch's axes."""
        groups = [[self.t.batch], *(fresh(int(n)) for n in [shape[1], *self.size, *shape[2:]])]
        ahead = 2 + len(self.size)
        first = ([self.t.batch] if self.sampled else []) + flat(groups[2:ahead])
        return Value(node, groups, [first, list(groups[1]), *(list(g) for g in groups[ahead:])])


def image(t, x, axes=None):
    """Images that are one a sample."""
    found = Images(t, x, axes)
    if found.more or not found.sampled:
        raise Refused("takes images that are not one a sample: its first axis must be that of samples")
    return found.x


def short(numbers, axes, preset):
    """One number where all are alike, none where that is the preset."""
    numbers = [numbers] * axes if isinstance(numbers, int) else [int(n) for n in numbers]
    numbers = numbers * axes if len(numbers) == 1 else numbers
    if all(n == numbers[0] for n in numbers):
        return numbers[0] if numbers[0] != preset else None
    return numbers


def convolved(t, op, images, w, bias, channels, **attributes):
    w = trained(t, w)
    axes, ahead = len(w.shape) - 2, [1] * len(images.size)
    params = {"weight": weight_of(t, w, [*w.shape[:2], *ahead, *w.shape[2:]])}
    own = isinstance(bias, Param) and len(bias.shape) == 1
    if own:
        params["bias"] = weight_of(t, bias, bias.shape)
    node = t.add(f"{op}{axes + len(ahead)}d", [images.x.node], params=params, out_channels=channels,
                 kernel=short([*ahead, *w.shape[2:]], axes + len(ahead), None), bias=None if own else False,
                 **attributes)
    y = images.made(node, t.shape())
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
    `widths`: of zeros, before and behind, by axis.  With an axis more than that, filters are of each sample its own."""
    from .moving import padded
    axes, w = len(sizes), as_value(t, w)
    outputs, inputs, *kernel = w.shape[-axes - 2:]
    own = w.shape[:-axes - 2]
    x = padded(t, image(t, x, axes), [n for pair in widths[::-1] for n in pair], "constant", 0.0)
    for i, (n, k, step, apart) in enumerate(zip(sizes, kernel, each(stride, axes), each(dilation, axes))):
        x = picked(t, x, 2 + 2 * i, [o * step + j * apart for o in range(n) for j in range(k)])
        x = moved(t, x, [*x.shape[:2 + 2 * i], n, k, *x.shape[3 + 2 * i:]])
    inner = "".join(a + b for a, b in zip("xyz", "uvw"[:axes]))
    x = moved(t, x, [x.shape[0], groups, inputs, *x.shape[2:]])
    w = moved(t, w, [*own, groups, outputs // groups, inputs, *kernel])
    y = einsum(t, f"ngc{inner},{'n' if own else ''}gfc{'uvw'[:axes]}->ngf{'xyz'[:axes]}", [x, w])
    y = moved(t, y, [y.shape[0], groups * y.shape[2], *y.shape[3:]])
    return biased(t, y, None if bias is None else by_channels(bias, axes))


def by_own_filters(t, x, w, bias, stride, widths, dilation, groups):
    """Filters of each sample its own, as people write them: samples by groups of channels of one image."""
    n = t.batch.size
    if groups % n:
        raise Refused("has filters of samples that are no groups")
    x = moved(t, as_value(t, x), [n, x.shape[1] // n, *x.shape[2:]])
    w = moved(t, w, [n, w.shape[0] // n, *w.shape[1:]])
    if bias is not None:
        bias = moved(t, as_value(t, bias), [n, w.shape[1], *[1] * len(widths)])
    y = by_windows(t, x, w, None, stride, widths, dilation, groups // n, t.shape()[2:])
    return moved(t, biased(t, y, bias), t.shape())


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
        total = [d * (k - 1) for d, k in zip(each(dilation, axes), w.shape[2:])]
        padding = [n // 2 for n in total] + [n - n // 2 for n in total]
        padding = padding if any(n % 2 for n in total) else padding[:axes]
    if trained(t, w) is None:
        before = each(padding, axes)
        widths = list(zip(before[:axes], before[-axes:]))
        if isinstance(w, Value) and w.dims[0][:1] == [t.batch] and len(x.shape) == axes + 2 and x.shape[0] == 1:
            return by_own_filters(t, x, w, bias, stride, widths, dilation, groups)
        return by_windows(t, x, w, bias, stride, widths, dilation, groups, t.shape()[2:])
    images = Images(t, x, axes)
    return convolved(t, "conv", images, w, bias, w.shape[0], stride=images.lead(stride, 1),
                     pad=images.lead(padding, 0), dilation=images.lead(dilation, 1),
                     groups=groups if groups != 1 else None)


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
    images = Images(t, x, axes)
    return convolved(t, "conv_transpose", images, w, bias, w.shape[1] * groups, stride=images.lead(stride, 1),
                     pad=images.lead(padding, 0), output_pad=images.lead(output_padding, 0),
                     dilation=images.lead(dilation, 1), groups=groups if groups != 1 else None)


def pooled(t, mode, x, kernel, stride, padding, ceil, count=True, axes=2):
    images = Images(t, x, axes)
    shape = t.node.meta["val"]
    shape = (shape[0] if isinstance(shape, (tuple, list)) else shape).shape
    step = images.lead(stride or kernel, 1)
    node = t.add(f"pool{axes + len(images.size)}d", [images.x.node], mode="avg" if mode == "avg" else None,
                 kernel=images.lead(kernel, 1) or 1, stride=(step or 1) if stride or images.size else None,
                 pad=images.lead(padding, 0), ceil=ceil or None, count_pad=None if count else False)
    return images.made(node, shape)


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
    if all(n == 1 for n in sizes):
        from .reductions import reduce
        return reduce(t, "reduce_mean", x, list(range(2, 2 + axes)), True)
    if list(x.shape[2:]) == sizes:
        return x
    images = Images(t, x, axes)
    return images.made(t.add("adaptive_pool", [images.x.node], size=images.size + sizes), t.shape())


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
    images = Images(t, x, _axes(t))
    linear = "linear" in t.node.target._opname
    sizes = t.shape()[2:]
    factors = rest[-1] if rest and isinstance(rest[-1], (list, tuple)) else None
    if factors and any(abs(n * f - m) > 1e-6 for n, f, m in zip(list(x.shape)[2:], factors, sizes)):
        raise Refused("enlarges by factors that make no whole sizes")
    corners = bool(rest[0]) if linear and rest and isinstance(rest[0], bool) else False
    node = t.add("upsample", [images.x.node], size=images.size + sizes, mode="linear" if linear else None,
                 align_corners=corners or None)
    return images.made(node, t.shape())


@row("grid_sampler", "grid_sampler_2d")
def grid_sample(t, x, grid, mode=0, padding=0, corners=False):
    """Between the four neighbours of places that are computed: of every place a share of every pixel, which is one less
    what it is away, along both axes."""
    if mode or padding > 1 or len(x.shape) != 4:
        raise Refused("samples pictures in another way than bilinear, with zeros or the border around")
    x, grid, shares = as_value(t, x), as_value(t, grid), []
    for i, n in ((1, x.shape[2]), (0, x.shape[3])):
        at = picked(t, grid, 3, [i])
        at = scale(t, at, (n - 1) / 2, (n - 1) / 2) if corners else scale(t, at, n / 2, (n - 1) / 2)
        if padding:
            at = at.like(t.graph.add("clip", [at.node], min=0, max=n - 1))
        apart = two(t, "sub", at, torch.arange(n, dtype=torch.float32))
        near = scale(t, apart.like(t.graph.add("abs", [apart.node])), -1.0, 1.0)
        shares.append(near.like(t.graph.add("relu", [near.node])))
    down, along = shares
    both = two(t, "mul", down.like(dims=[*down.dims, []]), along.like(dims=[*along.dims[:3], [], along.dims[3]]))
    return einsum(t, "nchw,npqhw->ncpq", [x, both])


@row("pixel_shuffle")
def pixel_shuffle(t, x, r):
    """Channels to places: atoms alone move."""
    from ..operands import moved
    n, c, h, w = x.shape
    x = moved(t, x, [n, c // r // r, r, r, h, w])
    x = x.like(dims=[x.dims[i] for i in (0, 1, 4, 2, 5, 3)])
    return moved(t, x, t.shape())
