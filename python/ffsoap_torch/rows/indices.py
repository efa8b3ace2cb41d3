"""Elements at places: known ones, those of an input, those that are chosen.  SPDX-License-Identifier: Apache-2.0"""
import math

import torch

from . import row
from .. import Refused
from ..layout import Value, flat, size_of
from ..operands import as_value, moved, picked, whole
from ..values import Choice, Param, Places, Rows, Shifted
from .masks import by_ids
from .moving import is_ids


def is_table(x):
    """Rows that are trained, or computed of what no sample has."""
    return len(x.shape) == 2 and (isinstance(x, Param) and x.index is None or isinstance(x, Value) and not x.whole and
                                  not any(a.samples for a in flat(x.dims)))


def is_computed(x):
    """Integers as numbers, as they are computed of others."""
    return isinstance(x, Value) and not x.whole and not isinstance(x, Choice)


def is_shifted(x):
    return isinstance(x, Shifted) and not x.by.dim()


@row("gather")
def gather(t, x, dim, index, sparse_grad=False):
    """At known places, at ones that are chosen; or of numbers that are known, by an input of integers."""
    if isinstance(index, Choice):
        from .choices import taken
        return taken(t, x, dim, index)
    if isinstance(index, torch.Tensor):
        return gathered(t, as_value(t, x), dim % index.dim(), index)
    if isinstance(x, torch.Tensor) and bool((x == x.reshape(-1)[0]).all()):
        return x.reshape(-1)[0].expand(t.shape())
    if is_ids(index) and not isinstance(x, torch.Tensor):
        return at_ids(t, as_value(t, x), dim, index)
    if isinstance(index, Value) and not index.whole and not isinstance(x, torch.Tensor):
        return at_ids(t, as_value(t, x), dim, index)
    if not isinstance(x, torch.Tensor) or x.dim() != 1 or not (is_ids(index) or is_shifted(index)):
        raise Refused("takes elements at places that are computed")
    return by_ids(t, x, index)


def at_ids(t, x, dim, ids):
    """What is computed at places that are an input, or computed: a sum of products with ones."""
    from .masks import ones_at
    from .pointwise import two
    from .reductions import reduce
    dim %= len(x.dims)
    if any(n != m for i, (n, m) in enumerate(zip(x.shape, ids.shape)) if i != dim):
        raise Refused("takes elements of a part of the other axes")
    apart = x.like(dims=[*(d if i != dim else [] for i, d in enumerate(x.dims)), x.dims[dim]])
    return reduce(t, "reduce_sum", two(t, "mul", ones_at(t, ids, x.shape[dim]), apart), [len(x.dims)])


def gathered(t, x, dim, places):
    """The axes along which the places differ, and last the one they are of, become one."""
    rank = places.dim()
    if any(n != m for i, (n, m) in enumerate(zip(x.shape, places.shape)) if i != dim):
        raise Refused("takes elements of a part of the other axes")
    differ = [i for i in range(rank) if i != dim and not bool((places == places.narrow(i, 0, 1)).all())]
    if any(a.samples for i in [*differ, dim] for a in x.dims[i]):
        raise Refused("takes elements along the axis of samples")
    alike = [i for i in range(rank) if i != dim and i not in differ]
    order = [*alike, *differ, dim]
    for i in alike:
        places = places.narrow(i, 0, 1)
    rows = math.prod(x.shape[i] for i in differ)
    found = torch.arange(rows)[:, None] * x.shape[dim] + places.permute(order).reshape(rows, -1)
    y = whole(t, x, flat(x.dims[i] for i in [*differ, dim]))
    y = y.like(dims=[y.dims[i] for i in order])
    y = moved(t, y, [*(x.shape[i] for i in alike), rows * x.shape[dim]])
    y = moved(t, picked(t, y, len(alike), found.reshape(-1).tolist()), [t.shape()[i] for i in order])
    return y.like(dims=[y.dims[order.index(i)] for i in range(rank)])


