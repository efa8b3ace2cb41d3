"""Linear layers, products of matrices, attention, embeddings.  SPDX-License-Identifier: Apache-2.0"""
import math
import string

import torch

from . import row
from .. import Refused
from ..layout import MAX_AXES, Value, flat, fresh, size_of, unify
from ..operands import LEAST, as_value, merged, moved, picked, without_samples
from ..values import Choice, Mask, Param, Rows, Shifted
from .pointwise import scale, two


def weight_of(t, p, shape):
    """A parameter in a layer's place, perhaps a part of the module's or transposed: its name and shape."""
    if p.index is None:
        return t.graph.parameter(p.name, p.tensor, list(shape))
    rows = rows_of_it(p)
    if rows:
        t.claim(p.name, rows)
        part = p.tensor.detach()[rows[0]:rows[1]]
        return t.graph.parameter(f"{p.name}.{rows[0]}-{rows[1]}", part, list(shape), names=p.name, rows=rows)
    if turned(p):
        known = t.graph.params.get(p.name)
        if known and not known.get("transpose"):
            raise Refused(f"reads parameter {p.name} transposed, which another operator reads as it is")
        return t.graph.parameter(p.name, p.tensor.detach().T, list(shape), names=p.name, transpose=[1, 0])
    raise Refused(f"reads parameter {p.name} with its elements rearranged")


