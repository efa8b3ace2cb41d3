"""Integers that are put together of inputs and known ones, as labels that are shifted, or words that are hidden: what
somebody makes of each integer is put together alike.  SPDX-License-Identifier: Apache-2.0
"""
import torch

from ..layout import Value, flat, fresh, unify, view
from ..operands import as_value, moved, picked
from ..values import Composed, Mask

MOVES = ("view", "reshape", "_unsafe_view", "flatten", "slice", "select", "unsqueeze", "squeeze")
KEEPS = ("clone", "alias", "contiguous", "detach", "_to_copy", "to", "lift_fresh_copy")


def is_integers(x):
    return isinstance(x, Composed) or isinstance(x, Value) and x.whole or isinstance(
        x, torch.Tensor) and not x.is_floating_point() and x.dtype != torch.bool


def made(t, name, args):
    """Integers that the current node puts together; None: it does not."""
    want = t.node.meta.get("val")
    if not isinstance(want, torch.Tensor) or want.is_floating_point() or want.dtype == torch.bool:
        return None
    old = isinstance(args[0], Composed)
    if old and name in KEEPS:
        return args[0]
    if old and name in MOVES:
        return moved_as(t, name, *args)
    makes = {"cat": joined, "where": either, "masked_fill": lambda t, x, mask, value: either(t, mask, value, x),
             "constant_pad_nd": padded, "pad": padded, "slice_scatter": over, "select_scatter": over, "copy": copied}
    given = [y for x in args for y in (x if isinstance(x, (list, tuple)) else [x])]
    if name not in makes or not any(isinstance(x, Composed) or isinstance(x, Value) and x.whole and not t.truth(x)
                                    for x in given):
        return None
    return makes[name](t, *args)


def shape_of(x):
    return [int(n) for n in x.shape]


def piece(x, dim, places):
    """Part of integers along an axis, which nothing is made for yet."""
    if isinstance(x, torch.Tensor):
        return x.index_select(dim, torch.tensor(places, dtype=torch.long))
    shape = shape_of(x)
    if places == list(range(shape[dim])):
        return x
    if isinstance(x, Composed) and x.kind == "cat" and x.how == dim:
        parts, start = [], 0
        for part in x.parts:
            n = shape_of(part)[dim]
            mine = [p - start for p in places if start <= p < start + n]
            start += n
            parts += [piece(part, dim, mine)] if mine else []
        if places == sorted(places):
            return parts[0] if len(parts) == 1 else Composed("cat", parts, dim, with_size(shape, dim, len(places)))
    return Composed("pick", [x], (dim, places), with_size(shape, dim, len(places)))


def with_size(shape, dim, n):
    return [n if i == dim else m for i, m in enumerate(shape)]


def joined(t, parts, dim=0):
    if not all(is_integers(x) for x in parts):
        return None
    dim %= len(t.shape())
    if t.shape()[dim] != sum(shape_of(x)[dim] for x in parts):
        return None
    return Composed("cat", [x for x in parts if x.shape[dim]], dim, t.shape())


def either(t, mask, a, b):
    if not all(is_integers(x) or isinstance(x, int) or isinstance(x, torch.Tensor) and x.numel() == 1 for x in (a, b)):
        return None
    a, b = (of_all_samples(t, torch.as_tensor(x).long()) if isinstance(x, (int, torch.Tensor)) else x for x in (a, b))
    return Composed("where", [a, b], mask, t.shape())


def of_all_samples(t, x):
    """Known integers that are the same for each sample, once."""
    alike = x.dim() == len(t.shape()) > 0 and x.shape[0] == t.batch.size and bool((x == x[:1]).all())
    return x[:1] if alike else x