@row("index")
def index(t, x, indices):
    """By constants: of one axis, or of several neighbours; rows by what is chosen."""
    if len(indices) == 1 and isinstance(indices[0], Choice):
        return Rows(x, indices[0])
    if t.node.meta.get("told") is not None:
        from . import taken
        return taken.index(t, x, indices)
    if len(indices) == 1 and is_ids(indices[0]) and not t.truth(indices[0]) and is_table(x):
        from .products import embedding
        return embedding(t, x, indices[0])
    if isinstance(x, Param):
        places = x.places()[tuple(slice(None) if i is None else i for i in indices)]
        ahead = indices[0] is not None and indices[0].dim() > 1 and len(places) == t.batch.size
        return x.moved(places[:1] if ahead and bool((places == places[:1]).all()) else places)
    used = [i for i, v in enumerate(indices) if v is not None]
    if isinstance(x, torch.Tensor) and used == [0] and (is_ids(indices[0]) or is_shifted(indices[0]) or is_computed(
            indices[0])):
        return by_ids(t, x, indices[0])
    if one_of_each(t, x, indices, used):
        return moved(t, at_ids(t, x, 1, indices[1].like(dims=[*indices[1].dims, []])), t.shape())
    if used == [0, 1] and isinstance(indices[1], Choice) and len(indices[1].dims) == 1 and isinstance(
            indices[0], torch.Tensor) and each_sample(t, x, 0, indices[:1]):
        from .choices import place_of_each
        return place_of_each(t, x, indices[1])
    if used == [0, 1] and is_ids(indices[1]) and isinstance(indices[0], torch.Tensor) and each_sample(
            t, x, 0, indices[:1]):
        from .choices import rows_at_ids
        return rows_at_ids(t, x, indices[1])
    if any(not isinstance(indices[i], torch.Tensor) for i in used):
        raise Refused("takes elements at places that are computed")
    if used != list(range(used[0], used[-1] + 1)):
        raise Refused("takes elements along axes that are no neighbours")
    found = [indices[i].nonzero()[:, 0] if indices[i].dtype == torch.bool else indices[i] for i in used]
    found = torch.broadcast_tensors(*found)
    if each_sample(t, x, used[0], found):
        used, found = used[1:], [places[0] for places in found[1:]]
        if not used:
            return moved(t, x, t.shape())
    sizes = [size_of(x.dims[i]) for i in used]
    flat_index = torch.zeros_like(found[0])
    for n, places in zip(sizes, found):
        flat_index = flat_index * n + places % n
    flat_index = flat_index.reshape(-1).tolist()
    x = x if isinstance(x, Value) and flat_index == list(range(math.prod(sizes))) else as_value(t, x)
    shape = x.shape
    first = used[0]
    if any(a.samples for i in used for a in x.dims[i]):
        raise Refused("takes elements along the axis of samples")
    x = moved(t, whole(t, x, flat(x.dims[i] for i in used)), shape[:first] + [
        math.prod(sizes)] + shape[used[-1] + 1:])
    x = picked(t, x, first, flat_index)
    return moved(t, x, t.shape())


def one_of_each(t, x, indices, used):
    """Whether of each sample's numbers that is taken which an input says."""
    return used == [0, 1] and len(x.shape) == 2 and (is_ids(indices[1]) or is_computed(indices[1])) and len(
        indices[1].dims) == 1 and isinstance(indices[0], torch.Tensor) and each_sample(t, x, 0, [indices[0]])


def each_sample(t, x, first, found):
    """Whether the places are, for each sample, its own number, and others that all samples have: as functions of one
    sample are written that are mapped over all."""
    if first != 0 or not isinstance(x, Value) or x.dims[0] != [t.batch] or len(found[0]) != t.batch.size:
        return False
    own = torch.arange(t.batch.size).reshape([-1] + [1] * (found[0].dim() - 1))
    return bool((found[0] == own).all()) and all(bool((places == places[:1]).all()) for places in found[1:])


@row("index_add", "scatter_add")
def scatter_add(t, x, dim, places, source, alpha=1):
    """At known places along one axis: a product with a matrix of zeros and ones."""
    if isinstance(places, Choice):
        from .choices import scattered
        return scattered(t, x, dim, places, source, True)
    if isinstance(places, Places):
        from .pointwise import two
        from .taken import written
        return written(t, x, {dim % len(t.shape()): places}, two(t, "mul", source, alpha), True)
    if is_ids(places) and t.node.target._opname == "scatter_add":
        from .choices import added_at_ids
        return added_at_ids(t, x, dim, places, source)
    if not isinstance(places, torch.Tensor):
        raise Refused("adds at places that are computed")
    rank = len(t.shape())
    dim %= rank
    if t.node.target._opname == "scatter_add":
        across = [i for i in range(rank) if i != dim]
        first = places[tuple(slice(None) if i == dim else slice(0, 1) for i in range(rank))]
        if list(places.shape) != list(source.shape) or not bool((places == first).all()) or any(
                places.shape[i] != t.shape()[i] for i in across):
            raise Refused("adds at places that differ along other axes")
        places = first.reshape(-1)
    matrix = torch.zeros(t.shape()[dim], len(places)).index_put((places, torch.arange(len(places))), torch.tensor(
        float(alpha)))
    from .pointwise import two
    from .products import matmul
    source = as_value(t, source)
    order = [i for i in range(rank) if i != dim] + [dim]
    y = matmul(t, source.like(dims=[source.dims[i] for i in order]), matrix.T)
    y = y.like(dims=[y.dims[order.index(i)] for i in range(rank)])
    return y if isinstance(x, torch.Tensor) and not bool(x.any()) else two(t, "add", y, x)


@row("index_select")
def index_select(t, x, dim, places):
    if isinstance(x, torch.Tensor) and dim % x.dim() == 0 and is_ids(places):
        return by_ids(t, x, places)
    if isinstance(x, Param) and (is_ids(places) or is_computed(places)) and dim % len(x.shape) == 0:
        from .products import embedding
        rows = embedding(t, x.moved(x.places().reshape(x.shape[0], -1)), places)
        return moved(t, rows, [*places.shape, *x.shape[1:]])
    return index(t, x, [None] * (dim % len(x.shape)) + [places])