def rows_of_it(p):
    """Which whole rows a part of a parameter is; None: it is none."""
    index = p.index.reshape(-1)
    width = p.tensor[0].numel() if p.tensor.dim() else 1
    start, n = int(index[0]), index.numel()
    if n % width == 0 and start % width == 0 and bool((index == start + torch.arange(n)).all()):
        return [start // width, (start + n) // width]
    return None


def turned(p):
    return p.tensor.dim() == 2 and list(p.index.shape) == list(p.tensor.shape)[::-1] and bool(
        (p.index == torch.arange(p.tensor.numel()).reshape(p.tensor.shape).T).all())


def trained(t, x):
    """A layer's weight: a parameter, or a buffer that becomes one; None: it is computed."""
    if isinstance(x, torch.Tensor):
        return t.buffer_as_parameter(x) if t.is_buffer(x) else None
    return x if isinstance(x, Param) else None


def as_it_lies(t, p):
    """Whether a layer can read a parameter, which others may read the other way round."""
    if p.index is not None and not rows_of_it(p) and not turned(p):
        return False
    known = t.graph.params.get(p.name)
    if known is None or p.tensor.dim() != 2 or p.index is not None and p.index.numel() != p.tensor.numel():
        return True
    return (p.index is not None) == bool(known.get("transpose"))


@row("linear")
def linear(t, x, weight, bias=None):
    w = trained(t, weight)
    if w is None:
        return biased(t, product(t, as_value(t, x), transposed(as_value(t, weight))), bias)
    return layer(t, x, w, bias)


def layer(t, x, w, bias=None):
    """x [..., in] by w [out, in]"""
    if not as_it_lies(t, w):
        return biased(t, product(t, as_value(t, x), transposed(as_value(t, w))), bias)
    if isinstance(x, torch.Tensor) and x.dim() > 1 and x.shape[0] % t.batch.size == 0 and bool((x == x[:1]).all()):
        # a state that every sample begins with, or several of each
        several = fresh(x.shape[0] // t.batch.size)
        x = as_value(t, x[:1])
        x = x.like(dims=[[t.batch, *several], *x.dims[1:]])
    x = as_value(t, x)
    last = x.dims[-1]
    if not last or x.axes[-1] != last or (len(x.axes) < 2):
        x = t.graph.full(x, x.canonical()) if not set(last) <= x.has() else t.graph.arranged(x, x.canonical())
    if len(x.axes) > MAX_AXES:
        raise Refused(f"is of more than {MAX_AXES} axes")
    params = {"weight": weight_of(t, w, w.shape)}
    own = isinstance(bias, Param) and len(bias.shape) == 1
    if own:
        params["bias"] = weight_of(t, bias, bias.shape)
    node = t.add("linear", [x.node], params=params, out_features=w.shape[0], bias=None if own else False)
    atoms = fresh(w.shape[0])
    y = x.like(node, x.axes[:-1] + [atoms], x.dims[:-1] + [atoms])
    return y if own else biased(t, y, bias)


def biased(t, y, bias, factor=1):
    if bias is None:
        return y
    return two(t, "add", y, bias if factor == 1 else two(t, "mul", bias, factor))


@row("addmm", "addbmm", "baddbmm")
def addmm(t, bias, a, b, beta=1, alpha=1):
    w = trained(t, b) if not isinstance(b, Value) else None
    if w is not None and len(w.shape) == 2 and beta == 1 and alpha == 1:
        return layer(t, a, Param(w.name, w.tensor, w.shape[::-1], w.places().T), bias)
    y = matmul(t, a, b)
    return biased(t, y if alpha == 1 else scale(t, y, alpha), bias, beta)


@row("matmul", "mm", "bmm")
def matmul(t, a, b):
    from .choices import product_of_rows
    if isinstance(b, Param) and len(b.shape) == 2:
        return layer(t, a, b.moved(b.places().T))
    if isinstance(a, Rows) or isinstance(b, Rows):
        return product_of_rows(t, a, b)
    a, b = (as_value(t, v, getattr(w, "dims", None)) if not isinstance(v, torch.Tensor) else v
            for v, w in ((a, b), (b, a)))
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        a, b = constant_operand(t, a, b), constant_operand(t, b, a)
    vectors = len(a.dims) == 1, len(b.dims) == 1
    a = a.like(dims=[[], *a.dims]) if vectors[0] else a
    b = b.like(dims=[*b.dims, []]) if vectors[1] else b
    y = product(t, a, b)
    dims = list(y.dims)
    if vectors[1]:
        dims.pop()
    if vectors[0]:
        dims.pop(-1 if vectors[1] else -2)
    return y.like(dims=dims)


def constant_operand(t, x, other):
    if not isinstance(x, torch.Tensor):
        return x
    dims = getattr(other, "dims", None)
    if dims is not None:  # leading axes alone may be of samples
        dims = dims[:-2] + [[], []]
        x = without_samples(t, x, dims)
    return as_value(t, x)


@row("einsum")
def einsum(t, equation, operands, path=None):
    """Two tensors at a time, from the left."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "..." in equation:
        terms, out = spelled_out(terms, out, [len(x.shape) for x in operands])
    if not arrow or "." in out + "".join(terms) or any(len(set(x)) < len(x) for x in terms + [out]):
        raise Refused(f"has the equation {equation}")
    known = {c: d for names, x in zip(terms, operands) if isinstance(x, Value) for c, d in zip(names, x.dims)}
    terms = [(names, as_value(t, x, [known.get(c, []) for c in names])) for names, x in zip(terms, operands)]
    while len(terms) > 1:
        later = set(out).union(*(names for names, _ in terms[2:]))
        terms[:2] = [contracted(t, *(summed(t, *x, later | set(other[0])) for x, other in zip(terms[:2], terms[1::-1])),
                                later)]
    names, x = summed(t, *terms[0], set(out))
    return x.like(dims=[x.dims[names.index(c)] for c in out])


def spelled_out(terms, out, ranks):
    """The dots as letters: the axes that all operands have which have dots, of as many."""
    counts = {rank - len(x) + 3 for x, rank in zip(terms, ranks) if "..." in x}
    if len(counts) != 1:
        raise Refused("has an equation whose dots are of different axes")
    free = [c for c in string.ascii_letters if c not in out + "".join(terms)][:counts.pop()]
    return [x.replace("...", "".join(free)) for x in terms], out.replace("...", "".join(free))


@row("_trilinear")
def trilinear(t, a, b, c, expand_a, expand_b, expand_c, sums, unroll=1):
    """Three operands, each without the axes along which it is expanded, multiplied and summed."""
    names = string.ascii_lowercase[:len(expand_a) + len(a.shape)]
    terms = ["".join(n for i, n in enumerate(names) if i not in given) for given in (expand_a, expand_b, expand_c)]
    out = "".join(n for i, n in enumerate(names) if i not in sums)
    # the samples' operands meet first
    return einsum(t, f"{terms[0]},{terms[2]},{terms[1]}->{out}", [a, c, b])


def summed(t, names, x, kept):
    """Without the axes that nothing else has."""
    from .reductions import reduce
    gone = [i for i, c in enumerate(names) if c not in kept]
    return ("".join(c for c in names if c in kept), reduce(t, "reduce_sum", x, gone)) if gone else (names, x)


def contracted(t, one, other, later):
    """Axes that both have lead if they are needed later, else are summed over; without these it is no product of
    matrices."""
    (names_a, a), (names_b, b) = one, other
    at_a, at_b = dict(zip(names_a, a.dims)), dict(zip(names_b, b.dims))
    for at, x, other in ((at_a, a, at_b), (at_b, b, at_a)):  # what is alike for all samples has none
        at.update((c, []) for c, d in at.items() if d and not set(d) & x.has()
                  and any(atom.samples for atom in other.get(c, [])))
    lead = [c for c in names_a if c in names_b and c in later]
    sums = [c for c in names_a if c in names_b and c not in later]
    rows, columns = ([c for c in mine if c not in others] for mine, others in ((names_a, names_b), (names_b, names_a)))
    samples = [c for c in rows + columns if any(x.samples for x in {**at_a, **at_b}[c])]
    lead = samples + lead
    rows, columns = ([c for c in names if c not in samples] for names in (rows, columns))
    names = lead + rows + columns
    if not sums:
        return "".join(names), two(t, "mul", a.like(dims=[at_a.get(c, []) for c in names]),
                                   b.like(dims=[at_b.get(c, []) for c in names]))
    first, second = ([at.get(c, []) for c in lead] for at in (at_a, at_b))
    y = product(t, a.like(dims=[*first, flat(at_a[c] for c in rows), flat(at_a[c] for c in sums)]),
                b.like(dims=[*second, flat(at_b[c] for c in sums), flat(at_b[c] for c in columns)]))
    return "".join(names), moved(t, y, [max(size_of(at.get(c, [])) for at in (at_a, at_b)) for c in names])


def transposed(v):
    return v.like(dims=v.dims[:-2] + [v.dims[-1], v.dims[-2]])


def product(t, a, b):
    """a [..., M, K] by b [..., K, P], both of every sample."""
    from .pairs import over_samples
    found = over_samples(t, a, b)
    if found is not None:
        return found
    if any(x.samples for x in a.dims[-2]) and not any(x.samples for x in flat(b.dims)):
        # rows of samples by one matrix: each by itself
        y = product(t, a.like(dims=[*a.dims[:-1], [], a.dims[-1]]), b.like(dims=[*b.dims[:-2], [], *b.dims[-2:]]))
        return y.like(dims=[*y.dims[:-2], y.dims[-1]])
    if any(x.samples for d in a.dims[-2:] + b.dims[-2:] for x in d):
        raise Refused("multiplies along the axis of samples")
    rank = max(len(a.dims), len(b.dims))
    b = b.apart()
    a = a.like(dims=[[]] * (rank - len(a.dims)) + a.dims)
    b = b.like(dims=[[]] * (rank - len(b.dims)) + b.dims)
    a, b = alike(t, a, b, rank - 1, rank - 2)
    for i in range(rank - 2):
        if a.dims[i] and b.dims[i]:
            a, b = alike(t, a, b, i, i)
    lead = [p or q for p, q in zip(a.dims[:-2], b.dims[:-2])]
    rows, inner, columns = a.dims[-2], a.dims[-1], b.dims[-1]
    front = [[t.batch]] + [g for g in ([x for x in d if not x.samples] for d in lead) if g]
    while len(front) > MAX_AXES - 2:
        front[-2:] = [front[-2] + front[-1]]
    a, turned_a = matrix(t, a, front, rows, inner)
    b, turned_b = matrix(t, b, front, inner, columns)
    node = t.add("matmul", [a.node, b.node], transpose_a=turned_a or None, transpose_b=turned_b or None)
    return Value(node, front + [rows, columns], [*lead, rows, columns])


def alike(t, a, b, i, k):
    """With axis i of a and axis k of b of the same atoms."""
    names = unify(a.dims[i], b.dims[k])
    if names is None:
        a, b = merged(t, a, i), merged(t, b, k)
        names = unify(a.dims[i], b.dims[k])
    return a.renamed(names[0]), b.renamed(names[1])


def matrix(t, v, front, rows, columns):
    """In the order of a matrix, or, where it lies so, the other way round."""
    has = v.has()
    turned = [x for x in flat(front + [columns, rows]) if x in has]
    plain = [x for x in flat(front + [rows, columns]) if x in has]
    have = flat(v.axes)
    if have == turned and have != plain:
        return t.graph.full(v, front + [columns, rows]), True
    return t.graph.full(v, front + [rows, columns]), False


# ---- attention ----

@row("scaled_dot_product_attention")
def attention(t, q, k, v, mask=None, dropout=0.0, causal=False, scale=None, enable_gqa=False):  # noqa: A002
    q, k, v = (as_value(t, x) for x in (q, k, v))
    if len(q.dims) == 3:
        q, k, v = (x.like(dims=[x.dims[0], [], *x.dims[1:]]) for x in (q, k, v))
        y = attention(t, q, k, v, mask, dropout, causal, scale, enable_gqa)
        return y.like(dims=[y.dims[0], *y.dims[2:]])
    width = size_of(q.dims[-1])
    # a head that all queries share is broadcast, several only if the call says so
    k, v = (x.like(dims=[x.dims[0], x.dims[1] + fresh(size_of(q.dims[1]) // size_of(x.dims[1])), *x.dims[2:]])
            if enable_gqa or not x.dims[1] else x for x in (k, v))
    if isinstance(mask, Mask) or isinstance(mask, Value) and mask.whole:
        mask = additive_mask(t, mask)
    if isinstance(mask, torch.Tensor):
        mask = additive(t, mask, q)
        if is_causal(mask) and size_of(q.dims[-2]) == size_of(k.dims[-2]):
            mask, causal = None, True
    alone = q.dims[0] == [t.batch] == k.dims[0] == v.dims[0] and len(q.dims) == 4
    learned = isinstance(mask, Param) or isinstance(mask, Value) and t.graph.trained(mask.node)
    if not alone or size_of(v.dims[-1]) != width or learned:
        return by_products(t, q, k, v, mask, dropout, causal, scale)
    return whole_attention(t, q, k, v, mask, dropout, causal, scale)


def additive_mask(t, mask):
    """Nothing where the mask is set, else what leaves nothing of a score."""
    from .masks import mask_of, plain
    return scale(t, plain(mask_of(t, mask)), -LEAST, LEAST)


def additive(t, mask, q):
    for i in range(mask.dim() - 2):  # what is expanded to all samples and heads is large
        mask = mask.narrow(i, 0, 1) if mask.stride(i) == 0 else mask
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -torch.inf)
    return without_samples(t, mask, q.dims[:1] + [[]] * 3 if mask.dim() == 4 else None)


def is_causal(mask):
    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2] or mask.shape[-1] < 2:
        return False
    above = torch.ones(mask.shape[-2:], dtype=torch.bool).triu(1)
    return bool((mask[..., above] < -1e9).all()) and bool((mask[..., ~above] == 0).all())


def whole_attention(t, q, k, v, mask, dropout, causal, scale_by):
    """All heads behind each other in the last axis; heads of keys that queries share are stored once."""
    k, v = k.apart(), v.apart()
    for _ in "12":
        found = unify(q.dims[1], k.dims[1])
        q, k = q.renamed(found[0]), k.renamed(found[1])
        found = unify(q.dims[1], v.dims[1])
        q, v = q.renamed(found[0]), v.renamed(found[1])
    heads = q.dims[1]
    kept = [x for x in heads if x in k.has()]
    if kept != heads[:len(kept)] or [x for x in heads if x in v.has()] != kept:
        return by_products(t, q, k, v, mask, dropout, causal, scale_by)
    width = size_of(q.dims[-1])
    ins = [t.graph.full(q, [[t.batch], q.dims[2], heads + q.dims[3]])]
    ins += [t.graph.full(x, [[t.batch], x.dims[2], kept + x.dims[3]]) for x in (k, v)]
    nodes = [x.node for x in ins]
    if mask is not None:
        mask = as_value(t, mask, q.dims[:1] + [[]] * 3)
        mask = mask.like(dims=[[]] * (4 - len(mask.dims)) + mask.dims)
        groups = [[t.batch], *mask.dims[1:]]
        nodes.append(t.graph.arranged(mask, groups).node)
    node = t.add("attention", nodes, head_dim=width, causal=causal or None, dropout=float(dropout) or None,
                 scale=float(scale_by) if scale_by else None)
    return Value(node, [[t.batch], q.dims[2], heads + q.dims[3]], [[t.batch], heads, q.dims[2], q.dims[3]])


def by_products(t, q, k, v, mask, dropout, causal, scale_by):
    """Of windows, which no operator has: scores, softmax, sums."""
    scores = product(t, scale(t, q, scale_by or size_of(q.dims[-1]) ** -0.5), transposed(k))
    if causal:
        n, m = scores.shape[-2:]
        mask = torch.full((n, m), -torch.inf).triu(1)
    if mask is not None:
        scores = two(t, "add", scores, mask)
    from .draws import drop
    from .reductions import along
    return product(t, drop(t, along(t, "softmax", scores, -1), dropout), v)


# ---- embeddings ----

@row("embedding")
def embedding(t, weight, ids, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if isinstance(weight, torch.Tensor):
        weight = t.buffer_as_parameter(weight)
    if scale_grad_by_freq:
        raise Refused("scales gradients by how often words occur")
    if isinstance(ids, torch.Tensor):
        return constant_rows(t, weight, ids)
    if isinstance(ids, Choice):
        from .choices import rows_of
        return rows_of(t, weight, ids)
    if not isinstance(weight, Param):
        return rows_of_computed(t, weight, ids, padding_idx)
    if isinstance(ids, Shifted) and ids.by.dim() and padding_idx < 0 and weight.index is None:
        return by_fields(t, weight, ids, sparse)
    if not ids.whole:
        return looked_up(t, weight, ids, padding_idx)
    rows, width = weight.shape
    t.classes(ids, rows)
    node = t.add("embedding", [ids.node], params={"weight": weight_of(t, weight, weight.shape)}, vocabulary=rows,
                 features=width, **({"sparse": True} if sparse else {}))
    atoms = fresh(width)
    found = Value(node, ids.axes + [atoms], ids.dims + [atoms])
    return found if padding_idx < 0 else padded_rows(t, found, ids, padding_idx)


def rows_of_computed(t, table, ids, padding_idx):
    """As where all rows are made as long as one: a product with ones."""
    from .masks import MAX_CHOICES, ones_at
    rows, count = int(table.shape[0]), math.prod(ids.shape[1:])
    if not ids.whole or padding_idx >= 0 or count * rows > MAX_CHOICES:
        raise Refused("looks up rows of what is computed")
    return matmul(t, ones_at(t, ids, rows), table)


def by_fields(t, weight, ids, sparse):
    """Tables that are one behind the other, of each column of an input its own: rows from where the next begins."""
    by, source = ids.by[0].reshape(-1), ids.ids
    starts = sorted(set(by.tolist()))
    if not bool((ids.by == ids.by[:1]).all()) or len(source.dims) > 2 or starts[0] < 0 or starts[-1] >= weight.shape[0]:
        raise Refused("looks up rows by integers that known ones are added to in another way than one a column")
    found = []
    for column, start in enumerate(by.tolist()):
        end = next((s for s in starts if s > start), weight.shape[0])
        part = weight.moved(weight.places()[start:end])
        own = t.part_of_input(source, 1, [column]) if len(by) > 1 else source
        t.classes(own, end - start)
        node = t.add("embedding", [own.node], params={"weight": weight_of(t, part, part.shape)},
                     vocabulary=end - start, features=weight.shape[1], **({"sparse": True} if sparse else {}))
        atoms = fresh(weight.shape[1])
        found.append(Value(node, own.axes + [atoms], own.dims + [atoms]))
    from .moving import concat
    return concat(t, found, 1) if len(found) > 1 else found[0]


def padded_rows(t, x, ids, padding_idx):
    """The row of padding is read as others are, and not trained."""
    from .masks import compare_with, plain
    here = plain(compare_with(t, "ne", ids.like(dims=[*ids.dims, []]), padding_idx))
    kept = x.like(t.graph.add("detach", [x.node]))
    return two(t, "add", two(t, "mul", x, here), two(t, "mul", kept, scale(t, here, -1.0, 1.0)))


def chosen_among(t, node):
    """Inputs of integers that a condition chose from."""
    value = t.values[node] if isinstance(node, torch.fx.Node) else None
    if isinstance(value, Value) and value.whole:
        return [node] if node.op == "placeholder" else []
    if value is None or getattr(node.target, "_opname", "") != "where":
        return []
    return [n for x in node.args[1:] for n in chosen_among(t, x)]


def looked_up(t, weight, places, padding_idx):
    """By integers that are computed, as places counted without padding: a product with ones where they are a row's."""
    from .masks import MAX_CHOICES, clipped, opposite, plain
    rows, count = weight.shape[0], math.prod(places.shape[1:])
    of = next((n for n in t.node.all_input_nodes if t.values[n] is places), t.node.args[1])
    for node in chosen_among(t, of):
        t.classes(t.values[node], rows)
    if of.meta["val"].dtype.is_floating_point or count * rows > MAX_CHOICES:
        raise Refused(f"looks up {count} of {rows} rows a sample by numbers that are computed: make them an input")
    each = torch.arange(rows, dtype=torch.float32)
    if padding_idx >= 0:
        each[padding_idx] = -1.0  # is no place
        t.note(f"row {padding_idx} of {weight.name} (padding_idx) is taken as zeros")
    apart = two(t, "sub", places.like(dims=[*places.dims, []]), each)
    ones = plain(opposite(t, clipped(t, apart.like(t.add("abs", [apart.node])))))
    return layer(t, ones, weight.moved(weight.places().T))


def constant_rows(t, weight, ids):
    """Positions: rows that are known, the same for every sample."""
    index = ids.reshape(-1)
    shape = list(ids.shape)
    if shape and shape[0] == t.batch.size and len(shape) > 1 and bool((ids == ids[:1]).all()):
        index, shape = ids[0].reshape(-1), [1, *shape[1:]]
    if isinstance(weight, Param):
        if not isinstance(weight.places(), torch.Tensor):
            raise Refused("looks up rows of what is computed")
        return weight.moved(weight.places()[index].reshape(*shape, -1))
    return picked(t, as_value(t, weight), 0, index.tolist())


@row("embedding_bag", "_embedding_bag")
def embedding_bag(t, weight, ids, offsets, scale_grad=False, mode=0, sparse=False, per_sample=None, last=False,
                  padding_idx=None):
    """Bags of one size: sums or means of rows."""
    if not isinstance(offsets, torch.Tensor) or len(offsets) < 2 or per_sample is not None or mode > 1:
        raise Refused("has bags of sizes that are not known")
    n = int(offsets[1] - offsets[0])
    total = ids.shape[0]
    if not bool((torch.diff(offsets, append=torch.tensor([total])) == n).all()):
        raise Refused("has bags of several sizes")
    x = embedding(t, weight, ids, -1 if padding_idx is None else padding_idx, sparse=sparse)
    from .reductions import reduce
    x = moved(t, x, [total // n, n, x.shape[-1]])
    x = x.like(dims=[x.dims[0], x.dims[2]]) if n == 1 else reduce(t, "reduce_mean" if mode else "reduce_sum", x, [1])
    return [x, None, None, None]