def padded(t, x, widths, mode="constant", value=0):
    if isinstance(mode, (int, float)):
        mode, value = "constant", mode
    if mode != "constant":
        return None
    for i in range(len(widths) // 2):
        dim = len(x.shape) - 1 - i
        shape, ends = shape_of(x), widths[2 * i:2 * i + 2]
        x = piece(x, dim, list(range(max(0, -ends[0]), shape[dim] - max(0, -ends[1]))))
        ends = [torch.full(with_size(shape_of(x), dim, n), int(value or 0)) if n > 0 else None for n in ends]
        parts = [y for y in (ends[0], x, ends[1]) if y is not None]
        x = parts[0] if len(parts) == 1 else Composed("cat", parts, dim, with_size(shape, dim, sum(
            shape_of(y)[dim] for y in parts)))
    return x


def over(t, x, source, dim=0, start=None, end=None, step=1):
    shape = t.shape()
    dim %= len(shape)
    n = shape[dim]
    if t.node.target._opname == "select_scatter":
        start, step = start % n, 1
        end = start + 1
        source = source.unsqueeze(dim) if isinstance(source, torch.Tensor) else Composed(
            "view", [source], None, with_size(shape, dim, 1))
    places = list(range(n))[slice(start, None if end is None else min(end, n), step)]
    if step != 1 or not is_integers(source):
        return None
    ends = [piece(x, dim, list(r)) for r in (range(places[0]), range(places[-1] + 1, n))]
    parts = [y for y in (ends[0], source, ends[1]) if y.shape[dim]]
    return parts[0] if len(parts) == 1 else Composed("cat", parts, dim, shape)


def copied(t, x, source, non_blocking=False):
    return source if is_integers(source) and shape_of(source) == t.shape() else None


def moved_as(t, name, x, *args):
    if name == "slice":
        dim, start, end, step = [*args, *(0, None, None, 1)[len(args):]]
        dim, n = dim % len(x.shape), x.shape[dim]
        return piece(x, dim, list(range(n))[slice(start, None if end is None else min(end, n), step)])
    if name == "select":
        dim = args[0] % len(x.shape)
        x = piece(x, dim, [args[1] % x.shape[dim]])
    return Composed("view", [x], None, t.shape())


# ---- what is made of them ----

def of_each(t, x, function):
    """What a function makes of integers, whose axes come first."""
    if not isinstance(x, Composed):
        return function(x)
    parts = [of_each(t, y, function) for y in x.parts]
    rank = len(x.shape)
    if x.kind == "where":
        return chosen(t, x, parts)
    values = [value_of(t, y) for y in parts]
    if x.kind == "cat":
        from .moving import concat
        return as_kind(parts, concat(t, [spread(v, y, x.how) for v, y in zip(values, x.parts)], x.how))
    if x.kind == "pick":
        return as_kind(parts, picked(t, values[0], *x.how))
    rest = values[0].shape[len(shape_of(x.parts[0])):]
    return as_kind(parts, moved(t, values[0], x.shape[:rank] + rest))


def value_of(t, x):
    x = as_value(t, x.float() if isinstance(x, torch.Tensor) else x)
    return Value(x.node, x.axes, x.dims) if isinstance(x, Mask) else x


def as_kind(parts, made):
    return Mask.of(made) if any(isinstance(x, Mask) or isinstance(x, torch.Tensor) and x.dtype == torch.bool
                                for x in parts) else made


def spread(value, ints, dim):
    """A part of which all elements along the axis are alike has as many."""
    n = shape_of(ints)[dim]
    return value if value.shape[dim] == n else value.like(
        dims=[fresh(n) if i == dim else d for i, d in enumerate(value.dims)])


def chosen(t, x, parts):
    """By the condition, which has no more axes than the integers."""
    from .masks import chosen as by_mask, mask_of
    from .pointwise import two
    more = max(len(value_of(t, y).shape) - len(shape_of(i)) for y, i in zip(parts, x.parts))
    mask, a, b = x.how, *(value_of(t, y) for y in parts)
    if isinstance(mask, torch.Tensor):
        keep = mask.float().reshape([*mask.shape, *[1] * more])
        return as_kind(parts, two(t, "add", two(t, "mul", a, keep), two(t, "mul", b, 1 - keep)))
    mask = mask_of(t, mask)
    mask = mask.like(dims=[*mask.dims, *[[]] * more])
    return as_kind(parts, by_mask(t, mask, a, b))


def numbers(t, x):
    """As numbers, for whoever computes with them."""
    from .masks import numbers as of_input
    return of_each(t, x, lambda y: y.float() if isinstance(y, torch.Tensor) else of_input(t, y))


def used(t, name, args, kwargs):
    """An operator that reads each integer by itself; None: it reads them as numbers."""
    from .masks import compare_with
    from . import ROWS
    which = next((i for i, x in enumerate(args) if isinstance(x, Composed)), None)
    if name == "embedding" and which == 1:
        return of_each(t, args[1], lambda y: ROWS[name](t, args[0], y, *args[2:], **kwargs))
    if name == "one_hot":
        classes = args[1] if len(args) > 1 else -1

        def ones(y):
            known = not isinstance(y, Value)
            return torch.nn.functional.one_hot(y, classes).float() if known else ROWS[name](t, y, classes)
        return of_each(t, args[0], ones) if classes > 0 else None
    if name == "gather" and which == 2 and not isinstance(args[0], torch.Tensor):
        for y in inputs_of(args[2]):
            t.classes(y, args[0].shape[args[1]])
    other = args[1 - which] if which is not None and len(args) == 2 else None
    if name in ("eq", "ne", "lt", "le", "gt", "ge") and not isinstance(other, (Value, Composed)) and which == 0 and (
            not isinstance(other, torch.Tensor) or other.numel() == 1):
        say = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}[name]
        return of_each(t, args[0], lambda y: compare_with(t, name, y, other) if isinstance(y, Value) else say(y, other))
    if name in ("cross_entropy_loss", "nll_loss_nd", "nll_loss") and which == 1:
        found = labels_of(t, args[0], args[1], args[4] if len(args) > 4 else kwargs.get("ignore_index", -100))
        return found and ROWS[name](t, found[0], found[1], *args[2:], **kwargs)
    return None


