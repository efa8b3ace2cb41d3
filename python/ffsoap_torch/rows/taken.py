"""What a condition takes out of tensors, as the tokens that chose an expert or the places that are trained: nobody
knows how many.  All are computed, and where they go to, or are added up, those that the condition leaves out count
nothing.
SPDX-License-Identifier: Apache-2.0
"""
import inspect
import math

import torch

from . import ROWS, row
from .. import Refused
from ..layout import Atom, Value, flat, fresh, size_of
from ..operands import as_value, is_number, moved, number
from ..values import Each, Mask, Param, Places
from .masks import mask_of, opposite, plain
from .pointwise import scale, two
from .reductions import reduce

# What each element of the list is computed by itself in, besides functions of elements.
APART = ("linear", "addmm", "mm", "bmm", "matmul", "einsum", "layer_norm", "native_layer_norm", "rms_norm", "view",
         "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "permute", "transpose", "t",
         "expand", "clone", "alias", "contiguous", "detach", "_to_copy", "to", "dropout", "native_dropout", "embedding",
         "one_hot", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full",
         "where", "index", "index_put", "index_put_", "index_add", "gelu", "broadcast_tensors")
# What goes along axes that are said behind the tensor.
ALONG = ("softmax", "_softmax", "log_softmax", "_log_softmax", "sum", "mean", "amax", "amin", "max", "min", "logsumexp",
         "linalg_vector_norm", "var", "topk", "argmax", "select", "slice", "split", "chunk", "unbind", "gather",
         "split_with_sizes", "narrow")
REDUCTIONS = {"mse_loss": 2, "l1_loss": 2, "smooth_l1_loss": 2, "huber_loss": 2, "cross_entropy_loss": 3,
              "nll_loss_nd": 3, "nll_loss": 3, "binary_cross_entropy": 3, "binary_cross_entropy_with_logits": 4,
              "kl_div": 2}
OF_PLACES = ("index", "index_put", "index_put_", "index_add", "select", "unbind", "squeeze", "view", "reshape",
             "flatten", "clone", "alias")


SHAPED = ("view", "reshape", "_unsafe_view", "unflatten", "expand", "zeros", "ones", "full", "empty", "new_zeros",
          "new_ones", "new_full", "new_empty", "sym_size", "sym_numel")


def symbols(meta):
    """Of a tensor's shape the axes of which the size is not known."""
    return {} if not isinstance(meta, torch.Tensor) else {
        i: n.node.expr for i, n in enumerate(meta.shape) if isinstance(n, torch.SymInt)}