def inputs_of(x):
    return [x] if isinstance(x, Value) else [y for part in x.parts for y in inputs_of(part)] if isinstance(
        x, Composed) else []


def labels_of(t, x, labels, ignored):
    """Of labels of which some are known and do not count, and the others lie in an input: these, and the logits there;
    None: they are put together in another way."""
    inner = labels
    while isinstance(inner, Composed) and inner.kind == "view":
        inner = inner.parts[0]
    if not isinstance(inner, Composed) or inner.kind != "cat":
        return None
    given = [y for y in inner.parts if not isinstance(y, torch.Tensor)]
    if len(given) != 1 or any(bool((y != ignored).any()) for y in inner.parts if isinstance(y, torch.Tensor)):
        return None
    start = sum(shape_of(y)[inner.how] for y in inner.parts[:[y is given[0] for y in inner.parts].index(True)])
    own = given[0]
    if isinstance(own, Composed) and own.kind == "pick" and isinstance(own.parts[0], Value):
        own = t.part_of_input(own.parts[0], *own.how)
    if not isinstance(own, Value):
        return None
    frame = Value("", [], [d if i != inner.how else fresh(inner.shape[i]) for i, d in enumerate(own.dims)])
    regrouped = view(frame, labels.shape)
    x = as_value(t, x)
    classes = 1 if len(x.dims) > 1 else 0
    others = [d for i, d in enumerate(x.dims) if i != classes]
    names = regrouped and unify(flat(regrouped.dims), flat(others))
    if not names or any(names[0][a] != [a] for a in flat(frame.dims)):
        return None
    x = x.renamed(names[1])
    x = x.like(dims=[frame.dims[0], x.dims[classes], *frame.dims[1:]])
    n = shape_of(own)[inner.how]
    return picked(t, x, inner.how + 1, list(range(start, start + n))), own