def listed(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def told(node):
    """The shape that PyTorch knows."""
    return node.meta.get("told", node.meta.get("val"))


class Taken:
    """Sizes that are not known, by the condition that they are of: its value, and its node."""

    def __init__(self, t):
        self.t, self.of, self.sizes, self.lengths = t, {}, {}, {}

    def found_out(self, node, made):
        """What is known says sizes that torch.export does not know."""
        value = node.meta.get("val")
        for x, want in zip(listed(made), listed(value)):
            for axis, expr in symbols(want).items():
                if expr.is_Symbol and expr not in self.sizes:
                    self.lengths[expr] = int(x.shape[axis])
        self.with_lengths(node)
        return made

    def settle(self, node, args):
        """As many as there could be, in the place of how many there are."""
        value = self.with_lengths(node)
        made = value if isinstance(value, (list, tuple)) else [value]
        if not any(symbols(x) for x in made):
            if isinstance(value, torch.SymInt):
                node.meta = dict(node.meta, told=value)
            return
        for symbol in {s for x in made for e in symbols(x).values() for s in e.free_symbols} - set(self.sizes):
            at, mask = condition(node, args)
            if mask is None:
                raise Refused("has as many elements as data say")
            mask = holds(self.t, mask)
            self.of[symbol], self.sizes[symbol] = (mask, at), math.prod(mask.shape)
        settled = [x if not isinstance(x, torch.Tensor) else torch.empty(
            [self.size(n) for n in x.shape], dtype=x.dtype, device="meta") for x in made]
        node.meta = dict(node.meta, told=value, val=settled if isinstance(value, (list, tuple)) else settled[0])

    def with_lengths(self, node):
        """What a node makes, with the sizes that were found out."""
        value = node.meta.get("val")

        def known(x):
            if not symbols(x) or any(e.free_symbols - set(self.lengths) for e in symbols(x).values()):
                return x
            return torch.empty([self.size(n) for n in x.shape], dtype=x.dtype, device="meta")
        if self.lengths:
            value = [known(x) for x in value] if isinstance(value, (list, tuple)) else known(value)
            node.meta = dict(node.meta, val=value)
        return value

    def size(self, n):
        if not isinstance(n, torch.SymInt):
            return int(n)
        return int(n.node.expr.subs(self.sizes).subs(self.lengths))

    def number(self, node):
        """Of a node that computes with sizes."""
        made = node.meta.get("val")
        return self.size(made) if isinstance(made, torch.SymInt) and made.node.expr.free_symbols <= set(
            self.sizes) else None

    def call(self, node, name, args, kwargs):
        """An operator of which an operand was taken out; None: as any other."""
        given = [found for found in map(symbols, map(told, node.all_input_nodes)) if found]
        if not given or name in ("index_put", "index_put_", "index_add"):
            return None
        at = REDUCTIONS.get(name)
        if at and len(args) > at and args[at] == 0 and not symbols(told(node)):  # whose shape torch.export forgets
            node.meta = dict(node.meta, told=told(node.args[1]), val=node.args[1].meta["val"])
        made = told(node)
        left = [made] if isinstance(made, torch.Tensor) else made if isinstance(made, (list, tuple)) else []
        left = {s for x in left for e in symbols(x).values() for s in e.free_symbols}
        lost = {s for found in given for e in found.values() for s in e.free_symbols} - left
        if lost and (name in REDUCTIONS or name in ("sum", "mean")):
            return self.summed(name, args, kwargs, lost)
        by_element = torch.Tag.pointwise in node.target.tags
        if lost or not (by_element or name in APART or name in REDUCTIONS or name in ALONG):
            raise Refused("computes with all that a condition leaves of a tensor")
        if name in ALONG:
            axes = args[1] if len(args) > 1 and name not in ("topk", "split", "chunk", "split_with_sizes") else (
                args[2] if len(args) > 2 else 0 if name.startswith(("split", "chunk")) else -1)
            rank = len(told(node.args[0]).shape)
            axes = [a % rank for a in (axes if isinstance(axes, (list, tuple)) else [axes])] if axes is not None else []
            if set(axes) & set(symbols(told(node.args[0]))):
                raise Refused("goes along all that a condition leaves of a tensor")
        return None

    def summed(self, name, args, kwargs, lost):
        """A sum over what is taken out, or its mean, whose divisor is how many that is in the batch."""
        t, node = self.t, self.t.node
        if len(lost) > 1 or told(node).dim():
            raise Refused("adds up parts of what a condition leaves of a tensor")
        mask, at = self.of[next(iter(lost))]
        if name in REDUCTIONS:
            bound = inspect.signature(ROWS[name]).bind(t, *args, **kwargs)
            mean = bound.arguments.get("reduction", 1) == 1
            bound.arguments["reduction"] = 0
            x = ROWS[name](*bound.args, **bound.kwargs)
        else:
            x, mean = args[0], name == "mean"
        from .losses import general, value_of
        x = as_value(t, value_of(t, x) if isinstance(x, Each) else x)
        axis = next(iter(symbols(told(node.args[0]))))
        if name in ("cross_entropy_loss", "nll_loss_nd", "nll_loss"):  # whose classes are gone
            axis = 0
        keep = [[] for _ in x.dims]
        keep[axis] = flat(mask.dims[i] for i in samples_first(mask))
        found = general(t, two(t, "mask" if mask.computed else "mul", x, plain(mask).like(dims=keep))).sum()
        if not mean:
            return found
        rest = math.prod(n for i, n in enumerate(x.shape) if i != axis)
        from .losses import by_value
        return by_value(t, "div", found, scale(t, t.batch_sum(at), float(rest)))


def check_sizes(node, name):
    """How many a condition leaves may only be a size."""
    if name not in SHAPED and any(isinstance(told(n), (torch.SymInt, torch.SymFloat, torch.SymBool))
                                  for n in node.all_input_nodes):
        raise Refused("computes with how many elements a condition leaves")


def condition(node, args):
    """Of what takes elements out the condition: its node and its value."""
    name = getattr(node.target, "_opname", "")
    if name in ("where", "nonzero", "nonzero_numpy"):
        return node.args[0], args[0]
    if name == "masked_select":
        return node.args[1], args[1]
    if name == "index":
        for at, x in zip(node.args[1], args[1]):
            if isinstance(x, Value) and at.meta["val"].dtype == torch.bool:
                return at, x
    return None, None


def samples_first(mask):
    return sorted(range(len(mask.dims)), key=lambda i: not any(a.samples for a in mask.dims[i]))


def holds(t, x):
    """A condition, or numbers that are not zero."""
    from .masks import compare_with, of_reals
    return compare_with(t, "ne", x, 0) if of_reals(x) else mask_of(t, x)


def places_of(t, mask):
    mask = holds(t, mask)
    return [Places(mask, i) for i in range(len(mask.dims))]


@row("nonzero", "nonzero_numpy")
def nonzero(t, mask):
    mask = holds(t, mask)
    return places_of(t, mask) if t.node.target._opname == "nonzero_numpy" else Places(mask, None)


@row("masked_select")
def masked_select(t, x, mask):
    return index(t, x, [mask])


def of_places(t, name, args):
    """An operator of places themselves."""
    x = args[0]
    if name in ("clone", "alias"):
        return x
    if name == "select" and x.axis is None and args[1] in (1, -1):
        return Places(x.mask, args[2] % len(x.mask.dims))
    if name == "unbind" and x.axis is None:
        return places_of(t, x.mask)
    if name in ("squeeze", "view", "reshape", "flatten") and (x.axis is not None or len(x.mask.dims) == 1):
        return Places(x.mask, 0 if x.axis is None else x.axis)
    raise Refused("computes with places where a condition holds")


def spelled(t, indices):
    """By axis of the tensor, places; a mask is of as many axes as it has."""
    found, axis = {}, 0
    for x in indices:
        if isinstance(x, Places):
            found[axis] = x
        elif x is not None:
            mask = mask_of(t, x)
            found.update((axis + i, p) for i, p in enumerate(places_of(t, mask)))
            axis += len(mask.dims) - 1
        axis += 1
    masks = [p.mask for p in found.values()]
    if any(p.axis is None for p in found.values()) or any(
            m is not masks[0] and m.node != masks[0].node for m in masks[1:]):
        raise Refused("takes elements at places of several kinds")
    return found


def is_taken(indices):
    return any(isinstance(x, (Places, Mask)) or isinstance(x, Value) and x.whole for x in indices) and not any(
        isinstance(x, torch.Tensor) for x in indices)


def index(t, x, indices):
    """All elements, in the condition's order."""
    used = spelled(t, indices)
    mask = next(iter(used.values())).mask
    if isinstance(x, torch.Tensor):
        if bool((x == x.reshape(-1)[:1]).all()):
            return x.reshape(-1)[0].expand(t.shape())
        at = [mask.dims[used[i].axis] if i in used else [] for i in range(x.dim())]
        x = as_value(t, x, at)
    x = as_value(t, x) if isinstance(x, Param) or not isinstance(x, Value) else x
    if any(x.shape[a] != mask.shape[p.axis] for a, p in used.items()):
        raise Refused("takes elements by a condition of another shape")
    rows = []
    for j in samples_first(mask):
        axis = next((a for a, p in used.items() if p.axis == j), None)
        rows += [Atom(a.size, a.samples) for a in mask.dims[j]] if axis is None and not any(
            a.samples for a in mask.dims[j]) else mask.dims[j] if axis is None else x.dims[axis]
    first = min(used) if max(used) - min(used) + 1 == len(used) else 0
    rest = [d for a, d in enumerate(x.dims) if a not in used]
    return x.like(dims=[*rest[:first], rows, *rest[first:]])


@row("index_put", "index_put_")
def index_put(t, x, indices, values, accumulate=False):
    if not is_taken(indices):
        raise Refused("writes at places that are computed, or known")
    return written(t, x, spelled(t, indices), values, accumulate)


def written(t, x, used, values, adds):
    """Values in the condition's order to where they are from; those that it leaves out count nothing."""
    mask = next(iter(used.values())).mask
    order, rank = samples_first(mask), len(t.shape())
    axis_of = {p.axis: a for a, p in used.items()}
    others = [j for j in order if j not in axis_of]  # along which there are several for one
    at = [[]] * len(others) + [mask.dims[used[a].axis] if a in used else [] for a in range(rank)]
    keep = plain(mask).like(dims=[mask.dims[j] for j in others] + at[len(others):])
    if is_number(values):
        parts, factor = keep, number(values)
    else:
        parts, factor = arranged(t, values, mask, order, used, others, rank), 1.0
        parts = two(t, "mask" if mask.computed else "mul", parts, keep)
    axes = list(range(len(others)))
    found = scale(t, reduce(t, "reduce_sum", parts, axes) if axes else parts, factor)
    if isinstance(x, torch.Tensor) and not bool(x.any()):
        return spread(t, found)
    if adds:
        return two(t, "add", found, x)
    taken = reduce(t, "reduce_max", keep, axes) if axes else keep
    left = opposite(t, Mask.of(taken))
    return two(t, "add", two(t, "mul", x, plain(left)), found)


def arranged(t, values, mask, order, used, others, rank):
    """Values [..., places, ...] with the condition's axes: those along which there are several first."""
    first = min(used) if max(used) - min(used) + 1 == len(used) else 0
    rest = [a for a in range(rank) if a not in used]
    x = as_value(t, values, None if not isinstance(values, torch.Tensor) else [
        *([[]] * first), flat(mask.dims[j] for j in order)])
    x = x.like(dims=[[]] * (len(rest) + 1 - len(x.dims)) + x.dims)
    if x.shape[first] == 1:
        by_mask = [[] for _ in order]
    else:
        x = moved(t, x, [*x.shape[:first], *(mask.shape[j] for j in order), *x.shape[first + 1:]])
        by_mask = x.dims[first:first + len(order)]
    places = dict(zip(order, by_mask))
    left = x.dims[:first] + x.dims[len(x.dims) - (len(rest) - first):] if len(rest) > first else x.dims[:first]
    dims = dict(zip(rest, left))
    return x.like(dims=[*(places[j] for j in others), *(
        places[used[a].axis] if a in used else dims[a] for a in range(rank))])


def spread(t, x):
    """With as many elements as PyTorch has along axes that nothing was said of."""
    return x.like(dims=[d if size_of(d) == n else fresh(n) for d, n in zip(x.dims, t.shape())])
